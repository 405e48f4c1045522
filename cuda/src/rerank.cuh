// What: the kernel of mmr.
//
// Who owns what: a block takes query after query; a warp computes the dot product of one candidate
//   with the one just chosen, a lane an accumulator of it; a thread looks for the best value among
//   every kThreads-th candidate.
// Shared bytes: 128. Layout: a block's part of the workspace is MmrSpace.
// Valid: 1 <= k <= n.
#pragma once

#include <cstdint>

#include "epibias/cuda/rerank.hpp"
#include "polarization_axis_call.cuh"

namespace epibias::cuda {

struct MmrPolicy {
    static constexpr int kWarps = 4;  // pools are small: 20 to some hundreds
    static constexpr int kThreads = kWarps * kWarp;
    static constexpr int kBlocks = 4;  // a multiprocessor; ptxas, left to itself, spills
};

struct MmrCall {
    const float* similarities;  // [n_queries, n]
    const float* embeddings;    // [n_queries, n, dim]
    std::int64_t n_queries, n, dim, k;
    double relevance_weight;
    std::int64_t* indices;  // [n_queries, k]
    double* workspace;
    Fault* fault;
};

struct MmrSpace {
    double *inverse_norms, *redundancy, *values;
    double* selected;  // 1 where a candidate has been chosen

    __host__ __device__ static constexpr std::int64_t n_values(std::int64_t n) { return 4 * n; }

    __device__ MmrSpace(double* workspace, std::int64_t block, std::int64_t n)
        : inverse_norms(workspace + block * n_values(n)),
          redundancy(inverse_norms + n),
          values(redundancy + n),
          selected(values + n) {}
};

struct BestCandidate {
    double value;
    std::int64_t position;

    __device__ bool is_behind(double other_value, std::int64_t other_position) const {
        return other_value > value || (other_value == value && other_position < position);
    }
};

__device__ inline void report_mmr(const MmrCall& call, std::int64_t query, std::int64_t place,
                                  MmrFault what) {
    report_fault(call.fault, kMmrArgument, query * 2 * call.n + place, static_cast<int>(what));
}

// Values of the first choice and inverse norms. False, after reporting it, for a faulty query.
__device__ inline bool prepare(const MmrCall& call, std::int64_t query, const MmrSpace& space,
                               double* partials) {
    const float* similarities = call.similarities + query * call.n;
    const float* embeddings = call.embeddings + query * call.n * call.dim;
    double n_faults = 0;
    for (std::int64_t i = threadIdx.x; i < call.n; i += MmrPolicy::kThreads) {
        const auto similarity = static_cast<double>(similarities[i]);
        if (!is_finite(similarity)) {
            n_faults += 1;
            report_mmr(call, query, i,
                       similarity > 0   ? MmrFault::kSimilarityInfinite
                       : similarity < 0 ? MmrFault::kSimilarityMinusInfinite
                                        : MmrFault::kSimilarityNan);
        }
        space.values[i] = similarity;
        space.selected[i] = 0;
        if (!EPIBIAS_PLANT("rerank.uninitialised_redundancy")) space.redundancy[i] = -1e308;
    }
    for (std::int64_t i = threadIdx.x / kWarp; i < call.n; i += MmrPolicy::kWarps) {
        const float* row = embeddings + i * call.dim;
        const double inverse = 1 / sqrt(canonical_warp_dot(row, row, call.dim));
        if (threadIdx.x % kWarp != 0) continue;
        space.inverse_norms[i] = inverse;
        if (inverse > 0 && is_finite(inverse)) continue;
        n_faults += 1;
        // 1 / 0 is infinite; NaN and 0 come of NaN and infinities.
        report_mmr(call, query, call.n + i,
                   inverse > 0 ? MmrFault::kRowZero : MmrFault::kRowNotFinite);
    }
    return over_block(n_faults, partials, Add{}) == 0;
}

// The largest value among those not yet chosen; the lowest position on a tie.
__device__ inline std::int64_t best_position(const MmrCall& call, const MmrSpace& space,
                                             double* best_values, std::int64_t* best_positions) {
    BestCandidate best{-1e308 * 10, call.n};
    for (std::int64_t i = threadIdx.x; i < call.n; i += MmrPolicy::kThreads) {
        if (space.selected[i] == 0 && best.is_behind(space.values[i], i)) {
            best = {space.values[i], i};
        }
    }
#pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        const double value = __shfl_xor_sync(kAllLanes, best.value, offset);
        const auto position = static_cast<std::int64_t>(
            __shfl_xor_sync(kAllLanes, static_cast<long long>(best.position), offset));
        if (best.is_behind(value, position)) best = {value, position};
    }
    if (threadIdx.x % kWarp == 0) {
        best_values[threadIdx.x / kWarp] = best.value;
        best_positions[threadIdx.x / kWarp] = best.position;
    }
    if (!EPIBIAS_PLANT("rerank.missing_barrier")) __syncthreads();
    for (int warp = 0; warp < MmrPolicy::kWarps; ++warp) {
        if (best.is_behind(best_values[warp], best_positions[warp])) {
            best = {best_values[warp], best_positions[warp]};
        }
    }
    __syncthreads();  // all have read before the next round writes
    return best.position;
}

