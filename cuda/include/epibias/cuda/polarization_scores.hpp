// What: projections of rows on polarization axes, on the device.
//
// Formula: PS(d) = axis . d / |d| (or axis . d), canonical dot product times inverse norm.
// Shapes, arguments: anchor_scores, polarization_scores, gathered_polarization_scores of
//   epibias/polarization_axis.hpp, plus a fault record and a stream. All pointers are device
//   memory.
// float32 in -> float64 sums -> float32 (anchor_scores: float64).
// Faults (the CPU's refusals, in its order): rows at fault, indices and axes out of range leave NaN
//   in the scores that they touch. Argument kAxesArgument: row = axis, column 0. Argument
//   kScoresArgument: row = number of the row; gathered, row = query (m + 1), plus 1 + j for element
//   j; column = a ScoreFault.
// Determinism: bits equal to the CPU's, for every SIMD level, batch and device.
// Complexity: rows of a warp are read once for every four axes; gathered rows once for both sums.
// Memory: none beyond the arguments; never queries x passages. No allocation, no synchronisation.
// Times on a device: pending.
// References: arXiv 2512.00804, section III-A.
#pragma once

#include <cstdint>

#include "epibias/cuda/fault.hpp"
#include "epibias/cuda/stream.hpp"
#include "epibias/matrix_view.hpp"

namespace epibias::cuda {

inline constexpr int kAxesArgument = 0;
inline constexpr int kScoresArgument = 1;

enum class ScoreFault : std::uint8_t {
    kRowZero,
    kRowNan,       // the first value that is not finite
    kRowInfinite,  // likewise
    kIndexOutOfRange,
    kAxisOutOfRange,
};

// scores [n_topics, n_anchors]: the anchors of topic t, rows t * n_anchors and on, on axis t.
void anchor_scores(MatrixView<const float> anchors, MatrixView<const float> axes,
                   MatrixView<double> scores, bool normalize, Fault* fault, Stream stream);

// scores [n_topics, n_rows]: every row on every axis.
void polarization_scores(MatrixView<const float> rows, MatrixView<const float> axes,
                         MatrixView<float> scores, bool normalize, Fault* fault, Stream stream);

// scores [n_queries, m]: row indices[q][j] on axis axis_of_query[q]. A null `axis_of_query` means
// the one axis there is, or axis q where there are n_queries. Only the rows named are read.
void gathered_polarization_scores(MatrixView<const float> rows, MatrixView<const float> axes,
                                  MatrixView<const std::int64_t> indices,
                                  const std::int64_t* axis_of_query, MatrixView<float> scores,
                                  bool normalize, Fault* fault, Stream stream);

}  // namespace epibias::cuda
