// What: which of several splits has the largest divergence, ties decided without rounding.
// Private to the sweep's sources.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "sweep_scalars.hpp"

namespace epibias::sweep {

// The first of the splits whose divergence is the largest. Splits that mirror each other (scores
// symmetric about their mean, criterion kMutualInformation) are equal in exact arithmetic, so what
// lies within kTieTolerance of the largest counts as it, and rounding decides nothing.
class FirstMaximum {
  public:
    void offer(std::size_t split, double value) {
        if (first_offered_ < 0) first_offered_ = static_cast<std::int64_t>(split);
        last_offered_ = static_cast<std::int64_t>(split);
        largest_ = std::max(largest_, value);
    }

    // Number of the split; -1 where none was offered.
    [[nodiscard]] std::int64_t first(const std::vector<double>& divergences) const {
        if (first_offered_ < 0) return -1;
        const double bar = largest_ - tie_tolerance(largest_);
        std::int64_t split = first_offered_;
        while (split < last_offered_ && divergences[static_cast<std::size_t>(split)] < bar) ++split;
        return split;
    }

  private:
    std::int64_t first_offered_ = -1, last_offered_ = -1;
    double largest_ = -std::numeric_limits<double>::infinity();
};

}  // namespace epibias::sweep
