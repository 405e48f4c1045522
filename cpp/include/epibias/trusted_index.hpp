// What: which candidates of a pool were in an index while it was trusted, known by a few numbers of
// their vectors; and what the trusted ones of each query say of its clean selection.
//
// Formula, fingerprint: number j is the sum of a row's values in the columns j, j + 8, j + 16, ...,
//   each times the sign of its column, over the row's length (a count sketch of the unit row).
// Formula, untrusted: a candidate meets the passages that differ by at most `tolerance` in each
//   number, as float32. Each takes, in the pool's order, the nearest that nobody of its query has
//   taken; for whom none is left, a copy, is untrusted. They are found by the cells of a grid over
//   two of the numbers: cell = floor((x - low) / step), the ends keeping what lies beyond.
// Formula, records: mean score of the first k that are not new; standard deviation of all their
//   scores (of n - 1); summed as numpy sums a row.
// Shapes: rows [n, dim], fingerprints [n, min(8, dim)]; ragged: query i owns offsets[i] to
//   offsets[i + 1] of fingerprints, marks, similarities, scores. float32 in -> float32, marks, and
//   records in float64.
// Determinism: a row's fingerprint does not hang on the rows beside it.
// Complexity: 4 dim a row; a candidate looks at the passages of the cells that a tolerance reaches,
//   one to four of them. Memory: 8 bytes a candidate of one query.
// Reference: docs/tilt_bound.md; tests/reference_tilt.py. Charikar, Chen and Farach-Colton,
// "Finding
//   frequent items in data streams", 2002, doi:10.1016/S0304-3975(03)00400-6, for the sketch.
#pragma once

#include <cstdint>
#include <span>

#include "epibias/matrix_view.hpp"

namespace epibias {

inline constexpr std::int64_t kFingerprintNumbers = 8;
inline constexpr std::int64_t kMostCells = 1 << 14;  // a side of the grid

// Signs [dim] are 1 or -1. Throws std::invalid_argument for shapes that do not fit, and a row that
// is 0 or not finite.
void fingerprints(MatrixView<const float> rows, std::span<const float> signs,
                  MatrixView<float> numbers);

// Fingerprints of a trusted index in the order of their cells: cell (a, b) owns starts[a n + b] to
// starts[a n + b + 1], n being n_cells.
struct TrustedTable {
    MatrixView<const float> fingerprints;   // [n_trusted, n_numbers], 2 numbers or more
    std::span<const std::int64_t> starts;   // [n_cells^2 + 1]
    std::span<const std::int64_t> columns;  // [2], the numbers that the grid lies over
    std::span<const double> low, step;      // [2], of the grid; steps above 0
    std::int64_t n_cells = 1;               // 1 to kMostCells
    double tolerance = 0;                   // at least 0
};

// Marks the candidates that are not in the table. Throws std::invalid_argument for shapes that do
// not fit and values out of range.
void mark_untrusted(const TrustedTable& table, MatrixView<const float> fingerprints,
                    std::span<const std::int64_t> offsets, std::span<std::uint8_t> untrusted);

// records [2, n_queries]: centre and spread, NaN where fewer than k or 2 are not new. Throws
// std::invalid_argument for k below 1 and shapes that do not fit.
void trusted_records(std::span<const float> scores, std::span<const std::int64_t> offsets,
                     std::span<const std::uint8_t> is_new, std::int64_t k,
                     MatrixView<double> records);

}  // namespace epibias
