// What: the scan loops of cosine_topk, written once over a vector type `Lanes`.
//
// Included by one source per SIMD level, inside that source's flags. Everything is in an unnamed
// namespace, so that no level's code can be linked into another.
//
// Lanes has: kWidth; Vector; zero(), load(p), load_first(p, n), broadcast(p), multiply_add(a, b,
// c), multiply(a, b), sum(v), store(p, v), at_least(a, b) -> bit mask.
#pragma once

#include <cstdint>

#include "kernels/cosine_topk_kernels.hpp"

namespace epibias::kernels {
namespace {

constexpr std::int64_t kFloatsPerLine = 16;

template <int kCount>
struct Count {
    static constexpr int kValue = kCount;
};

// Elements of dim between two bursts of prefetches.
constexpr std::int64_t kChunk = 16;

// Spreads the fetching of the next tile over the work on this one: a long burst of prefetches would
// stall on the line-fill buffers.
class NextTile {
  public:
    NextTile(const Tile& tile, std::int64_t n_bursts)
        : at_(tile.next_rows),
          end_(tile.next_rows != nullptr ? tile.next_rows + tile.n_next_floats : nullptr),
          step_((tile.n_next_floats / kFloatsPerLine / (n_bursts > 0 ? n_bursts : 1) + 1)) {}

    void fetch_some() {
        for (std::int64_t line = 0; line < step_ && at_ < end_; ++line, at_ += kFloatsPerLine) {
            __builtin_prefetch(at_, 0, 2);
        }
    }

  private:
    const float* at_;
    const float* end_;
    std::int64_t step_;
};

// Register tile: kRows passages (broadcast) x kVectors vectors of queries, all of dim summed in
// registers, one rounding per element: the error bound counts exactly that.
template <typename Lanes, int kRows, int kVectors>
Hit* scan_group(const float* rows, std::int64_t dim, const float* panel, const float* scales,
                const float* thresholds, std::uint32_t position, NextTile& next, Hit* hits) {
    constexpr int kPanelWidth = kVectors * Lanes::kWidth;
    typename Lanes::Vector sums[kRows][kVectors];
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[row][v] = Lanes::zero();
    }
    for (std::int64_t i = 0; i < dim;) {
        next.fetch_some();
        const std::int64_t chunk_end = i + kChunk < dim ? i + kChunk : dim;
        for (; i < chunk_end; ++i) {
            typename Lanes::Vector queries[kVectors];
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) {
                queries[v] = Lanes::load(panel + i * kPanelWidth + v * Lanes::kWidth);
            }
#pragma GCC unroll 16
            for (int row = 0; row < kRows; ++row) {
                const auto passage = Lanes::broadcast(rows + row * dim + i);
#pragma GCC unroll 4
                for (int v = 0; v < kVectors; ++v) {
                    sums[row][v] = Lanes::multiply_add(passage, queries[v], sums[row][v]);
                }
            }
        }
    }
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
        const auto scale = Lanes::broadcast(scales + row);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
            const auto values = Lanes::multiply(sums[row][v], scale);
            const auto limits = Lanes::load(thresholds + v * Lanes::kWidth);
            unsigned passed = Lanes::at_least(values, limits);
            if (passed == 0) [[likely]]
                continue;
            alignas(64) float stored[Lanes::kWidth];
            Lanes::store(stored, values);
            const auto first =
                position + static_cast<std::uint32_t>(row * kPanelWidth + v * Lanes::kWidth);
            for (; passed != 0; passed &= passed - 1) {
                const auto lane = static_cast<std::uint32_t>(__builtin_ctz(passed));
                *hits++ = {stored[lane], first + lane};
            }
        }
    }
    return hits;
}

template <typename Lanes, int kRows, int kVectors>
std::int64_t scan_panel(const Tile& tile, const float* panel, const float* thresholds, Hit* hits) {
    constexpr int kPanelWidth = kVectors * Lanes::kWidth;
    Hit* end = hits;
    NextTile next(tile, tile.n_rows / kRows * ((tile.dim + kChunk - 1) / kChunk));
    std::int64_t row = 0;
    for (; row + kRows <= tile.n_rows; row += kRows) {
        end = scan_group<Lanes, kRows, kVectors>(
            tile.rows + row * tile.dim, tile.dim, panel, tile.scales + row, thresholds,
            static_cast<std::uint32_t>(row * kPanelWidth), next, end);
    }
    for (; row < tile.n_rows; ++row) {
        end = scan_group<Lanes, 1, kVectors>(
            tile.rows + row * tile.dim, tile.dim, panel, tile.scales + row, thresholds,
            static_cast<std::uint32_t>(row * kPanelWidth), next, end);
    }
    return end - hits;
}

