// What: what quantized_scan does to float32 rows before they are scanned: codes, and products with
// principal axes. Written once over a vector type `Lanes`, which quantized_scan_body.hpp describes.
//
// Included by one source per SIMD level, inside that source's flags. Everything is in an unnamed
// namespace, so that no level's code can be linked into another.
#pragma once

#include <cstdint>

#include "kernels/quantized_scan_kernels.hpp"

namespace epibias::kernels {
namespace {

template <typename Vector>
Vector load_from(const void* at) {
    Vector vector;
    __builtin_memcpy(&vector, at, sizeof vector);
    return vector;
}

template <typename Floats>
Floats clipped(Floats values, float limit) {
    const Floats most = Floats{} + limit;
    values = values > most ? most : values;
    return values < -most ? -most : values;
}

// Vectors of a row; the last one is filled up with zeros, whose codes are zero.
template <typename Lanes, typename Use>
void for_each_vector(const float* row, std::int64_t dim, Use use) {
    std::int64_t i = 0;
    for (; i + Lanes::kWidth <= dim; i += Lanes::kWidth) {
        use(load_from<typename Lanes::Floats>(row + i), i);
    }
    if (i == dim) return;
    float rest[Lanes::kWidth] = {};
    __builtin_memcpy(rest, row + i, static_cast<std::size_t>(dim - i) * sizeof(float));
    use(load_from<typename Lanes::Floats>(rest), i);
}

template <typename Lanes>
float largest_magnitude(const float* row, std::int64_t dim) {
    using Floats = Lanes::Floats;
    using Integers = Lanes::Integers;
    Integers most{};  // the bits of non-negative floats are in the order of the floats
    for_each_vector<Lanes>(row, dim, [&](Floats values, std::int64_t) {
        const auto bits = load_from<Integers>(&values) & 0x7FFFFFFF;
        most = bits > most ? bits : most;
    });
    std::int32_t largest_bits = 0;
    for (int lane = 0; lane < Lanes::kWidth; ++lane) {
        largest_bits = most[lane] > largest_bits ? most[lane] : largest_bits;
    }
    return load_from<float>(&largest_bits);
}

template <typename Lanes>
float sum_lanes(typename Lanes::Floats values) {
    float sum = 0;
    for (int lane = 0; lane < Lanes::kWidth; ++lane) sum += values[lane];
    return sum;
}

// Adding 1.5 * 2^23 rounds to the nearest integer, which then stands in the low bits.
constexpr float kRounder = 12582912.0F;
constexpr std::int32_t kRounderBits = 0x4B400000;

// Codes: each value times inverse_step, at most `limit`, rounded; a code stands for so many `step`.
template <typename Lanes>
QuantizedRow write_codes(const float* row, std::int64_t dim, float inverse_step, float step,
                         float limit, std::int8_t* codes) {
    using Floats = Lanes::Floats;
    using Integers = Lanes::Integers;
    Floats squared{};
    for_each_vector<Lanes>(row, dim, [&](Floats values, std::int64_t i) {
        const Floats shifted = clipped<Floats>(values * inverse_step, limit) + kRounder;
        const auto whole = load_from<Integers>(&shifted) - kRounderBits;
        const Floats error = values - (shifted - kRounder) * step;
        squared += error * error;
        const auto narrow = __builtin_convertvector(whole, typename Lanes::Bytes);
        __builtin_memcpy(codes + i, &narrow, sizeof narrow);
    });
    return {step, sum_lanes<Lanes>(squared)};
}

template <typename Lanes>
QuantizedRow quantize(const float* row, std::int64_t dim, int limit, std::int8_t* codes) {
    const auto most = static_cast<float>(limit);
    const float largest = largest_magnitude<Lanes>(row, dim);
    return write_codes<Lanes>(row, dim, most / largest, largest / most, most, codes);
}

template <typename Lanes>
QuantizedRow quantize_clipped(const float* row, std::int64_t dim, int limit, std::int8_t* codes) {
    using Floats = Lanes::Floats;
    const auto most = static_cast<float>(limit);
    const float largest = largest_magnitude<Lanes>(row, dim);
    float best_fit = 0;
    float best_inverse = most / largest;
    float best_step = largest / most;
    constexpr float kShares[] = {1.0F, 0.88F, 0.77F, 0.68F, 0.6F, 0.52F, 0.45F};
    for (const float share : kShares) {
        const float inverse_step = most / (largest * share);
        Floats products{};
        Floats squares{};
        for_each_vector<Lanes>(row, dim, [&](Floats values, std::int64_t) {
            const Floats code = clipped<Floats>(values * inverse_step, most) + kRounder - kRounder;
            products += code * values;
            squares += code * code;
        });
        // step = <row, codes> / <codes, codes> leaves |row|^2 - <row, codes>^2 / <codes, codes>.
        const float product = sum_lanes<Lanes>(products);
        const float step = product / sum_lanes<Lanes>(squares);
        if (product * step > best_fit) {
            best_fit = product * step;
            best_inverse = inverse_step;
            best_step = step;
        }
    }
    return write_codes<Lanes>(row, dim, best_inverse, best_step, most, codes);
}

// kRows x kAxes products at once, so that what is loaded serves several.
template <typename Lanes, int kRows, int kAxes>
void project_some(const float* rows, const float* axes, std::int64_t n_axes, std::int64_t dim,
                  float* out) {
    using Floats = Lanes::Floats;
    Floats acc[kRows][kAxes] = {};
    std::int64_t i = 0;
    for (; i + Lanes::kWidth <= dim; i += Lanes::kWidth) {
        Floats along[kAxes];
#pragma GCC unroll 4
        for (int axis = 0; axis < kAxes; ++axis)
            along[axis] = load_from<Floats>(axes + axis * dim + i);
#pragma GCC unroll 4
        for (int row = 0; row < kRows; ++row) {
            const auto values = load_from<Floats>(rows + row * dim + i);
#pragma GCC unroll 4
            for (int axis = 0; axis < kAxes; ++axis) {
                acc[row][axis] = Lanes::multiply_add(values, along[axis], acc[row][axis]);
            }
        }
    }
    for (int row = 0; row < kRows; ++row) {
        for (int axis = 0; axis < kAxes; ++axis) {
            float sum = sum_lanes<Lanes>(acc[row][axis]);
            for (std::int64_t rest = i; rest < dim; ++rest) {
                float value = 0;
                float along = 0;
                __builtin_memcpy(&value, rows + row * dim + rest, sizeof value);
                __builtin_memcpy(&along, axes + axis * dim + rest, sizeof along);
                sum += value * along;
            }
            out[row * n_axes + axis] = sum;
        }
    }
}

// All rows on some axes: these stay in the first level of cache.
template <typename Lanes, int kRows, int kAxes>
void project_on(const float* rows, std::int64_t n_rows, const float* axes, std::int64_t n_axes,
                std::int64_t dim, float* out) {
    std::int64_t row = 0;
    for (; row + kRows <= n_rows; row += kRows) {
        project_some<Lanes, kRows, kAxes>(rows + row * dim, axes, n_axes, dim, out + row * n_axes);
    }
    for (; row < n_rows; ++row) {
        project_some<Lanes, 1, kAxes>(rows + row * dim, axes, n_axes, dim, out + row * n_axes);
    }
}

// kRows at once: as many as the registers hold the sums of, with four axes.
template <typename Lanes, int kRows>
void project(const float* rows, std::int64_t n_rows, const float* axes, std::int64_t n_axes,
             std::int64_t dim, float* out) {
    std::int64_t axis = 0;
    for (; axis + 4 <= n_axes; axis += 4) {
        project_on<Lanes, kRows, 4>(rows, n_rows, axes + axis * dim, n_axes, dim, out + axis);
    }
    for (; axis < n_axes; ++axis) {
        project_on<Lanes, kRows, 1>(rows, n_rows, axes + axis * dim, n_axes, dim, out + axis);
    }
}

}  // namespace
}  // namespace epibias::kernels
