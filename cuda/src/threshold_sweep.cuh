// What: the kernels of the threshold sweep of a rectangular batch.
//
// One block a query; where queries need workspace, a block takes every gridDim.x-th one.
// Dynamic shared memory: kTermBytes a warp, then query_layout(capacity).
#pragma once

#include <cstdint>

#include "device_code.hpp"
#include "epibias/cuda/threshold_sweep.hpp"
#include "fault.cuh"
#include "sweep_policy.hpp"
#include "sweep_query.cuh"

namespace epibias::cuda::sweep {

struct BatchArrays {
    const float* similarities;  // [n_queries, n]
    const float* scores;
    const std::int64_t* query_ids;  // [n_queries] or null
    std::int64_t n_queries, n;
};

struct SweptArrays {
    float* thresholds;
    std::int64_t* n_kept;
    double* divergences;
    double* p_values;           // may be null
    std::int64_t* n_undecided;  // may be null
    double* curve;              // [n_queries, n_columns] or null
    std::int64_t n_columns;
};

__device__ __forceinline__ bool is_finite(float value) {
    return (__float_as_uint(value) & 0x7F800000U) != 0x7F800000U;
}
__device__ __forceinline__ float not_a_number() {
    return __uint_as_float(0x7FC00000U);
}

// Where the query of this block lies: in shared memory, or where that is too small in `outside`.
__device__ inline QueryMemory memory_of_query(unsigned char* shared, unsigned char* outside, int n,
                                              const BlockPolicy& policy) {
    QueryMemory memory{};
    const bool inside = n <= policy.capacity;
    const std::size_t terms = blockDim.x / 32 * kTermBytes;
    memory.n = n;
    memory.terms = reinterpret_cast<double*>(shared);
    memory.base = inside ? shared + terms : outside;
    memory.n_teams = inside ? policy.n_teams : 1;
    const std::size_t cache_bytes = inside ? policy.cache_bytes : 0;
    memory.layout = query_layout(n, memory.n_teams, cache_bytes);
    const std::size_t a_slab = static_cast<std::size_t>(n) * kSlab * sizeof(double);
    memory.cache_slabs = a_slab == 0 ? 0 : static_cast<int>(cache_bytes / a_slab);
    return memory;
}

// Copies a query's values; `report(which, place)` is told of each that is not finite, which = 0 for
// a similarity and 1 for a score. False where there was one.
template <typename Report>
__device__ bool load_query(const float* similarities, const float* scores,
                           const QueryMemory& memory, BlockState& state, const Report& report) {
    if (threadIdx.x == 0) state.is_faulty = 0;
    __syncthreads();
    for (auto i = static_cast<int>(threadIdx.x); i < memory.n; i += static_cast<int>(blockDim.x)) {
        const float similarity = similarities[i], score = scores[i];
        memory.similarities()[i] = similarity;
        memory.scores()[i] = score;
        if (is_finite(similarity) && is_finite(score)) continue;
        report(is_finite(similarity) ? 1 : 0, i);
        if (EPIBIAS_PLANT("threshold_sweep.flag_not_atomic")) {
            state.is_faulty = 1;
        } else {
            atomicMax(&state.is_faulty, 1);
        }
    }
    __syncthreads();
    return state.is_faulty == 0;
}

__device__ inline void write_swept(const SweptArrays& result, std::int64_t query,
                                   const Swept& swept) {
    if (threadIdx.x != 0) return;
    result.thresholds[query] = swept.threshold;
    result.n_kept[query] = swept.n_kept;
    result.divergences[query] = swept.divergence;
    if (result.p_values != nullptr) result.p_values[query] = swept.p_value;
    if (result.n_undecided != nullptr) result.n_undecided[query] = swept.n_decisions;
}

__device__ inline Swept poisoned() {
    Swept swept;
    swept.threshold = not_a_number();
    swept.n_kept = swept.n_decisions = -1;
    swept.divergence = swept.p_value = static_cast<double>(not_a_number());
    return swept;
}

template <SweepRule kRule>
__global__ void __launch_bounds__(SweepPolicy::kMostThreads, 2)
    threshold_sweep_kernel(BatchArrays given, SweptArrays result, SweepRules rules,
                           BlockPolicy policy, unsigned char* workspace, Fault* fault) {
    EPIBIAS_SHARED(BlockState, state, 1);
    EPIBIAS_SHARED(QueryMemory, memory, 1);
    EPIBIAS_DYNAMIC_SHARED(unsigned char, shared);
    unsigned char* const outside = workspace + blockIdx.x * query_bytes_at_most(given.n);
    if (threadIdx.x == 0) {
        memory[0] = memory_of_query(shared, outside, static_cast<int>(given.n), policy);
    }
    __syncthreads();
    for (std::int64_t query = blockIdx.x; query < given.n_queries; query += gridDim.x) {
        double* curve = nullptr;
        if (result.curve != nullptr) {
            curve = result.curve + query * result.n_columns;
            for (std::int64_t i = threadIdx.x; i < result.n_columns; i += blockDim.x) {
                curve[i] = static_cast<double>(not_a_number());
            }
        }
        std::int64_t first = query * given.n;
        if (EPIBIAS_PLANT("threshold_sweep.index_overflow")) {
            first = static_cast<std::int32_t>(query) * static_cast<std::int32_t>(given.n);
        }
        const bool good = load_query(given.similarities + first, given.scores + first, memory[0],
                                     state[0], [&](int which, int place) {
                                         report_fault(fault, kSweepFault, 2 * query + which, place);
                                     });
        Swept swept = poisoned();
        if (good) {
            const std::int64_t id = given.query_ids == nullptr ? query : given.query_ids[query];
            swept = sweep_query<kRule>(memory[0], rules, id, curve, state[0]);
        }
        write_swept(result, query, swept);
        __syncthreads();  // the next query uses the same memory
    }
}

// One thread, behind the sweep: copies the value at fault into the record.
__global__ inline void describe_sweep_fault(Fault* fault, BatchArrays given) {
    const std::uint64_t word = fault->word;
    if (word == kNoFault || fault_argument(word) != kSweepFault) return;
    const std::int64_t row = fault_row(word);
    const float* values = row % 2 == 0 ? given.similarities : given.scores;
    fault->value = static_cast<double>(values[row / 2 * given.n + fault_column(word)]);
}

}  // namespace epibias::cuda::sweep
