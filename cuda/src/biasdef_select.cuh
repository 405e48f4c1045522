// What: the kernels of BiasDef's selection: sweep, gate, side, mitigation, fill.
//
// One block a query, with the memory of the sweep (threshold_sweep.cuh). Six threads make the sums
// over the sides, each in the order of the candidates; one warp lays out the order.
#pragma once

#include <cstdint>

#include "biasdef_sides.hpp"
#include "device_code.hpp"
#include "epibias/cuda/biasdef_select.hpp"
#include "ragged.cuh"
#include "threshold_sweep.cuh"

namespace epibias::cuda::biasdef {

using epibias::biasdef::Side;
using epibias::biasdef::Sides;
using sweep::BlockPolicy;
using sweep::BlockState;
using sweep::QueryMemory;
using sweep::SweepRule;
using sweep::SweepRules;
using sweep::Swept;

struct SelectArrays {
    const float *similarities, *scores;  // [n_candidates]
    const std::int64_t* offsets;         // [n_queries + 1]
    const double* neutral_centres;       // [n_queries] or null
    const std::int64_t* query_ids;       // [n_queries] or null
    std::int64_t n_queries, n_candidates;
    std::int64_t most;  // candidates of a query
};

struct SelectResults {
    std::int64_t *order, *n_selected, *n_kept, *n_moved;
    DroppedSide* sides;
    float* sweep_thresholds;
    double *divergences, *p_values;
};

struct SelectRules {
    std::int64_t k, min_kept, min_side, slack_millionths;
    double kappa_points, gate;
    bool side_auto, mitigation, refill;
};

// Sums over the sides, by number and quantity; no initialisers: it lies in shared memory.
struct SideSums {
    double n[4], mean[4], squares[4];  // y of side 0 and 1, x of side 0 and 1
    double variance_y, variance_x;
    int n_moved, n_kept;
    int side;
};

__device__ inline Side side_of(const SideSums& sums, int number) {
    return {sums.n[number], sums.mean[number], sums.squares[number]};
}

// Threads 0 and 1 of the scores, 2 and 3 of the similarities (where both are wanted), 4 and 5 of
// the variances: each over all candidates of `marks`.
__device__ inline void sum_sides(const QueryMemory& memory, const std::uint8_t* marks,
                                 bool with_similarities, SideSums& sums) {
    const auto thread = static_cast<int>(threadIdx.x);
    if (thread < (with_similarities ? 4 : 2)) {
        const float* values = thread < 2 ? memory.scores() : memory.similarities();
        const Side side = Side::of(values, marks, memory.n, static_cast<std::uint8_t>(thread % 2));
        sums.n[thread] = side.n;
        sums.mean[thread] = side.mean;
        sums.squares[thread] = side.squares;
    } else if (with_similarities && thread == 4) {
        sums.variance_y = epibias::biasdef::total_variance(memory.scores(), memory.n);
    } else if (with_similarities && thread == 5) {
        sums.variance_x = epibias::biasdef::total_variance(memory.similarities(), memory.n);
    }
    if (!EPIBIAS_PLANT("biasdef_select.sides_barrier_missing")) __syncthreads();
}

// Marks in memory.dropped(), 1 where a candidate is dropped; the side and how many moved in `sums`.
__device__ inline void judge(const QueryMemory& memory, const SelectRules& rules,
                             double neutral_centre, const Swept& swept, SideSums& sums) {
    const auto thread = static_cast<int>(threadIdx.x);
    const auto n_threads = static_cast<int>(blockDim.x);
    const int n = memory.n;
    std::uint8_t* dropped = memory.dropped();
    std::uint8_t* before = memory.before();
    if (thread == 0) {
        sums.side = static_cast<int>(DroppedSide::kNone);
        sums.n_moved = 0;
    }
    const bool filtered = swept.n_kept < n && swept.p_value <= rules.gate;
    for (int i = thread; i < n; i += n_threads) {
        dropped[i] = 0;
        before[i] = static_cast<std::uint8_t>(memory.similarities()[i] < swept.threshold);
    }
    __syncthreads();
    if (!filtered) return;
    if (rules.side_auto) {
        sum_sides(memory, before, false, sums);
        if (thread == 0) {
            sums.side = static_cast<int>(epibias::biasdef::suspicious_side(
                side_of(sums, 1), side_of(sums, 0), memory.scores(), n, neutral_centre,
                rules.min_kept));
        }
    } else if (thread == 0) {
        sums.side = static_cast<int>(DroppedSide::kRight);
    }
    if (!EPIBIAS_PLANT("biasdef_select.side_barrier_missing")) __syncthreads();
    const auto side = static_cast<DroppedSide>(sums.side);
    if (side == DroppedSide::kNone) return;
    const std::uint8_t dropped_mark = side == DroppedSide::kLeft ? 1 : 0;
    for (int i = thread; i < n; i += n_threads) {
        dropped[i] = static_cast<std::uint8_t>(before[i] == dropped_mark);
    }
    __syncthreads();
    if (!rules.mitigation) return;
    for (int i = thread; i < n; i += n_threads) before[i] = dropped[i];
    __syncthreads();
    sum_sides(memory, before, true, sums);
    if (sums.n[0] < 2 || sums.n[1] < 2) return;
    const double least_y = epibias::biasdef::kLeastVariance * sums.variance_y;
    const double least_x = epibias::biasdef::kLeastVariance * sums.variance_x;
    for (int i = thread; i < n; i += n_threads) {
        const int mark = before[i];
        const Sides sides{side_of(sums, mark),
                          side_of(sums, 1 - mark),
                          side_of(sums, 2 + mark),
                          side_of(sums, 3 - mark),
                          least_y,
                          least_x};
        const bool nearer =
            epibias::biasdef::is_nearer_to_other(sides, static_cast<double>(memory.scores()[i]),
                                                 static_cast<double>(memory.similarities()[i]));
        if (!nearer) continue;
        dropped[i] = static_cast<std::uint8_t>(1 - before[i]);
        if (EPIBIAS_PLANT("biasdef_select.moved_not_atomic")) {
            sums.n_moved += 1;
        } else {
            atomicAdd(&sums.n_moved, 1);
        }
    }
    __syncthreads();
}

// The kept as the candidates stand, then the dropped as they stand; by the first warp.
__device__ inline void lay_out(const QueryMemory& memory, std::int64_t* order, SideSums& sums) {
    if (threadIdx.x >= 32) return;
    const auto lane = static_cast<int>(threadIdx.x);
    int n_placed = 0;
    for (int wanted = 0; wanted < 2; ++wanted) {
        for (int first = 0; first < memory.n; first += 32) {
            const int place = first + lane;
            const bool mine = place < memory.n && memory.dropped()[place] == wanted;
            const unsigned lanes = __ballot_sync(sweep::kWholeWarp, mine);
            const unsigned before_me = lanes & ((1U << lane) - 1U);
            if (mine) order[n_placed + __popc(before_me)] = place;
            n_placed += __popc(lanes);
        }
        if (wanted == 0 && lane == 0) sums.n_kept = n_placed;
    }
}

// The sweep's rules for a query of n candidates, by one thread.
template <SweepRule kRule>
__device__ inline void set_rules(const SweepRules& sweep_rules, const SelectRules& rules,
                                 std::int64_t n, SweepRules& own) {
    own = sweep_rules;
    own.min_kept = own.min_dropped = 1;
    if (kRule == SweepRule::kPrinted) return;
    own.min_dropped = epibias::biasdef::least_on_a_side(rules.slack_millionths, rules.min_side, n);
    // With side_auto either side may be the one that is kept: min_kept is asked afterwards.
    const std::int64_t min_kept = rules.side_auto ? 1 : rules.min_kept;
    own.min_kept = own.min_dropped > min_kept ? own.min_dropped : min_kept;
    if (rules.kappa_points > 0) own.kappa = rules.kappa_points / static_cast<double>(n);
}

// Results are filled with 0xFF before: NaN, -1 and 255 stay where a query is at fault.
template <SweepRule kRule>
__global__ void __launch_bounds__(sweep::SweepPolicy::kMostThreads, 2)
    biasdef_select_kernel(SelectArrays given, SelectResults result, SelectRules rules,
                          SweepRules sweep_rules, BlockPolicy policy, unsigned char* workspace,
                          Fault* fault) {
    EPIBIAS_SHARED(BlockState, state, 1);
    EPIBIAS_SHARED(SideSums, sums, 1);
    EPIBIAS_SHARED(SweepRules, own_rules, 1);
    EPIBIAS_SHARED(QueryMemory, memory, 1);
    EPIBIAS_DYNAMIC_SHARED(unsigned char, shared);
    const std::int64_t query = blockIdx.x;
    const QueryRows rows = rows_of_query(given.offsets, query, given.n_queries, given.n_candidates,
                                         given.most, kOffsetsFault, fault);
    if (!rows.good) return;  // the whole block leaves
    const auto n = static_cast<int>(rows.n);
    unsigned char* const outside = workspace + sweep::query_bytes_at_most(rows.first, query);
    if (threadIdx.x == 0) {
        memory[0] = sweep::memory_of_query(shared, outside, n, policy);
        set_rules<kRule>(sweep_rules, rules, rows.n, own_rules[0]);
    }
    __syncthreads();
    bool good = sweep::load_query(
        given.similarities + rows.first, given.scores + rows.first, memory[0], state[0],
        [&](int which, int place) {
            report_fault(fault, which == 0 ? kSimilaritiesFault : kScoresFault, query, place);
        });
    // Read again behind the sweep: what lives across it costs registers, and this does not.
    const auto centre = [&] { return rules.side_auto ? given.neutral_centres[query] : 0.0; };
    if (!(std::abs(centre()) <= 1.7976931348623157e308)) {
        if (threadIdx.x == 0) report_fault(fault, kCentresFault, query, 0);
        good = false;
    }
    if (!good) return;
    const std::int64_t id = given.query_ids == nullptr ? query : given.query_ids[query];
    const Swept swept = sweep::sweep_query<kRule>(memory[0], own_rules[0], id, nullptr, state[0]);
    judge(memory[0], rules, centre(), swept, sums[0]);
    lay_out(memory[0], result.order + given.offsets[query], sums[0]);
    if (threadIdx.x != 0) return;
    const std::int64_t n_kept = sums[0].n_kept;
    const std::int64_t available = rules.refill ? n : n_kept;
    result.n_kept[query] = n_kept;
    result.n_selected[query] = available < rules.k ? available : rules.k;
    result.n_moved[query] = sums[0].n_moved;
    result.sides[query] = static_cast<DroppedSide>(sums[0].side);
    result.sweep_thresholds[query] = swept.threshold;
    result.divergences[query] = swept.divergence;
    result.p_values[query] = swept.p_value;
}

// One thread, behind the others: copies the value at fault into the record.
__global__ void describe_select_fault(Fault* fault, SelectArrays given) {
    const std::uint64_t word = fault->word;
    if (word == kNoFault) return;
    const std::int64_t query = fault_row(word);
    const int argument = fault_argument(word);
    if (argument == kCentresFault) fault->value = given.neutral_centres[query];
    if (argument != kSimilaritiesFault && argument != kScoresFault) return;
    const float* values = argument == kSimilaritiesFault ? given.similarities : given.scores;
    fault->value = static_cast<double>(values[given.offsets[query] + fault_column(word)]);
}

}  // namespace epibias::cuda::biasdef
