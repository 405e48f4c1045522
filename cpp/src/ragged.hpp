// What: the one check of ragged rows: query i owns rows offsets[i] to offsets[i + 1].
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "refuse.hpp"

namespace epibias {

inline void check_offsets(std::span<const std::int64_t> offsets, std::int64_t n_queries,
                          std::int64_t n_candidates) {
    if (std::ssize(offsets) != n_queries + 1) {
        refuse("offsets", std::to_string(n_queries + 1) + " of them, one more than queries",
               std::to_string(offsets.size()));
    }
    const bool rising = std::ranges::is_sorted(offsets);
    if (rising && offsets.front() == 0 && offsets.back() == n_candidates) return;
    refuse("offsets",
           "offsets that rise from 0 to " + std::to_string(n_candidates) +
               " (the number of candidates)",
           "others");
}

}  // namespace epibias
