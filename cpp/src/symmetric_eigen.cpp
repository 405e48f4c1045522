#include "epibias/symmetric_eigen.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "aligned_buffer.hpp"
#include "epibias/simd_level.hpp"
#include "epibias/tridiagonal.hpp"
#include "kernels/symmetric_eigen_kernels.hpp"

namespace epibias {

const kernels::SymmetricEigenKernels& kernels::symmetric_eigen_kernels() {
#if defined(EPIBIAS_X86_LEVELS)
    switch (active_simd_level()) {
        case SimdLevel::kAvx512:
            return avx512::kSymmetricEigen;
        case SimdLevel::kAvx2:
            return avx2::kSymmetricEigen;
        case SimdLevel::kScalar:
            break;
    }
#endif
    return scalar::kSymmetricEigen;
}

namespace {

constexpr double kEpsilon = kFloat64Epsilon;
static_assert(kEpsilon == std::numeric_limits<double>::epsilon());

[[noreturn]] void refuse_non_finite() {
    throw std::runtime_error("leading_eigenpair: the matrix is not finite");
}

// Four accumulators: the compiler may keep them in one register, and the bits are fixed.
double dot(const double* left, const double* right, std::int64_t n) {
    double sums[4] = {0, 0, 0, 0};
    std::int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        for (int lane = 0; lane < 4; ++lane) sums[lane] += left[i + lane] * right[i + lane];
    }
    for (; i < n; ++i) sums[0] += left[i] * right[i];
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

void scale_to_unit(double* vector, std::int64_t n) {
    double largest = 0;
    for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(vector[i]));
    for (std::int64_t i = 0; i < n; ++i) vector[i] /= largest;
    const double norm = std::sqrt(dot(vector, vector, n));
    for (std::int64_t i = 0; i < n; ++i) vector[i] /= norm;
}

// ---- Householder tridiagonalisation --------------------------------------------------------

struct Tridiagonal {
    std::vector<double> diagonal, below;  // below[i] joins i - 1 and i; below[0] is 0
    std::vector<double> factor;           // H_i = I - factor[i] u u^T, u in row i of the matrix
};

// Lower triangle, from the last row up (EISPACK's tred1, Martin, Reinsch, Wilkinson 1968): row i
// keeps its Householder vector in columns 0 … i - 1.
Tridiagonal tridiagonalise(double* matrix, std::int64_t n) {
    const auto& table = kernels::symmetric_eigen_kernels();
    const auto size = static_cast<std::size_t>(n);
    Tridiagonal result{std::vector<double>(size), std::vector<double>(size),
                       std::vector<double>(size)};
    std::vector<double> product(size);
    for (std::int64_t i = n - 1; i > 0; --i) {
        double* u = matrix + i * n;  // its first i elements
        double largest = 0;
        for (std::int64_t k = 0; k < i; ++k) largest = std::max(largest, std::abs(u[k]));
        double rest = 0;
        for (std::int64_t k = 0; k + 1 < i; ++k) rest = std::max(rest, std::abs(u[k]));
        const auto row = static_cast<std::size_t>(i);
        if (rest == 0) {  // already tridiagonal here
            result.below[row] = u[i - 1];
            result.factor[row] = 0;
            continue;
        }
        for (std::int64_t k = 0; k < i; ++k) u[k] /= largest;  // no overflow in the square
        const double squared = dot(u, u, i);
        const double norm = std::copysign(std::sqrt(squared), u[i - 1]);
        result.below[row] = -norm * largest;
        u[i - 1] += norm;
        const double factor = 1 / (norm * u[i - 1]);  // 2 / |u|^2
        result.factor[row] = factor;
        table.multiply_lower(matrix, n, i, u, product.data());
        for (std::int64_t k = 0; k < i; ++k) product[static_cast<std::size_t>(k)] *= factor;
        const double half = 0.5 * factor * dot(product.data(), u, i);
        for (std::int64_t k = 0; k < i; ++k) product[static_cast<std::size_t>(k)] -= half * u[k];
        table.subtract_outer(matrix, n, i, u, product.data());
    }
    for (std::int64_t i = 0; i < n; ++i) {
        result.diagonal[static_cast<std::size_t>(i)] = matrix[i * n + i];
    }
    return result;
}

// vector := H_(n-1) … H_1 vector: from an eigenvector of the tridiagonal matrix to one of A.
void transform_back(const Tridiagonal& tridiagonal, const double* matrix, std::int64_t n,
                    double* vector) {
    for (std::int64_t i = 1; i < n; ++i) {
        const double factor = tridiagonal.factor[static_cast<std::size_t>(i)];
        if (factor == 0) continue;
        const double* u = matrix + i * n;
        const double amount = factor * dot(u, vector, i);
        for (std::int64_t k = 0; k < i; ++k) vector[k] -= amount * u[k];
    }
}

// ---- eigenvalues by bisection, vectors by inverse iteration (tridiagonal.hpp) ---------------

TridiagonalView view(const Tridiagonal& t) {
    return {t.diagonal.data(), t.below.data(), static_cast<std::int64_t>(t.diagonal.size())};
}

double norm_bound(const TridiagonalView& t) {
    double bound = 0;
    for (std::int64_t i = 0; i < t.n; ++i) bound = std::max(bound, absolute_row_sum(t, i));
    return bound;
}

// The eigenvalue that has `rank` - 1 above it.
double eigenvalue_of_rank(const TridiagonalView& t, std::int64_t rank, double bound) {
    const double tiny = smallest_pivot(bound);
    double low = -bound;
    double high = bound;
    while (true) {
        const double middle = low + (high - low) / 2;
        // In float64 an interval of two neighbours has no middle.
        if (high - low <= kEpsilon * bound || middle <= low || middle >= high) return middle;
        (count_above(t, middle, tiny) >= rank ? low : high) = middle;
    }
}

class ShiftedSolver {
  public:
    ShiftedSolver(const TridiagonalView& t, double shift, double tiny)
        : n_(t.n), values_(static_cast<std::size_t>(4 * t.n)), swapped_(values_.size() / 4) {
        double* values = values_.data();
        factors_ = {.pivot = values,
                    .upper = values + n_,
                    .second = values + 2 * n_,
                    .multiplier = values + 3 * n_,
                    .swapped = swapped_.data()};
        factor_shifted(t, shift, tiny, factors_);
    }

