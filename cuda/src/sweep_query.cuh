// What: one query of the threshold sweep by one block: bandwidth and grid, order, splits, choice
// and permutation test. The meaning is in epibias/threshold_sweep.hpp.
//
// Who owns what: thread 0 adds up the scores in the CPU's order for the bandwidth; all threads sort
//   and evaluate; a shuffle belongs to a team, one warp where a team's memory fits as often as
//   there are warps, else the block.
// Every function is called by all threads of the block, and returns the same in all of them.
#pragma once

#include <climits>
#include <cstdint>

#include "device_code.hpp"
#include "sort_places.cuh"
#include "sweep_splits.cuh"

namespace epibias::cuda::sweep {

// The options of either sweep, for a query whose limits are known. No initialisers: it may lie in
// shared memory.
struct SweepRules {
    std::int64_t min_kept, min_dropped;
    double kappa, bandwidth_factor;
    std::int64_t permutations, max_exceedances;
    std::uint64_t seed;
    double tau, floor;  // kPrinted
    std::int64_t n_thresholds;
};

struct Swept {
    float threshold = 0;
    std::int64_t n_kept = 0;
    double divergence = 0, p_value = 1;
    std::int64_t n_decisions = 0;  // the choice of the split, and one a permutation
};

// What a block shares of its query besides the arrays. No initialisers: it lies in shared memory.
struct BlockState {
    SplitTask task;
    Partials partials;
    int reaches[32];  // by team: whether its shuffle reaches the statistic
    int has_density;
    int is_faulty;
};

// One query's arrays (QueryLayout), in shared memory or in the workspace. It lies in shared memory
// itself: as it is needed to the end, it would cost two dozen registers.
struct QueryMemory {
    unsigned char* base;
    QueryLayout layout;
    double* terms;  // kTermBytes a warp
    int n_teams;
    int cache_slabs;
    int n;

    template <typename Value>
    __device__ Value* at(std::size_t offset) const {
        return reinterpret_cast<Value*>(base + offset);
    }
    __device__ float* similarities() const { return at<float>(layout.similarities); }
    __device__ float* scores() const { return at<float>(layout.scores); }
    __device__ float* sorted_similarities() const { return at<float>(layout.sorted_similarities); }
    __device__ float* sorted_scores() const { return at<float>(layout.sorted_scores); }
    __device__ std::int32_t* places() const { return at<std::int32_t>(layout.places); }
    __device__ std::uint8_t* wanted() const { return at<std::uint8_t>(layout.wanted); }
    __device__ std::uint8_t* dropped() const { return at<std::uint8_t>(layout.dropped); }
    __device__ std::uint8_t* before() const { return at<std::uint8_t>(layout.before); }
    __device__ double* weights() const { return at<double>(layout.weights); }
    __device__ double* cache() const { return at<double>(layout.cache); }

