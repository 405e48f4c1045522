// What: how a kernel leaves a fault in the caller's data (epibias/cuda/fault.hpp).
#pragma once

#include <cstdint>

#include "device_code.hpp"
#include "epibias/cuda/fault.hpp"

namespace epibias::cuda {

// Keeps the lowest word. The launcher enqueues describe_fault behind the kernel that calls this.
__device__ inline void report_fault(Fault* fault, int argument, std::int64_t row,
                                    std::int64_t column) {
    static_assert(sizeof(unsigned long long) == sizeof(fault->word));
    atomicMin(reinterpret_cast<unsigned long long*>(&fault->word),
              static_cast<unsigned long long>(fault_word(argument, row, column)));
}

// One thread: copies the value at fault into the record, after the word has settled. Does nothing
// where the record is of another argument.
template <typename Value>
__global__ void describe_fault(Fault* fault, int argument, const Value* values,
                               std::int64_t n_columns) {
    const std::uint64_t word = fault->word;
    if (word == kNoFault || fault_argument(word) != argument) return;
    const std::int64_t place = fault_row(word) * n_columns + fault_column(word);
    fault->value = static_cast<double>(values[place]);
}

}  // namespace epibias::cuda
