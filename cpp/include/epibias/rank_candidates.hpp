// What: the candidates of every query, given as rows, with similarity and polarization score (PS),
// in the total order.
//
// Formula: similarity = float32(canonical_dot(q, c) * inverse_norm(q) * inverse_norm(c)), as in
//   cosine_topk.hpp; PS = float32(canonical_dot(p, axis) * inverse_norm(p)), less the offset of the
//   axis, rounded to float32 once more; without `normalize` the norm of p is left out.
// Shapes: ragged. Query i owns the rows offsets[i] to offsets[i + 1] of candidates, ps_rows,
//   indices and of all results. Rows at any byte address.
// float32 in -> float64 sums -> float32 out.
// Order: similarity descending, then index ascending (ranking.hpp), within each query.
// Determinism: the same bits for every SIMD level, thread count and batch; those of cosine_topk and
//   gathered_polarization_scores.
// Complexity a query of n candidates: n dim multiply-adds three times over one reading of the rows
//   (PS rows of their own: one more reading), then n log n. Memory per thread: O(dim + n).
// Reference: arXiv 2512.00804, section IV, for PS.
#pragma once

#include <cstdint>
#include <span>

#include "epibias/matrix_view.hpp"

namespace epibias {

struct CandidateRows {
    MatrixView<const float> queries;        // [n_queries, dim]
    MatrixView<const float> candidates;     // [n_candidates, dim]
    std::span<const std::int64_t> offsets;  // [n_queries + 1], rising from 0 to n_candidates
    std::span<const std::int64_t> indices;  // [n_candidates]; empty: 0 … n - 1 for each query
    MatrixView<const float> ps_rows;        // [n_candidates, ps_dim]; data null: the candidates
    MatrixView<const float> axes;           // [n_axes, ps_dim]
    std::span<const std::int64_t> axis_of_query;  // [n_queries]; empty: the only axis, or axis i
    std::span<const double> score_offsets;        // [n_axes]; empty: 0
    bool normalize = true;                        // PS of unit-scaled rows
};

struct RankedCandidates {
    std::span<std::int64_t> rows;     // [n_candidates]: row of `candidates` that stands here
    std::span<std::int64_t> indices;  // [n_candidates]
    std::span<float> similarities;    // [n_candidates]
    std::span<float> scores;          // [n_candidates]
};

// Throws std::invalid_argument for shapes and offsets that do not fit, an index twice in a query, a
// zero or non-finite row, a score beyond float32 (query and row within its candidates named), an
// axis out of range.
void rank_candidates(const CandidateRows& given, const RankedCandidates& result, int n_threads = 0);

}  // namespace epibias
