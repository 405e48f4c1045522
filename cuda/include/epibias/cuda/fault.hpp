// What: a fault in the caller's data (a zero row, a NaN), found by a kernel and left on the device,
// so that no launcher has to wait for its kernels in order to complain.
//
// word: argument code (8 bits) | row (36 bits) | column (20 bits); all ones: no fault. Kernels
// lower
//   it with atomicMin, so the fault that stays is the lowest (argument, row, column) whatever the
//   order of threads.
// value: what stands there: NaN or an infinity, or 0 for a row of norm zero (column 0). Written by
//   one thread after the kernel that found the fault, so it always belongs to `word`.
// The caller fills a record with ones before the call (`fill_async(fault, 0xFF, sizeof(Fault))`, or
//   an int64 array [2] of -1) and reads it when it next synchronises.
// Outputs of a faulty row or query are NaN and -1, never plausible numbers.
// Determinism: equal inputs leave equal records.
#pragma once

#include <cstdint>

#include "epibias/numeric.hpp"  // EPIBIAS_HOST_DEVICE

namespace epibias::cuda {

struct Fault {
    std::uint64_t word;
    double value;
};

inline constexpr std::uint64_t kNoFault = ~std::uint64_t{0};
inline constexpr int kFaultColumnBits = 20;
inline constexpr int kFaultRowBits = 36;
inline constexpr std::int64_t kMaxFaultRows = std::int64_t{1} << kFaultRowBits;
inline constexpr std::int64_t kMaxFaultColumns = std::int64_t{1} << kFaultColumnBits;
inline constexpr int kMaxFaultArguments = 255;  // 255 itself would be mistaken for "none"

EPIBIAS_HOST_DEVICE constexpr std::uint64_t fault_word(int argument, std::int64_t row,
                                                       std::int64_t column) {
    return (static_cast<std::uint64_t>(argument) << (kFaultRowBits + kFaultColumnBits)) |
           (static_cast<std::uint64_t>(row) << kFaultColumnBits) |
           static_cast<std::uint64_t>(column);
}

EPIBIAS_HOST_DEVICE constexpr int fault_argument(std::uint64_t word) {
    return static_cast<int>(word >> (kFaultRowBits + kFaultColumnBits));
}

EPIBIAS_HOST_DEVICE constexpr std::int64_t fault_row(std::uint64_t word) {
    return static_cast<std::int64_t>((word >> kFaultColumnBits) &
                                     ((std::uint64_t{1} << kFaultRowBits) - 1));
}

EPIBIAS_HOST_DEVICE constexpr std::int64_t fault_column(std::uint64_t word) {
    return static_cast<std::int64_t>(word & ((std::uint64_t{1} << kFaultColumnBits) - 1));
}

}  // namespace epibias::cuda
