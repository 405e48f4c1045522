// What: second-stage orders of one query's candidates: maximal marginal relevance, and the greedy
// mode of a determinantal point process.
//
// Formula: mmr: first the most similar candidate, then the argmax of
//     relevance_weight * similarity(d) - (1 - relevance_weight) * max over selected s of cos(d, s),
//   cosines in float64, canonical dot times both inverse norms (numeric.hpp), not rounded.
//   dpp_greedy: argmax of det(K[S + d]) / det(K[S]), as the residual of an incremental Cholesky
//     factor; stops when the best gain is not above kSmallestGain.
// Shapes: similarities [n_queries, n], embeddings [n_queries * n, dim], kernel [n_queries * n, n],
//   indices [n_queries, k]: positions in the query's candidates, in order of selection.
// float32 in (dpp: float64) -> float64 -> int64. Ties: the lower position.
// Determinism: the same for every SIMD level, thread count and batch.
// Complexity a query: mmr n k dim; dpp n k^2. Memory per thread: O(n) and O(n k). Nothing n x n is
//   made by mmr.
// References: Carbonell, Goldstein 1998, doi:10.1145/290941.291025; Chen, Zhang, Zhou 2018,
//   arXiv:1709.05135.
#pragma once

#include <cstdint>
#include <span>

#include "epibias/matrix_view.hpp"

namespace epibias {

inline constexpr double kSmallestGain = 1e-10;
// |K - K^T| up to this share of max |K| is rounding.
inline constexpr double kSymmetryTolerance = 1e-9;

struct MmrOptions {
    double relevance_weight = 0.5;  // 1: pure relevance, 0: pure diversity
    int n_threads = 0;              // 0 chooses
};

// k in [0, n]. Throws std::invalid_argument for k or relevance_weight out of range, similarities
// that are not finite, embedding rows that are not finite or zero (query and row named).
void mmr(MatrixView<const float> similarities, MatrixView<const float> embeddings, std::int64_t k,
         MatrixView<std::int64_t> indices, const MmrOptions& options = {});

// k in [0, n]. `indices` is filled with -1 behind the n_selected[q] chosen. Throws
// std::invalid_argument for k out of range and a kernel that is not finite or not symmetric. A
// kernel that is not positive semidefinite is legal: the selection stops where gains end.
void dpp_greedy(MatrixView<const double> kernel, std::int64_t k, MatrixView<std::int64_t> indices,
                std::span<std::int64_t> n_selected, int n_threads = 0);

}  // namespace epibias
