// What: the leading principal axis of each topic's anchors, oriented, and projections on axes.
//
// Formula: rows r_i = a_i / |a_i| (or a_i), centred c_i = r_i - mean(r). axis = leading unit
//   eigenvector of sum c_i c_i^T: from the Gram matrix [n_anchors, n_anchors], axis = C^T v / |C^T
//   v|, where n_anchors < dim, else from the [dim, dim] covariance. explained_variance_ratio =
//   first / trace, relative_gap = (first - second) / first, eigenvalues. PS(d) = axis . d / |d|.
// Orientation: with stances the mean PS of the supporting (> 0) anchors is not below that of the
//   opposing (< 0) ones; otherwise the mean PS of the anchors is positive, or, where it is within
//   1e-6 of 0, the component of largest magnitude is (the lowest index within 1e-6 of it).
// Shapes: anchors [n_topics * n_anchors, dim], stances [n_topics, n_anchors], axes [n_topics, dim],
//   rows [n_rows, dim]; row-major, any byte address.
// float32 in -> centred and summed in float64, eigenpair in float64 -> axis float32, rest float64.
//   Centring comes before the products: double-centring a Gram matrix loses up to 5e-3 in angle.
// Method, by the fewer m of anchors and dimensions: m <= 16 Jacobi, eight topics at a time, one a
//   vector lane; m <= 256 tridiagonal form of the products; above, block Lanczos on the anchors
//   themselves (block_lanczos.hpp), and on their products where the spectrum falls too slowly.
// Error: angle <= about (2e-16 n_anchors / relative_gap + 6e-8) rad, the last from rounding to
//   float32; by Lanczos max(1e-8, 1e-13 / relative_gap) + 6e-8, from residuals that are checked.
//   That no larger eigenvalue was missed is proven by the direct methods only; for Lanczos it holds
//   with probability 1 over its start, which is drawn from a hash of the anchors:
//   block_lanczos.hpp. Eigenvalues: a few n eps of the first, the second by Lanczos 1e-11 of it.
//   Below a relative gap of 1e-6 the axis is one of many: look at relative_gap.
// Determinism: the same bits for every SIMD level, thread count and batch.
// Complexity a topic: n_anchors dim m / 2 and symmetric_eigen.hpp; by Lanczos 8 n_anchors dim a
//   block of four vectors, of which 10 to 15 are usual and m / 16 the most.
// Memory per thread: 24 dim float64 for eight topics at a time, n_anchors, and m^2 + 128 m (four
//   times the 128 m where threads share a topic). By Lanczos dim (m / 4 + 300) at most, m^2 only
//   where it gives up; never n_anchors^2 beyond m^2. The anchors are read in place and may be
//   memory-mapped; they are copied only where their address is no multiple of 4.
// References: arXiv 2512.00804, section IV; Jolliffe 2002 for PCA.
#pragma once

#include <cstdint>
#include <span>

#include "epibias/matrix_view.hpp"

namespace epibias {

struct PolarizationAxisOptions {
    bool normalize = true;  // scale rows to unit norm first; zero rows are then refused
    int n_threads = 0;      // 0 chooses
};

struct PolarizationAxisResult {
    MatrixView<float> axes;                      // [n_topics, dim]
    std::span<double> explained_variance_ratio;  // [n_topics]
    std::span<double> relative_gap;              // [n_topics]
};

// `stances.data` may be null. Throws std::invalid_argument, naming the lowest topic (and row) at
// fault, for fewer than 2 anchors, non-finite or zero rows, anchors that are all equal, stances
// that are not finite or lack one of the two signs.
void polarization_axis(MatrixView<const float> anchors, std::int64_t n_anchors,
                       MatrixView<const double> stances, const PolarizationAxisResult& result,
                       const PolarizationAxisOptions& options = {});

// scores [n_topics, n_anchors] in float64: the anchors of topic t, rows t * n_anchors and on, on
// axis t. Throws std::invalid_argument for a row without a score.
void anchor_scores(MatrixView<const float> anchors, MatrixView<const float> axes,
                   MatrixView<double> scores, const PolarizationAxisOptions& options = {});

// scores [n_topics, n_rows]: every row on every axis.
void polarization_scores(MatrixView<const float> rows, MatrixView<const float> axes,
                         MatrixView<float> scores, const PolarizationAxisOptions& options = {});

// scores [n_queries, m]: row indices[q][j] on axis axis_of_query[q]. An empty `axis_of_query` means
// the one axis there is, or axis q where there are n_queries. Only the rows named are read.
void gathered_polarization_scores(MatrixView<const float> rows, MatrixView<const float> axes,
                                  MatrixView<const std::int64_t> indices,
                                  std::span<const std::int64_t> axis_of_query,
                                  MatrixView<float> scores,
                                  const PolarizationAxisOptions& options = {});

}  // namespace epibias
