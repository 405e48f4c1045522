#include "sweep_binned.hpp"

#include <algorithm>
#include <cmath>

#include "first_maximum.hpp"
#include "sweep_float64.hpp"

namespace epibias::sweep {

namespace {

constexpr std::int64_t kBlock = kernels::kGridBlock;
// The kernel ends here, in bandwidths: 2e-12 of its mass are left out.
constexpr double kReach = 7;

}  // namespace

BinnedQuery::BinnedQuery(const Kernels& kernels, const Query& query,
                         const ThresholdSweepOptions& options, Scratch& scratch)
    : kernels_(kernels), query_(query), options_(options), scratch_(scratch) {
    list_splits();
    set_taps();
}

// From each wanted number of candidates up to the next split between two similarities, so that
// every split has a listed one at most n / kSweepQuantiles places below it.
void BinnedQuery::list_splits() {
    SplitSet& set = scratch_.splits;
    set.n_left.clear();
    const std::int64_t first = options_.min_kept;
    const std::int64_t last = query_.n - options_.min_dropped;
    const std::vector<float>& sorted = scratch_.sorted_similarities;
    const auto add_from = [&](std::int64_t m) {
        if (!set.n_left.empty() && m <= set.n_left.back()) return;
        while (m <= last &&
               !(sorted[static_cast<std::size_t>(m) - 1] < sorted[static_cast<std::size_t>(m)])) {
            ++m;
        }
        if (m <= last) set.n_left.push_back(static_cast<std::int32_t>(m));
    };
    if (first <= last) add_from(first);
    for (std::int64_t quantile = 1; quantile < kSweepQuantiles; ++quantile) {
        const std::int64_t m = (quantile * query_.n + kSweepQuantiles - 1) / kSweepQuantiles;
        if (m > first && m < last) add_from(m);
    }
    if (last > first) add_from(last);
    const bool kl = options_.criterion == SweepCriterion::kKullbackLeibler;
    set_weights(query_, options_, set);
    for (std::size_t split = 0; split < set.n_left.size(); ++split) {
        // Histograms hold candidates, and the kernel's taps add up to 1: no width, no step.
        set.scale[split] = 1.0 / static_cast<double>(kl ? set.n_left[split] : query_.n);
    }
}

void BinnedQuery::set_taps() {
    const double step = query_.step;
    // Linear binning spreads a candidate by step^2 / 6 already, on average.
    const double h_squared = query_.bandwidth * query_.bandwidth;
    const double variance = std::max(h_squared - step * step / 6, h_squared / 4);
    const auto n_side = static_cast<std::int64_t>(std::ceil(kReach * query_.bandwidth / step));
    std::vector<double>& taps = scratch_.binned.taps;
    taps.resize(static_cast<std::size_t>(n_side) + 1);
    double sum = 0;
    for (std::size_t k = 0; k < taps.size(); ++k) {
        const double offset = static_cast<double>(k) * step;
        taps[k] = std::exp(-0.5 * offset * offset / variance);
        sum += k == 0 ? taps[k] : 2 * taps[k];
    }
    for (double& tap : taps) tap /= sum;
    stride_ = query_.n_grid + 2 * n_side;
}

void BinnedQuery::evaluate(const std::vector<std::int32_t>* order) {
    SplitSet& set = scratch_.splits;
    BinnedScratch& own = scratch_.binned;
    const auto n_splits = static_cast<std::int64_t>(set.n_left.size());
    const std::int64_t n_bins = n_splits + 1;  // of similarity: between the splits
    const auto n_side = static_cast<std::int64_t>(own.taps.size()) - 1;
    double* histograms = own.histograms.get(n_bins * stride_);
    std::fill_n(histograms, n_bins * stride_, 0.0);
    const double cells_a_unit = static_cast<double>(query_.n_grid - 1) / (query_.high - query_.low);
    std::size_t place = 0;
    for (std::int64_t bin = 0; bin < n_bins; ++bin) {
        const auto end = static_cast<std::size_t>(
            bin < n_splits ? set.n_left[static_cast<std::size_t>(bin)] : query_.n);
        double* histogram = histograms + bin * stride_ + n_side;
        for (; place < end; ++place) {
            const std::size_t candidate =
                order == nullptr ? place : static_cast<std::size_t>((*order)[place]);
            const double position = (scratch_.sorted_scores[candidate] - query_.low) * cells_a_unit;
            const auto cell = static_cast<std::int32_t>(position);  // >= 0: the grid begins below
            const double share = position - static_cast<double>(cell);
            histogram[cell] += 1 - share;
            histogram[cell + 1] += share;
        }
    }
    own.numbers.resize(static_cast<std::size_t>(n_bins));
    for (std::size_t bin = 0; bin < own.numbers.size(); ++bin) {
        own.numbers[bin] = static_cast<std::int32_t>(bin);
    }
    // A bin is a row, and split j has rows 0 … j on its left.
    const kernels::Splits splits{own.numbers.data(),     n_bins,
                                 own.numbers.data() + 1, n_splits,
                                 set.left_weight.data(), set.right_weight.data()};
    const kernels::ThresholdSweepKernels& table = *kernels_.float64;
    const AddTerms add_terms = add_terms_of(table, options_.criterion);
    double* rows = scratch_.rows.get(n_bins * kBlock);
    double* suffixes = scratch_.suffixes.get(n_splits * kBlock);
    double* sums = scratch_.sums.get(n_splits * kBlock);
    std::fill_n(sums, n_splits * kBlock, 0.0);
    for (std::int64_t first = 0; first < query_.n_grid; first += kBlock) {
        table.smooth(histograms + first + n_side, n_bins, stride_, own.taps.data(), n_side, rows);
        add_terms(splits, rows, options_.kappa, suffixes, sums);
    }
    set.divergences.resize(set.n_left.size());
    table.fold(sums, n_splits, set.divergences.data());
    for (std::size_t split = 0; split < set.n_left.size(); ++split) {
        set.divergences[split] *= set.scale[split];
    }
}

Statistic BinnedQuery::best(double* curve) {
    SplitSet& set = scratch_.splits;
    if (set.n_left.empty()) return {};
    evaluate(nullptr);
    FirstMaximum best;
    for (std::size_t split = 0; split < set.n_left.size(); ++split) {
        best.offer(split, set.divergences[split]);
        if (curve != nullptr) curve[set.n_left[split] - 1] = set.divergences[split];
    }
    const auto chosen = static_cast<std::size_t>(best.first(set.divergences));
    return {set.divergences[chosen], 0, set.n_left[chosen]};
}

double BinnedQuery::p_value(const Statistic& statistic, std::int64_t query_id) {
    return p_value_of_shuffles(query_.n, query_id, options_, scratch_, [&] {
        evaluate(&scratch_.shuffled);
        return *std::ranges::max_element(scratch_.splits.divergences) >= bar_of(statistic.value);
    });
}

}  // namespace epibias::sweep
