// What: a sum in numpy's order (eight lanes, halves above 128), so that both sides get the same
// bits.
#pragma once

#include <cstddef>

namespace epibias {

// Sum of value(0) to value(n - 1) in numpy's order.
template <typename Value>
[[nodiscard]] double pairwise_sum(const Value& value, std::size_t first, std::size_t n) {
    constexpr std::size_t kLanes = 8;
    constexpr std::size_t kBlock = 128;
    double sum = 0;
    std::size_t i = 0;
    if (n > kBlock) {
        const std::size_t half = n / 2 - (n / 2) % kLanes;
        return pairwise_sum(value, first, half) + pairwise_sum(value, first + half, n - half);
    }
    if (n >= kLanes) {
        double lanes[kLanes];
        for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = value(first + lane);
        for (i = kLanes; i + kLanes <= n; i += kLanes) {
            for (std::size_t lane = 0; lane < kLanes; ++lane)
                lanes[lane] += value(first + i + lane);
        }
        sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
              ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    }
    for (; i < n; ++i) sum += value(first + i);
    return sum;
}

}  // namespace epibias
