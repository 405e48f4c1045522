// What: where a block keeps one query of the threshold sweep: sizes and offsets, the same on host
// and device.
//
// A query of n candidates needs kBytesPerCandidate n + kBytesPerQuery bytes, in shared memory where
//   that fits, else in a piece of the caller's workspace.
// Splits are evaluated in chunks of kChunk, the grid in slabs of kSlab points, one a lane.
// Private to cuda/src.
#pragma once

#include <cstddef>
#include <cstdint>

#include "epibias/cuda/fault.hpp"

namespace epibias::cuda::sweep {

inline constexpr int kSlab = 32;
inline constexpr int kChunk = 8;
inline constexpr int kLanes = 8;  // partial sums of a divergence, as the CPU's registers have them
// A row of terms: 32 and 8 more, so that lanes that read 4 rows at once meet no bank twice.
inline constexpr int kTermStride = 40;
// Of a warp: terms [kChunk, kTermStride], kernel values [kChunk, kSlab].
inline constexpr std::size_t kTermBytes = kChunk * (kTermStride + kSlab) * sizeof(double);

// Places are 32-bit integers, and so is 32 times one; faults hold a column in 20 bits.
inline constexpr std::int64_t kMostCandidates = kMaxFaultColumns - 1;

EPIBIAS_HOST_DEVICE constexpr int chunks_of(int n_splits) {
    return (n_splits + kChunk - 1) / kChunk;
}

// A bitonic network sorts a power of two.
EPIBIAS_HOST_DEVICE constexpr int sorted_size(int n) {
    int size = 1;
    while (size < n) size *= 2;
    return size;
}

EPIBIAS_HOST_DEVICE constexpr std::size_t rounded_up(std::size_t bytes) {
    return (bytes + 15) / 16 * 16;
}

// What a team of threads needs to evaluate one arrangement of the scores:
//   total [kSlab] float64: the sum of all rows
//   right_marks, left_marks [chunks, kSlab] float64: sums of the rows behind and before each chunk
//   sums [n, kLanes] float64
//   order, draws [n] int32
EPIBIAS_HOST_DEVICE constexpr std::size_t team_bytes(int n) {
    const auto size = static_cast<std::size_t>(n);
    const auto marks = static_cast<std::size_t>(chunks_of(n)) * kSlab * sizeof(double);
    return kSlab * sizeof(double) + 2 * marks + size * kLanes * sizeof(double) +
           rounded_up(2 * size * sizeof(std::int32_t));
}

// One query. Byte offsets. No initialisers: it lies in shared memory.
struct QueryLayout {
    std::size_t weights;       // [n, 2] float64: left and right, by the number on the left
    std::size_t similarities;  // [n] float32, as they stand
    std::size_t scores;
    std::size_t sorted_similarities;
    std::size_t sorted_scores;
    std::size_t places;   // [sorted_size(n)] int32
    std::size_t wanted;   // [n] uint8, by the number on the left
    std::size_t dropped;  // [n] uint8; BiasDef alone
    std::size_t before;   // [n] uint8; BiasDef alone
    std::size_t teams;
    std::size_t cache;  // [slabs, n, kSlab] float64: kernel rows
    std::size_t bytes;
};

EPIBIAS_HOST_DEVICE constexpr QueryLayout query_layout(int n, int n_teams,
                                                       std::size_t cache_bytes) {
    QueryLayout layout{};
    const auto size = static_cast<std::size_t>(n);
    const std::size_t floats = rounded_up(size * sizeof(float));
    layout.similarities = size * 2 * sizeof(double);
    layout.scores = layout.similarities + floats;
    layout.sorted_similarities = layout.scores + floats;
    layout.sorted_scores = layout.sorted_similarities + floats;
    layout.places = layout.sorted_scores + floats;
    layout.wanted =
        layout.places + rounded_up(static_cast<std::size_t>(sorted_size(n)) * sizeof(std::int32_t));
    layout.dropped = layout.wanted + rounded_up(size);
    layout.before = layout.dropped + rounded_up(size);
    layout.teams = layout.before + rounded_up(size);
    layout.cache = layout.teams + static_cast<std::size_t>(n_teams) * team_bytes(n);
    layout.bytes = layout.cache + cache_bytes;
    return layout;
}

// A bound on query_layout(n, 1, 0).bytes for every n; multiples of 64, so that queries side by side
// in a workspace stay aligned.
inline constexpr std::size_t kBytesPerCandidate = 192;
inline constexpr std::size_t kBytesPerQuery = 896;

EPIBIAS_HOST_DEVICE constexpr std::size_t query_bytes_at_most(std::int64_t n_candidates,
                                                              std::int64_t n_queries = 1) {
    return static_cast<std::size_t>(n_candidates) * kBytesPerCandidate +
           static_cast<std::size_t>(n_queries) * kBytesPerQuery;
}

}  // namespace epibias::cuda::sweep
