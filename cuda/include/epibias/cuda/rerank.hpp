// What: mmr on the device: maximal marginal relevance of each query's candidates.
//
// Formula, shapes, ties: epibias/rerank.hpp; the same arguments, plus a workspace, a fault record
//   and a stream. All pointers are device memory.
// float32 in -> cosines in float64, canonical dot times both inverse norms -> int64 positions.
// Faults (the CPU's refusals; lowest query first, in it similarities before embeddings): indices of
//   the query are -1. The record's row is query * 2 n + place, place j similarity j, n + j
//   candidate j; its column an MmrFault.
// Determinism: positions equal to the CPU's, always: cosines, values and comparisons are the same
//   float64 operations in the same order (compiled without contraction).
// Complexity a query: n k dim, one block. Each choice waits for the one before it.
// Memory: workspace of mmr_workspace_bytes(): 4 n float64 a block, of which there are as many as
//   queries, kMostMmrBlocks at most. Nothing n x n. No allocation, no synchronisation.
// Times on a device: pending.
// Reference: Carbonell, Goldstein 1998, doi:10.1145/290941.291025.
#pragma once

#include <cstddef>
#include <cstdint>

#include "epibias/cuda/fault.hpp"
#include "epibias/cuda/stream.hpp"
#include "epibias/matrix_view.hpp"

namespace epibias::cuda {

inline constexpr std::int64_t kMostMmrBlocks =
    2'048;  // a device of 132 multiprocessors holds fewer

enum class MmrFault : std::uint8_t {
    kSimilarityNan,
    kSimilarityInfinite,
    kSimilarityMinusInfinite,
    kRowNotFinite,
    kRowZero,
};
inline constexpr int kMmrArgument = 0;

[[nodiscard]] std::size_t mmr_workspace_bytes(std::int64_t n_queries, std::int64_t n);

// k in [0, n], relevance_weight in [0, 1]; anything else, shapes that do not agree and a workspace
// too small for one block throw std::invalid_argument; a small one means fewer blocks. `workspace`
// is aligned to 8 bytes.
void mmr(MatrixView<const float> similarities, MatrixView<const float> embeddings, std::int64_t k,
         MatrixView<std::int64_t> indices, double relevance_weight, void* workspace,
         std::size_t workspace_bytes, Fault* fault, Stream stream);

}  // namespace epibias::cuda
