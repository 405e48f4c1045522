// What: the inner loops of polarization_axis_kernels.hpp on eight lanes; compiled once per SIMD
// level by polarization_axis_<level>.cpp. No inline function of a library: see lanes.hpp.
#pragma once

#include "kernels/lanes.hpp"
#include "kernels/polarization_axis_kernels.hpp"

namespace epibias::kernels::EPIBIAS_LEVEL {
namespace {

static_assert(kRowBlock == kLanes);

// Columns first … first + 7 of a row that ends at dim; zeros behind it.
EPIBIAS_INLINE Lanes load_columns(const float* row, std::int64_t first, std::int64_t dim) {
    if (first + kLanes <= dim) return load(row + first);
    float columns[kLanes] = {};
    for (std::int64_t column = first; column < dim; ++column) {
        columns[column - first] = row[column];
    }
    return load(static_cast<const float*>(columns));
}

void centre(const float* rows, const double* scales, std::int64_t n_rows, std::int64_t dim,
            double* mean, double* centred, std::int64_t stride) {
    const Lanes count = broadcast(static_cast<double>(n_rows));
    for (std::int64_t column = 0; column < stride; column += kLanes) {
        Lanes sum = broadcast(0.0);
        for (std::int64_t i = 0; i < n_rows; ++i) {
            const Lanes scaled = load_columns(rows + i * dim, column, dim) * broadcast(scales[i]);
            store(centred + i * stride + column, scaled);
            sum = sum + scaled;
        }
        const Lanes average = sum / count;
        store(mean + column, average);
        for (std::int64_t i = 0; i < n_rows; ++i) {
            double* place = centred + i * stride + column;
            store(place, load(place) - average);
        }
    }
}

// Four rows against one: five loads for four products.
void gram(const double* centred, std::int64_t n_rows, std::int64_t stride, double* products) {
    for (std::int64_t i = 0; i < n_rows; ++i) {
        const double* row = centred + i * stride;
        std::int64_t j = 0;
        for (; j + 4 <= i + 1; j += 4) {
            const double* others = centred + j * stride;
            Lanes sums[4] = {broadcast(0.0), broadcast(0.0), broadcast(0.0), broadcast(0.0)};
            for (std::int64_t column = 0; column < stride; column += kLanes) {
                const Lanes values = load(row + column);
                sums[0] = sums[0] + values * load(others + column);
                sums[1] = sums[1] + values * load(others + stride + column);
                sums[2] = sums[2] + values * load(others + 2 * stride + column);
                sums[3] = sums[3] + values * load(others + 3 * stride + column);
            }
            for (int other = 0; other < 4; ++other) {
                products[i * n_rows + j + other] = sum_of_lanes(sums[other]);
            }
        }
        for (; j <= i; ++j) {
            const double* other = centred + j * stride;
            Lanes sum = broadcast(0.0);
            for (std::int64_t column = 0; column < stride; column += kLanes) {
                sum = sum + load(row + column) * load(other + column);
            }
            products[i * n_rows + j] = sum_of_lanes(sum);
        }
    }
}

void combine(const double* centred, const double* weights, std::int64_t n_rows, std::int64_t stride,
             double* combination) {
    for (std::int64_t column = 0; column < stride; column += kLanes) {
        Lanes sum = broadcast(0.0);
        for (std::int64_t i = 0; i < n_rows; ++i) {
            sum = sum + load(centred + i * stride + column) * broadcast(weights[i]);
        }
        store(combination + column, sum);
    }
}

double dot(const double* left, const double* right, std::int64_t stride) {
    Lanes sum = broadcast(0.0);
    for (std::int64_t column = 0; column < stride; column += kLanes) {
        sum = sum + load(left + column) * load(right + column);
    }
    return sum_of_lanes(sum);
}

}  // namespace

const PolarizationAxisKernels kPolarizationAxis{centre, gram, combine, dot};

}  // namespace epibias::kernels::EPIBIAS_LEVEL
