// What: what a pool has in common with the one that was remembered: whether its selection is the
// same, which candidates were not there, and which of those may not be selected; in one call each
// for a batch.
//
// Formula: a selection of the first k is unchanged where the means of their similarities and of
// their
//   scores are within kSameCandidate of those remembered. Means are summed as numpy sums a row.
//   A remembered candidate is a pair of similarity and score. One of the pool meets those
//   whose similarity lies in [its own - kSameCandidate, its own + kSameCandidate) and whose score
//   differs by no more. Of the candidates whose first met pair is the same, in the pool's order, as
//   many are remembered as that pair has equals: copies of what is remembered are not. A candidate
//   that meets none is unremembered, unless it is less similar than every remembered one: it was
//   out of sight then.
//   A passage of a trusted index has n_columns numbers (its fingerprint). A candidate meets those
//   that differ by at most `tolerance` in each; again as many candidates are trusted as there are
//   equals. They are found by the cells of a grid over the first two columns: cell = floor((x -
//   low) / step). Of what is trusted of a pool: mean score and similarity of its first k, standard
//   deviation of all its scores, by numpy's order. Of the new ones of a query none passes where
//   they are more than most_in_pool: a wave. Else the first most_in_selection do, those that come
//   after most_of_source others of their source left out.
// Shapes: ragged. Query i owns offsets[i] to offsets[i + 1] of similarities, scores, is_new,
//   sources, unremembered, refused. float32 and float64 in -> marks.
// Complexity: n (log m + pairs of nearly one similarity) a query; n times the passages of one to
// four
//   cells. Memory: 4 bytes a pair of one query; 16 bytes a candidate of one query; with sources,
//   what a query's new ones have.
// Reference: docs/tilt_bound.md; tests/reference_tilt.py.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "epibias/matrix_view.hpp"

namespace epibias {

// One similarity, or score, and another, or the means of two selections: how far the same ones may
// lie apart.
inline constexpr double kSameCandidate = 1e-6;

struct RememberedCandidates {
    std::int64_t query;
    std::span<const double> pairs;  // [2 m], m at least 1: similarity (ascending), score, and so on
};

struct PoolToRecognize {
    std::span<const float> similarities;    // [n_candidates]
    std::span<const float> scores;          // [n_candidates]
    std::span<const std::int64_t> offsets;  // [n_queries + 1]
};

// Marks the queries whose first k are as remembered; of NaN, or of no candidate, none is. Throws
// std::invalid_argument for k below 1 and shapes that do not fit.
void mark_unchanged(const PoolToRecognize& pool, std::int64_t k,
                    std::span<const double> similarities,  // [n_queries], means remembered
                    std::span<const double> scores,        // [n_queries]
                    std::span<std::uint8_t> unchanged);

// Fills the marks of the queries that `remembered` names; 1: was not there. Throws
// std::invalid_argument for shapes that do not fit, a query that there is not, pairs that are none
// or whose similarities do not ascend.
void mark_unremembered(const PoolToRecognize& pool,
                       std::span<const RememberedCandidates> remembered,
                       std::span<std::uint8_t> unremembered);

inline constexpr std::int64_t kFingerprintNumbers = 8, kFingerprintColumns = 64;

// fingerprints [n_rows, min(kFingerprintNumbers, dim)], summed in float64. Throws
// std::invalid_argument for shapes that do not fit, a row that is not finite, or 0, in the columns
// that are read.
void fingerprints(MatrixView<const float> rows, MatrixView<float> fingerprints);

// Fingerprints of a trusted index, in the order of their cells: cell (a, b) owns starts[a n + b] to
// starts[a n + b + 1], n being n_cells.
struct TrustedTable {
    MatrixView<const float> fingerprints;  // [n_trusted, n_columns], 2 columns or more
    std::span<const std::int64_t> starts;  // [n_cells^2 + 1]
    std::span<const double> low, step;     // [2], of the grid; steps above 0
    std::int64_t n_cells = 1;
    double tolerance = 0;
};

// Marks the candidates that are not in the table. Throws std::invalid_argument for shapes that do
// not fit.
void mark_untrusted(const TrustedTable& table, MatrixView<const float> fingerprints,
                    std::span<const std::int64_t> offsets, std::span<std::uint8_t> untrusted);

// records [3, n_queries]: mean score of the first k that are not new, standard deviation of all
// their scores (of n - 1), mean similarity of the first k. NaN where there are fewer than k or 2.
// Throws std::invalid_argument for k below 1 and shapes that do not fit.
void trusted_records(const PoolToRecognize& pool, std::span<const std::uint8_t> is_new,
                     std::int64_t k, MatrixView<double> records);

struct NewcomersInput {
    std::span<const std::uint8_t> is_new;        // [n_candidates]
    std::span<const std::int64_t> offsets;       // [n_queries + 1]
    std::span<const std::int64_t> most_in_pool;  // [n_queries]
    std::int64_t most_in_selection = 0;
    std::span<const std::int64_t> sources;  // [n_candidates], equal for one source; empty: unknown
    std::int64_t most_of_source = std::numeric_limits<std::int64_t>::max();
};

// Marks who may not be selected, and counts them by query. Throws std::invalid_argument for shapes
// that do not fit.
void refuse_newcomers(const NewcomersInput& given, std::span<std::uint8_t> refused,
                      std::span<std::int64_t> n_refused);

}  // namespace epibias
