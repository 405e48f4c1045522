// What: the axes of topics of more than 32 anchors, in four kernels: scales of the rows, means of
// the columns, products of the centred rows (or columns), and the eigenpair with all that follows.
//
// Who owns what: scales: a warp a row. Means: a block 32 columns of a topic, a warp every eighth
//   row. Products: a block a tile of 64 x 64 of the lower triangle and its mirror image, a thread 4
//   x 4 of it, 16 terms in shared memory at a time, centred when they are loaded. Pair: a block a
//   topic.
// Shared bytes: means 2 KiB, products 16.5 KiB, pair 256.
// Layout: a topic's part of the workspace is ManySpace; topics of one launch lie side by side.
#pragma once

#include <cstdint>

#include "polarization_axis_call.cuh"
#include "tridiagonal_pair.cuh"

namespace epibias::cuda {

struct ManyPolicy {
    static constexpr int kRowWarps = 8;
    static constexpr int kMeanWarps = 8;  // 100,000 rows are 12,500 steps of coalesced loads
    static constexpr int kTile = 64;
    static constexpr int kTerms = 16;      // two panels of 16 x 65 float64: 16.5 KiB
    static constexpr int kThreadTile = 4;  // 8 loads of shared memory for 16 multiplications
    static constexpr int kTileThreads = (kTile / kThreadTile) * (kTile / kThreadTile);
    // One block a topic: many small topics fill the device with small blocks, a large matrix wants
    // more loads in flight.
    static constexpr int kFewPairThreads = 128;
    static constexpr int kMostPairThreads = kPassColumns * kMostSegments;
    static constexpr std::int64_t kFewPairRows = 128;
};

// A launch: `n_slots` topics from `first_topic` on.
struct ManyCall {
    AxisCall call;
    double* workspace;
    std::int64_t first_topic, n_slots;

    __host__ __device__ static constexpr std::int64_t size(std::int64_t n_anchors,
                                                           std::int64_t dim) {
        return n_anchors < dim ? n_anchors : dim;
    }
    // float64 values a topic.
    __host__ __device__ static constexpr std::int64_t slot_values(std::int64_t n_anchors,
                                                                  std::int64_t dim) {
        const std::int64_t m = size(n_anchors, dim);
        return 2 * n_anchors + 2 * dim + m * m + PairSpace::n_values(m);
    }
};

struct ManySpace {
    double *scales, *squares;  // [n_anchors]
    double *mean, *axis;       // [dim]
    double* products;          // [m, m]
    double* pair;

