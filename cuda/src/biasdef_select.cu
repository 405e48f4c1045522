#include <algorithm>
#include <cmath>

#include "biasdef_checks.hpp"
#include "biasdef_select.cuh"
#include "epibias/cuda/biasdef_select.hpp"
#include "require.hpp"
#include "sweep_checks.hpp"

namespace epibias::cuda {

namespace {

using biasdef::SelectArrays;
using biasdef::SelectResults;
using biasdef::SelectRules;
using sweep::BlockPolicy;
using sweep::SweepRule;
using sweep::SweepRules;

// Where the sizes of the queries are not known: three pools of 20, and eight blocks fit.
constexpr std::int64_t kUnknownCapacity = 64;

BlockPolicy ragged_policy(std::int64_t most, bool has_shuffles) {
    const BlockPolicy policy = sweep::block_policy(most, has_shuffles);
    if (most <= policy.capacity) return policy;
    return sweep::block_policy(std::min(most, kUnknownCapacity), has_shuffles);
}

// Options that the CPU refuses where it sweeps; a query of two candidates stands for all.
void check_sweep_options(const BiasDefOptions& options) {
    const MatrixView<const float> nothing{nullptr, 0, 2};
    if (options.printed_rule) {
        epibias::sweep::check_printed_sweep(nothing, nothing, options.printed);
        return;
    }
    ThresholdSweepOptions splits = options.sweep;
    splits.query_ids = {};
    epibias::sweep::check_threshold_sweep(nothing, nothing, {}, splits);
    if (splits.method != SweepMethod::kAllSplits) {
        refuse("method", "'all_splits' on a device", "another");
    }
}

void poison(const BiasDefResult& result, Stream stream) {
    const auto fill = [&](auto span) { fill_async(span.data(), 0xFF, span.size_bytes(), stream); };
    fill(result.order);
    fill(result.n_selected);
    fill(result.n_kept);
    fill(result.n_moved);
    fill(result.sides);
    fill(result.sweep_thresholds);
    fill(result.divergences);
    fill(result.p_values);
}

SweepRules sweep_rules_of(const BiasDefOptions& options) {
    SweepRules rules{};
    rules.kappa = options.sweep.kappa;
    rules.permutations = options.printed_rule ? 0 : options.sweep.permutations;
    rules.max_exceedances = options.sweep.max_exceedances;
    rules.seed = options.sweep.seed;
    rules.bandwidth_factor =
        options.printed_rule ? options.printed.bandwidth_factor : options.sweep.bandwidth_factor;
    rules.tau = options.printed.tau;
    rules.floor = options.printed.floor;
    rules.n_thresholds = options.printed.n_thresholds;
    return rules;
}

template <SweepRule kRule>
void launch(const SelectArrays& given, const BiasDefResult& result, const BiasDefOptions& options,
            void* workspace, Fault* fault, Stream stream) {
    const SweepRules sweep_rules = sweep_rules_of(options);
    const SelectRules rules{options.k,
                            options.min_kept,
                            options.min_side,
                            static_cast<std::int64_t>(std::nearbyint(
                                options.slack * static_cast<double>(epibias::biasdef::kMillion))),
                            options.kappa_points,
                            options.gate,
                            options.side_auto,
                            options.mitigation,
                            options.refill};
    const SelectResults results{result.order.data(),       result.n_selected.data(),
                                result.n_kept.data(),      result.n_moved.data(),
                                result.sides.data(),       result.sweep_thresholds.data(),
                                result.divergences.data(), result.p_values.data()};
    const BlockPolicy policy = ragged_policy(given.most, sweep_rules.permutations > 0);
    EPIBIAS_LAUNCH(biasdef::biasdef_select_kernel<kRule>, grid_size("offsets", given.n_queries, 1),
                   static_cast<unsigned>(policy.n_threads), policy.shared_bytes, stream, given,
                   results, rules, sweep_rules, policy, static_cast<unsigned char*>(workspace),
                   fault);
    check_launch("biasdef_select");
    EPIBIAS_LAUNCH(biasdef::describe_select_fault, 1, 1, 0, stream, fault, given);
    check_launch("describe_select_fault");
}

}  // namespace

std::size_t biasdef_select_workspace_bytes(std::int64_t n_queries, std::int64_t n_candidates,
                                           std::int64_t most_candidates, bool from_vectors) {
    const std::int64_t most = std::min(most_candidates, n_candidates);
    const BlockPolicy policy = ragged_policy(most, false);
    const std::size_t select =
        most <= policy.capacity ? 0 : sweep::query_bytes_at_most(n_candidates, n_queries);
    // One after the other: ranking and selection use the same memory.
    const std::size_t rank =
        from_vectors ? rank_candidates_workspace_bytes(n_queries, n_candidates) : 0;
    return std::max(select, rank);
}

void biasdef_select(const BiasDefInput& given, const BiasDefResult& result,
                    const BiasDefOptions& options, std::int64_t most_candidates, void* workspace,
                    Fault* fault, Stream stream) {
    const std::size_t n_queries = result.n_kept.size();
    const std::int64_t n_candidates = std::ssize(given.similarities);
    epibias::check_count("scores", "similarities", given.scores.size(), given.similarities.size());
    if (given.offsets.size() != n_queries + 1 || (n_queries == 0 && n_candidates > 0)) {
        refuse("offsets", std::to_string(n_queries + 1) + " of them, one more than queries",
               std::to_string(given.offsets.size()));
    }
    epibias::biasdef::check_options(options);
    check_sweep_options(options);
    if (options.side_auto) {
        epibias::check_count("neutral_centres", "queries", given.neutral_centres.size(), n_queries);
    }
    if (!options.sweep.query_ids.empty()) {
        epibias::check_count("query_ids", "queries", options.sweep.query_ids.size(), n_queries);
    }
    require_fault_places("offsets", static_cast<std::int64_t>(n_queries), 1);
    poison(result, stream);
    if (n_queries == 0) return;
    const SelectArrays arrays{given.similarities.data(),
                              given.scores.data(),
                              given.offsets.data(),
                              given.neutral_centres.data(),
                              options.sweep.query_ids.data(),
                              static_cast<std::int64_t>(n_queries),
                              n_candidates,
                              std::min({most_candidates, n_candidates, sweep::kMostCandidates})};
    if (options.printed_rule) {
        launch<SweepRule::kPrinted>(arrays, result, options, workspace, fault, stream);
    } else if (options.sweep.criterion == SweepCriterion::kKullbackLeibler) {
        launch<SweepRule::kKullbackLeibler>(arrays, result, options, workspace, fault, stream);
    } else {
        launch<SweepRule::kMutualInformation>(arrays, result, options, workspace, fault, stream);
    }
}

void biasdef_select_vectors(const CandidateRows& rows, const RankedCandidates& ranked,
                            std::span<const double> neutral_centres, const BiasDefResult& result,
                            const BiasDefOptions& options, std::int64_t most_candidates,
                            void* workspace, Fault* fault, Stream stream) {
    rank_candidates(rows, ranked, workspace, fault, stream);
    biasdef_select({ranked.similarities, ranked.scores, rows.offsets, neutral_centres}, result,
                   options, most_candidates, workspace, fault, stream);
}

}  // namespace epibias::cuda
