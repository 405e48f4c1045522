// What: the table of kernels that each SIMD level fills for cosine_topk.
//
// Plain data and function pointers only: the level sources are compiled with their own flags, and
// nothing inline may leave them (see numeric.hpp).
#pragma once

#include <cstdint>

namespace epibias::kernels {

// A pair that passed the filter: `position` = row in the tile * panel_width + query in the panel.
struct Hit {
    float value;
    std::uint32_t position;
};

// Consecutive passages that stay in cache while all queries are scanned against them.
struct Tile {
    const float* rows;    // [n_rows, dim]
    const float* scales;  // [n_rows]: float32 inverse norms; NaN keeps a row out of the scan
    std::int64_t n_rows;
    std::int64_t dim;
    const float* next_rows;  // what to fetch into cache meanwhile, or null
    std::int64_t n_next_floats;
};

struct CosineTopkKernels {
    int panel_width;  // queries of a panel, packed as [dim, panel_width], 64-byte aligned
    int few_queries;  // up to so many queries scan_few is the faster one
    int group_rows;   // rows of a register tile: tile sizes are best a multiple of it

    double (*canonical_dot)(const float* left, const float* right, std::int64_t dim);

    // Writes each pair with dot * scale >= threshold (not strict: ties must pass) and returns their
    // number. `hits` has room for n_rows * panel_width. Any order of summation; error bound in
    // cosine_topk.hpp. thresholds: [panel_width], infinite for padding queries.
    std::int64_t (*scan_panel)(const Tile& tile, const float* panel, const float* thresholds,
                               Hit* hits);
    // The same for queries [n_queries, dim], row-major, n_queries <= few_queries.
    std::int64_t (*scan_few)(const Tile& tile, const float* queries, int n_queries,
                             const float* thresholds, Hit* hits);
};

namespace scalar {
extern const CosineTopkKernels kCosineTopk;
}
namespace avx2 {
extern const CosineTopkKernels kCosineTopk;
}
namespace avx512 {
extern const CosineTopkKernels kCosineTopk;
}

// The table of the active level.
const CosineTopkKernels& cosine_topk_kernels();

}  // namespace epibias::kernels
