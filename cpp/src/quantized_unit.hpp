// What: codes of one row of norm 1, what they lose, and what that means for a query.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/quantized_scan_kernels.hpp"
#include "topk_candidates.hpp"

namespace epibias {

// Norms whose squares, and the squares of whose residuals, float32 holds.
inline constexpr double kLargestPlainInverseNorm = 1e10;
inline constexpr double kSmallestPlainInverseNorm = 1e-10;

// What float32 may lose between exact sums and a value or bound: conversion of the sum, three
// products and one addition, of numbers below 10 (the residual of a row is below 1.1, that of a
// query of 7 bits below 2.1), and the rounding of the similarity itself. Beside residuals of 0.01
// its size does not matter.
inline constexpr double kFloatSlack = 64 * 0x1p-24;

struct UnitCodes {
    float scale;     // unit row is about scale * codes
    float residual;  // at least the length of the difference
};

// Codes of a row scaled to unit norm. `codes` has room for 16 more than dim; `limit` at most 127.
// Where it is small, large elements may be clipped.
inline UnitCodes quantize_unit_row(const kernels::QuantizedScanKernels& kernels, const float* row,
                                   std::int64_t dim, double inverse_norm, int limit,
                                   std::int8_t* codes) {
    constexpr int kFewCodes = 16;
    double step = 0;     // of the unit row
    double squared = 0;  // of the difference
    if (inverse_norm >= kSmallestPlainInverseNorm && inverse_norm <= kLargestPlainInverseNorm) {
        const kernels::QuantizedRow quantized =
            limit < kFewCodes ? kernels.quantize_clipped(row, dim, limit, codes)
                              : kernels.quantize(row, dim, limit, codes);
        step = static_cast<double>(quantized.step) * inverse_norm;
        const std::int64_t lanes = kernels.error_lanes;
        const std::int64_t parts = dim / lanes + 2 + 2 * lanes;
        squared = static_cast<double>(quantized.squared_error) * inverse_norm * inverse_norm *
                  (1 + static_cast<double>(parts) * 0x1p-23);
    } else {
        double largest = 0;
        for (std::int64_t i = 0; i < dim; ++i) {
            largest = std::max(largest, std::abs(static_cast<double>(row[i]) * inverse_norm));
        }
        step = largest / limit;
        for (std::int64_t i = 0; i < dim; ++i) {
            const double value = static_cast<double>(row[i]) * inverse_norm;
            const double code = std::nearbyint(value / step);
            codes[i] = static_cast<std::int8_t>(code);
            squared += (value - code * step) * (value - code * step);
        }
    }
    // `step` in float32 moves scale * codes, whose length is below 4, by 2^-24 of it; the
    // kernel's products and differences in float32 lose as much each.
    constexpr double kRounding = 16 * 0x1p-24;
    const double residual = std::sqrt(squared) * (1 + 0x1p-20) + kRounding;
    return {static_cast<float>(step), -round_down(-residual)};
}

// What a similarity may differ from a value by: residual_weight * residual of the row +
// remainder_weight * remainder of the row + own_error.
struct QueryBound {
    float scale = 0;
    float residual_weight = 0;
    float remainder_weight = 0;
    double own_error = 0;

    // Of codes of all columns.
    static QueryBound of(const UnitCodes& unit) {
        const auto residual = static_cast<double>(unit.residual);
        return {unit.scale, -round_down(-(1 + residual)), 0, residual + kFloatSlack};
    }
};

}  // namespace epibias
