// What: the leading eigenpair and second eigenvalue of a dense symmetric matrix, by one block.
//
// Method: Householder's tridiagonal form (EISPACK's tred1, from the last row up), multisection of
//   Sturm counts, inverse iteration, back-transformation: symmetric_eigen.hpp's direct method, with
//   its scalar steps from tridiagonal.hpp.
// Who owns what: in the pass over the matrix a thread owns every 64th column and one segment of the
//   rows, so that loads are coalesced and no reduction over threads follows but the segments' sum.
//   The update of one step is made in the pass of the next: one reading and one writing of the
//   matrix a step, not two and one.
// Layout: matrix [n, n] full, row-major, overwritten: row i keeps its Householder vector. All in
// the
//   workspace; shared memory holds nothing but the partial sums of reductions.
// Valid: n >= 1; a block of whole warps and of a multiple of kPassColumns threads.
#pragma once

#include <cstdint>

#include "epibias/symmetric_eigen.hpp"
#include "epibias/tridiagonal.hpp"
#include "reductions.cuh"

namespace epibias::cuda {

inline constexpr int kPassColumns = 64;
inline constexpr int kMostSegments = 8;
inline constexpr int kMostRounds = 64;  // of multisection: 6 to 8 are usual

// float64 [n] each, `segments` [kMostSegments, n], `swapped` bytes.
struct PairSpace {
    double *diagonal, *below, *factor, *update, *vector, *segments;
    ShiftedFactors shifted;

    __host__ __device__ static constexpr std::int64_t n_values(std::int64_t n) {
        return (10 + kMostSegments) * n;
    }

    __device__ PairSpace(double* space, std::int64_t n)
        : diagonal(space),
          below(space + n),
          factor(space + 2 * n),
          update(space + 3 * n),
          vector(space + 4 * n),
          segments(space + 5 * n),
          shifted{space + (5 + kMostSegments) * n, space + (6 + kMostSegments) * n,
                  space + (7 + kMostSegments) * n, space + (8 + kMostSegments) * n,
                  reinterpret_cast<unsigned char*>(space + (9 + kMostSegments) * n)} {}
};

struct BlockPair {
    double first, second;
    bool found;
};

// One reading and writing of the leading [i, i] block: the update of the step before, with its
// vector `before`, and the products with the new vector `u`, a segment of rows a thread.
__device__ inline void update_and_multiply(double* __restrict__ matrix, std::int64_t n,
                                           std::int64_t i, bool updates,
                                           const double* __restrict__ before,
                                           const double* __restrict__ update,
                                           const double* __restrict__ u,
                                           double* __restrict__ segments) {
    const int n_segments = static_cast<int>(blockDim.x) / kPassColumns;
    const int segment = static_cast<int>(threadIdx.x) / kPassColumns;
    for (std::int64_t column = threadIdx.x % kPassColumns; column < i; column += kPassColumns) {
        const double column_vector = updates ? before[column] : 0;
        const double column_update = updates ? update[column] : 0;
        double sum = 0;
        for (std::int64_t row = segment; row < i; row += n_segments) {
            double element = matrix[row * n + column];
            if (updates) {
                element -= before[row] * column_update + update[row] * column_vector;
                matrix[row * n + column] = element;
            }
            sum += element * u[row];
        }
        segments[segment * n + column] = sum;
    }
}

// update := factor A u - half u, the segments' sums being A u.
__device__ inline void make_update(const PairSpace& space, std::int64_t n, std::int64_t i,
                                   const double* u, double factor, double* partials) {
    const int n_segments = static_cast<int>(blockDim.x) / kPassColumns;
    double dot = 0;
    for (std::int64_t k = threadIdx.x; k < i; k += blockDim.x) {
        double product = 0;
        for (int segment = 0; segment < n_segments; ++segment) {
            product += space.segments[segment * n + k];
        }
        space.update[k] = product * factor;
        dot += space.update[k] * u[k];
    }
    const double half = 0.5 * factor * over_block(dot, partials, Add{});
    for (std::int64_t k = threadIdx.x; k < i; k += blockDim.x) space.update[k] -= half * u[k];
}

__device__ inline void tridiagonalise(double* matrix, std::int64_t n, const PairSpace& space,
                                      double* partials) {
    const auto thread = static_cast<std::int64_t>(threadIdx.x);
    for (std::int64_t i = n - 1; i >= 0; --i) {
        const bool updates = i + 1 < n;
        double* u = matrix + i * n;
        const double* before = updates ? u + n : nullptr;
        for (std::int64_t k = thread; updates && k <= i; k += blockDim.x) {
            u[k] -= before[i] * space.update[k] + space.update[i] * before[k];
        }
        if (!EPIBIAS_PLANT("polarization_axis.row_read_early")) __syncthreads();
        if (thread == 0) space.diagonal[i] = u[i];
        if (i == 0) break;
        double rest = 0;
        for (std::int64_t k = thread; k + 1 < i; k += blockDim.x) rest += u[k] * u[k];
        rest = over_block(rest, partials, Add{});
        const double last = u[i - 1];
        const double root = sqrt(rest + last * last);
        const double norm = last < 0 ? -root : root;
        const bool reflects = rest != 0;  // else the row is tridiagonal already
        const double factor = reflects ? 1 / (norm * (last + norm)) : 0;
        __syncthreads();  // all have read the last element
        if (thread == 0) {
            space.below[i] = reflects ? -norm : last;
            space.factor[i] = factor;
            if (reflects) u[i - 1] = last + norm;
        }
        __syncthreads();
        update_and_multiply(matrix, n, i, updates, before, space.update, u, space.segments);
        __syncthreads();
        make_update(space, n, i, u, factor, partials);
        __syncthreads();
    }
    __syncthreads();
}

// The eigenvalue that has `rank` - 1 above it: every thread counts at a point of its own.
__device__ inline double eigenvalue_of_rank(const TridiagonalView& t, std::int64_t rank,
                                            double bound, double* partials) {
    const double tiny = smallest_pivot(bound);
    const int n_points = static_cast<int>(blockDim.x);
    double low = -bound;
    double high = bound;
    for (int round = 0; round < kMostRounds && high - low > kFloat64Epsilon * bound; ++round) {
        const double step = (high - low) / (n_points + 1);
        const double point = low + step * (static_cast<int>(threadIdx.x) + 1);
        const double is_below = count_above(t, point, tiny) >= rank ? 1 : 0;
        const double n_below = over_block(is_below, partials, Add{});
        if (n_below < n_points) high = low + step * (n_below + 1);
        low += step * n_below;
    }
    return low + (high - low) / 2;
}

__device__ inline void scale_to_unit(double* vector, std::int64_t n, double* partials) {
    double largest = 0;
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        largest = Larger{}(largest, fabs(vector[i]));
    }
    largest = over_block(largest, partials, Larger{});
    double squares = 0;
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        vector[i] /= largest;  // its square may overflow
        squares += vector[i] * vector[i];
    }
    const double norm = sqrt(over_block(squares, partials, Add{}));
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) vector[i] /= norm;
    __syncthreads();
}

