// What: the exponential and the logarithm of the float32 sweep alone, from the first cache: the
// floor that threshold_sweep.py measures the sweep against. Built by that script, once a level.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/lanes_float32.hpp"

namespace {

namespace level = epibias::kernels::EPIBIAS_LEVEL;

constexpr std::int64_t kCells = 1024;
constexpr int kSums = 4;  // enough for additions not to wait for each other

template <typename Cell>
float run(std::int64_t n_rounds, float sign, const Cell& cell) {
    std::vector<float> values(kCells);
    for (std::int64_t i = 0; i < kCells; ++i) {
        values[static_cast<std::size_t>(i)] = sign * (0.5F + 0.01F * static_cast<float>(i % 700));
    }
    level::Floats sums[kSums] = {};
    for (std::int64_t round = 0; round < n_rounds; ++round) {
        for (std::int64_t i = 0; i < kCells; i += kSums * level::kFloatLanes) {
            for (int j = 0; j < kSums; ++j) {
                sums[j] += cell(level::load_floats(values.data() + i + j * level::kFloatLanes));
            }
        }
        asm volatile("" ::: "memory");  // the values may have changed: every round is run
    }
    float total = 0;
    for (const auto sum : sums) total += level::sum_of_floats(sum);
    return total;
}

}  // namespace

extern "C" {
std::int64_t cells_a_round() {
    return kCells;
}
float exponentials(std::int64_t n_rounds) {
    return run(n_rounds, -1, [](level::Floats t) __attribute__((always_inline)) {
        return level::float_exp2_of_negative(t);
    });
}
float logarithms(std::int64_t n_rounds) {
    const auto right = level::all_floats(3.0F), added = level::all_floats(0.5F);
    return run(n_rounds, 1, [&](level::Floats left) __attribute__((always_inline)) {
        return level::log2_of_ratio(left, right, added);
    });
}
}
