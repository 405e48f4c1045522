// What: the table of kernels that each SIMD level fills for quantized_scan.
//
// Plain data and function pointers only: the level sources are compiled with their own flags, and
// nothing inline may leave them (see numeric.hpp).
#pragma once

#include <cstdint>

namespace epibias::kernels {

inline constexpr std::int64_t kGroupRows = 16;  // rows of one record of codes
inline constexpr std::int64_t kTileGroups = 4;
inline constexpr std::int64_t kTileRows = kTileGroups * kGroupRows;
inline constexpr std::int64_t kStepBytes = 64;  // four columns of a group; eight in 4 bits
inline constexpr std::int64_t kScaleBytes = 64;
inline constexpr std::int64_t kGroupTail = 2 * kScaleBytes;  // scales and residuals

// Four records of codes, one behind the other (quantized_scan.hpp).
struct QuantizedTile {
    const std::uint8_t* data;
    std::int64_t n_steps;
    std::int64_t group_bytes;
    const std::uint8_t* next;  // what to fetch into cache meanwhile
    std::int64_t n_next_lines;
    bool has_remainders = false;  // behind the residuals (principal_codes.hpp)
};

// A passage of value v = scale * sum * (scale of the row) passes where v + margin >= limit, with
// margin = residual_weight * (residual of the row) + remainder_weight * (remainder of the row).
struct QueryFilter {
    float scale;
    float residual_weight;
    float limit;
    float remainder_weight = 0;
};

// Where collect appends: flat arrays, so that the rest of the work reads no record again.
struct CandidateArrays {
    float* values;
    float* margins;
    std::uint32_t* rows;
};

struct QuantizedRow {
    float step;           // row is about step * codes
    float squared_error;  // sum of (row - step * codes)^2, in float32
};

struct QuantizedScanKernels {
    int code_limit;   // largest code of a passage
    int query_limit;  // largest code of a query that sum_tile takes
    int code_offset;  // the sums are of codes + code_offset: `starts` take it off again
    int n_queries;    // of a register tile
    int error_lanes;  // squared_error is summed in so many parts

    // Codes of a row whose largest element is normal, in [-limit, limit]; the largest element has
    // the largest code.
    QuantizedRow (*quantize)(const float* row, std::int64_t dim, int limit, std::int8_t* codes);
    // The same, but larger elements may be clipped where that makes the error smaller, and the step
    // is the one that fits the codes best. For few bits: there the largest element costs all others
    // their precision.
    QuantizedRow (*quantize_clipped)(const float* row, std::int64_t dim, int limit,
                                     std::int8_t* codes);
    // Products of all rows of a tile with 1 … n_queries queries, exactly. words [n_words,
    // n_queries]: the codes of four columns of a query; starts [n_queries]; sums [n_queries, 64].
    void (*sum_tile)(const QuantizedTile& tile, const std::int32_t* words,
                     const std::int32_t* starts, int n_queries, std::int32_t* sums);
    // Which of 1 … n_queries queries have a row that passes: bit i for filters[i]. sums as above.
    unsigned (*passing)(const QuantizedTile& tile, const std::int32_t* sums,
                        const QueryFilter* filters, int n_queries);
    // Appends value, margin and row of what passes; returns how many did. Room for 80 of each.
    int (*collect)(const QuantizedTile& tile, const std::int32_t* sums, const QueryFilter& filter,
                   std::uint32_t first_row, const CandidateArrays& out);
    // Products of one row's codes, n_lines cache lines of them, with the codes of a query; `start`
    // takes the offset off again. Exactly.
    std::int32_t (*row_product)(const std::uint8_t* codes, const std::int8_t* query,
                                std::int64_t n_lines, std::int32_t start);
    // out[row * n_axes + axis] = <rows[row], axes[axis]> in float32, each summed in error_lanes
    // parts. rows [n_rows, dim], axes [n_axes, dim], at any address.
    void (*project)(const float* rows, std::int64_t n_rows, const float* axes, std::int64_t n_axes,
                    std::int64_t dim, float* out);
};

namespace scalar {
extern const QuantizedScanKernels kQuantizedScan;
extern const QuantizedScanKernels kQuantizedScanFourBits;
}  // namespace scalar
namespace avx2 {
extern const QuantizedScanKernels kQuantizedScan;
extern const QuantizedScanKernels kQuantizedScanFourBits;
}  // namespace avx2
namespace avx2_vnni {
extern const QuantizedScanKernels kQuantizedScan;
extern const QuantizedScanKernels kQuantizedScanFourBits;
}  // namespace avx2_vnni
namespace avx512 {
extern const QuantizedScanKernels kQuantizedScan;
extern const QuantizedScanKernels kQuantizedScanFourBits;
}  // namespace avx512
namespace avx512_vnni {
extern const QuantizedScanKernels kQuantizedScan;
extern const QuantizedScanKernels kQuantizedScanFourBits;
}  // namespace avx512_vnni

// The table of the active level for codes of 8 or 4 bits; `vnni` false does without it.
const QuantizedScanKernels& quantized_scan_kernels(int bits, bool vnni);

}  // namespace epibias::kernels
