// What: the checks of this program, and how they compare: with the CPU's function, to the bit.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "device_memory.hpp"

namespace epibias::cuda::check {

void check_cosine_topk();
void check_polarization();
void check_rerank();
void check_threshold_sweep();
void check_biasdef_select();

inline std::vector<float> random_values(std::int64_t count, unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = normal(generator);
    return values;
}

template <typename Value>
void expect_same(const std::string& name, const std::vector<Value>& got,
                 const std::vector<Value>& expected) {
    if (got.size() != expected.size()) throw std::runtime_error(name + ": sizes differ");
    for (std::size_t i = 0; i < got.size(); ++i) {
        using Bytes = std::array<std::byte, sizeof(Value)>;
        if (std::bit_cast<Bytes>(got[i]) != std::bit_cast<Bytes>(expected[i])) {
            throw std::runtime_error(name + ": element " + std::to_string(i) + ": expected " +
                                     std::to_string(expected[i]) + ", got " +
                                     std::to_string(got[i]));
        }
    }
}

inline void expect_no_fault(const std::string& name, const FaultRecord& fault) {
    if (fault.word() != kNoFault) throw std::runtime_error(name + ": a fault in good data");
}

}  // namespace epibias::cuda::check
