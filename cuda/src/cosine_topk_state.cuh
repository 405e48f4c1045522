// What: what the kernels of a cosine search share: the queries' state in the caller's workspace,
// the passages of the call, and the score that both end in.
#pragma once

#include <cfloat>
#include <cstdint>

#include "canonical_warp.cuh"
#include "device_code.hpp"
#include "epibias/cuda/cosine_topk.hpp"
#include "topk_key.hpp"

namespace epibias::cuda {

// A row passes unless scale * row scale * sum + weight * row residual lies below the limit.
struct QueryFilter {
    float scale;
    float weight;
    float limit;  // rounded down from the proven threshold minus `own`
    float unused;
    double own;
};

struct SearchState {
    const float* queries;
    std::int64_t n_queries;
    std::int64_t dim;
    int k;
    int n_kept;    // length of a list of best keys: a power of two, at least k
    int capacity;  // survivors a query and round
    int query_words;
    unsigned* codes;        // [padded queries, query_words]
    double* inverse_norms;  // [n_queries]; NaN for a faulty query
    QueryFilter* filters;   // [padded queries]
    unsigned* counts;       // [n_queries] survivors of the round, also beyond the capacity
    TopkKey* survivors;     // [n_queries, capacity]
    TopkKey* best;          // [n_queries, n_kept], greatest first, kNoKey where there are fewer
    unsigned* bad_passage;  // one flag
    unsigned long long* n_rescored;  // canonical scores of all queries so far
    Fault* fault;
};

struct PassageState {
    const float* rows;
    std::int64_t dim;
    const double* inverse_norms;
    const unsigned* words;  // what the scan reads: codes, or the rows themselves
    int row_words;
    bool aligned;         // rows of words start at multiples of 16 bytes
    const float* scales;  // null for float32
    const float* residuals;
    std::int64_t first_index;
};

// Rows that a kernel works on: first, first + stride, …
struct RowRange {
    std::int64_t first;
    std::int64_t n_rows;
    std::int64_t stride;
};

// 64-bit: a corpus has more than 2^31 elements.
__device__ inline std::int64_t row_offset(std::int64_t row, std::int64_t width) {
    if (EPIBIAS_PLANT("cosine_topk.overflow_32")) {
        return static_cast<std::int32_t>(static_cast<std::uint32_t>(row) *
                                         static_cast<std::uint32_t>(width));
    }
    return row * width;
}

__device__ inline bool is_valid_inverse_norm(double value) {
    // Zero rows give infinity, Inf gives 0, NaN fails every comparison.
    return value > 0 && value <= DBL_MAX;
}

__device__ inline float round_down(double value) {
    const auto nearest = static_cast<float>(value);
    return static_cast<double>(nearest) > value ? nextafterf(nearest, -INFINITY) : nearest;
}

// The key of one (query, passage) pair, by a whole warp; kNoKey where either is faulty.
__device__ inline TopkKey canonical_key(const SearchState& state, const PassageState& passages,
                                        std::int64_t query, std::int64_t row) {
    const double inverse = passages.inverse_norms[row];
    if (!is_valid_inverse_norm(inverse)) {
        if (threadIdx.x % 32 == 0) {
            report_fault(state.fault, static_cast<int>(CosineArgument::kInverseNorms),
                         passages.first_index + row, 0);
            atomicMax(state.bad_passage, 1U);
        }
        return kNoKey;
    }
    const double dot = canonical_warp_dot(state.queries + query * state.dim,
                                          passages.rows + row_offset(row, state.dim), state.dim);
    // As on the CPU: the query's inverse norm first.
    const double cosine = __dmul_rn(__dmul_rn(dot, state.inverse_norms[query]), inverse);
    return topk_key(static_cast<float>(cosine), passages.first_index + row);
}

}  // namespace epibias::cuda
