// What: a block sorts the places 0 … n - 1 of a query by what stands there.
//
// A bitonic network over the next power of two; places from n on stand behind all others. `before`
//   must be a total order, so that the result does not depend on the network.
// 1/2 log2(size) (log2(size) + 1) steps, a barrier behind each.
#pragma once

#include <cstdint>

#include "device_code.hpp"
#include "sweep_memory.hpp"

namespace epibias::cuda::sweep {

template <typename Before>
__device__ void sort_places(std::int32_t* places, int n, const Before& before) {
    const int size = sorted_size(n);
    const auto thread = static_cast<int>(threadIdx.x);
    const auto n_threads = static_cast<int>(blockDim.x);
    for (int i = thread; i < size; i += n_threads) places[i] = i;
    __syncthreads();
    const auto goes_before = [&](std::int32_t left, std::int32_t right) {
        if (left >= n || right >= n) return left < right;
        return before(left, right);
    };
    for (int length = 2; length <= size; length *= 2) {
        for (int stride = length / 2; stride > 0; stride /= 2) {
            for (int pair = thread; pair < size / 2; pair += n_threads) {
                const int low = 2 * pair - pair % stride;  // a pair is low and low + stride
                const int high = low + stride;
                const bool ascending = (low & length) == 0;
                const std::int32_t left = places[low], right = places[high];
                if (goes_before(right, left) == ascending) {
                    places[low] = right;
                    places[high] = left;
                }
            }
            if (!EPIBIAS_PLANT("threshold_sweep.sort_barrier_missing")) __syncthreads();
        }
    }
}

}  // namespace epibias::cuda::sweep
