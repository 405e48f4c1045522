// What: sums, maxima and canonical dot products over the lanes of a warp and the threads of a
// block.
//
// Every lane (thread) of the warp (block) must call; every one gets the result. Orders are fixed:
// the same values give the same bits, whatever runs first.
#pragma once

#include <cstdint>

#include "device_code.hpp"

namespace epibias::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;
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

// Canonical dot product (numeric.hpp) by one warp: a lane is an accumulator. A product of two
// float32 is exact in float64, so that the bits are the CPU's with or without contraction.
__device__ inline double canonical_dot(const float* left, const float* right, std::int64_t dim) {
    double sum = 0;
    for (std::int64_t i = threadIdx.x % kWarp; i < dim; i += kWarp) {
        sum += static_cast<double>(left[i]) * static_cast<double>(right[i]);
    }
    return over_warp(sum, Add{});  // 16, 8, 4, 2, 1: the halving order
}

__device__ inline bool is_finite(double value) {
    return value - value == 0;
}

__device__ inline double not_a_number() {
    return __longlong_as_double(0x7ff8000000000000LL);
}

}  // namespace epibias::cuda
