// What: the loops of echo_shares without intrinsics. No branch a letter: where spaces and hits
// stand is not to be guessed.
#pragma once

#include "kernels/echo_shares_kernels.hpp"

namespace epibias::kernels {
namespace {

template <typename Unit>
std::uint32_t mixed_code(Unit unit) {
    if constexpr (sizeof(Unit) == 1) {
        return kEchoMixedCodes.of[unit];
    } else {
        const std::uint32_t point = unit;
        if (point < 256) return kEchoMixedCodes.of[point];
        const bool is_mark = point - 0x2010U < 0x4FU;  // dashes, quotation marks, bullets
        return is_mark ? 0 : (kFirstClass + point % kClasses) * kEchoMixer;
    }
}

// Letters that stand behind one with the code `previous`.
template <typename Unit>
std::size_t collapse_some(const Unit* units, std::size_t n, std::uint32_t previous,
                          std::uint32_t* codes) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t code = mixed_code(units[i]);
        codes[length] = code;
        length += (code | previous) != 0 ? 1U : 0U;
        previous = code;
    }
    return length;
}

template <typename Unit>
std::size_t collapse_all(const Unit* units, std::size_t n, std::uint32_t* codes) {
    return collapse_some(units, n, 0, codes);
}

std::uint32_t times_base(std::uint32_t code) {
    return (code << 8U) + (code << 2U);  // 260: vectors of the baseline have no 32-bit product
}

std::size_t sift(const std::uint32_t* codes, std::size_t n, const std::uint8_t* filter,
                 std::uint32_t* places) {
    constexpr std::size_t kBlock = 256;
    std::uint32_t block[kBlock];
    std::size_t n_found = 0;
    for (std::size_t first = 0; first < n; first += kBlock) {
        const std::size_t n_own = n - first < kBlock ? n - first : kBlock;
        const std::uint32_t* own = codes + first;
        for (std::size_t i = 0; i < n_own; ++i) {
            const std::uint32_t mixed = times_base(times_base(own[i]) + own[i + 1]) + own[i + 2];
            block[i] = mixed >> (16U + kFilterShift);
        }
#pragma GCC unroll 8
        for (std::size_t i = 0; i < n_own; ++i) {
            places[n_found] = static_cast<std::uint32_t>(first + i);
            n_found += filter[block[i]];
        }
    }
    return n_found;
}

}  // namespace
}  // namespace epibias::kernels
