// What: the exact cosine top-k of cosine_topk.hpp, found through a scan of codes of 8 or 4 bits.
//
// Formula: a unit row x is kept as x' = scale * code, code in [-127, 127] or [-7, 7]. For unit
// query
//   q and its own x', q':
//     |<q, x> - <q', x'>| <= r_x + r_q * (1 + r_x) + e,   r_x = |x - x'|,  r_q = |q - q'|,
//   by Cauchy and Schwarz. The residuals r are measured while quantizing and rounded up; e covers
//   what float32 loses on the way. Every passage whose upper bound reaches a proven lower bound of
//   the k-th similarity is scored canonically (numeric.hpp), so that indices and similarities are
//   those of cosine_topk, to the bit, for every SIMD level, thread count and order of work.
// Shapes: queries [n_queries, dim], passages [n_passages, dim], indices and similarities
//   [n_queries, k], row-major; codes [quantized_size(n_passages, dim, bits)] bytes.
// Layout of the codes: groups of 16 rows, each a record [n_steps][16 rows][4 bytes] of codes, [16]
//   scales (float32), [16] residuals (float32). A step is one cache line. With 8 bits it holds four
//   columns as code + 128, and n_steps is even; with 4 bits eight columns as code + 8, the first
//   four in the low halves of the bytes. The last rows are padding, whose residual is NaN. Four
//   groups are a tile; the codes of the first 64 n passages are the first n tiles.
// float32 in -> int8 products, exact int32 sums as a filter, float64 canonical re-score -> float32.
// Order: similarity descending, then index ascending (ranking.hpp).
// Complexity: n_queries * n_passages * dim 8-bit multiply-adds, then k to about 2k canonical dots
//   per query where the vectors are not degenerate; at worst (all passages equal) every pair is
//   re-scored. A sixteenth of the passages, spread evenly, is scanned first, to guess where the
//   k-th similarity lies; a guess that proves too high costs a second scan of that query. 4 bits
//   halve what is read from memory, which is all that counts for few queries, and leave ten times
//   as many passages to score; a query that leaves more than 1 in 64 is scanned again with 8 bits.
//   Codes of principal axes (principal_codes.hpp) read a quarter, for few queries and many.
// Memory: codes of about dim + 8 or dim / 2 + 8 bytes a passage, beside the caller's 8 for the
//   inverse norm; per thread O(min(n_queries, 256, 2^19 / k) * (k + n_passages / 64 with 4 bits)).
//   The float32 rows are read only to be re-scored and may stay on disk.
#pragma once

#include <cstdint>
#include <span>

#include "epibias/matrix_view.hpp"
#include "epibias/principal_codes.hpp"

namespace epibias {

// Sums of products stay below 2^31 up to here.
inline constexpr std::int64_t kLargestQuantizedDim = 1 << 16;

// Bytes of the codes; `bits` is 8 or 4. Throws std::invalid_argument above kLargestQuantizedDim
// columns.
[[nodiscard]] std::int64_t quantized_size(std::int64_t n_passages, std::int64_t dim, int bits);

// Fills `codes`, on all threads. `inverse_norms` is what inverse_norms() gave for the passages;
// norms of any size are right.
void quantize_passages(MatrixView<const float> passages, std::span<const double> inverse_norms,
                       int bits, std::span<std::uint8_t> codes);

struct QuantizedCodes {
    std::span<const std::uint8_t> eight_bits;
    std::span<const std::uint8_t> four_bits;  // scanned first, where there are any
    PrincipalCodes principal;                 // scanned instead of these, where there are any
};

struct QuantizedScanOptions {
    int n_threads = 0;               // 0 means n_threads() of parallel.hpp
    bool vnni = true;                // false: do without VNNI where the processor has it
    std::int64_t sample_stride = 0;  // every so many-th tile is scanned first; 0 chooses, 1 none
    std::int64_t capacity = 0;  // candidates of a query and thread before it is tidied; 0 chooses
};

// Counts that depend on the timing of the threads, unlike the answer.
struct QuantizedScanCounts {
    std::int64_t n_rescored = 0;  // (query, passage) pairs scored canonically
    std::int64_t n_repeated = 0;  // queries that were scanned a second time
};

// Fills `indices` and `similarities`. `codes` and `inverse_norms` are those of these passages. `k`
// lies in [1, n_passages]; k = 0 is right only for no passages.
QuantizedScanCounts quantized_scan(MatrixView<const float> queries,
                                   MatrixView<const float> passages, std::int64_t k,
                                   std::span<const double> inverse_norms,
                                   const QuantizedCodes& codes, MatrixView<std::int64_t> indices,
                                   MatrixView<float> similarities,
                                   const QuantizedScanOptions& options = {});

// The same without codes at hand: they are made of some thousand passages at a time, into one
// buffer of 4 MiB, and scanned while they are in cache. Pays off where many queries share them.
// Memory: the buffer, and 32 bytes a result.
QuantizedScanCounts quantized_scan_once(MatrixView<const float> queries,
                                        MatrixView<const float> passages, std::int64_t k,
                                        std::span<const double> inverse_norms,
                                        MatrixView<std::int64_t> indices,
                                        MatrixView<float> similarities,
                                        const QuantizedScanOptions& options = {});

}  // namespace epibias
