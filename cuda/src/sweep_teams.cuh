// What: the threads that work on one arrangement of a query's scores together: a block, or one warp
// of it. Same members, so that the evaluation is written once.
//
// A result of largest() and least() is the same in every thread of the team; all threads call.
#pragma once

#include <climits>
#include <cstdint>

#include "device_code.hpp"
#include "sweep_scalars.hpp"

namespace epibias::cuda::sweep {

inline constexpr unsigned kWholeWarp = 0xFFFFFFFFU;

// Where the warps of a block leave what they found.
struct Partials {
    double largest[32];
    int least[32];
};

__device__ __forceinline__ double largest_of_warp(double value) {
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        value = epibias::sweep::larger(value, __shfl_xor_sync(kWholeWarp, value, lanes));
    }
    return value;
}

__device__ __forceinline__ int least_of_warp(int value) {
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        const int other = __shfl_xor_sync(kWholeWarp, value, lanes);
        value = other < value ? other : value;
    }
    return value;
}

struct WarpTeam {
    static constexpr bool kIsBlock = false;
    int number;  // of the team in its block

    __device__ int warp() const { return 0; }
    __device__ int n_warps() const { return 1; }
    __device__ int lane() const { return static_cast<int>(threadIdx.x % 32); }
    __device__ int thread() const { return lane(); }
    __device__ int n_threads() const { return 32; }
    __device__ void synchronise() const { __syncwarp(); }
    __device__ double largest(double value) const { return largest_of_warp(value); }
    __device__ int least(int value) const { return least_of_warp(value); }
};

struct BlockTeam {
    static constexpr bool kIsBlock = true;
    int number;
    Partials* partials;

    __device__ int warp() const { return static_cast<int>(threadIdx.x / 32); }
    __device__ int n_warps() const { return static_cast<int>(blockDim.x / 32); }
    __device__ int lane() const { return static_cast<int>(threadIdx.x % 32); }
    __device__ int thread() const { return static_cast<int>(threadIdx.x); }
    __device__ int n_threads() const { return static_cast<int>(blockDim.x); }
    __device__ void synchronise() const { __syncthreads(); }

    __device__ double largest(double value) const {
        value = largest_of_warp(value);
        if (lane() == 0) partials->largest[warp()] = value;
        __syncthreads();
        value = partials->largest[0];
        for (int other = 1; other < n_warps(); ++other) {
            value = epibias::sweep::larger(value, partials->largest[other]);
        }
        // Whoever comes late still reads what the next reduction would write over.
        __syncthreads();
        return value;
    }

    __device__ int least(int value) const {
        value = least_of_warp(value);
        if (lane() == 0) partials->least[warp()] = value;
        __syncthreads();
        for (int other = 0; other < n_warps(); ++other) {
            value = partials->least[other] < value ? partials->least[other] : value;
        }
        __syncthreads();
        return value;
    }
};

}  // namespace epibias::cuda::sweep
