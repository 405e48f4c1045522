// What: the kernels of polarization_scores.hpp.
//
// Who owns what: a warp a row (or a gathered element), lane l the accumulators l of all its sums.
// Shared bytes: none. Valid: dim >= 0; 64-bit indices throughout.
#pragma once

#include <cstdint>

#include "epibias/cuda/polarization_scores.hpp"
#include "polarization_axis_call.cuh"

namespace epibias::cuda {

struct ScorePolicy {
    static constexpr int kWarps = 8;
    static constexpr int kBlocks = 4;      // a multiprocessor; ptxas, left to itself, spills
    static constexpr int kAxesAtOnce = 4;  // a row is read once for four axes; 8 registers of sums
};

struct ScoreCall {
    const float* rows;  // [n_rows, dim]
    const float* axes;  // [n_topics, dim]
    std::int64_t n_rows, n_topics, dim;
    Fault* fault;
    bool normalize;
};

// What the lanes of a warp number among all warps of the grid.
__device__ inline std::int64_t first_warp() {
    return static_cast<std::int64_t>(blockIdx.x) * ScorePolicy::kWarps + threadIdx.x / kWarp;
}
__device__ inline std::int64_t n_warps_of_grid() {
    return static_cast<std::int64_t>(gridDim.x) * ScorePolicy::kWarps;
}

__device__ inline void report_score(Fault* fault, std::int64_t place, ScoreFault what) {
    report_fault(fault, kScoresArgument, place, static_cast<int>(what));
}

// Reports a row that has no score, by the first of its values that is not finite.
__device__ inline void report_row(const ScoreCall& call, const float* row, std::int64_t place,
                                  int lane) {
    auto first = static_cast<double>(call.dim);
    for (std::int64_t i = lane; i < call.dim; i += kWarp) {
        const auto value = static_cast<double>(row[i]);
        if (!is_finite(value)) first = Smaller{}(first, static_cast<double>(i));
    }
    const auto column = static_cast<std::int64_t>(over_warp(first, Smaller{}));
    if (lane != 0) return;
    ScoreFault what = ScoreFault::kRowZero;
    if (column < call.dim) {
        what = row[column] == row[column] ? ScoreFault::kRowInfinite : ScoreFault::kRowNan;
    }
    report_score(call.fault, place, what);
}

// 1 / norm, or 1, from a row's squared norm; NaN, after reporting it, for a row without a score.
__device__ inline double row_scale(const ScoreCall& call, const float* row, double squared,
                                   std::int64_t place, int lane) {
    const bool finite = is_finite(squared);
    if (finite && !(call.normalize && squared == 0)) {
        return call.normalize ? 1 / sqrt(squared) : 1;
    }
    report_row(call, row, place, lane);
    return not_a_number();
}

// A score of finite rows is finite in float64: anything else is an axis at fault.
__device__ inline double score_or_nan(double product, double scale) {
    return is_finite(product) ? product * scale : not_a_number();
}

__global__ void __launch_bounds__(ScorePolicy::kWarps* kWarp) check_axes(ScoreCall call) {
    for (std::int64_t axis = first_warp(); axis < call.n_topics; axis += n_warps_of_grid()) {
        const float* values = call.axes + axis * call.dim;
        const double squared = canonical_warp_dot(values, values, call.dim);
        if (threadIdx.x % kWarp == 0 && !is_finite(squared)) {
            report_fault(call.fault, kAxesArgument, axis, 0);
        }
    }
}

// Every row on every axis: scores [n_topics, n_rows].
__global__ void __launch_bounds__(ScorePolicy::kWarps* kWarp, ScorePolicy::kBlocks)
    score_rows(ScoreCall call, float* scores) {
    constexpr int kAxes = ScorePolicy::kAxesAtOnce;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    for (std::int64_t number = first_warp(); number < call.n_rows; number += n_warps_of_grid()) {
        const float* row = call.rows + number * call.dim;
        const double squared = canonical_warp_dot(row, row, call.dim);
        const double scale = row_scale(call, row, squared, number, lane);
        for (std::int64_t topic = 0; topic < call.n_topics; topic += kAxes) {
            double sums[kAxes] = {};
            const float* axes = call.axes + topic * call.dim;
            for (std::int64_t i = lane; i < call.dim; i += kWarp) {
                const auto value = static_cast<double>(row[i]);
#pragma unroll
                for (int k = 0; k < kAxes; ++k) {
                    if (topic + k >= call.n_topics) continue;
                    sums[k] += value * static_cast<double>(axes[k * call.dim + i]);
                }
            }
#pragma unroll
            for (int k = 0; k < kAxes; ++k) {
                const double product = over_warp(sums[k], Add{});
                if (lane != 0 || topic + k >= call.n_topics) continue;
                const std::int64_t place = (topic + k) * call.n_rows + number;
                scores[place] = static_cast<float>(score_or_nan(product, scale));
            }
        }
    }
}

// Canonical dots of a row with itself and with an axis, read once.
__device__ inline double score_of(const ScoreCall& call, const float* row, const float* axis,
                                  std::int64_t place, int lane) {
    double squared = 0;
    double product = 0;
    for (std::int64_t i = lane; i < call.dim; i += kWarp) {
        const auto value = static_cast<double>(row[i]);
        squared += value * value;
        product += value * static_cast<double>(axis[i]);
    }
    const double scale = row_scale(call, row, over_warp(squared, Add{}), place, lane);
    return score_or_nan(over_warp(product, Add{}), scale);
}

// Row r on axis r / rows_an_axis, not rounded: scores [n_rows].
__global__ void __launch_bounds__(ScorePolicy::kWarps* kWarp, ScorePolicy::kBlocks)
    score_anchors(ScoreCall call, std::int64_t rows_an_axis, double* scores) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    for (std::int64_t number = first_warp(); number < call.n_rows; number += n_warps_of_grid()) {
        const float* axis = call.axes + number / rows_an_axis * call.dim;
        const double score = score_of(call, call.rows + number * call.dim, axis, number, lane);
        if (lane == 0) scores[number] = score;
    }
}

