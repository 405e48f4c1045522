// What: the scan of passages as a filter: products of a tile of passages with a tile of queries,
// compared in registers with what each query has proven; survivors are appended to its buffer.
//
// Owner: a block of 4 warps owns one tile, a warp (16 down) x (8 across) products, its fragments.
//   Thread (g, t) = (lane / 4, lane % 4) holds rows g, g + 8 and queries 2t, 2t + 1 of each
//   fragment, as mma.m16n8 does; the portable paths keep that ownership.
// Layout: words are 32 bits of a row: one float32, two bf16 or four int8. A matrix instruction
// takes
//   8 words of 16 rows and of 8 queries whatever the storage, so one kernel serves all.
// Shared: two stages of (tile rows + tile queries) x 16 words, copied asynchronously 16 bytes at a
//   time; rows are 20 words apart, which spreads 8 rows x 4 words over the 32 banks. At most 40
//   KiB.
// Order of the survivors is that of the threads; the merge does not depend on it.
#pragma once

#include "cosine_topk_bounds.hpp"
#include "cosine_topk_state.cuh"

namespace epibias::cuda {

inline constexpr int kScanWarps = 4;
inline constexpr int kChunkWords = 16;  // of a row in a stage: two steps of a matrix instruction
inline constexpr int kPieces = kChunkWords / 4;
inline constexpr int kRowStride = kChunkWords + 4;

template <ScanPath kPath>
inline constexpr bool kUsesTensorCores =
    kPath == ScanPath::kTf32 || kPath == ScanPath::kBf16 || kPath == ScanPath::kInt8;
template <ScanPath kPath>
inline constexpr bool kUsesIntegers = kPath == ScanPath::kInt8 || kPath == ScanPath::kInt8Portable;

template <bool kIntegers>
struct ScanSum {
    using Type = float;
};
template <>
struct ScanSum<true> {
    using Type = int;
};

// kDown x kAcross fragments a warp, kWarpsAcross of the 4 warps side by side; kBlocks of these
// blocks fit a multiprocessor, by their registers.
template <int kDown, int kAcross, int kWarpsAcross, int kBlocks>
struct ScanTile {
    static constexpr int kBlocksPerProcessor = kBlocks;
    static constexpr int kFragmentsDown = kDown;
    static constexpr int kFragmentsAcross = kAcross;
    static constexpr int kWarpRows = 16 * kDown;
    static constexpr int kWarpQueries = 8 * kAcross;
    static constexpr int kAcrossWarps = kWarpsAcross;
    static constexpr int kRows = kWarpRows * (kScanWarps / kWarpsAcross);
    static constexpr int kQueries = kWarpQueries * kWarpsAcross;
};

template <ScanPath kPath, typename Sum>
__device__ inline void multiply_fragment(Sum (&sums)[4], const unsigned (&rows)[4],
                                         const unsigned (&queries)[2]) {
    if constexpr (kPath == ScanPath::kTf32) mma_tf32_m16n8k8(sums, rows, queries);
    if constexpr (kPath == ScanPath::kBf16) mma_bf16_m16n8k16(sums, rows, queries);
    if constexpr (kPath == ScanPath::kInt8) mma_s8_m16n8k32(sums, rows, queries);
}

// sum + the products of what two words hold, without matrix instructions.
template <ScanPath kPath, typename Sum>
__device__ inline Sum multiply_word(unsigned left, unsigned right, Sum sum) {
    if constexpr (kPath == ScanPath::kInt8Portable) {
        return __dp4a(static_cast<int>(left), static_cast<int>(right), sum);
    } else if constexpr (kPath == ScanPath::kBf16Portable) {
        sum = __fmaf_rn(__uint_as_float(left << 16U), __uint_as_float(right << 16U), sum);
        return __fmaf_rn(__uint_as_float(left & 0xFFFF0000U), __uint_as_float(right & 0xFFFF0000U),
                         sum);
    } else {
        return __fmaf_rn(__uint_as_float(left), __uint_as_float(right), sum);
    }
}

// Appends for the lanes that pass, one atomic for the 8 lanes that share a query. All lanes call.
__device__ inline void append_survivors(const SearchState& state, bool passes, std::int64_t query,
                                        TopkKey key) {
    const unsigned ballot = __ballot_sync(kAllLanes, passes);
    if (ballot == 0) return;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const unsigned sharing = ballot & (0x11111111U << static_cast<unsigned>(lane % 4));
    const int leader = sharing != 0 ? __ffs(static_cast<int>(sharing)) - 1 : lane;
    unsigned first = 0;
    if (passes && lane == leader) {
        const auto n_new = static_cast<unsigned>(__popc(sharing));
        if (EPIBIAS_PLANT("cosine_topk.lost_append")) {
            first = state.counts[query];
            state.counts[query] = first + n_new;
        } else {
            first = atomicAdd(&state.counts[query], n_new);
        }
    }
    first = __shfl_sync(kAllLanes, first, leader);
    if (!passes) return;
    const unsigned before = sharing & ((1U << static_cast<unsigned>(lane)) - 1);
    const unsigned place = first + static_cast<unsigned>(__popc(before));
    const bool fits = place < static_cast<unsigned>(state.capacity);
    if (fits || EPIBIAS_PLANT("cosine_topk.capacity_ignored")) {
        state.survivors[query * state.capacity + place] = key;
    }
}

// Copies one chunk of the tile's words to shared memory; zero where a row has no more.
template <typename Tile>
__device__ inline void load_chunk(unsigned* stage, const SearchState& state,
                                  const PassageState& passages, std::int64_t first_row,
                                  std::int64_t last_row, std::int64_t first_query, int first_word) {
    for (int i = static_cast<int>(threadIdx.x); i < (Tile::kRows + Tile::kQueries) * kPieces;
         i += kScanWarps * 32) {
        const int row = i / kPieces;
        const int word = first_word + i % kPieces * 4;
        unsigned* to = stage + row * kRowStride + i % kPieces * 4;
        const bool is_passage = row < Tile::kRows;
        const std::int64_t wanted = first_row + row;
        const std::int64_t passage = wanted < last_row ? wanted : last_row;
        const int n_words = is_passage ? passages.row_words : state.query_words;
        const unsigned* from =
            is_passage ? passages.words + row_offset(passage, passages.row_words) + word
                       : state.codes + (first_query + row - Tile::kRows) * state.query_words + word;
        if (word + 4 <= n_words && (passages.aligned || !is_passage)) {
            copy_async_16(to, from);
        } else {
            for (int j = 0; j < 4; ++j) to[j] = word + j < n_words ? from[j] : 0;
        }
    }
    copy_async_commit();
}

template <ScanPath kPath, typename Tile, typename Sum>
__device__ inline void multiply_chunk(
    const unsigned* rows, const unsigned* queries,
    Sum (&sums)[Tile::kFragmentsDown][Tile::kFragmentsAcross][4]) {
    const int group = static_cast<int>(threadIdx.x) % 32 / 4;
    const int place = static_cast<int>(threadIdx.x) % 4;
    if constexpr (kUsesTensorCores<kPath>) {
#pragma unroll
        for (int step = 0; step < kChunkWords; step += 8) {
            unsigned left[Tile::kFragmentsDown][4];
#pragma unroll
            for (int down = 0; down < Tile::kFragmentsDown; ++down) {
#pragma unroll
                for (int part = 0; part < 4; ++part) {
                    const int row = 16 * down + group + 8 * (part % 2);
                    const unsigned word = rows[row * kRowStride + step + place + 4 * (part / 2)];
                    left[down][part] =
                        kPath == ScanPath::kTf32 ? to_tf32(__uint_as_float(word)) : word;
                }
            }
#pragma unroll
            for (int across = 0; across < Tile::kFragmentsAcross; ++across) {
                const unsigned* query = queries + (8 * across + group) * kRowStride + step + place;
                const unsigned right[2] = {query[0], query[4]};
#pragma unroll
                for (int down = 0; down < Tile::kFragmentsDown; ++down) {
                    multiply_fragment<kPath>(sums[down][across], left[down], right);
                }
            }
        }
    } else {
        for (int word = 0; word < kChunkWords; ++word) {
#pragma unroll
            for (int across = 0; across < Tile::kFragmentsAcross; ++across) {
#pragma unroll
                for (int part = 0; part < 4 * Tile::kFragmentsDown; ++part) {
                    const int down = part / 4;
                    const int row = 16 * down + group + 8 * (part % 4 / 2);
                    const int query = 8 * across + 2 * place + part % 2;
                    Sum& sum = sums[down][across][part % 4];
                    sum = multiply_word<kPath>(rows[row * kRowStride + word],
                                               queries[query * kRowStride + word], sum);
                }
            }
        }
    }
}

struct RowTerms {
    float scale;
    float residual;  // infinite where the row must be re-scored
};

// Outside this range float32 products could overflow or vanish.
__device__ inline RowTerms row_terms(const PassageState& passages, std::int64_t row) {
    if (passages.scales != nullptr) return {passages.scales[row], passages.residuals[row]};
    const double inverse = passages.inverse_norms[row];
    const bool plain = inverse >= 1e-15 && inverse <= 1e15;
    return {static_cast<float>(inverse), plain ? 0.0F : INFINITY};
}

// Block i scans tile i / n_query_tiles of the rows for the queries of tile i % n_query_tiles, so
// that blocks that run together share their passages in L2.
template <ScanPath kPath, typename Tile>
__global__ void __launch_bounds__(kScanWarps * 32, Tile::kBlocksPerProcessor)
    scan_passages(SearchState state, PassageState passages, RowRange range, int n_query_tiles) {
    using Sum = typename ScanSum<kUsesIntegers<kPath>>::Type;
    constexpr int kStageWords = (Tile::kRows + Tile::kQueries) * kRowStride;
    EPIBIAS_SHARED(uint4, shared_pieces, 2 * kStageWords / 4);
    auto* shared = reinterpret_cast<unsigned*>(shared_pieces);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::int64_t tile_number = blockIdx.x / static_cast<unsigned>(n_query_tiles);
    const std::int64_t first_row = range.first + tile_number * Tile::kRows;
    const std::int64_t last_row = range.first + range.n_rows - 1;
    const std::int64_t first_query =
        static_cast<std::int64_t>(blockIdx.x % static_cast<unsigned>(n_query_tiles)) *
        Tile::kQueries;
    const int warp_row = warp / Tile::kAcrossWarps * Tile::kWarpRows;
    const int warp_query = warp % Tile::kAcrossWarps * Tile::kWarpQueries;

    Sum sums[Tile::kFragmentsDown][Tile::kFragmentsAcross][4] = {};
    load_chunk<Tile>(shared, state, passages, first_row, last_row, first_query, 0);
    for (int first_word = 0, stage = 0; first_word < state.query_words;
         first_word += kChunkWords, stage ^= 1) {
        if (first_word + kChunkWords < state.query_words) {
            load_chunk<Tile>(shared + (stage ^ 1) * kStageWords, state, passages, first_row,
                             last_row, first_query, first_word + kChunkWords);
            if (EPIBIAS_PLANT("cosine_topk.wrong_wait_count")) {
                copy_async_wait<2>();
            } else {
                copy_async_wait<1>();
            }
        } else {
            copy_async_wait<0>();
        }
        if (!EPIBIAS_PLANT("cosine_topk.missing_barrier")) __syncthreads();
        const unsigned* rows = shared + stage * kStageWords + warp_row * kRowStride;
        const unsigned* queries =
            shared + stage * kStageWords + (Tile::kRows + warp_query) * kRowStride;
        multiply_chunk<kPath, Tile>(rows, queries, sums);
        // The stage is overwritten next.
        if (!EPIBIAS_PLANT("cosine_topk.stage_overwritten")) __syncthreads();
    }

    RowTerms terms[2 * Tile::kFragmentsDown];
#pragma unroll
    for (int half = 0; half < 2 * Tile::kFragmentsDown; ++half) {
        const std::int64_t row = first_row + warp_row + 8 * half + lane / 4;
        terms[half] = row_terms(passages, row < last_row ? row : last_row);
    }
#pragma unroll
    for (int across = 0; across < Tile::kFragmentsAcross; ++across) {
#pragma unroll
        for (int column = 0; column < 2; ++column) {
            const std::int64_t query =
                first_query + warp_query + 8 * across + 2 * (lane % 4) + column;
            const QueryFilter filter = state.filters[query];
#pragma unroll
            for (int half = 0; half < 2 * Tile::kFragmentsDown; ++half) {
                const std::int64_t row = first_row + warp_row + 8 * half + lane / 4;
                const int fragment = half / 2;
                const auto sum =
                    static_cast<float>(sums[fragment][across][2 * (half % 2) + column]);
                const float value = sum * terms[half].scale * filter.scale;
                const float upper = value + filter.weight * terms[half].residual;
                // NaN passes: the re-score knows what it is.
                const bool passes =
                    !(upper < filter.limit) && row <= last_row && query < state.n_queries;
                append_survivors(state, passes, query, static_cast<TopkKey>(row));
            }
        }
    }
}

}  // namespace epibias::cuda