__device__ inline double residual(const TridiagonalView& t, double value, const double* vector,
                                  double* partials) {
    double squares = 0;
    for (std::int64_t i = threadIdx.x; i < t.n; i += blockDim.x) {
        const double element = residual_element(t, value, vector, i);
        squares += element * element;
    }
    return sqrt(over_block(squares, partials, Add{}));
}

// Solving is serial: one thread; the block does the rest.
__device__ inline bool inverse_iteration(const TridiagonalView& t, double value, double bound,
                                         const PairSpace& space, double* partials) {
    const double allowed = kResidualFactor * static_cast<double>(t.n) * kFloat64Epsilon * bound / 4;
    const bool solves = threadIdx.x == 0;
    if (solves) factor_shifted(t, value, kFloat64Epsilon * bound, space.shifted);
    for (int attempt = 0; attempt < kInverseAttempts; ++attempt) {
        if (solves) fill_start(space.vector, t.n, attempt);
        __syncthreads();
        scale_to_unit(space.vector, t.n, partials);
        for (int iteration = 0; iteration < kInverseIterations; ++iteration) {
            if (solves) solve_shifted(space.shifted, t.n, space.vector);
            __syncthreads();
            scale_to_unit(space.vector, t.n, partials);
            // One more pass after the first that is small enough: it takes out what is left of
            // the neighbours.
            const double error = residual(t, value, space.vector, partials);
            __syncthreads();
            if (iteration > 0 && error <= allowed) return true;
        }
    }
    return false;
}

// vector := H_(n-1) … H_1 vector: from an eigenvector of the tridiagonal matrix to one of A.
__device__ inline void transform_back(const double* matrix, std::int64_t n, const PairSpace& space,
                                      double* partials) {
    for (std::int64_t i = 1; i < n; ++i) {
        const double factor = space.factor[i];
        if (factor == 0) continue;
        const double* u = matrix + i * n;
        double dot = 0;
        for (std::int64_t k = threadIdx.x; k < i; k += blockDim.x) dot += u[k] * space.vector[k];
        const double amount = factor * over_block(dot, partials, Add{});
        for (std::int64_t k = threadIdx.x; k < i; k += blockDim.x) {
            space.vector[k] -= amount * u[k];
        }
        // Element i - 1 of the next step belongs to another thread only by the loop's stride: each
        // thread reads what it wrote itself.
    }
    __syncthreads();
    scale_to_unit(space.vector, n, partials);
}

// The vector is left in space.vector. All threads of the block call and get the same.
__device__ inline BlockPair leading_pair(double* matrix, std::int64_t n, const PairSpace& space,
                                         double* partials) {
    tridiagonalise(matrix, n, space, partials);
    const TridiagonalView t{space.diagonal, space.below, n};
    double bound = 0;
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        bound = Larger{}(bound, absolute_row_sum(t, i));
    }
    bound = over_block(bound, partials, Larger{});
    BlockPair pair{eigenvalue_of_rank(t, 1, bound, partials), 0, false};
    if (n > 1) pair.second = eigenvalue_of_rank(t, 2, bound, partials);
    pair.found = inverse_iteration(t, pair.first, bound, space, partials);
    if (pair.found) transform_back(matrix, n, space, partials);
    return pair;
}

}  // namespace epibias::cuda
