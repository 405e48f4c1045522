// What: the candidates of one query of a ragged batch, and the check of the offsets that name them.
#pragma once

#include <cstdint>

#include "fault.cuh"

namespace epibias::cuda {

// Columns of a fault in the offsets.
inline constexpr int kOffsetsNotRising = 0, kTooManyCandidates = 1;

struct QueryRows {
    std::int64_t first, n;
    bool good;
};

// Called by all threads of a block; thread 0 reports.
__device__ inline QueryRows rows_of_query(const std::int64_t* offsets, std::int64_t query,
                                          std::int64_t n_queries, std::int64_t n_candidates,
                                          std::int64_t most, int argument, Fault* fault) {
    const std::int64_t first = offsets[query], last = offsets[query + 1];
    const bool rising = first >= 0 && first <= last && last <= n_candidates &&
                        (query > 0 || first == 0) &&
                        (query + 1 < n_queries || last == n_candidates);
    const bool good = rising && last - first <= most;
    if (!good && threadIdx.x == 0) {
        report_fault(fault, argument, query, rising ? kTooManyCandidates : kOffsetsNotRising);
    }
    return {first, last - first, good};
}

}  // namespace epibias::cuda
