// What: rows scaled to unit norm, as the scan reads them, and the first state of every query.
//
// Owner: one warp a row; lane l makes the words l, l + 32, … of it. No shared memory.
// Layout: a word is one float32, two bf16 or four int8, lower columns in lower bits, zero beyond
// dim.
#pragma once

#include "cosine_topk_bounds.hpp"
#include "cosine_topk_state.cuh"

namespace epibias::cuda {

// How the words of a query are made; passages are kept as kBf16 or kInt8.
enum class WordKind { kFloat32, kTf32, kBf16, kInt8 };

struct UnitRow {
    float scale;      // unit row is about scale * codes
    double residual;  // at least the length of the difference
};

__device__ inline double warp_max(double value) {
    for (int width = 16; width > 0; width /= 2) {
        value = fmax(value, __shfl_xor_sync(kAllLanes, value, width));
    }
    return value;
}

// Every lane must call. `words` has n_words of them.
__device__ inline UnitRow write_unit_row(const float* row, std::int64_t dim, double inverse_norm,
                                         WordKind kind, unsigned* words, std::int64_t n_words) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // In float64: a float32 norm could overflow or vanish.
    const auto unit = [&](std::int64_t i) {
        return i < dim ? static_cast<double>(row[i]) * inverse_norm : 0.0;
    };
    if (kind == WordKind::kFloat32 || kind == WordKind::kTf32) {
        for (std::int64_t word = lane; word < n_words; word += 32) {
            const auto value = static_cast<float>(unit(word));
            words[word] = kind == WordKind::kTf32 ? to_tf32(value) : __float_as_uint(value);
        }
        return {1, 0};  // scan_error covers what rounding lost
    }
    double squared = 0;
    if (kind == WordKind::kBf16) {
        for (std::int64_t word = lane; word < n_words; word += 32) {
            unsigned packed = 0;
            for (int half = 0; half < 2; ++half) {
                const double value = unit(2 * word + half);
                const unsigned code = to_bf16(static_cast<float>(value));
                const double missed = value - static_cast<double>(__uint_as_float(code << 16U));
                squared += missed * missed;
                packed |= code << static_cast<unsigned>(16 * half);
            }
            words[word] = packed;
        }
        return {1, sqrt(canonical_warp_sum(squared)) * (1 + 0x1p-20)};
    }
    double largest = 0;
    for (std::int64_t i = lane; i < dim; i += 32) largest = fmax(largest, fabs(unit(i)));
    const double step = warp_max(largest) / 127;
    for (std::int64_t word = lane; word < n_words; word += 32) {
        unsigned packed = 0;
        for (int byte = 0; byte < 4; ++byte) {
            const double value = unit(4 * word + byte);
            const double code = rint(value / step);
            squared += (value - code * step) * (value - code * step);
            packed |= (static_cast<unsigned>(static_cast<int>(code)) & 0xFFU)
                      << static_cast<unsigned>(8 * byte);
        }
        words[word] = packed;
    }
    // A step in float32 moves scale * codes, whose length is below 4, by 2^-24 of it.
    return {static_cast<float>(step),
            sqrt(canonical_warp_sum(squared)) * (1 + 0x1p-20) + 4 * 0x1p-24};
}

// Inverse norms of a tile of passages, one warp a row; faults are those of rows of the corpus.
__global__ void __launch_bounds__(128)
    norms_of_tile(PassageState passages, std::int64_t n_rows, double* norms, Fault* fault) {
    const std::int64_t row =
        static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= n_rows) return;  // whole warps leave
    const float* values = passages.rows + row_offset(row, passages.dim);
    const double squared = canonical_warp_dot(values, values, passages.dim);
    const bool valid = squared > 0 && squared <= DBL_MAX;
    if (!valid) {
        report_faulty_row(values, passages.dim, passages.first_index + row,
                          static_cast<int>(CosineArgument::kPassages), fault);
    }
    if (threadIdx.x % 32 == 0) norms[row] = valid ? __ddiv_rn(1.0, __dsqrt_rn(squared)) : NAN;
}

// One thread: the value at a fault of this argument, if it lies in these rows of the corpus.
template <typename Value>
__global__ void describe_fault_of_tile(Fault* fault, CosineArgument argument, const Value* values,
                                       std::int64_t n_columns, std::int64_t first_index,
                                       std::int64_t n_rows) {
    const std::uint64_t word = fault->word;
    if (word == kNoFault || fault_argument(word) != static_cast<int>(argument)) return;
    const std::int64_t row = fault_row(word) - first_index;
    if (row < 0 || row >= n_rows) return;
    fault->value = static_cast<double>(values[row * n_columns + fault_column(word)]);
}

// Codes of the passages. Rows of a bad norm get a residual that no filter drops, so that the
// re-score meets and reports them.
__global__ void __launch_bounds__(128)
    prepare_unit_rows(PassageState passages, std::int64_t n_rows, WordKind kind, unsigned* words,
                      float* scales, float* residuals) {
    const std::int64_t row =
        static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= n_rows) return;  // whole warps leave
    const double inverse = passages.inverse_norms[row];
    const bool valid = is_valid_inverse_norm(inverse);
    UnitRow unit{0, INFINITY};
    unsigned* own = words + row_offset(row, passages.row_words);
    if (valid) {
        unit = write_unit_row(passages.rows + row_offset(row, passages.dim), passages.dim, inverse,
                              kind, own, passages.row_words);
    } else {
        for (int word = static_cast<int>(threadIdx.x) % 32; word < passages.row_words; word += 32) {
            own[word] = 0;
        }
    }
    if (threadIdx.x % 32 == 0) {
        scales[row] = unit.scale;
        residuals[row] = -round_down(-unit.residual);
    }
}

// Queries, their filters, and empty lists; padding queries are zero and let nothing pass.
__global__ void __launch_bounds__(128)
    prepare_queries(SearchState state, std::int64_t n_padded, WordKind kind, ScanError error) {
    const std::int64_t query =
        static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    if (query >= n_padded) return;  // whole warps leave
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (query == 0 && lane == 0) {
        *state.bad_passage = 0;
        *state.n_rescored = 0;
    }
    unsigned* words = state.codes + query * state.query_words;
    double squared = 0;
    const float* row = state.queries + query * state.dim;
    if (query < state.n_queries) squared = canonical_warp_dot(row, row, state.dim);
    UnitRow unit{0, 0};
    const bool valid = squared > 0 && squared <= DBL_MAX;
    const double inverse = valid ? __ddiv_rn(1.0, __dsqrt_rn(squared)) : NAN;
    if (valid) {
        unit = write_unit_row(row, state.dim, inverse, kind, words, state.query_words);
    } else {
        for (int word = lane; word < state.query_words; word += 32) words[word] = 0;
    }
    const double own = unit.residual + error.summation * (1 + unit.residual) + error.fixed;
    const double weight = (1 + unit.residual) * (1 + error.summation);
    if (lane == 0) {
        state.filters[query] = {unit.scale, -round_down(-weight), valid ? -INFINITY : INFINITY, 0,
                                own};
    }
    if (query >= state.n_queries) return;
    if (lane == 0) {
        state.inverse_norms[query] = inverse;
        state.counts[query] = 0;
    }
    const int n_empty = state.n_kept - (EPIBIAS_PLANT("cosine_topk.uninitialised_list") ? 1 : 0);
    for (int i = lane; i < n_empty; i += 32) state.best[query * state.n_kept + i] = kNoKey;
    if (!valid) {
        report_faulty_row(row, state.dim, query, static_cast<int>(CosineArgument::kQueries),
                          state.fault);
    }
}

}  // namespace epibias::cuda
