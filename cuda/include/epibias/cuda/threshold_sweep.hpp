// What: the threshold sweep on a device: threshold_sweep and printed_sweep of
// epibias/threshold_sweep.hpp, which has the meaning, formulas, shapes and units.
//
// All arrays (also those of SweepResult and ThresholdSweepOptions) are device memory; n_threads is
//   not read. One block a query. float32 in -> float64 sums -> float64 out.
// Determinism: the bits of the CPU, for thresholds, n_kept, divergences, curve and p-values,
// whatever
//   the batch, the device and the order of its threads: every sum has the CPU's order, and the
//   exponential and logarithm are the same polynomials (sweep_scalars.hpp).
// Precision: kFloat32 is computed in float64 too, so its divergences are exact; n_undecided counts
//   every decision: float64 takes them all.
// Method: every split. kBinned, and kAuto above kMostUnbinned candidates, are refused.
// Size: at most 1,048,575 candidates a query (a fault names its column in 20 bits).
// Faults: a value that is not finite is recorded as argument kSweepFault, row 2 query (a
// similarity)
//   or 2 query + 1 (a score), and its column; the lowest query counts, as on the CPU. Outputs of
//   such a query are NaN, and n_kept and n_undecided -1.
// Complexity a query: O(n n_grid) times 1 + permutations, half as much again where kernel rows are
//   not cached; n log(n)^2 for the order; O(n) on one thread for the bandwidth and each shuffle.
// Memory: shared, 192 n + 896 bytes a query and up to 48 KiB of kernel rows, where that is at most
//   160 KiB (n up to about 700); otherwise workspace, 192 n + 896 bytes a block, of which there are
//   at most 264. The launchers allocate nothing and wait for nothing.
// References: as there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "epibias/cuda/fault.hpp"
#include "epibias/cuda/stream.hpp"
#include "epibias/threshold_sweep.hpp"

namespace epibias::cuda {

inline constexpr int kSweepFault = 0;

// Bytes of device memory, aligned to 256, that a call of either sweep needs; 0 for small queries.
[[nodiscard]] std::size_t threshold_sweep_workspace_bytes(std::int64_t n_queries, std::int64_t n);

// Throws std::invalid_argument for options and shapes as the CPU does.
void threshold_sweep(MatrixView<const float> similarities, MatrixView<const float> scores,
                     const SweepResult& result, const ThresholdSweepOptions& options,
                     void* workspace, Fault* fault, Stream stream);

// result.p_values are set to 1 where there are any.
void printed_sweep(MatrixView<const float> similarities, MatrixView<const float> scores,
                   const SweepResult& result, const PrintedSweepOptions& options, void* workspace,
                   Fault* fault, Stream stream);

}  // namespace epibias::cuda
