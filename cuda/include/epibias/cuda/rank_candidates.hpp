// What: rank_candidates of epibias/rank_candidates.hpp on a device: the candidates of every query,
// given as rows, with similarity and polarization score, in the total order.
//
// All arrays are device memory, aligned for their type. One block a query, one warp a candidate:
//   the lanes of a warp are the 32 accumulators of canonical_dot, and three products are made in
//   one reading of a row.
// float32 in -> float64 sums -> float32 out.
// Order: similarity descending, then index ascending, within each query.
// Determinism: the bits of the CPU, whatever the batch, the device and the order of its threads.
// Size: at most 262,143 candidates a query (a fault names a row in 18 bits).
// Faults, the lowest counts; what the query would be given is NaN and -1:
//   kOffsetsFault: offsets that do not rise from 0 to n_candidates
//   kScoreOffsetsFault, row: a score offset beyond float32; the value is the offset
//   kRankFault, row 8 query + step (RankStep), column 4 row + kind (RankKind) in step kCandidate:
//     as the CPU meets them, query by query. The value says what stands there
//     (describe_rank_fault).
// Complexity: as the CPU's; n log(n)^2 for the order, twice where there are indices.
// Memory: shared, 16 bytes a candidate up to 2,048 of a query; otherwise workspace, 16 bytes a
//   candidate. Nothing is allocated and nobody waits.
// Reference: as there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "epibias/cuda/fault.hpp"
#include "epibias/cuda/stream.hpp"
#include "epibias/rank_candidates.hpp"

namespace epibias::cuda {

inline constexpr int kOffsetsFault = 0, kScoreOffsetsFault = 1, kRankFault = 2;

// In the order in which the CPU looks.
enum RankStep : int {
    kIndexTwice,   // value: the index
    kQueryRow,     // value: what stands there, 0 for a row of norm zero
    kAxisOfQuery,  // value: the number that is out of range
    kAxisRow,      // value: the number of the axis
    kCandidate,
};
enum RankKind : int {
    kCandidateRow,  // value: what stands there, 0 for a row of norm zero
    kPsRow,         // the same; without `normalize`, 4 column + 0, 1, 2 for NaN, Inf, -Inf
    kScore,         // value: the score that float32 does not hold
};

// Bytes of device memory, aligned to 256, that a call needs; 0 where no query can be large.
[[nodiscard]] std::size_t rank_candidates_workspace_bytes(std::int64_t n_queries,
                                                          std::int64_t n_candidates);

// Throws std::invalid_argument for shapes that do not fit.
void rank_candidates(const CandidateRows& given, const RankedCandidates& result, void* workspace,
                     Fault* fault, Stream stream);

}  // namespace epibias::cuda