struct Gathered {
    const std::int64_t* indices;        // [n_queries, m]
    const std::int64_t* axis_of_query;  // [n_queries] or null
    std::int64_t n_queries, m;
    float* scores;  // [n_queries, m]
};

// The axis of a query; -1, after reporting it, for none.
__device__ inline std::int64_t axis_of(const ScoreCall& call, const Gathered& gathered,
                                       std::int64_t query, int lane) {
    if (gathered.axis_of_query == nullptr) return call.n_topics == 1 ? 0 : query;
    const std::int64_t axis = gathered.axis_of_query[query];
    if (axis >= 0 && axis < call.n_topics) return axis;
    if (lane == 0) {
        report_score(call.fault, query * (gathered.m + 1), ScoreFault::kAxisOutOfRange);
    }
    return -1;
}

__global__ void __launch_bounds__(ScorePolicy::kWarps* kWarp, ScorePolicy::kBlocks)
    score_gathered(ScoreCall call, Gathered gathered) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const std::int64_t n_elements = gathered.n_queries * gathered.m;
    for (std::int64_t element = first_warp(); element < n_elements; element += n_warps_of_grid()) {
        const std::int64_t query = element / gathered.m;
        const std::int64_t place = query * (gathered.m + 1) + 1 + element % gathered.m;
        const std::int64_t axis = axis_of(call, gathered, query, lane);
        const std::int64_t number = gathered.indices[element];
        const bool is_row = number >= 0 && number < call.n_rows;
        if (!is_row && lane == 0) report_score(call.fault, place, ScoreFault::kIndexOutOfRange);
        double score = not_a_number();
        if (is_row && (axis >= 0 || EPIBIAS_PLANT("polarization_scores.axis_before_start"))) {
            score = score_of(call, call.rows + number * call.dim, call.axes + axis * call.dim,
                             place, lane);
        }
        if (lane == 0) gathered.scores[element] = static_cast<float>(score);
    }
}

// Queries without elements have an axis all the same, and the CPU looks at it.
__global__ void __launch_bounds__(ScorePolicy::kWarps* kWarp)
    check_axes_of_queries(ScoreCall call, Gathered gathered) {
    const std::int64_t query = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (query < gathered.n_queries) axis_of(call, gathered, query, 0);
}

// The row, index or axis that the message will name. One thread, after the kernels that look for
// faults.
__global__ void note_index(Fault* fault, Gathered gathered) {
    const std::uint64_t word = fault->word;
    if (word == kNoFault || fault_argument(word) != kScoresArgument) return;
    const std::int64_t query = fault_row(word) / (gathered.m + 1);
    const std::int64_t element = fault_row(word) % (gathered.m + 1) - 1;
    const bool of_axis = static_cast<ScoreFault>(fault_column(word)) == ScoreFault::kAxisOutOfRange;
    fault->value = static_cast<double>(of_axis ? gathered.axis_of_query[query]
                                               : gathered.indices[query * gathered.m + element]);
}

}  // namespace epibias::cuda
