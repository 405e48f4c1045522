#include "epibias/threshold_sweep.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "epibias/parallel.hpp"
#include "epibias/simd_level.hpp"
#include "first_maximum.hpp"
#include "kernels/threshold_sweep_kernels.hpp"
#include "refuse.hpp"
#include "sweep_query.hpp"

namespace epibias {

namespace {

constexpr std::int64_t kBlock = kernels::kGridBlock;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kPermutationTolerance = 1e-10;
// Beyond these a floor or a width says nothing, and products could leave the range of float64.
constexpr double kMaxKappa = 1e6;
constexpr double kMaxBandwidthFactor = 1e6;
constexpr std::int64_t kMaxCandidates = std::numeric_limits<std::int32_t>::max();
// One cell (exp, log, division, sums) against a multiply-add of `threads_worth_waking`.
constexpr double kOperationsPerCell = 20;

using sweep::Query;
using sweep::Scratch;
using AddTerms = decltype(kernels::ThresholdSweepKernels::add_floored_kl);

const kernels::ThresholdSweepKernels& active_kernels() {
#if defined(EPIBIAS_X86_LEVELS)
    switch (active_simd_level()) {
        case SimdLevel::kAvx512:
            return kernels::avx512::kThresholdSweep;
        case SimdLevel::kAvx2:
            return kernels::avx2::kThresholdSweep;
        case SimdLevel::kScalar:
            break;
    }
#endif
    return kernels::scalar::kThresholdSweep;
}

// ---- evaluation ----------------------------------------------------------------------------

double kernel_scale(double bandwidth) {
    return std::sqrt(0.5 * std::numbers::log2e) / bandwidth;
}

double grid_share(const Query& query) {  // weight of one cell: step / (h sqrt(2 pi))
    return query.grid_step / (query.bandwidth * std::sqrt(2 * std::numbers::pi));
}

kernels::Splits view_of(const Scratch& scratch, const std::vector<std::int32_t>& order) {
    return {order.data(),
            static_cast<std::int64_t>(order.size()),
            scratch.n_left.data(),
            static_cast<std::int64_t>(scratch.n_left.size()),
            scratch.left_weight.data(),
            scratch.right_weight.data()};
}

// Kernel rows of all blocks, [n_grid / kBlock, n, kBlock].
const double* all_kernel_rows(const kernels::ThresholdSweepKernels& table, const Query& query,
                              Scratch& scratch) {
    double* rows = scratch.rows.get(query.n * query.n_grid);
    for (std::int64_t first = 0; first < query.n_grid; first += kBlock) {
        table.kernel_rows(scratch.grid.data() + first, scratch.sorted_scores.data(), query.n,
                          kernel_scale(query.bandwidth), rows + first * query.n);
    }
    return rows;
}

// Divergence of every split in scratch.n_left into scratch.divergences. `rows` null: the kernel
// rows are made block by block and not kept.
void evaluate_splits(const kernels::ThresholdSweepKernels& table, AddTerms add_terms,
                     double parameter, const Query& query, const double* rows,
                     const std::vector<std::int32_t>& order, Scratch& scratch) {
    const kernels::Splits splits = view_of(scratch, order);
    double* suffixes = scratch.suffixes.get(splits.n_splits * kBlock);
    double* sums = scratch.sums.get(splits.n_splits * kBlock);
    std::fill_n(sums, splits.n_splits * kBlock, 0.0);
    double* block_rows = rows == nullptr ? scratch.rows.get(query.n * kBlock) : nullptr;
    for (std::int64_t first = 0; first < query.n_grid; first += kBlock) {
        if (rows == nullptr) {
            table.kernel_rows(scratch.grid.data() + first, scratch.sorted_scores.data(), query.n,
                              kernel_scale(query.bandwidth), block_rows);
        }
        const double* current = rows == nullptr ? block_rows : rows + first * query.n;
        add_terms(splits, current, parameter, suffixes, sums);
    }
    scratch.divergences.resize(scratch.n_left.size());
    table.fold(sums, splits.n_splits, scratch.divergences.data());
    for (std::size_t split = 0; split < scratch.n_left.size(); ++split) {
        scratch.divergences[split] *= scratch.scale[split];
    }
}

void set_weights(const Query& query, const ThresholdSweepOptions& options, Scratch& scratch) {
    const bool kl = options.criterion == SweepCriterion::kKullbackLeibler;
    const auto n = static_cast<double>(query.n);
    const std::size_t n_splits = scratch.n_left.size();
    scratch.left_weight.resize(n_splits);
    scratch.right_weight.resize(n_splits);
    scratch.scale.resize(n_splits);
    for (std::size_t split = 0; split < n_splits; ++split) {
        const double m = scratch.n_left[split];
        scratch.left_weight[split] = kl ? (n - m + options.kappa * n) / m : n / m;
        scratch.right_weight[split] = n / (n - m);
        scratch.scale[split] = grid_share(query) / (kl ? m : n);
    }
}

double best_divergence(const std::vector<double>& divergences) {
    return *std::ranges::max_element(divergences);
}

double permutation_p_value(const kernels::ThresholdSweepKernels& table, AddTerms add_terms,
                           const Query& query, double statistic, std::int64_t query_id,
                           const ThresholdSweepOptions& options, Scratch& scratch) {
    const double* rows = all_kernel_rows(table, query, scratch);
    const double bar = statistic - kPermutationTolerance * std::max(1.0, std::abs(statistic));
    scratch.shuffled.resize(static_cast<std::size_t>(query.n));
    std::int64_t exceedances = 0;
    for (std::int64_t permutation = 0; permutation < options.permutations; ++permutation) {
        keyed_permutation(options.seed, query_id, permutation, scratch.shuffled);
        evaluate_splits(table, add_terms, options.kappa, query, rows, scratch.shuffled, scratch);
        if (best_divergence(scratch.divergences) >= bar) ++exceedances;
        if (options.max_exceedances > 0 && exceedances >= options.max_exceedances) {
            return static_cast<double>(exceedances) / static_cast<double>(permutation + 1);
        }
    }
    return static_cast<double>(exceedances + 1) / static_cast<double>(options.permutations + 1);
}

void keep_all(std::int64_t row, std::int64_t n, const SweepResult& result) {
    const auto place = static_cast<std::size_t>(row);
    result.thresholds[place] = std::numeric_limits<float>::infinity();
    result.n_kept[place] = n;
    result.divergences[place] = 0;
    if (!result.p_values.empty()) result.p_values[place] = 1;
    if (result.curve.data != nullptr) {
        std::fill_n(result.curve.row(row), result.curve.n_columns, kNotANumber);
    }
}

void sweep_query(const kernels::ThresholdSweepKernels& table, MatrixView<const float> similarities,
                 MatrixView<const float> scores, std::int64_t row, std::int64_t query_id,
                 const ThresholdSweepOptions& options, const SweepResult& result,
                 Scratch& scratch) {
    keep_all(row, similarities.n_columns, result);
    Query query;
    if (!sweep::prepare(similarities, scores, row, options.bandwidth_factor, scratch, query))
        return;
    const AddTerms add_terms = options.criterion == SweepCriterion::kKullbackLeibler
                                   ? table.add_floored_kl
                                   : table.add_mutual_information;
    const std::int64_t last_left = query.n - options.min_dropped;
    const auto list_splits = [&](std::int64_t first, std::int64_t last) {
        scratch.n_left.clear();
        for (std::int64_t m = first; m <= last; ++m) {
            const auto place = static_cast<std::size_t>(m);
            if (scratch.sorted_similarities[place - 1] < scratch.sorted_similarities[place]) {
                scratch.n_left.push_back(static_cast<std::int32_t>(m));
            }
        }
        set_weights(query, options, scratch);
    };
    const bool curve_wanted = result.curve.data != nullptr;
    list_splits(curve_wanted ? 1 : options.min_kept, curve_wanted ? query.n - 1 : last_left);
    evaluate_splits(table, add_terms, options.kappa, query, nullptr, scratch.identity, scratch);
    sweep::FirstMaximum best;
    for (std::size_t split = 0; split < scratch.n_left.size(); ++split) {
        const std::int64_t m = scratch.n_left[split];
        if (curve_wanted) result.curve.row(row)[m - 1] = scratch.divergences[split];
        if (m >= options.min_kept && m <= last_left) best.offer(split, scratch.divergences[split]);
    }
    const std::int64_t chosen = best.first(scratch.divergences);
    if (chosen < 0) return;
    const double best_value = scratch.divergences[static_cast<std::size_t>(chosen)];
    const std::int64_t n_kept = scratch.n_left[static_cast<std::size_t>(chosen)];
    const auto place = static_cast<std::size_t>(row);
    result.thresholds[place] = scratch.sorted_similarities[static_cast<std::size_t>(n_kept)];
    result.n_kept[place] = n_kept;
    result.divergences[place] = best_value;
    if (options.permutations == 0 || result.p_values.empty()) return;
    if (curve_wanted) list_splits(options.min_kept, last_left);
    result.p_values[place] =
        permutation_p_value(table, add_terms, query, best_value, query_id, options, scratch);
}

// ---- Algorithm 1 as printed ----------------------------------------------------------------

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

void printed_query(const kernels::ThresholdSweepKernels& table,
                   MatrixView<const float> similarities, MatrixView<const float> scores,
                   std::int64_t row, const std::vector<float>& thresholds,
                   const PrintedSweepOptions& options, const SweepResult& result,
                   Scratch& scratch) {
    keep_all(row, similarities.n_columns, result);
    Query query;
    if (!sweep::prepare(similarities, scores, row, options.bandwidth_factor, scratch, query)) {
        return;
    }
    // Thresholds ascend, so the splits do; several thresholds may make the same split.
    const std::vector<float>& sorted = scratch.sorted_similarities;
    scratch.n_left.clear();
    scratch.split_of_threshold.assign(thresholds.size(), -1);
    for (std::size_t number = 0; number < thresholds.size(); ++number) {
        const auto first_dropped = std::ranges::lower_bound(sorted, thresholds[number]);
        const auto m = static_cast<std::int32_t>(first_dropped - sorted.begin());
        if (m == 0 || m == query.n) continue;
        if (scratch.n_left.empty() || scratch.n_left.back() != m) scratch.n_left.push_back(m);
        scratch.split_of_threshold[number] = static_cast<std::int64_t>(scratch.n_left.size()) - 1;
    }
    if (scratch.n_left.empty()) return;
    const double density = 1 / (query.bandwidth * std::sqrt(2 * std::numbers::pi));
    const std::size_t n_splits = scratch.n_left.size();
    scratch.left_weight.resize(n_splits);
    scratch.right_weight.resize(n_splits);
    scratch.scale.assign(n_splits, query.grid_step);
    for (std::size_t split = 0; split < n_splits; ++split) {
        const double m = scratch.n_left[split];
        scratch.left_weight[split] = density / m;
        scratch.right_weight[split] = density / (static_cast<double>(query.n) - m);
    }
    evaluate_splits(table, table.add_printed_kl, options.floor, query, nullptr, scratch.identity,
                    scratch);
    sweep::FirstMaximum best;
    for (std::size_t split = 0; split < n_splits; ++split) {
        best.offer(split, scratch.divergences[split]);
    }
    const std::int64_t chosen = best.first(scratch.divergences);
    bool found = false;
    const auto place = static_cast<std::size_t>(row);
    for (std::size_t number = 0; number < thresholds.size(); ++number) {
        const std::int64_t split = scratch.split_of_threshold[number];
        if (split < 0) continue;
        const double value = scratch.divergences[static_cast<std::size_t>(split)];
        if (result.curve.data != nullptr) result.curve.row(row)[number] = value;
        if (found || split != chosen) continue;
        found = true;
        result.thresholds[place] = thresholds[number];
        result.n_kept[place] = scratch.n_left[static_cast<std::size_t>(split)];
        result.divergences[place] = value;
    }
}

// ---- checks and threads --------------------------------------------------------------------

void check_number(const char* argument, double value, double above, double at_most) {
    if (value > above && value <= at_most) return;
    refuse(argument, "a number > " + number_text(above) + " and at most " + number_text(at_most),
           number_text(value));
}

void check_at_least(const char* argument, std::int64_t value, std::int64_t low) {
    if (value >= low) return;
    refuse(argument, "an integer of at least " + std::to_string(low), std::to_string(value));
}

void check_shapes(MatrixView<const float> similarities, MatrixView<const float> scores) {
    const bool same =
        scores.n_rows == similarities.n_rows && scores.n_columns == similarities.n_columns;
    if (!same) {
        refuse("scores",
               "shape " + shape_text(similarities.n_rows, similarities.n_columns) +
                   ", as similarities",
               "shape " + shape_text(scores.n_rows, scores.n_columns));
    }
    if (similarities.n_columns > kMaxCandidates) {
        refuse("similarities", "at most " + std::to_string(kMaxCandidates) + " candidates a query",
               std::to_string(similarities.n_columns));
    }
}

// Runs `run(row, scratch)` for every row; rows of one task ascend, and parallel_for rethrows the
// lowest failed task, so the lowest row at fault is the one that is named.
template <typename Run>
void for_each_query(std::int64_t n_queries, std::int64_t n, double passes, int n_threads,
                    const Run& run) {
    constexpr double kTypicalGridPoints = 64;
    const double a_query =
        static_cast<double>(n) * kTypicalGridPoints * kOperationsPerCell * passes;
    const int threads =
        n_threads > 0 ? n_threads : threads_worth_waking(a_query * static_cast<double>(n_queries));
    // Tasks of about a tenth of a millisecond: far above the cost of handing one out.
    const auto rows_per_task =
        static_cast<std::int64_t>(std::clamp(2e6 / (a_query + 1), 1.0, 256.0));
    std::vector<Scratch> scratch(static_cast<std::size_t>(threads));
    parallel_for((n_queries + rows_per_task - 1) / rows_per_task,
                 [&](std::int64_t task, int thread) {
                     const std::int64_t end = std::min(n_queries, (task + 1) * rows_per_task);
                     for (std::int64_t row = task * rows_per_task; row < end; ++row) {
                         run(row, scratch[static_cast<std::size_t>(thread)]);
                     }
                 },
                 threads);
}

}  // namespace

std::uint64_t mix64(std::uint64_t value) {
    value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31U);
}

