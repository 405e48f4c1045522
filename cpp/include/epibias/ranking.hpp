// What: the one total order of candidates: similarity descending, then index ascending.
//
// Shared by CPU, CUDA and tests, so that the same inputs give the same order for every tile size,
// batch size, thread count and back end. Similarities are finite: rows that could give a NaN are
// refused before anything is ranked. -0 and +0 are equal here, as they are for NumPy.
#pragma once

#include <cstdint>

#include "epibias/numeric.hpp"

namespace epibias {

struct Ranked {
    float similarity;
    std::int64_t index;
};

EPIBIAS_HOST_DEVICE constexpr bool ranks_before(const Ranked& left, const Ranked& right) {
    if (left.similarity != right.similarity) return left.similarity > right.similarity;
    return left.index < right.index;
}

}  // namespace epibias
