// What: inverse Euclidean norms of float32 rows on the device.
//
// Formula: 1 / sqrt(canonical_dot(row, row)), see epibias/numeric.hpp.
// Shapes: rows [n_rows, dim], result [n_rows], all in device memory of the current device.
// float32 in -> float64 sums in the canonical order (32 accumulators are the lanes of one warp,
//   summed by halving) -> float64 out: the CPU's bits, on every device and for every launch.
// Faults: a row that is not finite or has norm zero gets NaN, and `fault` (never null) the lowest
//   such row under the code `argument` (see fault.hpp).
// Complexity: reads n_rows * dim * 4 bytes once. Memory: none. Never synchronises.
#pragma once

#include <cstdint>

#include "epibias/cuda/fault.hpp"
#include "epibias/cuda/stream.hpp"
#include "epibias/matrix_view.hpp"

namespace epibias::cuda {

void inverse_norms(MatrixView<const float> rows, int argument, double* result, Fault* fault,
                   Stream stream);

}  // namespace epibias::cuda
