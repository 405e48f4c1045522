// Algorithm 1 of the paper as printed; declared in threshold_sweep.hpp.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "epibias/threshold_sweep.hpp"
#include "first_maximum.hpp"
#include "refuse.hpp"
#include "sweep_batch.hpp"
#include "sweep_float64.hpp"

namespace epibias {

namespace sweep {
namespace {

// The arithmetic of numpy's linspace. float32, because float32 similarities are compared with it.
std::vector<float> printed_thresholds(const PrintedSweepOptions& options) {
    std::vector<float> thresholds(static_cast<std::size_t>(options.n_thresholds));
    const double last = 1 - options.tau;
    const double step = (last - options.tau) / static_cast<double>(options.n_thresholds - 1);
    for (std::size_t number = 0; number < thresholds.size(); ++number) {
        const double offset = number == 0 ? 0.0 : static_cast<double>(number) * step;
        thresholds[number] = static_cast<float>(offset + options.tau);
    }
    if (thresholds.size() > 1) thresholds.back() = static_cast<float>(last);
    return thresholds;
}

void printed_query(const Kernels& kernels, MatrixView<const float> similarities,
                   MatrixView<const float> scores, std::int64_t row,
                   const std::vector<float>& thresholds, const PrintedSweepOptions& options,
                   const SweepResult& result, Scratch& scratch) {
    keep_all(row, similarities.n_columns, result);
    Query query;
    if (!read_query(similarities, scores, row, options.bandwidth_factor, scratch, query)) return;
    sort_by_similarity(*kernels.float32, scratch);
    // Thresholds ascend, so the splits do; several thresholds may make the same split.
    const std::vector<float>& sorted = scratch.sorted_similarities;
    SplitSet& set = scratch.splits;
    set.n_left.clear();
    scratch.split_of_threshold.assign(thresholds.size(), -1);
    for (std::size_t number = 0; number < thresholds.size(); ++number) {
        const auto first_dropped = std::ranges::lower_bound(sorted, thresholds[number]);
        const auto m = static_cast<std::int32_t>(first_dropped - sorted.begin());
        if (m == 0 || m == query.n) continue;
        if (set.n_left.empty() || set.n_left.back() != m) set.n_left.push_back(m);
        scratch.split_of_threshold[number] = static_cast<std::int64_t>(set.n_left.size()) - 1;
    }
    if (set.n_left.empty()) return;
    const double density = 1 / (query.bandwidth * std::sqrt(2 * std::numbers::pi));
    const std::size_t n_splits = set.n_left.size();
    set.left_weight.resize(n_splits);
    set.right_weight.resize(n_splits);
    set.scale.assign(n_splits, query.grid_step);
    for (std::size_t split = 0; split < n_splits; ++split) {
        const double m = set.n_left[split];
        set.left_weight[split] = density / m;
        set.right_weight[split] = density / (static_cast<double>(query.n) - m);
    }
    evaluate_splits(*kernels.float64, kernels.float64->add_printed_kl, options.floor, query,
                    nullptr, identity_of(query.n, scratch), scratch, set);
    FirstMaximum best;
    for (std::size_t split = 0; split < n_splits; ++split) {
        best.offer(split, set.divergences[split]);
    }
    const std::int64_t chosen = best.first(set.divergences);
    bool found = false;
    const auto place = static_cast<std::size_t>(row);
    for (std::size_t number = 0; number < thresholds.size(); ++number) {
        const std::int64_t split = scratch.split_of_threshold[number];
        if (split < 0) continue;
        const double value = set.divergences[static_cast<std::size_t>(split)];
        if (result.curve.data != nullptr) result.curve.row(row)[number] = value;
        if (found || split != chosen) continue;
        found = true;
        result.thresholds[place] = thresholds[number];
        result.n_kept[place] = set.n_left[static_cast<std::size_t>(split)];
        result.divergences[place] = value;
    }
}

}  // namespace
}  // namespace sweep

void printed_sweep(MatrixView<const float> similarities, MatrixView<const float> scores,
                   const SweepResult& result, const PrintedSweepOptions& options) {
    sweep::check_shapes(similarities, scores);
    const bool tau_inside = options.tau >= 0 && options.tau < 0.5;
    if (!tau_inside) {
        refuse("tau", "a number of at least 0 and below 0.5", number_text(options.tau));
    }
    if (options.n_thresholds < 1 || options.n_thresholds > kMaxThresholds) {
        refuse("n_thresholds", "an integer from 1 to " + std::to_string(kMaxThresholds),
               std::to_string(options.n_thresholds));
    }
    sweep::check_number("floor", options.floor, 0, 1);
    sweep::check_number("bandwidth_factor", options.bandwidth_factor, 0,
                        sweep::kMaxBandwidthFactor);
    const std::vector<float> thresholds = sweep::printed_thresholds(options);
    const sweep::Kernels kernels = sweep::active_kernels();
    sweep::for_each_query(similarities.n_rows, similarities.n_columns, 1, options.n_threads,
                          [&](std::int64_t row, sweep::Scratch& scratch) {
                              sweep::printed_query(kernels, similarities, scores, row, thresholds,
                                                   options, result, scratch);
                          });
}

}  // namespace epibias