    __device__ ManySpace(const ManyCall& many, std::int64_t slot) {
        const std::int64_t n = many.call.n_anchors;
        const std::int64_t dim = many.call.dim;
        const std::int64_t m = ManyCall::size(n, dim);
        scales = many.workspace + slot * ManyCall::slot_values(n, dim);
        squares = scales + n;
        mean = squares + n;
        axis = mean + dim;
        products = axis + dim;
        pair = products + m * m;
    }
};

__global__ void __launch_bounds__(ManyPolicy::kRowWarps* kWarp) scale_rows(ManyCall many) {
    const AxisCall& call = many.call;
    const bool reports = threadIdx.x % kWarp == 0;
    const std::int64_t n_rows = many.n_slots * call.n_anchors;
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * ManyPolicy::kRowWarps;
    for (std::int64_t row =
             static_cast<std::int64_t>(blockIdx.x) * ManyPolicy::kRowWarps + threadIdx.x / kWarp;
         row < n_rows; row += stride) {
        const std::int64_t slot = row / call.n_anchors;
        const std::int64_t anchor = row % call.n_anchors;
        const std::int64_t topic = many.first_topic + slot;
        const float* values = call.rows(topic) + anchor * call.dim;
        const double squared = canonical_warp_dot(values, values, call.dim);
        const double scale = anchor_scale(call, topic, anchor, squared, reports);
        if (!reports) continue;
        const ManySpace space(many, slot);
        space.scales[anchor] = scale;
        space.squares[anchor] = call.normalize ? 1 : squared;
    }
}

__global__ void __launch_bounds__(ManyPolicy::kMeanWarps* kWarp) mean_of_columns(ManyCall many) {
    EPIBIAS_SHARED(double, sums, ManyPolicy::kMeanWarps* kWarp);
    const AxisCall& call = many.call;
    const std::int64_t slot = blockIdx.y;
    const ManySpace space(many, slot);
    const float* rows = call.rows(many.first_topic + slot);
    const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + threadIdx.x % kWarp;
    double sum = 0;
    if (column < call.dim) {
        for (std::int64_t anchor = threadIdx.x / kWarp; anchor < call.n_anchors;
             anchor += ManyPolicy::kMeanWarps) {
            sum += static_cast<double>(rows[anchor * call.dim + column]) * space.scales[anchor];
        }
    }
    sums[threadIdx.x] = sum;
    if (!EPIBIAS_PLANT("polarization_axis.mean_race")) __syncthreads();
    if (threadIdx.x >= kWarp || column >= call.dim) return;
    for (int warp = 1; warp < ManyPolicy::kMeanWarps; ++warp) {
        sum += sums[warp * kWarp + static_cast<int>(threadIdx.x)];
    }
    space.mean[column] = sum / static_cast<double>(call.n_anchors);
}

// Term `term` of row `i` of what is multiplied: the centred anchor i where they are the fewer, else
// the centred column i.
__device__ inline double centred(const AxisCall& call, const ManySpace& space, const float* rows,
                                 bool by_gram, std::int64_t i, std::int64_t term) {
    const std::int64_t anchor = by_gram ? i : term;
    const std::int64_t column = by_gram ? term : i;
    const auto value = static_cast<double>(rows[anchor * call.dim + column]);
    return value * space.scales[anchor] - space.mean[column];
}

// Row and column of tile `number` of the lower triangle, counted row by row.
__device__ inline void tile_place(std::int64_t number, std::int64_t& row, std::int64_t& column) {
    row = 0;
    while ((row + 1) * (row + 2) / 2 <= number) ++row;
    column = number - row * (row + 1) / 2;
}

__global__ void __launch_bounds__(ManyPolicy::kTileThreads) centred_products(ManyCall many) {
    constexpr int kTile = ManyPolicy::kTile;
    constexpr int kTerms = ManyPolicy::kTerms;
    constexpr int kPer = ManyPolicy::kThreadTile;
    constexpr int kAcross = kTile / kPer;
    constexpr int kStride = kTile + 1;  // lanes of one term on different banks
    EPIBIAS_SHARED(double, left, kTerms* kStride);
    EPIBIAS_SHARED(double, right, kTerms* kStride);
    const AxisCall& call = many.call;
    const std::int64_t slot = blockIdx.y;
    const ManySpace space(many, slot);
    const float* rows = call.rows(many.first_topic + slot);
    const bool by_gram = call.n_anchors < call.dim;
    const std::int64_t m = by_gram ? call.n_anchors : call.dim;
    const std::int64_t n_terms = by_gram ? call.dim : call.n_anchors;
    const int thread = static_cast<int>(threadIdx.x);
    std::int64_t tile_row = 0;
    std::int64_t tile_column = 0;
    tile_place(blockIdx.x, tile_row, tile_column);
    double sums[kPer][kPer] = {};
    for (std::int64_t start = 0; start < n_terms; start += kTerms) {
        for (int e = thread; e < kTile * kTerms; e += ManyPolicy::kTileThreads) {
            // Neighbouring threads read neighbouring columns of the anchors.
            const int i = by_gram ? e / kTerms : e % kTile;
            const int term = by_gram ? e % kTerms : e / kTile;
            const bool is_term = start + term < n_terms;
            const std::int64_t left_row = tile_row * kTile + i;
            const std::int64_t right_row = tile_column * kTile + i;
            const bool past_end = EPIBIAS_PLANT("polarization_axis.tile_past_end");
            left[term * kStride + i] =
                is_term && (left_row < m || past_end)
                    ? centred(call, space, rows, by_gram, left_row, start + term)
                    : 0;
            right[term * kStride + i] =
                is_term && right_row < m
                    ? centred(call, space, rows, by_gram, right_row, start + term)
                    : 0;
        }
        __syncthreads();
        for (int term = 0; term < kTerms; ++term) {
            double left_values[kPer];
            double right_values[kPer];
#pragma unroll
            for (int k = 0; k < kPer; ++k) {
                left_values[k] = left[term * kStride + thread / kAcross + k * kAcross];
                right_values[k] = right[term * kStride + thread % kAcross + k * kAcross];
            }
#pragma unroll
            for (int i = 0; i < kPer; ++i) {
#pragma unroll
                for (int j = 0; j < kPer; ++j) sums[i][j] += left_values[i] * right_values[j];
            }
        }
        if (!EPIBIAS_PLANT("polarization_axis.panel_overwritten")) __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
#pragma unroll
        for (int j = 0; j < kPer; ++j) {
            const std::int64_t row = tile_row * kTile + thread / kAcross + i * kAcross;
            const std::int64_t column = tile_column * kTile + thread % kAcross + j * kAcross;
            if (row >= m || column >= m) continue;
            space.products[row * m + column] = sums[i][j];
            // A tile of the diagonal holds both triangles itself.
            if (tile_row != tile_column) space.products[column * m + row] = sums[i][j];
        }
    }
}

__device__ inline bool block_stances_are_good(const AxisCall& call, std::int64_t topic,
                                              double* partials) {
    if (call.stances == nullptr) return true;
    const double* stances = call.stances + topic * call.n_anchors;
    const auto n = static_cast<double>(call.n_anchors);
    double first_fault = n;
    double n_supporting = 0;
    double n_opposing = 0;
    for (std::int64_t i = threadIdx.x; i < call.n_anchors; i += blockDim.x) {
        if (!is_finite(stances[i])) first_fault = Smaller{}(first_fault, static_cast<double>(i));
        n_supporting += stances[i] > 0 ? 1 : 0;
        n_opposing += stances[i] < 0 ? 1 : 0;
    }
    first_fault = over_block(first_fault, partials, Smaller{});
    const bool supporting = over_block(n_supporting, partials, Add{}) > 0;
    const bool opposing = over_block(n_opposing, partials, Add{}) > 0;
    const bool finite = first_fault == n;
    if (threadIdx.x == 0 && !finite) {
        const auto anchor = static_cast<std::int64_t>(first_fault);
        report(call, topic, stance_fault(stances[anchor]), anchor);
    } else if (threadIdx.x == 0 && !(supporting && opposing)) {
        report(call, topic, sign_fault(supporting, opposing), call.n_anchors);
    }
    return finite && supporting && opposing;
}

// Mean PS of the supporting anchors less that of the opposing ones, but for the axis's norm.
__device__ inline double mean_score_difference(const AxisCall& call, std::int64_t topic,
                                               const ManySpace& space, const double* axis,
                                               double* partials) {
    const float* rows = call.rows(topic);
    const double* stances = call.stances + topic * call.n_anchors;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    double supporting = 0;
    double opposing = 0;
    double n_supporting = 0;
    double n_opposing = 0;
    for (std::int64_t anchor = threadIdx.x / kWarp; anchor < call.n_anchors;
         anchor += blockDim.x / kWarp) {
        const double stance = stances[anchor];
        if (stance == 0) continue;
        double score = 0;
        for (std::int64_t column = lane; column < call.dim; column += kWarp) {
            score += centred(call, space, rows, true, anchor, column) * axis[column];
        }
        score = over_warp(score, Add{});
        if (lane != 0) continue;  // a warp's sum counts once
        supporting += stance > 0 ? score : 0;
        opposing += stance < 0 ? score : 0;
        n_supporting += stance > 0 ? 1 : 0;
        n_opposing += stance < 0 ? 1 : 0;
    }
    supporting =
        over_block(supporting, partials, Add{}) / over_block(n_supporting, partials, Add{});
    opposing = over_block(opposing, partials, Add{}) / over_block(n_opposing, partials, Add{});
    return supporting - opposing;
}

// Whether the component of largest magnitude (the lowest index near to it) is negative.
__device__ inline bool block_largest_is_negative(const double* axis, std::int64_t dim,
                                                 double* partials) {
    double largest = 0;
    for (std::int64_t i = threadIdx.x; i < dim; i += blockDim.x) {
        largest = Larger{}(largest, fabs(axis[i]));
    }
    largest = over_block(largest, partials, Larger{});
    auto deciding = static_cast<double>(dim);
    for (std::int64_t i = threadIdx.x; i < dim; i += blockDim.x) {
        if (fabs(axis[i]) < (1 - kLargestTolerance) * largest) continue;
        deciding = Smaller{}(deciding, static_cast<double>(i));
    }
    deciding = over_block(deciding, partials, Smaller{});
    return axis[static_cast<std::int64_t>(deciding)] < 0;
}

// From the leading vector to the result. `vector`: weights of the anchors where they are the fewer,
// else the axis itself.
__device__ inline void write_axis(const AxisCall& call, std::int64_t topic, const ManySpace& space,
                                  const double* vector, double* partials) {
    const double* axis = vector;
    if (call.n_anchors < call.dim) {
        const float* rows = call.rows(topic);
        for (std::int64_t column = threadIdx.x; column < call.dim; column += blockDim.x) {
            double sum = 0;
            for (std::int64_t anchor = 0; anchor < call.n_anchors; ++anchor) {
                sum += vector[anchor] * centred(call, space, rows, true, anchor, column);
            }
            space.axis[column] = sum;
        }
        axis = space.axis;
    }
    __syncthreads();
    double squares = 0;
    double with_mean = 0;
    for (std::int64_t i = threadIdx.x; i < call.dim; i += blockDim.x) {
        squares += axis[i] * axis[i];
        with_mean += axis[i] * space.mean[i];
    }
    const double norm = sqrt(over_block(squares, partials, Add{}));
    const double mean_score = over_block(with_mean, partials, Add{}) / norm;
    bool flip = fabs(mean_score) > kMeanTolerance
                    ? mean_score < 0
                    : block_largest_is_negative(axis, call.dim, partials);
    if (call.stances != nullptr) {
        const double difference = mean_score_difference(call, topic, space, axis, partials);
        // A difference of exactly 0 decides nothing: the anchors' own sign stays.
        if (difference != 0) flip = difference < 0;
    }
    for (std::int64_t i = threadIdx.x; i < call.dim; i += blockDim.x) {
        call.axes[topic * call.dim + i] = static_cast<float>(axis[i] / (flip ? -norm : norm));
    }
}

__global__ void __launch_bounds__(ManyPolicy::kMostPairThreads) fit_many_anchors(ManyCall many) {
    EPIBIAS_SHARED(double, partials, kMostWarps);
    const AxisCall& call = many.call;
    const std::int64_t slot = blockIdx.x;
    const std::int64_t topic = many.first_topic + slot;
    const ManySpace space(many, slot);
    const std::int64_t m = ManyCall::size(call.n_anchors, call.dim);
    const int thread = static_cast<int>(threadIdx.x);
    const int n_threads = static_cast<int>(blockDim.x);
    if (!block_stances_are_good(call, topic, partials)) {
        return poison(call, topic, thread, n_threads);
    }
    double trace = 0;
    double sum_of_squares = 0;
    for (std::int64_t i = thread; i < m; i += n_threads) trace += space.products[i * m + i];
    for (std::int64_t i = thread; i < call.n_anchors; i += n_threads) {
        sum_of_squares += space.squares[i];
    }
    trace = over_block(trace, partials, Add{});
    sum_of_squares = over_block(sum_of_squares, partials, Add{});
    const std::int64_t last_place = axis_fault_places(call.n_anchors) - 1;
    if (!(trace > kEqualAnchors * sum_of_squares)) {
        // NaN: a row at fault, which has been reported.
        if (thread == 0 && is_finite(trace)) {
            report(call, topic, AxisFault::kEqualAnchors, last_place);
        }
        return poison(call, topic, thread, n_threads);
    }
    const PairSpace pair_space(space.pair, m);
    const BlockPair pair = leading_pair(space.products, m, pair_space, partials);
    if (!pair.found) {
        if (thread == 0) report(call, topic, AxisFault::kNoEigenvector, last_place);
        return poison(call, topic, thread, n_threads);
    }
    write_axis(call, topic, space, pair_space.vector, partials);
    if (thread == 0) write_spectrum(call, topic, pair.first, pair.second, trace);
}

}  // namespace epibias::cuda
