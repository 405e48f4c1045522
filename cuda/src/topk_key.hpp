// What: a ranked passage as one 64-bit number, so that ranking.hpp's order is the order of numbers.
//
// Layout, from the highest bit: 31 bits of similarity, 32 bits of ~index, 1 bit that is set where
//   the similarity is -0. Greater keys rank first: similarity descending, then index ascending.
// Why it fits: similarities lie in (-2, 2), whose ordered float32 patterns span less than 2^31
//   steps. -0 and +0 rank alike but the bit gives back which of them it was.
// Zero is no key: it ranks behind every passage and stands for "none".
// Shared by kernels, launchers and tests. Valid for index < kMostPassages.
#pragma once

#include <cstdint>
#include <cstring>

#include "epibias/numeric.hpp"
#include "epibias/ranking.hpp"

namespace epibias::cuda {

using TopkKey = unsigned long long;  // the type that CUDA's atomics and shuffles take

inline constexpr std::int64_t kMostPassages = (std::int64_t{1} << 32) - 1;
inline constexpr TopkKey kNoKey = 0;

EPIBIAS_HOST_DEVICE inline std::uint32_t bits_of(float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

EPIBIAS_HOST_DEVICE inline float float_of(std::uint32_t bits) {
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// `similarity` lies in (-2, 2); NaN gives kNoKey.
EPIBIAS_HOST_DEVICE inline TopkKey topk_key(float similarity, std::int64_t index) {
    constexpr std::uint32_t kSign = 0x80000000U;
    constexpr std::uint32_t kLowest = 0x40000000U;  // the pattern of -2
    if (!(similarity > -2 && similarity < 2)) return kNoKey;
    const bool negative_zero = bits_of(similarity) == kSign;
    const std::uint32_t bits = negative_zero ? 0 : bits_of(similarity);
    const std::uint32_t ordered = ((bits & kSign) != 0 ? ~bits : bits | kSign) - kLowest;
    const auto inverted = ~static_cast<std::uint32_t>(index);
    return static_cast<TopkKey>(ordered) << 33U | static_cast<TopkKey>(inverted) << 1U |
           static_cast<TopkKey>(negative_zero);
}

EPIBIAS_HOST_DEVICE inline Ranked ranked_of(TopkKey key) {
    constexpr std::uint32_t kSign = 0x80000000U;
    const std::uint32_t ordered = static_cast<std::uint32_t>(key >> 33U) + 0x40000000U;
    const std::uint32_t bits = (ordered & kSign) != 0 ? ordered & ~kSign : ~ordered;
    const float similarity = (key & 1U) != 0 ? -0.0F : float_of(bits);
    return {similarity, static_cast<std::int64_t>(~static_cast<std::uint32_t>(key >> 1U))};
}

}  // namespace epibias::cuda
