// What: the kernels of rank_candidates.
//
// One block a query, one warp a candidate at a time. Shared memory: similarities, scores and places
// of the query's candidates, 16 bytes each, up to the capacity; beyond that the same in the
// workspace, from 16 times the query's first candidate on.
#pragma once

#include <climits>
#include <cmath>
#include <cstdint>

#include "device_code.hpp"
#include "epibias/cuda/rank_candidates.hpp"
#include "epibias/ranking.hpp"
#include "numeric.cuh"
#include "ragged.cuh"
#include "sort_places.cuh"
#include "sweep_teams.cuh"

namespace epibias::cuda::ranking {

struct RankPolicy {
    // A pool of 20 to 100 rows keeps four warps busy; more blocks hide more loads than more warps.
    static constexpr int kThreads = 128;
    static constexpr std::int64_t kCapacity = 1024;  // 16 KiB, so that 14 blocks fit
    static constexpr std::int64_t kBytesPerCandidate = 16;
    static constexpr std::int64_t kMostCandidates = kMaxFaultColumns / 4 - 1;
};

struct RankArrays {
    const float *queries, *candidates, *ps_rows, *axes;     // ps_rows may be null
    const std::int64_t *offsets, *indices, *axis_of_query;  // the last two may be null
    const double* score_offsets;                            // may be null
    std::int64_t n_queries, n_candidates, dim, n_axes, ps_dim;
    bool normalize;
};

struct RankResults {
    std::int64_t *rows, *indices;
    float *similarities, *scores;
};

struct Products {
    double squared, first, second;
};

__device__ __forceinline__ bool is_positive_and_finite(double value) {
    return value > 0 && value <= 1.7976931348623157e308;
}

// canonical_dot of a row with itself and with two others, by one warp; all lanes get the results.
__device__ inline Products row_products(const float* row, const float* first, const float* second,
                                        std::int64_t dim) {
    Products sums{0, 0, 0};
    for (std::int64_t i = threadIdx.x % 32; i < dim; i += 32) {
        const auto value = static_cast<double>(row[i]);
        sums.squared += value * value;
        sums.first += value * static_cast<double>(first[i]);
        sums.second += value * static_cast<double>(second[i]);
    }
    return {canonical_warp_sum(sums.squared), canonical_warp_sum(sums.first),
            canonical_warp_sum(sums.second)};
}

struct RankState {
    double inverse;  // of the query's norm
    sweep::Partials partials;
    int is_faulty;
};

__device__ inline std::int64_t axis_of(const RankArrays& given, std::int64_t query) {
    if (given.axis_of_query != nullptr) return given.axis_of_query[query];
    return given.n_axes == 1 ? 0 : query;
}

// The query's row and its axis, a warp each.
__device__ inline void check_query(const RankArrays& given, std::int64_t query, std::int64_t axis,
                                   RankState& state, Fault* fault) {
    const int warp = static_cast<int>(threadIdx.x / 32);
    const bool leads = threadIdx.x % 32 == 0;
    if (warp == 0) {
        const float* row = given.queries + query * given.dim;
        const double squared = canonical_warp_dot(row, row, given.dim);
        if (leads) state.inverse = 1.0 / std::sqrt(squared);
        if (leads && !is_positive_and_finite(squared)) {
            report_fault(fault, kRankFault, 8 * query + kQueryRow, 0);
            atomicMax(&state.is_faulty, 1);
        }
    } else if (warp == 1) {
        const bool there = axis >= 0 && axis < given.n_axes;
        const float* row = given.axes + (there ? axis : 0) * given.ps_dim;
        const double squared = there ? canonical_warp_dot(row, row, given.ps_dim) : 0;
        if (leads && (!there || !(squared <= 1.7976931348623157e308))) {
            report_fault(fault, kRankFault, 8 * query + (there ? kAxisRow : kAxisOfQuery), 0);
            atomicMax(&state.is_faulty, 1);
        }
    }
}

// Similarity and score of one candidate, by a warp; false where the CPU would refuse it.
__device__ inline bool measure(const RankArrays& given, std::int64_t query, std::int64_t axis,
                               std::int64_t number, double inverse, float& similarity, float& score,
                               int& kind) {
    const float* query_row = given.queries + query * given.dim;
    const float* axis_row = given.axes + axis * given.ps_dim;
    const bool same_rows = given.ps_rows == nullptr;
    const Products of_row = row_products(given.candidates + number * given.dim, query_row,
                                         same_rows ? axis_row : query_row, given.dim);
    kind = kCandidateRow;
    if (!is_positive_and_finite(of_row.squared)) return false;
    const double row_inverse = 1.0 / std::sqrt(of_row.squared);
    similarity = static_cast<float>(of_row.first * inverse * row_inverse);
    double product = of_row.second, scale = row_inverse;
    if (!same_rows) {
        const float* ps_row = given.ps_rows + number * given.ps_dim;
        const Products of_ps = row_products(ps_row, axis_row, axis_row, given.ps_dim);
        kind = kPsRow;
        if (given.normalize && !is_positive_and_finite(of_ps.squared)) return false;
        if (!(of_ps.squared <= 1.7976931348623157e308)) return false;
        product = of_ps.first;
        scale = 1.0 / std::sqrt(of_ps.squared);
    }
    const auto unshifted = static_cast<float>(given.normalize ? product * scale : product);
    const double offset = given.score_offsets == nullptr ? 0.0 : given.score_offsets[axis];
    score = static_cast<float>(static_cast<double>(unshifted) - offset);
    kind = kScore;
    return fabsf(score) <= 3.4028234663852886e38F;
}

// The lowest index that stands twice in the query, if one does.
__device__ inline void check_indices(const std::int64_t* indices, std::int32_t* places, int n,
                                     std::int64_t query, RankState& state, Fault* fault) {
    sweep::sort_places(places, n, [&](std::int32_t left, std::int32_t right) {
        return indices[left] < indices[right] || (indices[left] == indices[right] && left < right);
    });
    int twice = INT_MAX;
    for (int i = 1 + static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
        if (indices[places[i - 1]] == indices[places[i]] && i < twice) twice = i;
    }
    const sweep::BlockTeam block{0, &state.partials};
    twice = block.least(twice);
    if (twice == INT_MAX || threadIdx.x != 0) return;
    report_fault(fault, kRankFault, 8 * query + kIndexTwice, places[twice]);
    atomicMax(&state.is_faulty, 1);
}

// Results are filled with 0xFF before: NaN and -1 stay where a query is at fault.
__global__ void __launch_bounds__(RankPolicy::kThreads, 8)
    rank_candidates_kernel(RankArrays given, RankResults result, std::int64_t capacity,
                           unsigned char* workspace, Fault* fault) {
    EPIBIAS_SHARED(RankState, state, 1);
    EPIBIAS_DYNAMIC_SHARED(unsigned char, shared);
    const std::int64_t query = blockIdx.x;
    const QueryRows rows = rows_of_query(given.offsets, query, given.n_queries, given.n_candidates,
                                         RankPolicy::kMostCandidates, kOffsetsFault, fault);
    if (!rows.good) return;  // the whole block leaves
    const auto n = static_cast<int>(rows.n);
    unsigned char* base =
        rows.n <= capacity ? shared : workspace + rows.first * RankPolicy::kBytesPerCandidate;
    auto* similarities = reinterpret_cast<float*>(base);
    float* scores = similarities + n;
    auto* places = reinterpret_cast<std::int32_t*>(scores + n);
    if (threadIdx.x == 0) state[0].is_faulty = 0;
    __syncthreads();
    const std::int64_t axis = axis_of(given, query);
    check_query(given, query, axis, state[0], fault);
    if (given.indices != nullptr) {
        check_indices(given.indices + rows.first, places, n, query, state[0], fault);
    }
    if (!EPIBIAS_PLANT("biasdef_select.norm_barrier_missing")) __syncthreads();
    const bool axis_is_there = axis >= 0 && axis < given.n_axes;
    const double inverse = state[0].inverse;
    const auto n_warps = static_cast<int>(blockDim.x / 32);
    for (int row = static_cast<int>(threadIdx.x / 32); row < n && axis_is_there; row += n_warps) {
        float similarity = 0, score = 0;
        int kind = 0;
        const bool good =
            measure(given, query, axis, rows.first + row, inverse, similarity, score, kind);
        if (threadIdx.x % 32 != 0) continue;
        similarities[row] = similarity;
        scores[row] = score;
        if (good) continue;
        report_fault(fault, kRankFault, 8 * query + kCandidate,
                     4 * static_cast<std::int64_t>(row) + kind);
        atomicMax(&state[0].is_faulty, 1);
    }
    if (!EPIBIAS_PLANT("biasdef_select.rank_barrier_missing")) __syncthreads();
    if (state[0].is_faulty != 0) return;
    const std::int64_t* indices = given.indices == nullptr ? nullptr : given.indices + rows.first;
    sweep::sort_places(places, n, [&](std::int32_t left, std::int32_t right) {
        const Ranked of_left{similarities[left], indices == nullptr ? left : indices[left]};
        const Ranked of_right{similarities[right], indices == nullptr ? right : indices[right]};
        return ranks_before(of_left, of_right);
    });
    for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
        const std::int32_t place = places[i];
        const std::int64_t target =
            rows.first + i + (EPIBIAS_PLANT("biasdef_select.rank_past_the_end") ? 1 : 0);
        result.rows[target] = rows.first + place;
        result.indices[target] = indices == nullptr ? place : indices[place];
        result.similarities[target] = similarities[place];
        result.scores[target] = scores[place];
    }
}