    __device__ TeamMemory team(int number) const {
        unsigned char* start =
            base + layout.teams + static_cast<std::size_t>(number) * team_bytes(n);
        return {reinterpret_cast<double*>(start), n,
                terms + (threadIdx.x / 32) * (kTermBytes / sizeof(double))};
    }
};

// ---- the query, made ready -----------------------------------------------------------------

// One thread, in the CPU's order (sweep_query.cpp).
__device__ inline bool fit_scores(const float* scores, int n, double bandwidth_factor,
                                  ScoreGrid& grid) {
    double sum = 0, low = static_cast<double>(scores[0]), high = low;
    for (int i = 0; i < n; ++i) {
        const auto y = static_cast<double>(scores[i]);
        sum += y;
        low = epibias::sweep::smaller(low, y);
        high = epibias::sweep::larger(high, y);
    }
    const double mean = sum / n;
    double squares = 0;
    for (int i = 0; i < n; ++i) {
        const double deviation = static_cast<double>(scores[i]) - mean;
        squares += deviation * deviation;
    }
    return epibias::sweep::fit_grid(low, high, squares, n, epibias::sweep::inverse_fifth_root(n),
                                    bandwidth_factor, grid);
}

__device__ inline void sort_by_similarity(const QueryMemory& memory) {
    const float* similarities = memory.similarities();
    std::int32_t* places = memory.places();
    sort_places(places, memory.n, [&](std::int32_t left, std::int32_t right) {
        const float of_left = similarities[left], of_right = similarities[right];
        return of_left < of_right || (of_left == of_right && left < right);
    });
    for (auto i = static_cast<int>(threadIdx.x); i < memory.n; i += static_cast<int>(blockDim.x)) {
        memory.sorted_similarities()[i] = similarities[places[i]];
        memory.sorted_scores()[i] = memory.scores()[places[i]];
    }
    __syncthreads();
}

// Number of the first threshold of the printed rule above `similarity`.
__device__ inline std::int64_t first_threshold_above(float similarity, const SweepRules& rules) {
    std::int64_t low = 0, high = rules.n_thresholds;
    while (low < high) {
        const std::int64_t middle = (low + high) / 2;
        if (epibias::sweep::printed_threshold(middle, rules.n_thresholds, rules.tau) > similarity) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

// The threshold that leaves m on the left: the smallest excluded similarity, or of the printed rule
// the first between the two. NaN: the printed rule has none there.
template <SweepRule kRule>
__device__ inline float threshold_of_split(const float* sorted, int m, const SweepRules& rules) {
    if constexpr (kRule != SweepRule::kPrinted) {
        return sorted[m];
    } else {
        const std::int64_t number = first_threshold_above(sorted[m - 1], rules);
        const float threshold =
            epibias::sweep::printed_threshold(number, rules.n_thresholds, rules.tau);
        const bool between = number < rules.n_thresholds && threshold <= sorted[m];
        return between ? threshold : __uint_as_float(0x7FC00000U);
    }
}

// Flags and weights of the splits, and the range that is evaluated; false where there is none.
template <SweepRule kRule>
__device__ bool list_splits(const QueryMemory& memory, const SweepRules& rules, bool every_split,
                            const BlockTeam& team, SplitTask& task) {
    const int n = memory.n;
    const float* sorted = memory.sorted_similarities();
    const std::int64_t last_left = n - rules.min_dropped;
    int lowest = INT_MAX, highest = 0;
    for (int m = 1 + team.thread(); m < n; m += team.n_threads()) {
        bool distinct = sorted[m - 1] < sorted[m];
        if constexpr (kRule == SweepRule::kPrinted) {
            distinct = distinct && threshold_of_split<kRule>(sorted, m, rules) <= sorted[m];
        }
        const bool admissible = distinct && m >= rules.min_kept && m <= last_left;
        memory.wanted()[m] =
            static_cast<std::uint8_t>((distinct ? kEvaluated : 0) | (admissible ? kAdmissible : 0));
        const epibias::sweep::SplitWeights weights =
            kRule == SweepRule::kPrinted
                ? epibias::sweep::printed_weights(n, m, task.grid)
                : epibias::sweep::split_weights(kRule == SweepRule::kKullbackLeibler, n, m,
                                                rules.kappa, task.grid.share);
        memory.weights()[2 * m] = weights.left;
        memory.weights()[2 * m + 1] = weights.right;
        if (every_split ? distinct : admissible) {
            lowest = m < lowest ? m : lowest;
            highest = m > highest ? m : highest;
        }
    }
    lowest = team.least(lowest);
    highest = -team.least(-highest);
    if (threadIdx.x == 0) {
        task.first = lowest;
        task.last = highest;
    }
    __syncthreads();
    return lowest <= highest;
}

// ---- permutations --------------------------------------------------------------------------

// Fisher-Yates, keyed: the draws are independent of each other, the exchanges are not.
template <typename Team>
__device__ void shuffle(const SweepRules& rules, std::int64_t query_id, std::int64_t permutation,
                        int n, const TeamMemory& memory, const Team& team) {
    const std::uint64_t key = epibias::sweep::shuffle_key(rules.seed, query_id, permutation);
    for (int i = team.thread(); i < n; i += team.n_threads()) {
        memory.order()[i] = i;
        memory.draws()[i] = static_cast<std::int32_t>(
            epibias::sweep::shuffle_draw(key, static_cast<std::uint64_t>(n), i));
    }
    if (!EPIBIAS_PLANT("threshold_sweep.draws_barrier_missing")) team.synchronise();
    if (team.thread() == 0) {
        for (int last = n - 1; last > 0; --last) {
            const std::int32_t other = memory.draws()[last];
            const std::int32_t moved = memory.order()[last];
            memory.order()[last] = memory.order()[other];
            memory.order()[other] = moved;
        }
    }
    team.synchronise();
}

template <SweepRule kRule, typename Team>
__device__ double p_value_of_shuffles(const QueryMemory& memory, const SweepRules& rules,
                                      std::int64_t query_id, double statistic, BlockState& state,
                                      const Team& team, int n_teams, std::int64_t& n_decisions) {
    const double bar = epibias::sweep::bar_of(statistic);
    const TeamMemory own = memory.team(team.number);
    std::int64_t exceedances = 0, n_done = 0;
    for (std::int64_t start = 0; start < rules.permutations; start += n_teams) {
        const std::int64_t permutation = start + team.number;
        int reaches = 0;
        if (permutation < rules.permutations) {
            shuffle(rules, query_id, permutation, memory.n, own, team);
            reaches = evaluate_splits<kRule>(state.task, own.order(), own, team) >= bar ? 1 : 0;
        }
        if (team.thread() == 0) state.reaches[team.number] = reaches;
        __syncthreads();
        for (int other = 0; other < n_teams && start + other < rules.permutations; ++other) {
            ++n_done;
            ++n_decisions;
            exceedances += state.reaches[other];
            if (rules.max_exceedances > 0 && exceedances >= rules.max_exceedances) {
                return static_cast<double>(exceedances) / static_cast<double>(n_done);
            }
        }
        if (!EPIBIAS_PLANT("threshold_sweep.reaches_overwritten")) __syncthreads();
    }
    return static_cast<double>(exceedances + 1) / static_cast<double>(rules.permutations + 1);
}

// ---- the sweep -----------------------------------------------------------------------------

// The curve of the query: by the number on the left, or by threshold of the printed rule.
template <SweepRule kRule>
__device__ void write_curve(const SplitTask& task, const QueryMemory& memory,
                            const SweepRules& rules, const double* sums, double* curve) {
    const auto thread = static_cast<int>(threadIdx.x);
    const auto n_threads = static_cast<int>(blockDim.x);
    if constexpr (kRule != SweepRule::kPrinted) {
        for (int m = task.first + thread; m <= task.last; m += n_threads) {
            if ((memory.wanted()[m] & kEvaluated) != 0) {
                curve[m - 1] = sums[(m - task.first) * kLanes];
            }
        }
    } else {
        const float* sorted = memory.sorted_similarities();
        for (std::int64_t number = thread; number < rules.n_thresholds; number += n_threads) {
            const float threshold =
                epibias::sweep::printed_threshold(number, rules.n_thresholds, rules.tau);
            int low = 0, high = memory.n;  // the first similarity that is not below
            while (low < high) {
                const int middle = (low + high) / 2;
                if (sorted[middle] < threshold) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            if (low == 0 || low == memory.n) continue;
            curve[number] = sums[(low - task.first) * kLanes];
        }
    }
}

// memory.similarities() and scores() are loaded, finite and synchronised. `curve` is null or filled
// with NaN.
template <SweepRule kRule>
__device__ Swept sweep_query(const QueryMemory& memory, const SweepRules& rules,
                             std::int64_t query_id, double* curve, BlockState& state) {
    const BlockTeam block{0, &state.partials};
    Swept swept;
    swept.threshold = __uint_as_float(0x7F800000U);  // everything is kept
    swept.n_kept = memory.n;
    if (memory.n < 2) return swept;
    SplitTask& task = state.task;
    if (threadIdx.x == 0) {
        state.has_density =
            fit_scores(memory.scores(), memory.n, rules.bandwidth_factor, task.grid) ? 1 : 0;
        task.scores = memory.sorted_scores();
        task.wanted = memory.wanted();
        task.weights = memory.weights();
        task.cache = memory.cache();
        task.parameter = kRule == SweepRule::kPrinted ? rules.floor : rules.kappa;
        task.n = memory.n;
        task.which = curve == nullptr ? kAdmissible : kEvaluated;
        task.cache_slabs = memory.cache_slabs;
        task.cache_filled = 0;
    }
    if (!EPIBIAS_PLANT("threshold_sweep.grid_barrier_missing")) __syncthreads();
    if (state.has_density == 0) return swept;
    sort_by_similarity(memory);
    if (!list_splits<kRule>(memory, rules, curve != nullptr, block, task)) return swept;
    const TeamMemory own = memory.team(0);
    const double* divergences = own.sums();
    const double largest = evaluate_splits<kRule>(task, nullptr, own, block);
    if (curve != nullptr) write_curve<kRule>(task, memory, rules, divergences, curve);
    // The first of those that exact arithmetic could not tell from the largest.
    const double lowest = largest - epibias::sweep::tie_tolerance(largest);
    int chosen = INT_MAX;
    for (int m = task.first + block.thread(); m <= task.last; m += block.n_threads()) {
        const bool admissible = (memory.wanted()[m] & kAdmissible) != 0;
        if (admissible && divergences[(m - task.first) * kLanes] >= lowest && m < chosen) {
            chosen = m;
        }
    }
    chosen = block.least(chosen);
    if (chosen == INT_MAX) return swept;
    swept.threshold = threshold_of_split<kRule>(memory.sorted_similarities(), chosen, rules);
    swept.n_kept = chosen;
    swept.divergence = divergences[(chosen - task.first) * kLanes];
    swept.n_decisions = 1;
    if (kRule == SweepRule::kPrinted || rules.permutations == 0) return swept;
    __syncthreads();  // the shuffles write over the divergences
    if (threadIdx.x == 0) {
        task.which = kAdmissible;
        task.cache_filled = 1;
    }
    __syncthreads();
    if (memory.n_teams > 1) {
        const WarpTeam team{static_cast<int>(threadIdx.x / 32)};
        swept.p_value = p_value_of_shuffles<kRule>(memory, rules, query_id, swept.divergence, state,
                                                   team, memory.n_teams, swept.n_decisions);
    } else {
        swept.p_value = p_value_of_shuffles<kRule>(memory, rules, query_id, swept.divergence, state,
                                                   block, 1, swept.n_decisions);
    }
    return swept;
}

}  // namespace epibias::cuda::sweep
