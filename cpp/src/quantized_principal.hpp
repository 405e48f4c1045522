// What: how rows and queries are cut into codes of principal axes, and what that loses
// (principal_codes.hpp has the formula).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

#include "epibias/principal_codes.hpp"
#include "kernels/quantized_scan_kernels.hpp"
#include "quantized_unit.hpp"
#include "topk_candidates.hpp"

namespace epibias {

// Records of the axes that are not scanned.
class PrincipalRest {
  public:
    struct Numbers {
        float scale, residual, remainder, unused;
    };

    PrincipalRest(const std::uint8_t* data, std::int64_t n_rest)
        : data_(data), n_lines_((n_rest + kNumberBytes + kLine - 1) / kLine) {}

    [[nodiscard]] std::int64_t n_lines() const { return n_lines_; }
    [[nodiscard]] std::int64_t bytes() const { return n_lines_ * kLine; }
    [[nodiscard]] const std::uint8_t* record(std::int64_t row) const {
        return data_ + row * bytes();
    }
    [[nodiscard]] Numbers numbers(std::int64_t row) const {
        Numbers own;
        std::memcpy(&own, record(row) + bytes() - kNumberBytes, sizeof own);
        return own;
    }
    void fetch(std::int64_t row) const {
        for (std::int64_t line = 0; line < n_lines_; ++line) {
            __builtin_prefetch(record(row) + line * kLine, 0, 3);
        }
    }

  private:
    static constexpr std::int64_t kLine = kernels::kStepBytes;
    static constexpr std::int64_t kNumberBytes = sizeof(Numbers);
    const std::uint8_t* data_;
    std::int64_t n_lines_;
};

// |A x - y|: x, of norm 1, is rounded to float32; each product is summed in `lanes` parts, which
// are then added, and the columns that fill no vector after them.
inline double projection_error(const PrincipalAxes& axes, std::int64_t lanes) {
    const std::int64_t roundings = axes.rows.n_columns / lanes + 2 * lanes + 4;
    return 1.01 * 0x1p-24 * static_cast<double>(roundings) *
           std::sqrt(static_cast<double>(axes.rows.n_rows));
}

// |x - P x| for |x| = 1 and a y within `error` of A x, with |y|^2 = `squared`:
// |P x|^2 >= |A x|^2 / (1 + |A A' - 1|).
inline double remainder_beyond(double squared, double error) {
    constexpr double kNorm = 1e-9;  // what float64 leaves of the norm of a row
    return std::sqrt(std::max(0.0, 1 - squared) + 1.01 * kLargestAxesError + 2.1 * error + kNorm) *
           (1 + 0x1p-20);
}

inline double squared_norm(std::span<const float> values) {
    double sum = 0;
    for (const float value : values) {
        sum += static_cast<double>(value) * static_cast<double>(value);
    }
    return sum;
}

// Codes of a part of y or z. Parts of which next to nothing is there get code 0.
inline UnitCodes quantize_part(const kernels::QuantizedScanKernels& kernels,
                               std::span<const float> part, int limit, std::int8_t* codes) {
    constexpr double kNothing = 1e-12;
    const double norm = std::sqrt(squared_norm(part));
    if (norm > kNothing) {
        return quantize_unit_row(kernels, part.data(), std::ssize(part), 1, limit, codes);
    }
    std::fill_n(codes, part.size(), std::int8_t{0});
    return {0, static_cast<float>(2 * kNothing)};
}

// Rounded up.
inline float at_least(double value) {
    return -round_down(-value);
}

}  // namespace epibias