// One thread an axis.
__global__ void __launch_bounds__(128)
    check_score_offsets_kernel(const double* offsets, std::int64_t n_axes, Fault* fault) {
    const std::int64_t axis = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (axis >= n_axes) return;
    const auto narrow = static_cast<float>(offsets[axis]);
    if (!(fabsf(narrow) <= 3.4028234663852886e38F)) {
        report_fault(fault, kScoreOffsetsFault, axis, 0);
    }
}

// ---- what stands at fault: one thread, behind the others -----------------------------------

// The first value that is not finite, and its column; 0 where all are.
__device__ inline float first_not_finite(const float* row, std::int64_t dim, std::int64_t& column) {
    for (column = 0; column < dim; ++column) {
        if (!(fabsf(row[column]) <= 3.4028234663852886e38F)) return row[column];
    }
    return 0;
}

// One warp; lane 0 writes.
__global__ void __launch_bounds__(32) describe_rank_fault(Fault* fault, RankArrays given) {
    const std::uint64_t word = fault->word;
    if (word == kNoFault) return;
    const std::int64_t row = fault_row(word), column = fault_column(word);
    double value = 0;
    std::int64_t at = 0;
    if (fault_argument(word) == kScoreOffsetsFault) {
        value = given.score_offsets[row];
    } else if (fault_argument(word) != kRankFault) {
        return;
    } else {
        const std::int64_t query = row / 8, first = given.offsets[query];
        const std::int64_t number = first + column / 4;
        const std::int64_t axis = axis_of(given, query);
        const int step = static_cast<int>(row % 8), kind = static_cast<int>(column % 4);
        const bool same_rows = given.ps_rows == nullptr;
        const float* ps_row =
            (same_rows ? given.candidates : given.ps_rows) + number * given.ps_dim;
        if (step == kIndexTwice) {
            value = static_cast<double>(given.indices[first + column]);
        } else if (step == kQueryRow) {
            value = first_not_finite(given.queries + query * given.dim, given.dim, at);
        } else if (step != kCandidate) {
            value = static_cast<double>(axis);
        } else if (kind == kCandidateRow) {
            value = first_not_finite(given.candidates + number * given.dim, given.dim, at);
        } else if (kind == kPsRow) {
            const float found = first_not_finite(ps_row, given.ps_dim, at);
            const int which = found != found ? 0 : found > 0 ? 1 : 2;
            value = given.normalize ? found : static_cast<double>(4 * at + which);
        } else {
            value = canonical_warp_dot(ps_row, given.axes + axis * given.ps_dim, given.ps_dim);
        }
    }
    if (threadIdx.x == 0) fault->value = value;
}

}  // namespace epibias::cuda::ranking