void keyed_permutation(std::uint64_t seed, std::int64_t query_id, std::int64_t permutation,
                       std::span<std::int32_t> order) {
    const std::uint64_t query_key = mix64(mix64(seed) + static_cast<std::uint64_t>(query_id));
    std::uint64_t state = mix64(query_key + static_cast<std::uint64_t>(permutation));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    for (std::size_t last = order.size(); last-- > 1;) {
        state += 0x9E3779B97F4A7C15ULL;
        // The upper 32 bits, scaled to [0, last] by a multiplication (Lemire): no modulo.
        const std::uint64_t other = ((mix64(state) >> 32U) * (last + 1)) >> 32U;
        std::swap(order[last], order[other]);
    }
}

void threshold_sweep(MatrixView<const float> similarities, MatrixView<const float> scores,
                     const SweepResult& result, const ThresholdSweepOptions& options) {
    check_shapes(similarities, scores);
    check_at_least("min_kept", options.min_kept, 1);
    check_at_least("min_dropped", options.min_dropped, 1);
    check_at_least("permutations", options.permutations, 0);
    check_at_least("max_exceedances", options.max_exceedances, 0);
    check_number("kappa", options.kappa, 0, kMaxKappa);
    check_number("bandwidth_factor", options.bandwidth_factor, 0, kMaxBandwidthFactor);
    const auto n_queries = static_cast<std::size_t>(similarities.n_rows);
    if (!options.query_ids.empty() && options.query_ids.size() != n_queries) {
        refuse("query_ids", std::to_string(n_queries) + " ids, one a query",
               std::to_string(options.query_ids.size()));
    }
    const kernels::ThresholdSweepKernels& table = active_kernels();
    for_each_query(
        similarities.n_rows, similarities.n_columns, static_cast<double>(options.permutations) + 1,
        options.n_threads, [&](std::int64_t row, Scratch& scratch) {
            const std::int64_t query_id =
                options.query_ids.empty() ? row : options.query_ids[static_cast<std::size_t>(row)];
            sweep_query(table, similarities, scores, row, query_id, options, result, scratch);
        });
}

void printed_sweep(MatrixView<const float> similarities, MatrixView<const float> scores,
                   const SweepResult& result, const PrintedSweepOptions& options) {
    check_shapes(similarities, scores);
    const bool tau_inside = options.tau >= 0 && options.tau < 0.5;
    if (!tau_inside) {
        refuse("tau", "a number of at least 0 and below 0.5", number_text(options.tau));
    }
    if (options.n_thresholds < 1 || options.n_thresholds > kMaxThresholds) {
        refuse("n_thresholds", "an integer from 1 to " + std::to_string(kMaxThresholds),
               std::to_string(options.n_thresholds));
    }
    check_number("floor", options.floor, 0, 1);
    check_number("bandwidth_factor", options.bandwidth_factor, 0, kMaxBandwidthFactor);
    const std::vector<float> thresholds = printed_thresholds(options);
    const kernels::ThresholdSweepKernels& table = active_kernels();
    for_each_query(similarities.n_rows, similarities.n_columns, 1, options.n_threads,
                   [&](std::int64_t row, Scratch& scratch) {
                       printed_query(table, similarities, scores, row, thresholds, options, result,
                                     scratch);
                   });
}

}  // namespace epibias
