// What: the checks of ragged rows: query i owns rows offsets[i] to offsets[i + 1].
#pragma once

#include <algorithm>
#include <cmath>
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

// Offsets that have been checked.
inline void check_finite(const char* argument, std::span<const std::int64_t> offsets,
                         std::span<const float> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (std::isfinite(values[i])) continue;
        const auto place = static_cast<std::int64_t>(i);
        const auto next = std::ranges::upper_bound(offsets, place);
        const std::int64_t query = next - offsets.begin() - 1;
        const std::int64_t column = place - offsets[static_cast<std::size_t>(query)];
        refuse(argument, "finite values",
               number_text(static_cast<double>(values[i])) + " (query " + std::to_string(query) +
                   ", column " + std::to_string(column) + ")");
    }
}

}  // namespace epibias
