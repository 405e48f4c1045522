// What: the inner loops of sweep_float32_kernels.hpp; compiled once per SIMD level by
// sweep_float32_<level>.cpp. No inline function of a library: see lanes.hpp.
#pragma once

#include "kernels/lanes_float32.hpp"
#include "kernels/sweep_float32_kernels.hpp"

namespace epibias::kernels::EPIBIAS_LEVEL {
namespace {

// Sums of rows. Tiles of one block (many rows) carry what the rounding of every kRowsOfASum-th sum
// lost on into the next ones; tiles of several blocks (few rows) do without.
template <int kBlocks>
struct RunningSum {
    static constexpr bool kCompensated = kBlocks == 1;
    Floats total[kBlocks] = {};
    Floats base[kBlocks] = {}, recent[kBlocks] = {};
    std::int64_t n_recent = 0;

    EPIBIAS_INLINE void add(int block, Floats row) {
        if constexpr (kCompensated) {
            recent[block] += row;
            total[block] = base[block] + recent[block];
            if (++n_recent < kRowsOfASum) return;
            n_recent = 0;
            // Knuth's two-sum: base + recent = total + what goes on, exactly.
            const Floats added = total[block] - base[block];
            recent[block] = (base[block] - (total[block] - added)) + (recent[block] - added);
            base[block] = total[block];
        } else {
            total[block] += row;
        }
    }
    EPIBIAS_INLINE void add_row(const float* row) {
        for (int block = 0; block < kBlocks; ++block) {
            add(block, load_floats(row + block * kFloatLanes));
        }
    }
};

template <int kBlocks>
EPIBIAS_INLINE void store_blocks(float* to, const Floats* values) {
    for (int block = 0; block < kBlocks; ++block) {
        store_floats(to + block * kFloatLanes, values[block]);
    }
}

template <int kBlocks>
void kernel_rows_of(const float* scores, std::int64_t n_rows, float spacing, float* rows,
                    float* suffixes) {
    constexpr std::int64_t kWidth = kBlocks * kFloatLanes;
    // The numbers from memory: lane by lane the compiler would take longer than for all rows.
    constexpr float kNumbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    static_assert(kFloatLanes <= 16);
    const Floats numbers = load_floats(kNumbers);
    Floats points[kBlocks];
    for (int block = 0; block < kBlocks; ++block) {
        const float first =
            static_cast<float>(block * kFloatLanes) - 0.5F * static_cast<float>(kWidth - 1);
        points[block] = (numbers + all_floats(first)) * all_floats(spacing);
    }
    RunningSum<kBlocks> sum;
    store_blocks<kBlocks>(suffixes + n_rows * kWidth, sum.total);
    for (std::int64_t i = n_rows - 1; i >= 0; --i) {
        const Floats score = all_floats(scores[i]);
        for (int block = 0; block < kBlocks; ++block) {
            const Floats row = float_exp2_of_negative(minus_square(points[block] - score));
            store_floats(rows + i * kWidth + block * kFloatLanes, row);
            sum.add(block, row);
        }
        store_blocks<kBlocks>(suffixes + i * kWidth, sum.total);
    }
}

template <int kBlocks>
EPIBIAS_INLINE const float* row_of(const TileRows& tile, std::int64_t j) {
    return tile.rows + (tile.order == nullptr ? j : tile.order[j]) * kBlocks * kFloatLanes;
}

template <int kBlocks>
void sum_suffixes_of(const TileRows& tile, float* suffixes) {
    constexpr std::int64_t kWidth = kBlocks * kFloatLanes;
    RunningSum<kBlocks> sum;
    store_blocks<kBlocks>(suffixes + tile.n_rows * kWidth, sum.total);
    for (std::int64_t j = tile.n_rows - 1; j >= 0; --j) {
        sum.add_row(row_of<kBlocks>(tile, j));
        store_blocks<kBlocks>(suffixes + j * kWidth, sum.total);
    }
}

// sums[split] += term(block, S_L, S_R, split) over the blocks, for every split.
template <int kBlocks, typename Term>
EPIBIAS_INLINE void add_terms(const TileRows& tile, const TileSplits& splits, float* sums,
                              const Term& term) {
    constexpr std::int64_t kWidth = kBlocks * kFloatLanes;
    RunningSum<kBlocks> left;
    std::int64_t j = 0;
    for (std::int64_t split = 0; split < splits.n_splits; ++split) {
        const std::int64_t n_left = splits.n_left[split];
        if (tile.places == nullptr) {
            while (j < n_left) left.add_row(row_of<kBlocks>(tile, j++));
        } else {
            while (j < tile.n_rows && tile.places[j] < n_left) {
                left.add_row(row_of<kBlocks>(tile, j++));
            }
        }
        Floats sum = splits.accumulate ? load_floats(sums + split * kFloatLanes) : Floats{};
        for (int block = 0; block < kBlocks; ++block) {
            const Floats right = load_floats(tile.suffixes + j * kWidth + block * kFloatLanes);
            sum = term(block, left.total[block], right, split, sum);
        }
        store_floats(sums + split * kFloatLanes, sum);
    }
}

template <int kBlocks>
void add_floored_kl_of(const TileRows& tile, const TileSplits& splits, float kappa, float* sums) {
    Floats floor[kBlocks];
    for (int block = 0; block < kBlocks; ++block) {
        floor[block] = load_floats(tile.suffixes + block * kFloatLanes) * all_floats(kappa);
    }
    add_terms<kBlocks>(tile, splits, sums,
                       [&](int block, Floats left, Floats right, std::int64_t split, Floats sum) {
                           const Floats added = all_floats(splits.left_log2[split]);
                           return fused(left, log2_of_ratio(left, right + floor[block], added),
                                        sum);
                       });
}

template <int kBlocks>
void add_mutual_information_of(const TileRows& tile, const TileSplits& splits, float* sums) {
    Floats total[kBlocks];
    // A window may have left out every row of a tile: then there is nothing to add.
    if (tile.n_rows == 0) return;
    for (int block = 0; block < kBlocks; ++block) {
        total[block] = load_floats(tile.suffixes + block * kFloatLanes);
    }
    add_terms<kBlocks>(tile, splits, sums,
                       [&](int block, Floats left, Floats right, std::int64_t split, Floats sum) {
                           const Floats left_added = all_floats(splits.left_log2[split]);
                           const Floats right_added = all_floats(splits.right_log2[split]);
                           sum = fused(left, log2_of_ratio(left, total[block], left_added), sum);
                           return fused(right, log2_of_ratio(right, total[block], right_added),
                                        sum);
                       });
}

template <int kBlocks>
void add_rough_kl_of(const TileRows& tile, const TileSplits& splits, float kappa, float* sums) {
    Floats floored[kBlocks];
    for (int block = 0; block < kBlocks; ++block) {
        floored[block] = load_floats(tile.suffixes + block * kFloatLanes) * all_floats(1 + kappa);
    }
    Floats left[kBlocks] = {};
    std::int64_t j = 0;
    for (std::int64_t split = 0; split < splits.n_splits; ++split) {
        for (const std::int64_t n_left = splits.n_left[split]; j < n_left; ++j) {
            const float* row = row_of<kBlocks>(tile, j);
            for (int block = 0; block < kBlocks; ++block) {
                left[block] += load_floats(row + block * kFloatLanes);
            }
        }
        Floats sum = splits.accumulate ? load_floats(sums + split * kFloatLanes) : Floats{};
        for (int block = 0; block < kBlocks; ++block) {
            const Floats right = floored[block] - left[block];
            sum = fused(left[block], rough_log2_of_ratio(left[block], right), sum);
        }
        store_floats(sums + split * kFloatLanes, sum);
    }
}

// ---- the number of blocks is known when a loop is compiled ----------------------------------

#define EPIBIAS_BY_BLOCKS(function, n_blocks, ...) \
    switch (n_blocks) {                            \
        case 1:                                    \
            return function<1>(__VA_ARGS__);       \
        case 2:                                    \
            return function<2>(__VA_ARGS__);       \
        case 3:                                    \
            return function<3>(__VA_ARGS__);       \
        default:                                   \
            static_assert(kMostTileBlocks == 4);   \
            return function<4>(__VA_ARGS__);       \
    }

void kernel_rows(const float* scores, std::int64_t n_rows, int n_blocks, float spacing, float* rows,
                 float* suffixes) {
    EPIBIAS_BY_BLOCKS(kernel_rows_of, n_blocks, scores, n_rows, spacing, rows, suffixes)
}

void sum_suffixes(const TileRows& tile, float* suffixes) {
    EPIBIAS_BY_BLOCKS(sum_suffixes_of, tile.n_blocks, tile, suffixes)
}

void add_floored_kl(const TileRows& tile, const TileSplits& splits, float kappa, float* sums) {
    EPIBIAS_BY_BLOCKS(add_floored_kl_of, tile.n_blocks, tile, splits, kappa, sums)
}

void add_mutual_information(const TileRows& tile, const TileSplits& splits, float /*unused*/,
                            float* sums) {
    EPIBIAS_BY_BLOCKS(add_mutual_information_of, tile.n_blocks, tile, splits, sums)
}

void add_rough_kl(const TileRows& tile, const TileSplits& splits, float kappa, float* sums) {
    EPIBIAS_BY_BLOCKS(add_rough_kl_of, tile.n_blocks, tile, splits, kappa, sums)
}
#undef EPIBIAS_BY_BLOCKS

void fold(const float* sums, std::int64_t n_splits, float* totals) {
    for (std::int64_t split = 0; split < n_splits; ++split) {
        totals[split] = sum_of_floats(load_floats(sums + split * kFloatLanes));
    }
}

void rank(const std::int32_t* keys, std::int64_t n, std::int32_t* ranks) {
    constexpr std::int64_t kRegisters = kMostRanked / kFloatLanes;
    for (std::int64_t which = 0; which < kRegisters && which * kFloatLanes < n; ++which) {
        FloatBits mine;
        FloatBits before{};
        __builtin_memcpy(&mine, keys + which * kFloatLanes, sizeof(mine));
        for (std::int64_t i = 0; i < n; ++i) {
            before = count_smaller(before, all_bits(keys[i]), mine);
        }
        __builtin_memcpy(ranks + which * kFloatLanes, &before, sizeof(before));
    }
}

}  // namespace

const SweepFloat32Kernels kSweepFloat32{
    static_cast<int>(kFloatLanes), kernel_rows,  sum_suffixes, add_floored_kl,
    add_mutual_information,        add_rough_kl, fold,         rank};

}  // namespace epibias::kernels::EPIBIAS_LEVEL
