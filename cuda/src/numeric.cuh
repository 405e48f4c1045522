// What: the kernel that makes inverse norms of rows.
#pragma once

#include <cstdint>

#include "canonical_warp.cuh"
#include "device_code.hpp"

namespace epibias::cuda {

// Reasons: 8 warps hide the latency of one row's loads behind the others'; a row's warp needs no
// shared memory, so blocks are as small as full occupancy allows.
struct InverseNormsPolicy {
    static constexpr unsigned kWarps = 8;
    static constexpr unsigned kThreads = kWarps * 32;
};

// One warp a row. Shared memory: none.
__global__ inline void __launch_bounds__(InverseNormsPolicy::kThreads)
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
