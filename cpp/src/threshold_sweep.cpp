#include "epibias/threshold_sweep.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include "first_maximum.hpp"
#include "sweep_batch.hpp"
#include "sweep_binned.hpp"
#include "sweep_checks.hpp"
#include "sweep_float32.hpp"
#include "sweep_float64.hpp"
#include "sweep_permutations.hpp"

namespace epibias {

namespace sweep {
namespace {

// One query on one thread.
struct Task {
    const Kernels& kernels;
    const ThresholdSweepOptions& options;
    Query& query;
    Scratch& scratch;
    std::int64_t n_undecided = 0;

    [[nodiscard]] std::int64_t last_left() const { return query.n - options.min_dropped; }
    [[nodiscard]] bool admits(std::int64_t m) const {
        return m >= options.min_kept && m <= last_left();
    }

    // scratch.splits.n_left: the distinct splits from `first` to `last`.
    void list_splits(std::int64_t first, std::int64_t last) const {
        std::vector<std::int32_t>& n_left = scratch.splits.n_left;
        n_left.resize(first <= last ? static_cast<std::size_t>(last - first) + 1 : 0);
        std::size_t n_listed = 0;  // written in any case, counted where distinct: no branch
        for (std::int64_t m = first; m <= last; ++m) {
            const auto place = static_cast<std::size_t>(m);
            n_left[n_listed] = static_cast<std::int32_t>(m);
            n_listed += scratch.sorted_similarities[place - 1] < scratch.sorted_similarities[place];
        }
        n_left.resize(n_listed);
    }

    void evaluate(SplitSet& set) const {
        set_weights(query, options, set);
        evaluate_splits(*kernels.float64, add_terms_of(*kernels.float64, options.criterion),
                        options.kappa, query, nullptr, identity_of(query.n, scratch), scratch, set);
    }

    // The first maximum among the admitted ones of a set that was evaluated; n_kept 0: none.
    [[nodiscard]] Statistic best_of(const SplitSet& set) const {
        FirstMaximum best;
        for (std::size_t split = 0; split < set.n_left.size(); ++split) {
            if (admits(set.n_left[split])) best.offer(split, set.divergences[split]);
        }
        const std::int64_t chosen = best.first(set.divergences);
        if (chosen < 0) return {};
        const auto place = static_cast<std::size_t>(chosen);
        return {set.divergences[place], 0, set.n_left[place]};
    }

    [[nodiscard]] Statistic in_float64() {
        list_splits(options.min_kept, last_left());
        if (scratch.splits.n_left.empty()) return {};
        evaluate(scratch.splits);
        return best_of(scratch.splits);
    }

    // float32 says which splits may be the best; float64 chooses among them, or confirms the one.
    [[nodiscard]] Statistic in_float32_first() {
        list_splits(options.min_kept, last_left());
        const std::vector<std::int32_t>& n_left = scratch.splits.n_left;
        if (n_left.empty()) return {};
        evaluate_float32(*kernels.float32, query, options, n_left, scratch);
        const std::vector<double>& divergences = scratch.float32.divergences;
        std::size_t largest = 0;
        for (std::size_t split = 1; split < n_left.size(); ++split) {
            if (divergences[split] > divergences[largest]) largest = split;
        }
        const double value = divergences[largest];
        const double error = error_bound(*kernels.float32, query).of(value);
        SplitSet& contenders = scratch.few_splits;
        contenders.n_left.clear();
        const double bar = value - 2 * error - 2 * tie_tolerance(value);
        for (std::size_t split = 0; split < n_left.size(); ++split) {
            if (divergences[split] >= bar) contenders.n_left.push_back(n_left[split]);
        }
        const bool decided = contenders.n_left.size() == 1;
        if (!decided) ++n_undecided;
        if (decided && options.precision == SweepPrecision::kFloat32) {
            return {value, error, contenders.n_left[0]};
        }
        evaluate(contenders);
        return best_of(contenders);
    }
};

void sweep_query(const Kernels& kernels, MatrixView<const float> similarities,
                 MatrixView<const float> scores, std::int64_t row, std::int64_t query_id,
                 const ThresholdSweepOptions& options, const SweepResult& result,
                 Scratch& scratch) {
    keep_all(row, similarities.n_columns, result);
    Query query;
    if (!read_query(similarities, scores, row, options.bandwidth_factor, scratch, query)) return;
    sort_by_similarity(*kernels.float32, scratch);
    const auto place = static_cast<std::size_t>(row);
    const auto report = [&](const Statistic& best) {
        result.thresholds[place] =
            scratch.sorted_similarities[static_cast<std::size_t>(best.n_kept)];
        result.n_kept[place] = best.n_kept;
        result.divergences[place] = best.value;
    };
    const bool test_wanted = options.permutations > 0 && !result.p_values.empty();
    if (sweep_is_binned(options.method, query.n)) {
        BinnedQuery binned(kernels, query, options, scratch);
        const bool curve_wanted = result.curve.data != nullptr;
        const Statistic best = binned.best(curve_wanted ? result.curve.row(row) : nullptr);
        if (best.n_kept == 0) return;
        report(best);
        if (test_wanted) result.p_values[place] = binned.p_value(best, query_id);
        return;
    }
    Task task{kernels, options, query, scratch};
    Statistic best;
    if (result.curve.data != nullptr) {
        task.list_splits(1, query.n - 1);
        task.evaluate(scratch.splits);
        for (std::size_t split = 0; split < scratch.splits.n_left.size(); ++split) {
            result.curve.row(row)[scratch.splits.n_left[split] - 1] =
                scratch.splits.divergences[split];
        }
        best = task.best_of(scratch.splits);
        task.list_splits(options.min_kept, task.last_left());
    } else if (float32_applies(query, options)) {
        best = task.in_float32_first();
    } else {
        best = task.in_float64();
        ++task.n_undecided;
    }
    if (best.n_kept == 0) return;
    report(best);
    if (test_wanted) {
        result.p_values[place] =
            permutation_p_value(kernels, query, best, query_id, options, scratch, task.n_undecided);
    }
    if (!result.n_undecided.empty()) result.n_undecided[place] = task.n_undecided;
}

}  // namespace
}  // namespace sweep

bool sweep_is_binned(SweepMethod method, std::int64_t n) {
    return method == SweepMethod::kBinned || (method == SweepMethod::kAuto && n > kMostUnbinned);
}

void keyed_permutation(std::uint64_t seed, std::int64_t query_id, std::int64_t permutation,
                       std::span<std::int32_t> order) {
    const std::uint64_t key = sweep::shuffle_key(seed, query_id, permutation);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    for (std::size_t last = order.size(); last-- > 1;) {
        std::swap(order[last], order[sweep::shuffle_draw(key, order.size(), last)]);
    }
}

void threshold_sweep(MatrixView<const float> similarities, MatrixView<const float> scores,
                     const SweepResult& result, const ThresholdSweepOptions& options) {
    sweep::check_threshold_sweep(similarities, scores, result, options);
    const sweep::Kernels kernels = sweep::active_kernels();
    sweep::for_each_query(
        similarities.n_rows, similarities.n_columns, static_cast<double>(options.permutations) + 1,
        options.n_threads, [&](std::int64_t row, sweep::Scratch& scratch) {
            const std::int64_t query_id =
                options.query_ids.empty() ? row : options.query_ids[static_cast<std::size_t>(row)];
            sweep::sweep_query(kernels, similarities, scores, row, query_id, options, result,
                               scratch);
        });
}

}  // namespace epibias
