// What: bounds that several threads tighten at once; each only ever moves one way.
#pragma once

#include <atomic>
#include <cstdint>

namespace epibias {

inline void raise(std::atomic<float>& threshold, float value) {
    float current = threshold.load(std::memory_order_relaxed);
    while (current < value &&
           !threshold.compare_exchange_weak(current, value, std::memory_order_relaxed)) {
    }
}

inline void lower(std::atomic<std::int64_t>& row, std::int64_t value) {
    std::int64_t current = row.load(std::memory_order_relaxed);
    while (value < current &&
           !row.compare_exchange_weak(current, value, std::memory_order_relaxed)) {
    }
}

}  // namespace epibias
