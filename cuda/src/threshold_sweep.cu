#include <algorithm>

#include "epibias/cuda/threshold_sweep.hpp"
#include "require.hpp"
#include "sweep_checks.hpp"
#include "threshold_sweep.cuh"

namespace epibias::cuda {

namespace {

using sweep::BatchArrays;
using sweep::BlockPolicy;
using sweep::SweepPolicy;
using sweep::SweepRule;
using sweep::SweepRules;
using sweep::SweptArrays;

void require_size(MatrixView<const float> similarities) {
    if (similarities.n_columns <= sweep::kMostCandidates) return;
    refuse("similarities",
           "at most " + std::to_string(sweep::kMostCandidates) + " candidates a query on a device",
           std::to_string(similarities.n_columns));
}

std::int64_t n_blocks(std::int64_t n_queries, std::int64_t n, const BlockPolicy& policy) {
    return n <= policy.capacity ? n_queries : std::min(n_queries, SweepPolicy::kWorkspaceBlocks);
}

SweptArrays arrays_of(const SweepResult& result) {
    return {result.thresholds.data(), result.n_kept.data(),      result.divergences.data(),
            result.p_values.data(),   result.n_undecided.data(), result.curve.data,
            result.curve.n_columns};
}

template <SweepRule kRule>
void launch(const BatchArrays& given, const SweepResult& result, const SweepRules& rules,
            void* workspace, Fault* fault, Stream stream) {
    if (given.n_queries == 0) return;
    const BlockPolicy policy = sweep::block_policy(given.n, rules.permutations > 0);
    const unsigned grid = grid_size("similarities", n_blocks(given.n_queries, given.n, policy), 1);
    EPIBIAS_LAUNCH(sweep::threshold_sweep_kernel<kRule>, grid,
                   static_cast<unsigned>(policy.n_threads), policy.shared_bytes, stream, given,
                   arrays_of(result), rules, policy, static_cast<unsigned char*>(workspace), fault);
    check_launch("threshold_sweep");
    EPIBIAS_LAUNCH(sweep::describe_sweep_fault, 1, 1, 0, stream, fault, given);
    check_launch("describe_sweep_fault");
}

}  // namespace

std::size_t threshold_sweep_workspace_bytes(std::int64_t n_queries, std::int64_t n) {
    const BlockPolicy policy = sweep::block_policy(n, false);
    if (n <= policy.capacity) return 0;
    return static_cast<std::size_t>(n_blocks(n_queries, n, policy)) * sweep::query_bytes_at_most(n);
}

void threshold_sweep(MatrixView<const float> similarities, MatrixView<const float> scores,
                     const SweepResult& result, const ThresholdSweepOptions& options,
                     void* workspace, Fault* fault, Stream stream) {
    epibias::sweep::check_threshold_sweep(similarities, scores, result, options);
    require_size(similarities);
    if (sweep_is_binned(options.method, similarities.n_columns)) {
        refuse("method", "'all_splits' on a device; the binned sweep runs on the CPU alone",
               "a binned sweep of " + std::to_string(similarities.n_columns) + " candidates");
    }
    SweepRules rules{};
    rules.min_kept = options.min_kept;
    rules.min_dropped = options.min_dropped;
    rules.kappa = options.kappa;
    rules.bandwidth_factor = options.bandwidth_factor;
    rules.permutations = result.p_values.empty() ? 0 : options.permutations;
    rules.max_exceedances = options.max_exceedances;
    rules.seed = options.seed;
    const BatchArrays given{similarities.data, scores.data, options.query_ids.data(),
                            similarities.n_rows, similarities.n_columns};
    if (options.criterion == SweepCriterion::kKullbackLeibler) {
        launch<SweepRule::kKullbackLeibler>(given, result, rules, workspace, fault, stream);
    } else {
        launch<SweepRule::kMutualInformation>(given, result, rules, workspace, fault, stream);
    }
}

void printed_sweep(MatrixView<const float> similarities, MatrixView<const float> scores,
                   const SweepResult& result, const PrintedSweepOptions& options, void* workspace,
                   Fault* fault, Stream stream) {
    epibias::sweep::check_printed_sweep(similarities, scores, options);
    require_size(similarities);
    SweepRules rules{};
    rules.min_kept = rules.min_dropped = 1;
    rules.bandwidth_factor = options.bandwidth_factor;
    rules.tau = options.tau;
    rules.floor = options.floor;
    rules.n_thresholds = options.n_thresholds;
    const BatchArrays given{similarities.data, scores.data, nullptr, similarities.n_rows,
                            similarities.n_columns};
    launch<SweepRule::kPrinted>(given, result, rules, workspace, fault, stream);
}

}  // namespace epibias::cuda
