// What: one query of the threshold sweep, made ready: read, checked, sorted by similarity, with its
// bandwidth and its grid of scores. Private to the sweep's sources.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "aligned_buffer.hpp"
#include "epibias/matrix_view.hpp"
#include "epibias/threshold_sweep.hpp"
#include "kernels/sweep_float32_kernels.hpp"
#include "kernels/threshold_sweep_kernels.hpp"
#include "sweep_scalars.hpp"

namespace epibias::sweep {

// The inner loops of the active SIMD level.
struct Kernels {
    const kernels::ThresholdSweepKernels* float64;
    const kernels::SweepFloat32Kernels* float32;
};
[[nodiscard]] Kernels active_kernels();

// Some splits of a query, their weights, and what an evaluation found.
struct SplitSet {
    std::vector<std::int32_t> n_left;
    std::vector<double> left_weight, right_weight, scale, divergences;
};

// What hangs on n alone; kept from query to query.
struct FifthRoot {
    std::int64_t n = -1;
    double inverse = 0;
};

// What the float32 sweep needs (sweep_float32.cpp).
struct Float32Scratch {
    // Of the weights below, which hang on these alone.
    std::int64_t n = -1;
    double kappa = 0;
    SweepCriterion criterion = SweepCriterion::kKullbackLeibler;
    // [n + 1], by the number on the left
    std::vector<float> left_log2_of, right_log2_of;
    std::vector<double> left_log_of, divisor_of;  // natural logarithm; 1 / m or 1 / n

    std::vector<float> left_log2, right_log2, totals, scores;
    std::vector<double> divergences;
    std::vector<std::int32_t> open, places, first_listed;
    AlignedBufferOf<float> rows, row_totals, suffixes, sums;
};

// What the binned sweep needs (sweep_binned.cpp).
struct BinnedScratch {
    std::vector<std::int32_t> numbers;
    std::vector<double> taps;
    AlignedBuffer histograms;
};

// What one thread needs for one query; sized by the first query that needs it.
struct Scratch {
    std::vector<float> similarities, scores, sorted_similarities;
    std::vector<std::uint64_t> keys, other_keys;
    std::vector<std::int32_t> identity, shuffled;
    std::vector<std::int64_t> split_of_threshold;
    SplitSet splits, few_splits;
    std::vector<double> sorted_scores;
    std::array<double, kMaxGridPoints> grid{};
    AlignedBuffer rows, suffixes, sums;
    FifthRoot fifth_root;
    Float32Scratch float32;
    BinnedScratch binned;
};

// One query, sorted by similarity, with its bandwidth and grid.
struct Query : ScoreGrid {
    std::int64_t n = 0;
    bool grid_filled = false;
};

// Reads and checks row `row`: similarities and scores, bandwidth and size of the grid. False where
// the scores are too close for a density.
[[nodiscard]] bool read_query(MatrixView<const float> similarities, MatrixView<const float> scores,
                              std::int64_t row, double bandwidth_factor, Scratch& scratch,
                              Query& query);

// scratch.sorted_similarities and sorted_scores; ties by place.
void sort_by_similarity(const kernels::SweepFloat32Kernels& table, Scratch& scratch);

// 0 … n - 1, kept from query to query.
[[nodiscard]] const std::vector<std::int32_t>& identity_of(std::int64_t n, Scratch& scratch);

// scratch.grid, once a query.
void fill_grid(Query& query, Scratch& scratch);

}  // namespace epibias::sweep
