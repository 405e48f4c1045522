// What: sums, maxima and canonical dot products over the lanes of a warp and the threads of a
// block.
//
// Every lane (thread) of the warp (block) must call; every one gets the result. Orders are fixed:
// the same values give the same bits, whatever runs first.
#pragma once

#include <cstdint>

#include "canonical_warp.cuh"
#include "device_code.hpp"

namespace epibias::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kMostWarps = 32;  // of a block

struct Add {
    __device__ double operator()(double left, double right) const { return left + right; }
};
struct Larger {
    __device__ double operator()(double left, double right) const {
        return left > right ? left : right;
    }
};
struct Smaller {
    __device__ double operator()(double left, double right) const {
        return left < right ? left : right;
    }
};

template <typename Operation>
__device__ inline double over_warp(double value, Operation operation) {
#pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        value = operation(value, __shfl_xor_sync(kAllLanes, value, offset));
    }
    return value;
}

// partials [kMostWarps]: shared memory that nothing else uses. The block is whole warps.
template <typename Operation>
__device__ inline double over_block(double value, double* partials, Operation operation) {
    const int n_warps = static_cast<int>(blockDim.x) / kWarp;
    value = over_warp(value, operation);
    __syncthreads();  // the last reduction's partials have been read
    if (threadIdx.x % kWarp == 0) partials[threadIdx.x / kWarp] = value;
    if (!EPIBIAS_PLANT("polarization_axis.missing_barrier")) __syncthreads();
    double total = partials[0];
    for (int warp = 1; warp < n_warps; ++warp) total = operation(total, partials[warp]);
    return total;
}

__device__ inline bool is_finite(double value) {
    return value - value == 0;
}

__device__ inline double not_a_number() {
    return __longlong_as_double(0x7ff8000000000000LL);
}

}  // namespace epibias::cuda
