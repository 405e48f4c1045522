// What: the canonical float64 sums of numeric.hpp by one warp, whose lanes are the 32 accumulators,
// and the report of a row that has no norm. Device functions only: every stage may include them.
#pragma once

#include <cmath>
#include <cstdint>

#include "device_code.hpp"
#include "fault.cuh"

namespace epibias::cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

// Sums the 32 accumulators of a warp by halving, in every lane the same bits: the exchange is
// symmetric, and floating-point addition commutes.
__device__ __forceinline__ double canonical_warp_sum(double lane_sum) {
#pragma unroll
    for (int lanes = 16; lanes != 0; lanes >>= 1) {
        lane_sum = __dadd_rn(lane_sum, __shfl_xor_sync(kAllLanes, lane_sum, lanes));
    }
    return lane_sum;
}

// canonical_dot of two float32 rows by one warp; all lanes get the result.
__device__ __forceinline__ double canonical_warp_dot(const float* left, const float* right,
                                                     std::int64_t dim) {
    double lane_sum = 0;
    for (std::int64_t i = threadIdx.x % 32; i < dim; i += 32) {
        lane_sum = __dadd_rn(
            lane_sum, __dmul_rn(static_cast<double>(left[i]), static_cast<double>(right[i])));
    }
    return canonical_warp_sum(lane_sum);
}

// Reports the first non-finite element of a faulty row, or column 0 of a row of norm zero. Called
// by whole warps.
__device__ inline void report_faulty_row(const float* row, std::int64_t dim, std::int64_t number,
                                         int argument, Fault* fault) {
    std::int64_t column = 0;
    bool found = false;
    for (std::int64_t first = 0; first < dim && !found; first += 32) {
        const std::int64_t mine = first + threadIdx.x % 32;
        const bool bad = mine < dim && !(fabsf(row[mine]) <= 3.4028234663852886e38F);
        const unsigned lanes = __ballot_sync(kAllLanes, bad);
        if (lanes == 0) continue;
        found = true;
        column = first + __ffs(static_cast<int>(lanes)) - 1;
    }
    if (threadIdx.x % 32 == 0) report_fault(fault, argument, number, column);
}

}  // namespace epibias::cuda
