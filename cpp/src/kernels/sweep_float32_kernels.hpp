// What: the inner loops of the float32 sweep, one table per SIMD level.
//
// The score grid is processed in tiles of n_blocks (1 … kMostTileBlocks) registers of `lanes`
// points: a tile's rows are [n_rows, n_blocks * lanes] float32, and suffixes [n_rows + 1, the same]
// hold the sums of the rows from each one to the last. Sums are [n_splits, lanes], added to over
// all tiles and folded at the end. All buffers belong to the caller.
#pragma once

#include <cstdint>

namespace epibias::kernels {

inline constexpr int kMostTileBlocks = 4;
// Queries of at most so many candidates take tiles of several blocks, whose sums stay in registers;
// others take one block, and compensate their sums after every kRowsOfASum rows.
inline constexpr std::int64_t kFewRows = 128;
inline constexpr std::int64_t kRowsOfASum = 16;
inline constexpr int kMostRanked = 128;
inline constexpr int kRankedTogether = 16;
// Of rough_log2_of_ratio, rounded up.
inline constexpr double kRoughLog2Error = 0.08608;

// The rows of one tile in the order of the splits.
struct TileRows {
    const float* rows;
    const float* suffixes;
    // [n_rows] row of the j-th place; null: row j.
    const std::int32_t* order;
    // [n_rows] ascending: how many candidates come before the j-th. It differs from j where a
    // window left rows out; null: j.
    const std::int32_t* places;
    std::int64_t n_rows;
    int n_blocks;
};

struct TileSplits {
    const std::int32_t* n_left;  // [n_splits] ascending
    // [n_splits] log2 of what multiplies the ratio of the left sum and of the right one.
    const float* left_log2;
    const float* right_log2;
    std::int64_t n_splits;
    bool accumulate;  // false: the sums begin with this tile
};

struct SweepFloat32Kernels {
    int lanes;

    // rows[i][g] = 2^-((g - (n_blocks * lanes - 1) / 2) spacing - scores[i])^2, and its suffixes.
    void (*kernel_rows)(const float* scores, std::int64_t n_rows, int n_blocks, float spacing,
                        float* rows, float* suffixes);

    // Suffixes of rows in the order of `tile` (whose own suffixes are not read).
    void (*sum_suffixes)(const TileRows& tile, float* suffixes);

    // sums += S_L (log2(S_L / (S_R + kappa S_T)) + left_log2)
    void (*add_floored_kl)(const TileRows& tile, const TileSplits& splits, float kappa,
                           float* sums);

    // sums += S_L (log2(S_L / S_T) + left_log2) + S_R (log2(S_R / S_T) + right_log2)
    void (*add_mutual_information)(const TileRows& tile, const TileSplits& splits, float unused,
                                   float* sums);

    // sums += S_L 2^23 log2(S_L / (floored_total - S_L)) within kRoughLog2Error of each logarithm;
    // floored_total = (1 + kappa) S_T. The log2 weights are not read.
    void (*add_rough_kl)(const TileRows& tile, const TileSplits& splits, float kappa, float* sums);

    // totals[j] = sum over the lanes of sums[j].
    void (*fold)(const float* sums, std::int64_t n_splits, float* totals);

    // ranks[i] = how many of the n <= kMostRanked keys are smaller than the i-th. Both arrays have
    // room for a multiple of kRankedTogether, and the keys up to there are read.
    void (*rank)(const std::int32_t* keys, std::int64_t n, std::int32_t* ranks);
};

namespace scalar {
extern const SweepFloat32Kernels kSweepFloat32;
}
namespace avx2 {
extern const SweepFloat32Kernels kSweepFloat32;
}
namespace avx512 {
extern const SweepFloat32Kernels kSweepFloat32;
}

}  // namespace epibias::kernels
