// Algorithm 1 of the paper as printed; declared in threshold_sweep.hpp.
#include <algorithm>
#include <vector>

#include "epibias/threshold_sweep.hpp"
#include "first_maximum.hpp"
#include "sweep_batch.hpp"
#include "sweep_checks.hpp"
#include "sweep_float64.hpp"
#include "sweep_scalars.hpp"

namespace epibias {

namespace sweep {
namespace {

std::vector<float> printed_thresholds(const PrintedSweepOptions& options) {
    std::vector<float> thresholds(static_cast<std::size_t>(options.n_thresholds));
    for (std::size_t number = 0; number < thresholds.size(); ++number) {
        thresholds[number] =
            printed_threshold(static_cast<std::int64_t>(number), options.n_thresholds, options.tau);
    }
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
    const std::size_t n_splits = set.n_left.size();
    set.left_weight.resize(n_splits);
    set.right_weight.resize(n_splits);
    set.scale.resize(n_splits);
    for (std::size_t split = 0; split < n_splits; ++split) {
        const SplitWeights weights =
            printed_weights(static_cast<double>(query.n), set.n_left[split], query);
        set.left_weight[split] = weights.left;
        set.right_weight[split] = weights.right;
        set.scale[split] = weights.scale;
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
    sweep::check_printed_sweep(similarities, scores, options);
    const std::vector<float> thresholds = sweep::printed_thresholds(options);
    const sweep::Kernels kernels = sweep::active_kernels();
    sweep::for_each_query(similarities.n_rows, similarities.n_columns, 1, options.n_threads,
                          [&](std::int64_t row, sweep::Scratch& scratch) {
                              sweep::printed_query(kernels, similarities, scores, row, thresholds,
                                                   options, result, scratch);
                          });
}

}  // namespace epibias
