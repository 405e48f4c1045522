#include "sweep_permutations.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "sweep_float32.hpp"
#include "sweep_float64.hpp"

namespace epibias::sweep {

namespace {

// Comparisons in float64, on the kernel rows that the first of them makes.
class Float64Comparisons {
  public:
    Float64Comparisons(const kernels::ThresholdSweepKernels& table, Query& query,
                       const ThresholdSweepOptions& options, Scratch& scratch)
        : table_(table), query_(query), options_(options), scratch_(scratch) {}

    [[nodiscard]] double largest(const std::vector<std::int32_t>& order,
                                 const std::vector<std::int32_t>& n_left) {
        if (rows_ == nullptr) rows_ = all_kernel_rows(table_, query_, scratch_);
        SplitSet& set = scratch_.few_splits;
        set.n_left = n_left;
        set_weights(query_, options_, set);
        evaluate_splits(table_, add_terms_of(table_, options_.criterion), options_.kappa, query_,
                        rows_, order, scratch_, set);
        return *std::ranges::max_element(set.divergences);
    }

  private:
    const kernels::ThresholdSweepKernels& table_;
    Query& query_;
    const ThresholdSweepOptions& options_;
    Scratch& scratch_;
    const double* rows_ = nullptr;
};

}  // namespace

double permutation_p_value(const Kernels& kernels, Query& query, Statistic statistic,
                           std::int64_t query_id, const ThresholdSweepOptions& options,
                           Scratch& scratch, std::int64_t& n_undecided) {
    Float64Comparisons in_float64(*kernels.float64, query, options, scratch);
    const auto sharpen = [&] {
        if (statistic.error == 0) return;
        scratch.float32.open.assign(1, statistic.n_kept);
        statistic.value = in_float64.largest(identity_of(query.n, scratch), scratch.float32.open);
        statistic.error = 0;
    };
    const std::vector<std::int32_t>& n_left = scratch.splits.n_left;
    std::optional<ShuffledQuery> in_float32;
    if (float32_applies(query, options)) {
        in_float32.emplace(*kernels.float32, query, options, n_left, scratch);
    } else {
        sharpen();
    }
    const auto reaches = [&] {
        if (!in_float32) {
            ++n_undecided;
            return in_float64.largest(scratch.shuffled, n_left) >= bar_of(statistic.value);
        }
        const double low = bar_of(statistic.value - statistic.error);
        const double high = statistic.value + statistic.error;
        const auto verdict = in_float32->compare(scratch.shuffled, low, high);
        if (verdict != ShuffledQuery::Verdict::kOpen) {
            return verdict == ShuffledQuery::Verdict::kReaches;
        }
        ++n_undecided;
        const std::vector<std::int32_t> open = scratch.float32.open;
        sharpen();
        return in_float64.largest(scratch.shuffled, open) >= bar_of(statistic.value);
    };
    return p_value_of_shuffles(query.n, query_id, options, scratch, reaches);
}

}  // namespace epibias::sweep
