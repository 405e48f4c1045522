// What: exact cosine top-k of float32 queries among float32 passages.
//
// Formula: similarity = float32(canonical_dot(q, p) * inverse_norm(q) * inverse_norm(p)),
// numeric.hpp. Shapes: queries [n_queries, dim], passages [n_passages, dim], indices and
// similarities
//   [n_queries, k], row-major. Addresses need not be aligned; passages may be memory-mapped.
// float32 in -> float32 scan as a filter, float64 canonical re-score -> float32 out.
// Order: similarity descending, then index ascending (ranking.hpp). The answer is the same, to the
//   bit, for every tile size, thread count and SIMD level.
// Why it is exact: the scan's value differs from the similarity by at most `scan_error_bound(dim)`;
//   a passage is dropped only where its value plus that bound lies below a proven lower bound of
//   the k-th similarity. Rows with a norm outside [1e-15, 1e15], where float32 could overflow or
//   vanish, skip the filter and are re-scored.
// Complexity: n_queries * n_passages * dim multiply-adds in float32, then about
//   k * (1 + ln(n_passages / k)) canonical dots per query; at worst (all passages equal, or sorted
//   by ascending similarity) every pair is re-scored. Passages are read once per block of queries.
// Memory: per thread O(min(n_queries, 256) * k) and one tile of hits; 8 bytes a passage where
//   n_queries needs several blocks and no inverse norms are given. Never queries x passages.
// Reference: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1
//   (doi:10.1137/1.9780898718027), for the bound.
#pragma once

#include <cstdint>
#include <span>

#include "epibias/matrix_view.hpp"

namespace epibias {

struct CosineTopkOptions {
    std::int64_t tile_rows = 0;  // passages that stay in cache for all queries; 0 chooses
    int n_threads = 0;           // 0 means n_threads() of parallel.hpp
};

// Fills `indices` and `similarities` and returns how many (query, passage) pairs were re-scored
// (this count alone depends on the timing of the threads).
//
// `inverse_norms` is empty, or what inverse_norms() gave for these passages. When it is empty the
// passages are checked on the way: a non-finite or zero-norm row throws std::invalid_argument that
// names the lowest such row. `k` lies in [1, n_passages]; k = 0 is right only for no passages.
std::int64_t cosine_topk(MatrixView<const float> queries, MatrixView<const float> passages,
                         std::int64_t k, std::span<const double> inverse_norms,
                         MatrixView<std::int64_t> indices, MatrixView<float> similarities,
                         const CosineTopkOptions& options = {});

// |scan value - similarity| is at most this, for unit-scaled queries and rows that are not skipped.
[[nodiscard]] double scan_error_bound(std::int64_t dim);

}  // namespace epibias
