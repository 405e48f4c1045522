// What: cosine_topk on the device for passages in host memory, more than the device holds: they
// pass through it in tiles, while the state of the search stays there.
//
// Formula, order, faults, bits: those of cosine_topk.hpp. queries, indices, similarities and
//   workspace lie in device memory; passages [n_passages, dim] float32 anywhere in host memory, at
//   any byte address, also memory-mapped.
// How: the host copies a tile of rows into one of two pinned buffers, from there it goes to one of
//   two tiles on the device on a stream of its own, while the tile before is searched on the
//   caller's stream. A tile's inverse norms are computed on the device.
// Complexity: bound by the copies, n_passages * dim * 4 bytes over the bus; storage float32.
// Memory: pinned 2 * tile_rows * dim * 4 bytes, which this call allocates and frees; on the device
//   the workspace: that of cosine_topk and twice tile_rows * (4 dim + 8) bytes.
// Synchronisation: unlike the other launchers this call waits: for its copies, not for the search
//   of the last tile. The answer is complete when the caller's stream is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "epibias/cuda/cosine_topk.hpp"

namespace epibias::cuda {

// Rows of a tile where the caller has no opinion: 64 MiB, so that the start of a copy costs less
// than a hundredth of it.
[[nodiscard]] std::int64_t streamed_tile_rows(std::int64_t dim);

[[nodiscard]] std::size_t cosine_topk_streamed_workspace_bytes(
    std::int64_t n_queries, std::int64_t dim, std::int64_t k, std::int64_t tile_rows,
    const CosineTopkOptions& options = {});

// `tile_rows` is at least 1.
void cosine_topk_streamed(MatrixView<const float> queries, MatrixView<const float> passages,
                          std::int64_t k, std::int64_t tile_rows, MatrixView<std::int64_t> indices,
                          MatrixView<float> similarities, std::int64_t* n_rescored, void* workspace,
                          Fault* fault, Stream stream, const CosineTopkOptions& options = {});

}  // namespace epibias::cuda