// Values of all candidates after `chosen` has been taken.
__device__ inline void update_values(const MmrCall& call, std::int64_t query, std::int64_t chosen,
                                     const MmrSpace& space) {
    const float* similarities = call.similarities + query * call.n;
    const float* embeddings = call.embeddings + query * call.n * call.dim;
    const float* chosen_row = embeddings + chosen * call.dim;
    for (std::int64_t i = threadIdx.x / kWarp; i < call.n; i += MmrPolicy::kWarps) {
        if (space.selected[i] != 0) continue;
        const double product = canonical_warp_dot(embeddings + i * call.dim, chosen_row, call.dim);
        if (threadIdx.x % kWarp != 0) continue;
        const double cosine = product * space.inverse_norms[i] * space.inverse_norms[chosen];
        space.redundancy[i] = Larger{}(space.redundancy[i], cosine);
        double value = call.relevance_weight * static_cast<double>(similarities[i]);
        value -= (1 - call.relevance_weight) * space.redundancy[i];
        space.values[i] = value;
    }
}

__global__ void __launch_bounds__(MmrPolicy::kThreads, MmrPolicy::kBlocks)
    select_by_mmr(MmrCall call) {
    EPIBIAS_SHARED(double, partials, MmrPolicy::kWarps);
    EPIBIAS_SHARED(double, best_values, MmrPolicy::kWarps);
    EPIBIAS_SHARED(std::int64_t, best_positions, MmrPolicy::kWarps);
    const MmrSpace space(call.workspace, blockIdx.x, call.n);
    for (std::int64_t query = blockIdx.x; query < call.n_queries; query += gridDim.x) {
        std::int64_t* indices = call.indices + query * call.k;
        if (!prepare(call, query, space, partials)) {
            for (std::int64_t i = threadIdx.x; i < call.k; i += MmrPolicy::kThreads)
                indices[i] = -1;
            __syncthreads();
            continue;
        }
        const std::int64_t n_places = call.k + (EPIBIAS_PLANT("rerank.one_place_too_many") ? 1 : 0);
        for (std::int64_t place = 0; place < n_places; ++place) {
            const std::int64_t chosen = best_position(call, space, best_values, best_positions);
            if (threadIdx.x == 0) {
                indices[place] = chosen;
                space.selected[chosen] = 1;
            }
            if (place + 1 == call.k) break;
            if (!EPIBIAS_PLANT("rerank.chosen_read_early")) __syncthreads();
            update_values(call, query, chosen, space);
            __syncthreads();
        }
        __syncthreads();  // the next query writes over the workspace
    }
}

}  // namespace epibias::cuda
