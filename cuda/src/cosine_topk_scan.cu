// Which tile scans which path: launch_scan of cosine_topk_plan.hpp.
#include <limits>
#include <string>

#include "cosine_topk_plan.hpp"
#include "cosine_topk_scan.cuh"
#include "refuse.hpp"

namespace epibias::cuda {

namespace {

struct ScanPolicy {
    // Up to 8 queries a scan waits for memory: 7 blocks, each with 128 rows of 64 bytes under way
    // (4.3 TB/s times 0.6 us are 20 KiB a multiprocessor), 22 KiB of shared memory and at most 72
    // registers a thread.
    using Few = ScanTile<2, 1, 1, 7>;
    // Up to 64, still bound by memory: each row is read once. At most 128 registers.
    using Some = ScanTile<2, 8, 1, 4>;
    // Beyond: 64 x 64 products a warp, 32 shared loads for 32 matrix instructions; 128 registers
    // of sums, at most 255.
    using Many = ScanTile<4, 8, 2, 2>;
};

template <ScanPath kPath, typename Tile>
void launch_tile(const SearchState& state, const PassageState& passages, const RowRange& range,
                 Stream stream) {
    const std::int64_t n_query_tiles = (state.n_queries + Tile::kQueries - 1) / Tile::kQueries;
    const std::int64_t n_blocks = (range.n_rows + Tile::kRows - 1) / Tile::kRows * n_query_tiles;
    if (n_blocks > std::numeric_limits<std::int32_t>::max()) {
        refuse("queries", "at most 2^31 tiles of passages times queries in a call",
               std::to_string(n_blocks));
    }
    EPIBIAS_LAUNCH((scan_passages<kPath, Tile>), dim3(static_cast<unsigned>(n_blocks)),
                   dim3(kScanWarps * 32), 0, stream, state, passages, range,
                   static_cast<int>(n_query_tiles));
    check_launch("scan_passages");
}

template <ScanPath kPath>
void launch_path(const SearchState& state, const PassageState& passages, const RowRange& range,
                 Stream stream) {
    if (state.n_queries <= ScanPolicy::Few::kQueries) {
        launch_tile<kPath, ScanPolicy::Few>(state, passages, range, stream);
    } else if (!kUsesTensorCores<kPath> || state.n_queries <= ScanPolicy::Some::kQueries) {
        launch_tile<kPath, ScanPolicy::Some>(state, passages, range, stream);
    } else if constexpr (kUsesTensorCores<kPath>) {
        launch_tile<kPath, ScanPolicy::Many>(state, passages, range, stream);
    }
}

}  // namespace

void launch_scan(ScanPath path, const SearchState& state, const PassageState& passages,
                 const RowRange& range, Stream stream) {
    switch (path) {
        case ScanPath::kFloat32:
            return launch_path<ScanPath::kFloat32>(state, passages, range, stream);
        case ScanPath::kTf32:
            return launch_path<ScanPath::kTf32>(state, passages, range, stream);
        case ScanPath::kBf16:
            return launch_path<ScanPath::kBf16>(state, passages, range, stream);
        case ScanPath::kBf16Portable:
            return launch_path<ScanPath::kBf16Portable>(state, passages, range, stream);
        case ScanPath::kInt8:
            return launch_path<ScanPath::kInt8>(state, passages, range, stream);
        case ScanPath::kInt8Portable:
            return launch_path<ScanPath::kInt8Portable>(state, passages, range, stream);
    }
}

}  // namespace epibias::cuda
