// What: the exact cosine top-k of epibias/cosine_topk.hpp on the device: the CPU's indices and
// similarities, to the bit, whatever the storage that was scanned.
//
// Formula, shapes, order: those of epibias/cosine_topk.hpp. queries [n_queries, dim], passages
//   [n_passages, dim] float32, indices and similarities [n_queries, k], row-major, all in device
//   memory; k from 1 to 4096, n_passages below 2^32.
// Storage: what the scan reads. float32: the passages themselves, on tensor cores as tf32 or,
// without
//   them, by float32 multiply-adds; bf16 and int8: codes made once by prepare_passages. Every
//   storage re-reads single float32 rows, for the canonical score.
// float32 in -> scan in float32 or int32 as a filter -> float64 canonical re-score -> float32 out.
// Why it is exact: a scanned value differs from the similarity by at most a proven bound
//   (cosine_topk_bounds.hpp) of residuals that were measured; a passage is dropped only where value
//   plus bound lies below a proven lower bound of the k-th similarity. Rows that the filter cannot
//   judge (a norm outside [1e-15, 1e15], a NaN) are always re-scored.
// Rounds: a strided sample gives every query a first threshold; then rounds of growing size are
//   scanned, re-scored and merged, and each merge raises the threshold. Survivors of a round go
//   into a buffer of fixed size; where a query has more, its merge scores the whole round directly.
//   Their number is known beforehand, so nothing waits for the host.
// Determinism: thresholds change between kernels only; results are bit-identical run to run.
// Complexity: n_queries * n_passages * dim multiply-adds of the storage, and in random order about
//   capacity / 4 canonical dots a query and round; at worst every pair is re-scored, by one block a
//   query. Memory: cosine_topk_workspace_bytes, about 8 * (capacity + k) + row bytes a query, where
//   capacity = max(4096, 8 k). Never queries x passages.
// Launchers allocate nothing and do not synchronise. Corpora larger than the device:
//   cosine_topk_streamed.hpp.
// Not here: wgmma and TMA variants for sm_90a, which host emulation could not prove.
// Reference: cosine_topk_bounds.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "epibias/cuda/fault.hpp"
#include "epibias/cuda/stream.hpp"
#include "epibias/matrix_view.hpp"

namespace epibias::cuda {

enum class CosineStorage { kFloat32, kBf16, kInt8 };

// Arguments by their number in a Fault, in the order in which the CPU looks at them.
enum class CosineArgument { kQueries = 0, kPassages = 1, kInverseNorms = 2 };

inline constexpr std::int64_t kLargestCosineK = 4096;

struct CosineTopkOptions {
    bool tensor_cores = true;       // false: __dp4a and plain multiply-adds
    std::int64_t sample_rows = 0;   // rows of the sample; 0 chooses
    std::int64_t capacity = 0;      // survivors of a query and round; 0 chooses
    std::int64_t round_growth = 0;  // a round has so many times the rows before it; 0 chooses
};

// Passages in device memory. Scales and residuals, [n_rows], and codes,
// [n_rows, code_row_bytes(dim, storage)], are what prepare_passages gave; null for kFloat32.
struct CosinePassages {
    MatrixView<const float> rows;
    const double* inverse_norms = nullptr;  // [n_rows]
    CosineStorage storage = CosineStorage::kFloat32;
    const std::uint8_t* codes = nullptr;  // 16-byte aligned
    const float* scales = nullptr;
    const float* residuals = nullptr;
    std::int64_t first_index = 0;  // of row 0 among all passages
};

// Bytes of a row of codes: a multiple of 16. Throws std::invalid_argument for kFloat32.
[[nodiscard]] std::int64_t code_row_bytes(std::int64_t dim, CosineStorage storage);

// Codes of unit rows: bf16, or int8 with one scale a row; residuals are at least the length of what
// the codes miss. `inverse_norms` is what inverse_norms() gave for the rows.
void prepare_passages(MatrixView<const float> rows, const double* inverse_norms,
                      CosineStorage storage, std::uint8_t* codes, float* scales, float* residuals,
                      Stream stream);

[[nodiscard]] std::size_t cosine_topk_workspace_bytes(std::int64_t n_queries, std::int64_t dim,
                                                      std::int64_t k, CosineStorage storage,
                                                      const CosineTopkOptions& options = {});

// Fills indices and similarities. Faulty queries get -1 and NaN; a faulty inverse norm, which is
// what faulty passages have, poisons every query. `n_rescored`, one number or null, is the count of
// canonical scores; it is deterministic too. `workspace` is 256-byte aligned.
void cosine_topk(MatrixView<const float> queries, const CosinePassages& passages, std::int64_t k,
                 MatrixView<std::int64_t> indices, MatrixView<float> similarities,
                 std::int64_t* n_rescored, void* workspace, Fault* fault, Stream stream,
                 const CosineTopkOptions& options = {});

// The same in parts, for passages that arrive in tiles or are searched in ranges: begin, any number
// of ranges in any order, finish. The state lies in the workspace.
struct CosineTopkSearch {
    MatrixView<const float> queries;
    std::int64_t k;
    CosineStorage storage;
    void* workspace;
    Fault* fault;
    Stream stream;
    CosineTopkOptions options = {};
    std::int64_t rows_seen = 0;
};

void cosine_topk_begin(CosineTopkSearch& search);
// Rows first_row … first_row + n_rows - 1 of the passages.
void cosine_topk_range(CosineTopkSearch& search, const CosinePassages& passages,
                       std::int64_t first_row, std::int64_t n_rows);
void cosine_topk_finish(const CosineTopkSearch& search, MatrixView<std::int64_t> indices,
                        MatrixView<float> similarities, std::int64_t* n_rescored);

}  // namespace epibias::cuda
