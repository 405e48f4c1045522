// What: the canonical float64 sums of one warp, and the kernel that makes inverse norms of them.
#pragma once

#include <cmath>
#include <cstdint>

#include "device_code.hpp"
#include "fault.cuh"

namespace epibias::cuda {

// Reasons: 8 warps hide the latency of one row's loads behind the others'; a row's warp needs no
// shared memory, so blocks are as small as full occupancy allows.
struct InverseNormsPolicy {
    static constexpr unsigned kWarps = 8;
    static constexpr unsigned kThreads = kWarps * 32;
};

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

// One warp a row. Shared memory: none.
__global__ void __launch_bounds__(InverseNormsPolicy::kThreads)
    inverse_norms_kernel(const float* rows, std::int64_t n_rows, std::int64_t dim, int argument,
                         double* result, Fault* fault) {
    const std::int64_t number =
        static_cast<std::int64_t>(blockIdx.x) * InverseNormsPolicy::kWarps + threadIdx.x / 32;
    if (number >= n_rows) return;  // whole warps leave
    const float* row = rows + number * dim;
    const double squared = canonical_warp_dot(row, row, dim);
    const bool good = squared > 0 && squared <= 1.7976931348623157e308;
    if (!good) report_faulty_row(row, dim, number, argument, fault);
    if (threadIdx.x % 32 == 0) {
        result[number] = good ? __ddiv_rn(1.0, __dsqrt_rn(squared)) : __longlong_as_double(-1);
    }
}

}  // namespace epibias::cuda
