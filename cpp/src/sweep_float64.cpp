#include "sweep_float64.hpp"

#include <algorithm>

#include "sweep_scalars.hpp"

namespace epibias::sweep {

namespace {

constexpr std::int64_t kBlock = kernels::kGridBlock;

kernels::Splits view_of(const SplitSet& set, const std::vector<std::int32_t>& order) {
    return {order.data(),           static_cast<std::int64_t>(order.size()),
            set.n_left.data(),      static_cast<std::int64_t>(set.n_left.size()),
            set.left_weight.data(), set.right_weight.data()};
}

}  // namespace

AddTerms add_terms_of(const kernels::ThresholdSweepKernels& table, SweepCriterion criterion) {
    return criterion == SweepCriterion::kKullbackLeibler ? table.add_floored_kl
                                                         : table.add_mutual_information;
}

void set_weights(const Query& query, const ThresholdSweepOptions& options, SplitSet& set) {
    const bool kl = options.criterion == SweepCriterion::kKullbackLeibler;
    const auto n = static_cast<double>(query.n);
    const double share = query.share;
    const std::size_t n_splits = set.n_left.size();
    set.left_weight.resize(n_splits);
    set.right_weight.resize(n_splits);
    set.scale.resize(n_splits);
    for (std::size_t split = 0; split < n_splits; ++split) {
        const SplitWeights weights = split_weights(kl, n, set.n_left[split], options.kappa, share);
        set.left_weight[split] = weights.left;
        set.right_weight[split] = weights.right;
        set.scale[split] = weights.scale;
    }
}

const double* all_kernel_rows(const kernels::ThresholdSweepKernels& table, Query& query,
                              Scratch& scratch) {
    fill_grid(query, scratch);
    double* rows = scratch.rows.get(query.n * query.n_grid);
    for (std::int64_t first = 0; first < query.n_grid; first += kBlock) {
        table.kernel_rows(scratch.grid.data() + first, scratch.sorted_scores.data(), query.n,
                          query.scale, rows + first * query.n);
    }
    return rows;
}

void evaluate_splits(const kernels::ThresholdSweepKernels& table, AddTerms add_terms,
                     double parameter, Query& query, const double* rows,
                     const std::vector<std::int32_t>& order, Scratch& scratch, SplitSet& set) {
    fill_grid(query, scratch);
    const kernels::Splits splits = view_of(set, order);
    double* suffixes = scratch.suffixes.get(splits.n_splits * kBlock);
    double* sums = scratch.sums.get(splits.n_splits * kBlock);
    std::fill_n(sums, splits.n_splits * kBlock, 0.0);
    double* block_rows = rows == nullptr ? scratch.rows.get(query.n * kBlock) : nullptr;
    for (std::int64_t first = 0; first < query.n_grid; first += kBlock) {
        if (rows == nullptr) {
            table.kernel_rows(scratch.grid.data() + first, scratch.sorted_scores.data(), query.n,
                              query.scale, block_rows);
        }
        const double* current = rows == nullptr ? block_rows : rows + first * query.n;
        add_terms(splits, current, parameter, suffixes, sums);
    }
    set.divergences.resize(set.n_left.size());
    table.fold(sums, splits.n_splits, set.divergences.data());
    for (std::size_t split = 0; split < set.n_left.size(); ++split) {
        set.divergences[split] *= set.scale[split];
    }
}

}  // namespace epibias::sweep
