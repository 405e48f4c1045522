// Launcher of epibias/cuda/cosine_topk_streamed.hpp.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "copy_pipeline.hpp"
#include "cosine_topk_plan.hpp"
#include "epibias/cuda/cosine_topk_streamed.hpp"
#include "refuse.hpp"

namespace epibias::cuda {

namespace {

constexpr std::int64_t kTileBytes = std::int64_t{64} << 20;

// The two tiles on the device, in the workspace before the state of the search.
struct TileParts {
    std::array<float*, 2> rows;
    std::array<double*, 2> norms;
    std::size_t bytes;
};

TileParts tile_parts(void* workspace, std::int64_t dim, std::int64_t tile_rows) {
    WorkspaceParts parts(workspace);
    TileParts tiles{};
    for (std::size_t slot = 0; slot < 2; ++slot) {
        tiles.rows[slot] = parts.take<float>(tile_rows * dim);
        tiles.norms[slot] = parts.take<double>(tile_rows);
    }
    tiles.bytes = parts.bytes();
    return tiles;
}

}  // namespace

std::int64_t streamed_tile_rows(std::int64_t dim) {
    return std::max<std::int64_t>(1, kTileBytes / (4 * std::max<std::int64_t>(dim, 1)));
}

std::size_t cosine_topk_streamed_workspace_bytes(std::int64_t n_queries, std::int64_t dim,
                                                 std::int64_t k, std::int64_t tile_rows,
                                                 const CosineTopkOptions& options) {
    return tile_parts(nullptr, dim, tile_rows).bytes +
           cosine_topk_workspace_bytes(n_queries, dim, k, CosineStorage::kFloat32, options);
}

void cosine_topk_streamed(MatrixView<const float> queries, MatrixView<const float> passages,
                          std::int64_t k, std::int64_t tile_rows, MatrixView<std::int64_t> indices,
                          MatrixView<float> similarities, std::int64_t* n_rescored, void* workspace,
                          Fault* fault, Stream stream, const CosineTopkOptions& options) {
    check_cosine_k(k, passages.n_rows);
    if (tile_rows < 1) refuse("tile_rows", "an integer of at least 1", std::to_string(tile_rows));
    const std::int64_t dim = queries.n_columns;
    const TileParts tiles = tile_parts(workspace, dim, tile_rows);
    auto* state = static_cast<unsigned char*>(workspace) + tiles.bytes;
    CosineTopkSearch search{queries, k, CosineStorage::kFloat32, state, fault, stream, options};
    cosine_topk_begin(search);
    const auto row_bytes = static_cast<std::size_t>(passages.n_columns) * sizeof(float);
    const std::int64_t most_rows = std::min(tile_rows, passages.n_rows);
    CopyPipeline pipeline(static_cast<std::size_t>(most_rows) * row_bytes, stream);
    const auto* bytes = reinterpret_cast<const unsigned char*>(passages.data);
    for (std::int64_t first = 0, tile = 0; first < passages.n_rows; first += tile_rows, ++tile) {
        const auto slot = static_cast<std::size_t>(tile % 2);
        const std::int64_t n_rows = std::min(tile_rows, passages.n_rows - first);
        const std::size_t n_bytes = static_cast<std::size_t>(n_rows) * row_bytes;
        // Byte arithmetic: host rows need not be aligned.
        std::memcpy(pipeline.stage(tile), bytes + static_cast<std::size_t>(first) * row_bytes,
                    n_bytes);
        pipeline.send(tile, tiles.rows[slot], n_bytes);
        const CosinePassages arrived{.rows = {tiles.rows[slot], n_rows, passages.n_columns},
                                     .inverse_norms = tiles.norms[slot],
                                     .first_index = first};
        launch_norms_of_tile(arrived, tiles.norms[slot], fault, stream);
        cosine_topk_range(search, arrived, 0, n_rows);
        pipeline.release(tile);
    }
    cosine_topk_finish(search, indices, similarities, n_rescored);
}

}  // namespace epibias::cuda
