// What: BiasDef on a device: biasdef_select of epibias/biasdef_select.hpp, and the fused path from
// vectors, which ranks the candidates first (rank_candidates.hpp) and never leaves the device.
//
// All arrays are device memory. One block a query: sweep, gate, side, mitigation, fill.
// float32 in -> float64 sums in the order of the candidates -> positions.
// Order, determinism: the CPU's bits in every result, whatever the batch, the device and the order
//   of its threads; the sweep's limits are those of epibias/cuda/threshold_sweep.hpp.
// most_candidates: no query has more; n_candidates where that is not known. Queries are then kept
// in
//   shared memory up to 64 candidates; with a known number up to about 700.
// Faults, the lowest counts: kOffsetsFault (rank_candidates.hpp; column 1: a query has more than
//   most_candidates or 1,048,575); kSimilaritiesFault, kScoresFault, row query, its column;
//   kCentresFault, row query. Of such a query every result is NaN, -1 or 255.
// Complexity: as the CPU's; the sums of a side on one thread each.
// Memory: of the sweep in shared memory, otherwise workspace, 192 bytes a candidate and 896 a
// query.
//   The launchers allocate nothing and wait for nothing.
// Reference: as there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "epibias/biasdef_select.hpp"
#include "epibias/cuda/fault.hpp"
#include "epibias/cuda/rank_candidates.hpp"
#include "epibias/cuda/stream.hpp"

namespace epibias::cuda {

inline constexpr int kSimilaritiesFault = 3, kScoresFault = 4, kCentresFault = 5;

// Bytes of device memory, aligned to 256, that a call needs; with `from_vectors` of the fused path.
[[nodiscard]] std::size_t biasdef_select_workspace_bytes(std::int64_t n_queries,
                                                         std::int64_t n_candidates,
                                                         std::int64_t most_candidates,
                                                         bool from_vectors);

// Throws std::invalid_argument for options and lengths as the CPU does.
void biasdef_select(const BiasDefInput& given, const BiasDefResult& result,
                    const BiasDefOptions& options, std::int64_t most_candidates, void* workspace,
                    Fault* fault, Stream stream);

// rank_candidates into `ranked`, then biasdef_select of that.
void biasdef_select_vectors(const CandidateRows& rows, const RankedCandidates& ranked,
                            std::span<const double> neutral_centres, const BiasDefResult& result,
                            const BiasDefOptions& options, std::int64_t most_candidates,
                            void* workspace, Fault* fault, Stream stream);

}  // namespace epibias::cuda
