// What: the inner loops of polarization_axis_kernels.hpp on eight lanes; compiled once per SIMD
// level by polarization_axis_<level>.cpp. No inline function of a library: see lanes.hpp.
//
// Sizes of tiles differ by level, as the registers do; the order in which a sum is made does not.
#pragma once

#include "kernels/lanes.hpp"
#include "kernels/polarization_axis_kernels.hpp"
#include "kernels/polarization_axis_panels.hpp"

namespace epibias::kernels::EPIBIAS_LEVEL {
namespace {

// Accumulators 0-7, 8-15, 16-23 and 24-31 of the canonical dot product (numeric.hpp). The products
// are exact, so that it does not matter that it fuses them with the sums.
double squared_norm(const float* row, std::int64_t dim) {
    Lanes sums[4] = {broadcast(0.0), broadcast(0.0), broadcast(0.0), broadcast(0.0)};
    constexpr std::int64_t kWidth = kLanes;
    std::int64_t column = 0;
    for (; column + 4 * kWidth <= dim; column += 4 * kWidth) {
        for (std::int64_t part = 0; part < 4; ++part) {
            const Lanes values = load_floats(row + column + part * kWidth);
            sums[part] = sums[part] + values * values;
        }
    }
    for (int part = 0; column < dim; ++part, column += kLanes) {
        const Lanes values = load_columns(row, column, dim);
        sums[part] = sums[part] + values * values;
    }
    return sum_of_lanes((sums[0] + sums[2]) + (sums[1] + sums[3]));
}

// Sums over rows go through eight of them at a time, while the sums are at hand and the rows, which
// may lie in other pages, are few.
void add_rows(const float* rows, const double* scales, std::int64_t n_rows, std::int64_t dim,
              double* sum, std::int64_t stride) {
    for (std::int64_t first = 0; first < n_rows; first += kLanes) {
        const std::int64_t end = first + kLanes < n_rows ? first + kLanes : n_rows;
        for_columns(0, stride, dim,
                    [&](std::int64_t column, const auto& columns) __attribute__((always_inline)) {
                        Lanes total = load(static_cast<const double*>(sum + column));
                        for (std::int64_t i = first; i < end; ++i) {
                            total = total + columns(rows + i * dim) * broadcast(scales[i]);
                        }
                        store(sum + column, total);
                    });
    }
}

void centre(const float* rows, const double* scales, std::int64_t n_rows, std::int64_t dim,
            const double* mean, double* centred, std::int64_t stride) {
    for (std::int64_t i = 0; i < n_rows; ++i) {
        const Lanes scale = broadcast(scales[i]);
        for_columns(0, stride, dim,
                    [&](std::int64_t column, const auto& columns) __attribute__((always_inline)) {
                        store(centred + i * stride + column,
                              columns(rows + i * dim) * scale - load(mean + column));
                    });
    }
}

void combine(const float* rows, const double* scales, const double* mean, const double* weights,
             std::int64_t n_rows, std::int64_t dim, double* combination, std::int64_t stride) {
    for (std::int64_t first = 0; first < n_rows; first += kLanes) {
        const std::int64_t end = first + kLanes < n_rows ? first + kLanes : n_rows;
        for_columns(0, stride, dim,
                    [&](std::int64_t column, const auto& columns) __attribute__((always_inline)) {
                        const Lanes centre = load(mean + column);
                        Lanes sum = first == 0
                                        ? broadcast(0.0)
                                        : load(static_cast<const double*>(combination + column));
                        for (std::int64_t i = first; i < end; ++i) {
                            const Lanes scaled = columns(rows + i * dim) * broadcast(scales[i]);
                            sum = sum + (scaled - centre) * broadcast(weights[i]);
                        }
                        store(combination + column, sum);
                    });
    }
}

void project(const float* rows, const double* scales, const double* mean, std::int64_t n_rows,
             std::int64_t dim, const double* axis, double* results) {
    for (std::int64_t i = 0; i < n_rows; ++i) {
        const Lanes scale = broadcast(scales[i]);
        Lanes sum = broadcast(0.0);
        for (std::int64_t column = 0; column < dim; column += kLanes) {
            const Lanes scaled = load_columns(rows + i * dim, column, dim) * scale;
            sum = sum + (scaled - load(mean + column)) * load(axis + column);
        }
        results[i] = sum_of_lanes(sum);
    }
}

double dot(const double* left, const double* right, std::int64_t stride) {
    Lanes sum = broadcast(0.0);
    for (std::int64_t column = 0; column < stride; column += kLanes) {
        sum = sum + load(left + column) * load(right + column);
    }
    return sum_of_lanes(sum);
}

template <int kRows>
EPIBIAS_INLINE void dots_of_rows(const double* rows, std::int64_t stride, const double* vectors,
                                 double* results) {
    constexpr int kVectors = kDotVectors;
    for (int first = 0; first < kVectorBlock; first += kVectors) {
        Lanes sums[kRows][kVectors];
        for (auto& row : sums) {
            for (auto& sum : row) sum = broadcast(0.0);
        }
        const double* others = vectors + first * stride;
        for (std::int64_t column = 0; column < stride; column += kLanes) {
            Lanes values[kRows];
            for (int i = 0; i < kRows; ++i) values[i] = load(rows + i * stride + column);
            for (int v = 0; v < kVectors; ++v) {
                const Lanes other = load(others + v * stride + column);
                for (int i = 0; i < kRows; ++i) sums[i][v] = sums[i][v] + values[i] * other;
            }
        }
        for (int i = 0; i < kRows; ++i) {
            for (int v = 0; v < kVectors; ++v) {
                results[i * kVectorBlock + first + v] = sum_of_lanes(sums[i][v]);
            }
        }
    }
}

void dots_with_vectors(const double* rows, std::int64_t n_rows, std::int64_t stride,
                       const double* vectors, double* results) {
    std::int64_t i = 0;
    for (; i + kDotRows <= n_rows; i += kDotRows) {
        dots_of_rows<kDotRows>(rows + i * stride, stride, vectors, results + i * kVectorBlock);
    }
    for (; i < n_rows; ++i) {
        dots_of_rows<1>(rows + i * stride, stride, vectors, results + i * kVectorBlock);
    }
}

void add_to_vectors(const double* rows, std::int64_t n_rows, std::int64_t stride,
                    const double* weights, double* vectors) {
    for (std::int64_t first = 0; first < n_rows; first += kLanes) {
        const std::int64_t end = first + kLanes < n_rows ? first + kLanes : n_rows;
        for (std::int64_t column = 0; column < stride; column += kLanes) {
            Lanes sums[kVectorBlock];
            for (int v = 0; v < kVectorBlock; ++v) {
                sums[v] = load(static_cast<const double*>(vectors + v * stride + column));
            }
            for (std::int64_t i = first; i < end; ++i) {
                const Lanes values = load(rows + i * stride + column);
                for (int v = 0; v < kVectorBlock; ++v) {
                    sums[v] = sums[v] + values * broadcast(weights[i * kVectorBlock + v]);
                }
            }
            for (int v = 0; v < kVectorBlock; ++v) store(vectors + v * stride + column, sums[v]);
        }
    }
}

void narrow(const double* values, double divisor, std::int64_t dim, float* result) {
    const Lanes inverse = broadcast(1 / divisor);
    for (std::int64_t column = 0; column < dim; column += kLanes) {
        float narrowed[kLanes];
        store_narrowed(narrowed, load(values + column) * inverse);
        const std::int64_t n_columns = column + kLanes <= dim ? kLanes : dim - column;
        if (n_columns == kLanes) {
            __builtin_memcpy(result + column, narrowed, sizeof(narrowed));
        } else {
            for (std::int64_t i = 0; i < n_columns; ++i) result[column + i] = narrowed[i];
        }
    }
}

}  // namespace

const PolarizationAxisKernels kPolarizationAxis{
    squared_norm,      add_rows,       centre,  small_gram, panel_of_columns,
    panel_of_rows,     add_products,   combine, project,    dot,
    dots_with_vectors, add_to_vectors, narrow};

}  // namespace epibias::kernels::EPIBIAS_LEVEL
