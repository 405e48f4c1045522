// What: what launchers check before they launch; host code. Errors are the CPU's.
#pragma once

#include <cstdint>
#include <string>

#include "epibias/cuda/fault.hpp"
#include "refuse.hpp"

namespace epibias::cuda {

// Rows and columns that a fault record can name.
inline void require_fault_places(const std::string& argument, std::int64_t n_rows,
                                 std::int64_t n_columns) {
    if (n_rows <= kMaxFaultRows && n_columns <= kMaxFaultColumns) return;
    refuse(argument,
           "at most " + std::to_string(kMaxFaultRows) + " rows of " +
               std::to_string(kMaxFaultColumns) + " columns",
           "shape " + shape_text(n_rows, n_columns));
}

// Blocks of a grid in which each takes `per_block` of `count` items; at most 2^31 - 1.
inline unsigned grid_size(const std::string& argument, std::int64_t count, std::int64_t per_block) {
    constexpr std::int64_t kMaxBlocks = 0x7FFFFFFF;
    const std::int64_t n_blocks = (count + per_block - 1) / per_block;
    if (n_blocks <= kMaxBlocks) return static_cast<unsigned>(n_blocks);
    refuse(argument, "at most " + std::to_string(kMaxBlocks * per_block) + " rows",
           std::to_string(count));
}

}  // namespace epibias::cuda
