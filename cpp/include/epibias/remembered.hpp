// What: what a pool has in common with the one that was remembered of its question: whether its
// selection is the same, and which candidates were not there; and which newcomers may not be
// selected; in one call each for a batch.
//
// Formula, unchanged: the means of the similarities and of the scores of the first k are within
//   kSameCandidate of those remembered. Means are summed as numpy sums a row.
// Formula, unremembered: a remembered candidate is a pair of similarity and score. One of the pool
//   meets those whose similarity lies in [its own - kSameCandidate, its own + kSameCandidate) and
//   whose score differs by no more. Each takes, in the pool's order, the nearest pair that nobody
//   has taken; for whom none is left, a copy, is not remembered. One that meets none, and is less
//   similar than every remembered one, was out of sight then, and may be spared.
// Formula, refused: of the new ones of a query none passes where they are more than most_in_pool: a
//   wave. Else the first most_in_selection do, those that come after most_of_source others of their
//   source left out.
// Shapes: ragged. Query i owns offsets[i] to offsets[i + 1] of similarities, scores, is_new,
//   sources, unremembered, refused. float32 and float64 in -> marks.
// Complexity: n (log m + pairs of nearly one similarity) a query. Memory: 4 bytes a pair of one
//   query; with sources, what a query's new ones have.
// Reference: docs/tilt_bound.md; tests/reference_tilt.py.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

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

// Fills the marks of the queries that `remembered` names; 1: was not there. With `sparing` those
// that were out of sight are 0. Throws std::invalid_argument for shapes that do not fit, a query
// that there is not, pairs that are none or whose similarities do not ascend.
void mark_unremembered(const PoolToRecognize& pool,
                       std::span<const RememberedCandidates> remembered, bool sparing,
                       std::span<std::uint8_t> unremembered);

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