    void solve(double* x) const { solve_shifted(factors_, n_, x); }

  private:
    std::int64_t n_;
    std::vector<double> values_;
    std::vector<unsigned char> swapped_;
    ShiftedFactors factors_{};
};

double residual(const TridiagonalView& t, double value, const double* vector) {
    double squares = 0;
    for (std::int64_t i = 0; i < t.n; ++i) {
        const double element = residual_element(t, value, vector, i);
        squares += element * element;
    }
    return std::sqrt(squares);
}

void take_out(const double* known, std::int64_t n_known, double* vector, std::int64_t n) {
    for (std::int64_t number = 0; number < n_known; ++number) {
        const double* other = known + number * n;
        const double amount = dot(other, vector, n);
        for (std::int64_t i = 0; i < n; ++i) vector[i] -= amount * other[i];
    }
    scale_to_unit(vector, n);
}

// Orthogonal to the `n_known` vectors found before, which in a cluster would be found again.
void inverse_iteration(const TridiagonalView& t, double value, double bound, const double* known,
                       std::int64_t n_known, double* vector) {
    const std::int64_t n = t.n;
    const double allowed = kResidualFactor * static_cast<double>(n) * kEpsilon * bound / 4;
    const ShiftedSolver solver(t, value, kEpsilon * bound);
    for (int attempt = 0; attempt < kInverseAttempts; ++attempt) {
        fill_start(vector, n, attempt + static_cast<int>(n_known));
        scale_to_unit(vector, n);
        for (int iteration = 0; iteration < kInverseIterations; ++iteration) {
            solver.solve(vector);
            scale_to_unit(vector, n);
            if (n_known != 0) take_out(known, n_known, vector, n);
            // One more pass after the first that is small enough: it takes out what is left of
            // the neighbours.
            if (iteration > 0 && residual(t, value, vector) <= allowed) return;
        }
    }
    throw std::runtime_error("leading_eigenpair: inverse iteration did not converge");
}

}  // namespace

LeadingEigenvalues leading_eigenpair_jacobi(const double* matrix, std::int64_t n, double* vector) {
    constexpr std::int64_t kLanes = kernels::kEigenLanes;
    AlignedBuffer matrix_buffer, vector_buffer, rotations;
    double* matrices = matrix_buffer.get(n * n * kLanes);
    double* vectors = vector_buffer.get(n * kLanes);
    double values[2 * kLanes];
    std::fill_n(matrices, n * n * kLanes, 0.0);
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j <= i; ++j) {
            const double element = matrix[i * n + j];
            if (!std::isfinite(element)) refuse_non_finite();
            matrices[(i * n + j) * kLanes] = element;
        }
    }
    kernels::symmetric_eigen_kernels().jacobi(
        matrices, n, rotations.get(kernels::rotation_values(n)), vectors, values);
    for (std::int64_t i = 0; i < n; ++i) vector[i] = vectors[i * kLanes];
    return {values[0], values[kLanes]};
}

void leading_eigenpairs_tridiagonal(double* matrix, std::int64_t n, std::int64_t n_values,
                                    std::int64_t n_vectors, double* values, double* vectors) {
    const Tridiagonal tridiagonal = tridiagonalise(matrix, n);
    const TridiagonalView t = view(tridiagonal);
    const double bound = norm_bound(t);
    if (!std::isfinite(bound)) refuse_non_finite();
    for (std::int64_t rank = 0; rank < n_values; ++rank) {
        values[rank] = bound == 0 ? 0 : eigenvalue_of_rank(t, rank + 1, bound);
    }
    std::fill_n(vectors, n_vectors * n, 0.0);
    for (std::int64_t rank = 0; rank < n_vectors; ++rank) {
        double* vector = vectors + rank * n;
        if (bound == 0) {
            vector[rank] = 1;
            continue;
        }
        inverse_iteration(t, values[rank], bound, vectors, rank, vector);
    }
    for (std::int64_t rank = 0; bound != 0 && rank < n_vectors; ++rank) {
        transform_back(tridiagonal, matrix, n, vectors + rank * n);
        scale_to_unit(vectors + rank * n, n);
    }
}

LeadingEigenvalues leading_eigenpair_tridiagonal(double* matrix, std::int64_t n, double* vector) {
    double values[2] = {0, 0};
    leading_eigenpairs_tridiagonal(matrix, n, std::min<std::int64_t>(n, 2), 1, values, vector);
    return {values[0], values[1]};
}

LeadingEigenvalues leading_eigenpair(double* matrix, std::int64_t n, double* vector) {
    return n <= kJacobiLimit ? leading_eigenpair_jacobi(matrix, n, vector)
                             : leading_eigenpair_tridiagonal(matrix, n, vector);
}

}  // namespace epibias
