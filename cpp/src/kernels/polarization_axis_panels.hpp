// What: products of centred anchors: the small Gram matrix, panels and their products. Part of
// polarization_axis_body.hpp; the same rules hold.
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "kernels/lanes.hpp"
#include "kernels/polarization_axis_kernels.hpp"

namespace epibias::kernels::EPIBIAS_LEVEL {
namespace {

static_assert(kRowBlock == kLanes);

// What fits in the registers of a level: 32 of eight lanes, 16 of four, 16 of two.
#if defined(__AVX512F__)
constexpr int kKeptRows = 8;                   // centred in registers
constexpr int kGramRows = 4, kGramOthers = 4;  // rows against rows
constexpr int kTileRows = 8, kTileBlocks = 2;  // p against blocks of eight q
constexpr int kDotRows = 4, kDotVectors = 4;   // rows against vectors
#elif defined(__AVX2__)
constexpr int kKeptRows = 4;
constexpr int kGramRows = 4, kGramOthers = 2;
constexpr int kTileRows = 4, kTileBlocks = 1;
constexpr int kDotRows = 1, kDotVectors = 4;
#else
constexpr int kKeptRows = 2;
constexpr int kGramRows = 4, kGramOthers = 2;
constexpr int kTileRows = 2, kTileBlocks = 1;
constexpr int kDotRows = 1, kDotVectors = 2;
#endif

// Eight floats as float64. g++ 12 converts a vector of eight in two halves and joins them.
EPIBIAS_INLINE Lanes load_floats(const float* from) {
#if defined(__AVX512F__)
    return _mm512_cvtps_pd(_mm256_loadu_ps(from));
#else
    return load(from);
#endif
}

// Columns first … first + 7 of a row that ends at dim; zeros behind it.
EPIBIAS_INLINE Lanes load_columns(const float* row, std::int64_t first, std::int64_t dim) {
    if (first + kLanes <= dim) return load_floats(row + first);
    float columns[kLanes] = {};
    for (std::int64_t column = first; column < dim; ++column) {
        columns[column - first] = row[column];
    }
    return load_floats(columns);
}

// Calls run(column, load) for every eight columns, where load(row) gives them as Lanes: without the
// test for the end of the row wherever it cannot be near.
template <typename Run>
EPIBIAS_INLINE void for_columns(std::int64_t first, std::int64_t end, std::int64_t dim,
                                const Run& run) {
    std::int64_t column = first;
    for (; column + kLanes <= end && column + kLanes <= dim; column += kLanes) {
        run(column, [column](const float* row)
                        __attribute__((always_inline)) { return load_floats(row + column); });
    }
    for (; column < end; column += kLanes) {
        run(column, [column, dim](const float* row)
                        __attribute__((always_inline)) { return load_columns(row, column, dim); });
    }
}

EPIBIAS_INLINE void store_narrowed(float* to, const RegisterDoubles& values) {
    const RegisterFloats narrow = __builtin_convertvector(values, RegisterFloats);
    __builtin_memcpy(to, &narrow, sizeof(narrow));
}
template <typename Half>
EPIBIAS_INLINE void store_narrowed(float* to, const Pair<Half>& values) {
    store_narrowed(to, values.low);
    store_narrowed(to + sizeof(Half) / sizeof(double), values.high);
}

// ---- few rows: lanes are columns -----------------------------------------------------------

// Rows i … against rows j … of a panel [n_rows, kPanelTerms]; kDiagonal: i = j, the lower half. One
// register of every eight lanes at a time: the others' sums would not fit beside it.
template <int kRows, int kOthers, bool kDiagonal>
EPIBIAS_INLINE void gram_tile(const double* panel, std::int64_t i, std::int64_t j,
                              std::int64_t length, double* sums) {
    using Register = Access<RegisterDoubles>;
    for (int part = 0; part < kLanes; part += kRegisterLanes) {
        const auto sum_place = [&](int row, int other) {
            const std::int64_t number = (i + row) * (i + row + 1) / 2 + j + other;
            return sums + number * kLanes + part;
        };
        RegisterDoubles tile[kRows][kOthers];
        for (int row = 0; row < kRows; ++row) {
            for (int other = 0; other < (kDiagonal ? row + 1 : kOthers); ++other) {
                const double* place = sum_place(row, other);
                tile[row][other] = Register::load(place);
            }
        }
        for (std::int64_t column = part; column < length; column += kLanes) {
            RegisterDoubles values[kRows];
            for (int row = 0; row < kRows; ++row) {
                values[row] = Register::load(panel + (i + row) * kPanelTerms + column);
            }
            for (int other = 0; other < kOthers; ++other) {
                const RegisterDoubles value =
                    kDiagonal ? values[other]
                              : Register::load(panel + (j + other) * kPanelTerms + column);
                for (int row = kDiagonal ? other : 0; row < kRows; ++row) {
                    tile[row][other] = tile[row][other] + values[row] * value;
                }
            }
        }
        for (int row = 0; row < kRows; ++row) {
            for (int other = 0; other < (kDiagonal ? row + 1 : kOthers); ++other) {
                Register::store(sum_place(row, other), tile[row][other]);
            }
        }
    }
}

// Rows i … i + kRows - 1 against all before them and themselves.
template <int kRows>
EPIBIAS_INLINE void gram_rows(const double* panel, std::int64_t i, std::int64_t length,
                              double* sums) {
    std::int64_t j = 0;
    for (; j + kGramOthers <= i; j += kGramOthers) {
        gram_tile<kRows, kGramOthers, false>(panel, i, j, length, sums);
    }
    for (; j < i; ++j) gram_tile<kRows, 1, false>(panel, i, j, length, sums);
    gram_tile<kRows, kRows, true>(panel, i, i, length, sums);
}

// Mean and centred values of columns [first, first + length) of at least kRows rows: the first
// kRows of them stay in registers between the sum and its subtraction.
template <int kRows>
EPIBIAS_INLINE void centre_columns(const float* rows, const double* scales, std::int64_t n_rows,
                                   std::int64_t dim, std::int64_t first, std::int64_t length,
                                   double* mean, double* panel) {
    const Lanes share = broadcast(1 / static_cast<double>(n_rows));
    for_columns(first, first + length, dim,
                [&](std::int64_t column, const auto& columns) __attribute__((always_inline)) {
                    Lanes kept[kRows];
                    Lanes sum = broadcast(0.0);
                    for (int i = 0; i < kRows; ++i) {
                        kept[i] = columns(rows + i * dim) * broadcast(scales[i]);
                        sum = sum + kept[i];
                    }
                    for (std::int64_t i = kRows; i < n_rows; ++i) {
                        sum = sum + columns(rows + i * dim) * broadcast(scales[i]);
                    }
                    const Lanes average = sum * share;
                    store(mean + column, average);
                    double* place = panel + column - first;
                    for (int i = 0; i < kRows; ++i)
                        store(place + i * kPanelTerms, kept[i] - average);
                    for (std::int64_t i = kRows; i < n_rows; ++i) {
                        const Lanes scaled = columns(rows + i * dim) * broadcast(scales[i]);
                        store(place + i * kPanelTerms, scaled - average);
                    }
                });
}

void small_gram(const float* rows, const double* scales, std::int64_t n_rows, std::int64_t dim,
                double* mean, double* scratch, double* products) {
    double* panel = scratch;
    double* sums = scratch + n_rows * kPanelTerms;
    const std::int64_t n_sums = n_rows * (n_rows + 1) / 2;
    for (std::int64_t i = 0; i < n_sums; ++i) store(sums + i * kLanes, broadcast(0.0));
    for (std::int64_t first = 0; first < dim; first += kPanelTerms) {
        const std::int64_t n_columns = first + kPanelTerms < dim ? kPanelTerms : dim - first;
        const std::int64_t length = (n_columns + kLanes - 1) / kLanes * kLanes;
        if (n_rows >= kKeptRows) {
            centre_columns<kKeptRows>(rows, scales, n_rows, dim, first, length, mean, panel);
        } else {
            centre_columns<1>(rows, scales, n_rows, dim, first, length, mean, panel);
        }
        std::int64_t i = 0;
        for (; i + kGramRows <= n_rows; i += kGramRows) {
            gram_rows<kGramRows>(panel, i, length, sums);
        }
        for (; i < n_rows; ++i) gram_rows<1>(panel, i, length, sums);
    }
    const double* sum = sums;
    for (std::int64_t i = 0; i < n_rows; ++i) {
        for (std::int64_t j = 0; j <= i; ++j, sum += kLanes) {
            products[i * n_rows + j] = sum_of_lanes(load(sum));
        }
    }
}

// ---- many rows: lanes are p or q -----------------------------------------------------------

// Columns of a square of registers become rows: as many rounds of zipping a list's halves as it
// takes for every element to change places.
EPIBIAS_INLINE void transpose(RegisterDoubles (&square)[kRegisterLanes]) {
    constexpr int kHalf = kRegisterLanes / 2;
    for (int round = 1; round < kRegisterLanes; round *= 2) {
        RegisterDoubles zipped[kRegisterLanes];
        for (std::int64_t i = 0; i < kHalf; ++i) {
            const RegisterDoubles low = square[i];
            const RegisterDoubles high = square[i + kHalf];
#if defined(__AVX512F__)
            zipped[2 * i] = __builtin_shufflevector(low, high, 0, 8, 1, 9, 2, 10, 3, 11);
            zipped[2 * i + 1] = __builtin_shufflevector(low, high, 4, 12, 5, 13, 6, 14, 7, 15);
#elif defined(__AVX2__)
            zipped[2 * i] = __builtin_shufflevector(low, high, 0, 4, 1, 5);
            zipped[2 * i + 1] = __builtin_shufflevector(low, high, 2, 6, 3, 7);
#else
            zipped[2 * i] = __builtin_shufflevector(low, high, 0, 2);
            zipped[2 * i + 1] = __builtin_shufflevector(low, high, 1, 3);
#endif
        }
        for (int i = 0; i < kRegisterLanes; ++i) square[i] = zipped[i];
    }
}

// Registers of consecutive columns of a row that ends at dim; zeros behind it.
EPIBIAS_INLINE RegisterDoubles load_register(const float* row, std::int64_t first,
                                             std::int64_t dim) {
    if (first + kRegisterLanes <= dim) return Access<RegisterDoubles>::load(row + first);
    float columns[kRegisterLanes] = {};
    for (std::int64_t column = first; column < dim; ++column) {
        columns[column - first] = row[column];
    }
    return Access<RegisterDoubles>::load(static_cast<const float*>(columns));
}

void panel_of_columns(const float* rows, const double* scales, std::int64_t n_rows,
                      std::int64_t dim, std::int64_t first, std::int64_t n_terms,
                      const double* mean, double* panel) {
    const std::int64_t end = first + n_terms;
    for (std::int64_t row = 0; row < n_rows; row += kRegisterLanes) {
        double* block = panel + row / kLanes * (kPanelTerms * kLanes) + row % kLanes;
        for (std::int64_t column = first; column < end; column += kRegisterLanes) {
            RegisterDoubles square[kRegisterLanes];
            for (int i = 0; i < kRegisterLanes; ++i) {
                if (row + i >= n_rows) {
                    square[i] = RegisterDoubles{};
                    continue;
                }
                square[i] = load_register(rows + (row + i) * dim, column, dim) *
                                Access<RegisterDoubles>::broadcast(scales[row + i]) -
                            Access<RegisterDoubles>::load(mean + column);
            }
            transpose(square);
            const std::int64_t n_left = end - column;
            for (int i = 0; i < kRegisterLanes && i < n_left; ++i) {
                Access<RegisterDoubles>::store(block + (column - first + i) * kLanes, square[i]);
            }
        }
    }
    // The lanes of rows that the last block lacks, where a register does not cover them.
    const std::int64_t covered = (n_rows + kRegisterLanes - 1) / kRegisterLanes * kRegisterLanes;
    for (std::int64_t row = covered; row % kLanes != 0; ++row) {
        double* block = panel + row / kLanes * (kPanelTerms * kLanes) + row % kLanes;
        for (std::int64_t term = 0; term < n_terms; ++term) block[term * kLanes] = 0;
    }
}

void panel_of_rows(const float* rows, const double* scales, std::int64_t n_rows, std::int64_t dim,
                   const double* mean, double* panel) {
    for (std::int64_t term = 0; term < n_rows; ++term) {
        const Lanes scale = broadcast(scales[term]);
        double* place = panel + term * kLanes;
        for (std::int64_t column = 0; column < dim; column += kLanes) {
            store(place,
                  load_columns(rows + term * dim, column, dim) * scale - load(mean + column));
            place += kPanelTerms * kLanes;
        }
    }
}

// Rows p … of a tile against kBlocks blocks of eight q.
template <int kBlocks>
EPIBIAS_INLINE void product_tile(const double* p_values, const double* q_values,
                                 std::int64_t n_terms, double* products, std::int64_t stride) {
    Lanes tile[kTileRows][kBlocks];
    for (auto& row : tile) {
        for (auto& sum : row) sum = broadcast(0.0);
    }
    for (std::int64_t term = 0; term < n_terms; ++term) {
        Lanes others[kBlocks];
        for (std::int64_t block = 0; block < kBlocks; ++block) {
            others[block] = load(q_values + block * (kPanelTerms * kLanes) + term * kLanes);
        }
        for (int row = 0; row < kTileRows; ++row) {
            const Lanes value = broadcast(p_values[term * kLanes + row]);
            for (std::int64_t block = 0; block < kBlocks; ++block) {
                tile[row][block] = tile[row][block] + value * others[block];
            }
        }
    }
    for (int row = 0; row < kTileRows; ++row) {
        for (std::int64_t block = 0; block < kBlocks; ++block) {
            double* place = products + row * stride + block * kLanes;
            store(place, load(static_cast<const double*>(place)) + tile[row][block]);
        }
    }
}

void add_products(const double* panel, std::int64_t n_terms, std::int64_t first, std::int64_t end,
                  double* products, std::int64_t stride) {
    for (std::int64_t p = first; p < end; p += kTileRows) {
        const double* p_values = panel + p / kLanes * (kPanelTerms * kLanes) + p % kLanes;
        const std::int64_t q_end = p / kLanes * kLanes + kLanes;
        constexpr std::int64_t kTileColumns = std::int64_t{kTileBlocks} * kLanes;
        std::int64_t q = 0;
        for (; q + kTileColumns <= q_end; q += kTileColumns) {
            product_tile<kTileBlocks>(p_values, panel + q * kPanelTerms, n_terms,
                                      products + p * stride + q, stride);
        }
        for (; q < q_end; q += kLanes) {
            product_tile<1>(p_values, panel + q * kPanelTerms, n_terms, products + p * stride + q,
                            stride);
        }
    }
}

}  // namespace
}  // namespace epibias::kernels::EPIBIAS_LEVEL
