// What: the loop over a row of trusted_index on eight lanes; compiled once per SIMD level. The
// order in which a sum is made does not differ, and nothing is fused.
#pragma once

#include "kernels/trusted_index_kernels.hpp"

namespace epibias::kernels {
namespace {

constexpr std::int64_t kLanes = 8;
using Eight = float __attribute__((vector_size(kLanes * sizeof(float))));

Eight eight_of(const float* values) {
    Eight loaded;
    __builtin_memcpy(&loaded, values, sizeof(loaded));
    return loaded;
}

// Two blocks of columns are summed apart, so that one sum need not wait for the other.
double sketch(const float* values, const float* signs, std::int64_t dim, float* sums) {
    Eight sum[2] = {};
    Eight square[2] = {};
    std::int64_t column = 0;
    for (; column + 2 * kLanes <= dim; column += 2 * kLanes) {
        const Eight first = eight_of(values + column);
        const Eight second = eight_of(values + column + kLanes);
        sum[0] += first * eight_of(signs + column);
        sum[1] += second * eight_of(signs + column + kLanes);
        square[0] += first * first;
        square[1] += second * second;
    }
    float rest[2][kLanes] = {};
    float rest_signs[2][kLanes] = {};
    for (std::int64_t i = 0; column < dim; ++column, ++i) {
        rest[i / kLanes][i % kLanes] = values[column];
        rest_signs[i / kLanes][i % kLanes] = signs[column];
    }
    for (int half = 0; half < 2; ++half) {
        const Eight last = eight_of(rest[half]);
        sum[half] += last * eight_of(rest_signs[half]);
        square[half] += last * last;
    }
    const Eight all = sum[0] + sum[1];
    __builtin_memcpy(sums, &all, sizeof(all));
    const Eight squares = square[0] + square[1];
    const auto wide = [&](int lane) { return static_cast<double>(squares[lane]); };
    return ((wide(0) + wide(1)) + (wide(2) + wide(3))) +
           ((wide(4) + wide(5)) + (wide(6) + wide(7)));
}

}  // namespace
}  // namespace epibias::kernels