// kRows passages x kQueries queries, vectors along dim.
template <typename Lanes, int kRows, int kQueries>
Hit* dot_group(const float* rows, std::int64_t dim, const float* queries, const float* scales,
               const float* thresholds, std::uint32_t position, std::uint32_t panel_width,
               Hit* hits) {
    typename Lanes::Vector sums[kRows][kQueries];
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
        for (int query = 0; query < kQueries; ++query) sums[row][query] = Lanes::zero();
    }
    const auto add_step = [&](auto load, std::int64_t i) __attribute__((always_inline)) {
        typename Lanes::Vector wanted[kQueries];
#pragma GCC unroll 4
        for (int query = 0; query < kQueries; ++query) {
            wanted[query] = load(queries + query * dim + i);
        }
#pragma GCC unroll 16
        for (int row = 0; row < kRows; ++row) {
            const auto passage = load(rows + row * dim + i);
#pragma GCC unroll 4
            for (int query = 0; query < kQueries; ++query) {
                sums[row][query] = Lanes::multiply_add(passage, wanted[query], sums[row][query]);
            }
        }
    };
    std::int64_t i = 0;
    for (; i + Lanes::kWidth <= dim; i += Lanes::kWidth) {
        add_step([](const float* at) { return Lanes::load(at); }, i);
    }
    if (i < dim) {
        const int rest = static_cast<int>(dim - i);
        add_step([rest](const float* at) { return Lanes::load_first(at, rest); }, i);
    }
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
        for (int query = 0; query < kQueries; ++query) {
            const float value = Lanes::sum(sums[row][query]) * scales[row];
            if (value >= thresholds[query]) [[unlikely]] {
                *hits++ = {value, position + static_cast<std::uint32_t>(row) * panel_width +
                                      static_cast<std::uint32_t>(query)};
            }
        }
    }
    return hits;
}

template <typename Lanes, int kRows, int kQueries>
Hit* dot_rows(const Tile& tile, const float* queries, const float* thresholds,
              std::uint32_t first_query, std::uint32_t panel_width, bool fetch, Hit* hits) {
    NextTile next(tile, tile.n_rows / kRows);
    std::int64_t row = 0;
    for (; row + kRows <= tile.n_rows; row += kRows) {
        if (fetch) next.fetch_some();
        hits = dot_group<Lanes, kRows, kQueries>(
            tile.rows + row * tile.dim, tile.dim, queries, tile.scales + row, thresholds,
            static_cast<std::uint32_t>(row) * panel_width + first_query, panel_width, hits);
    }
    for (; row < tile.n_rows; ++row) {
        hits = dot_group<Lanes, 1, kQueries>(
            tile.rows + row * tile.dim, tile.dim, queries, tile.scales + row, thresholds,
            static_cast<std::uint32_t>(row) * panel_width + first_query, panel_width, hits);
    }
    return hits;
}

// kRows passages at a time beside one or two queries, kRowsBesideFour beside four.
template <typename Lanes, int kVectors, int kRows, int kRowsBesideFour>
std::int64_t scan_few(const Tile& tile, const float* queries, int n_queries,
                      const float* thresholds, Hit* hits) {
    constexpr std::uint32_t kPanelWidth = kVectors * Lanes::kWidth;
    Hit* end = hits;
    const auto step = [&](auto count, int query) {
        constexpr int kQueries = decltype(count)::kValue;
        end = dot_rows<Lanes, (kQueries == 4 ? kRowsBesideFour : kRows), kQueries>(
            tile, queries + query * tile.dim, thresholds + query, static_cast<std::uint32_t>(query),
            kPanelWidth, query == 0, end);
    };
    int query = 0;
    for (; query + 4 <= n_queries; query += 4) step(Count<4>{}, query);
    for (; query + 2 <= n_queries; query += 2) step(Count<2>{}, query);
    for (; query < n_queries; ++query) step(Count<1>{}, query);
    return end - hits;
}

}  // namespace
}  // namespace epibias::kernels
