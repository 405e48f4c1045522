// What: the loops of quantized_scan, written once over a vector type `Lanes`.
//
// Included by one source per SIMD level, inside that source's flags. Everything is in an unnamed
// namespace, so that no level's code can be linked into another.
//
// Lanes has: kWidth; Floats, Integers, Bytes, vectors of kWidth elements in the notation of GCC and
// Clang; Reals, a register of float32; reals(at), value(sums, scale, filter scale), weighted(reals,
// weight), plus_weighted(reals, more, weight), any_passes(upper, limit); take(upper, value, margin,
// limit, row, out), which appends what passes of kWidth rows; multiply_add(left, right, sum) of
// Floats; row_product, which the levels share where they have sum_rows.
// For sum_rows also: Sums, a register of int32; zero_based(start), load(codes), low_halves(codes)
// and high_halves(codes) of 4 bits, repeat(word), add_products(sums, codes, query),
// store(at, sums).
#pragma once

#include <cstdint>

#include "kernels/quantized_scan_kernels.hpp"
#include "kernels/quantized_scan_rows.hpp"

namespace epibias::kernels {
namespace {

// Spreads the fetching of the next tile over the work on this one: a long burst of prefetches would
// stall on the line-fill buffers.
class NextLines {
  public:
    NextLines(const QuantizedTile& tile, std::int64_t n_bursts)
        : at_(tile.next), left_(tile.n_next_lines), step_(tile.n_next_lines / n_bursts + 1) {}

    void fetch_some() {
        const std::int64_t count = step_ < left_ ? step_ : left_;
        left_ -= count;
        for (std::int64_t line = 0; line < count; ++line, at_ += kStepBytes) {
            __builtin_prefetch(at_, 0, 2);
        }
    }

  private:
    const std::uint8_t* at_;
    std::int64_t left_;
    std::int64_t step_;
};

constexpr std::int64_t kStepsPerBurst = 4;

// How a line is read: as one word of a query's columns after the other.
template <typename Lanes>
struct EightBits : Lanes {
    static constexpr int kWords = 1;
    static auto word(Lanes::Codes line, int /*number*/) { return line; }
};
template <typename Lanes>
struct FourBits : Lanes {
    static constexpr int kWords = 2;
    static auto word(Lanes::Codes line, int number) {
        return number == 0 ? Lanes::low_halves(line) : Lanes::high_halves(line);
    }
};

// Register tile: kVectors registers of rows x kQueries queries, all of dim summed in registers. Not
// inlined: GCC spills the sums when it sees more code around them.
template <typename Lanes, int kVectors, int kQueries>
__attribute__((noinline)) void sum_rows(const std::uint8_t* const* groups, std::int64_t n_steps,
                                        const std::int32_t* words, const std::int32_t* starts,
                                        NextLines& next, std::int32_t* sums) {
    typename Lanes::Sums acc[kQueries][kVectors];
#pragma GCC unroll 8
    for (int query = 0; query < kQueries; ++query) {
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) acc[query][v] = Lanes::zero_based(starts[query]);
    }
    const std::uint8_t* at[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) at[v] = groups[v];
    for (std::int64_t step = 0; step < n_steps;) {
        next.fetch_some();
        const std::int64_t end = step + kStepsPerBurst < n_steps ? step + kStepsPerBurst : n_steps;
        for (; step < end; ++step) {
            typename Lanes::Codes lines[kVectors];
#pragma GCC unroll 8
            for (int v = 0; v < kVectors; ++v) lines[v] = Lanes::load(at[v] + step * kStepBytes);
#pragma GCC unroll 2
            for (int word = 0; word < Lanes::kWords; ++word) {
                typename Lanes::Codes codes[kVectors];
#pragma GCC unroll 8
                for (int v = 0; v < kVectors; ++v) codes[v] = Lanes::word(lines[v], word);
                const std::int32_t* row = words + (step * Lanes::kWords + word) * kQueries;
#pragma GCC unroll 8
                for (int query = 0; query < kQueries; ++query) {
                    const auto wanted = Lanes::repeat(row[query]);
#pragma GCC unroll 8
                    for (int v = 0; v < kVectors; ++v) {
                        acc[query][v] = Lanes::add_products(acc[query][v], codes[v], wanted);
                    }
                }
            }
        }
    }
#pragma GCC unroll 8
    for (int query = 0; query < kQueries; ++query) {
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
            Lanes::store(sums + query * kTileRows + v * Lanes::kSumRows, acc[query][v]);
        }
    }
}

// All rows of a tile, kVectors registers at a time.
template <typename Lanes, int kVectors, int kQueries>
void sum_all(const QuantizedTile& tile, const std::int32_t* words, const std::int32_t* starts,
             std::int32_t* sums) {
    constexpr std::int64_t kRows = kVectors * Lanes::kSumRows;
    const std::int64_t n_bursts =
        (kTileRows / kRows) * ((tile.n_steps + kStepsPerBurst - 1) / kStepsPerBurst);
    NextLines next(tile, n_bursts);
    for (std::int64_t row = 0; row < kTileRows; row += kRows) {
        const std::uint8_t* groups[kVectors];
        for (int v = 0; v < kVectors; ++v) {
            const std::int64_t first = row + v * Lanes::kSumRows;
            groups[v] = tile.data + first / kGroupRows * tile.group_bytes + first % kGroupRows * 4;
        }
        sum_rows<Lanes, kVectors, kQueries>(groups, tile.n_steps, words, starts, next, sums + row);
    }
}

template <typename Lanes, int kVectors, int kMostQueries>
void sum_tile(const QuantizedTile& tile, const std::int32_t* words, const std::int32_t* starts,
              int n_queries, std::int32_t* sums) {
    // One query waits for memory, and what is fetched ahead comes sooner from one group than from
    // several at once: 1.1 ms instead of 2.0 for 200,000 rows of 112 bytes on Zen 4.
    constexpr int kTogether =
        kMostQueries == 1 ? static_cast<int>(kGroupRows / Lanes::kSumRows) : kVectors;
    if (n_queries == kMostQueries) {
        sum_all<Lanes, kTogether, kMostQueries>(tile, words, starts, sums);
    } else if constexpr (kMostQueries > 1) {
        sum_tile<Lanes, kVectors, kMostQueries - 1>(tile, words, starts, n_queries, sums);
    }
}

// What the codes say of kWidth rows for one query.
template <typename Lanes>
struct Estimate {
    using Reals = Lanes::Reals;
    Reals value, upper;

    // `tail`: scale of the first row, with its residual and remainder behind it.
    Estimate(const std::int32_t* sums, const std::uint8_t* tail, bool has_remainders,
             const QueryFilter& filter)
        : value(Lanes::value(sums, Lanes::reals(tail), filter.scale)),
          upper(Lanes::plus_weighted(value, Lanes::reals(tail + kScaleBytes),
                                     filter.residual_weight)) {
        if (!has_remainders) return;
        upper = Lanes::plus_weighted(upper, Lanes::reals(tail + 2 * kScaleBytes),
                                     filter.remainder_weight);
    }
};

inline const std::uint8_t* tail_of(const QuantizedTile& tile, std::int64_t row) {
    return tile.data + row / kGroupRows * tile.group_bytes + tile.n_steps * kStepBytes +
           row % kGroupRows * 4;
}

template <typename Lanes>
unsigned passing(const QuantizedTile& tile, const std::int32_t* sums, const QueryFilter* filters,
                 int n_queries) {
    unsigned passed = 0;
    for (std::int64_t row = 0; row < kTileRows; row += Lanes::kWidth) {
        const std::uint8_t* tail = tail_of(tile, row);
        for (int query = 0; query < n_queries; ++query) {
            const Estimate<Lanes> estimate(sums + query * kTileRows + row, tail,
                                           tile.has_remainders, filters[query]);
            const bool any = Lanes::any_passes(estimate.upper, filters[query].limit);
            passed |= static_cast<unsigned>(any) << static_cast<unsigned>(query);
        }
    }
    return passed;
}

template <typename Lanes>
int collect(const QuantizedTile& tile, const std::int32_t* sums, const QueryFilter& filter,
            std::uint32_t first_row, const CandidateArrays& out) {
    int count = 0;
    for (std::int64_t row = 0; row < kTileRows; row += Lanes::kWidth) {
        const std::uint8_t* tail = tail_of(tile, row);
        const Estimate<Lanes> estimate(sums + row, tail, tile.has_remainders, filter);
        if (!Lanes::any_passes(estimate.upper, filter.limit)) continue;
        typename Lanes::Reals margin =
            Lanes::weighted(Lanes::reals(tail + kScaleBytes), filter.residual_weight);
        if (tile.has_remainders) {
            margin = Lanes::plus_weighted(margin, Lanes::reals(tail + 2 * kScaleBytes),
                                          filter.remainder_weight);
        }
        count += Lanes::take(estimate.upper, estimate.value, margin, filter.limit,
                             first_row + static_cast<std::uint32_t>(row),
                             {out.values + count, out.margins + count, out.rows + count});
    }
    return count;
}

// Appends the lanes named by `passed`, in ascending order.
inline int append(unsigned passed, const float* lane_values, const float* lane_margins,
                  std::uint32_t first_row, const CandidateArrays& out) {
    int count = 0;
    for (; passed != 0; passed &= passed - 1) {
        const auto lane = static_cast<std::uint32_t>(__builtin_ctz(passed));
        out.values[count] = lane_values[lane];
        out.margins[count] = lane_margins[lane];
        out.rows[count++] = first_row + lane;
    }
    return count;
}

// One row whose codes lie together.
template <typename Lanes>
std::int32_t row_product(const std::uint8_t* codes, const std::int8_t* query, std::int64_t n_lines,
                         std::int32_t start) {
    constexpr std::int64_t kBytes = 4 * Lanes::kSumRows;
    typename Lanes::Sums acc = Lanes::zero_based(0);
    for (std::int64_t at = 0; at < n_lines * kStepBytes; at += kBytes) {
        const auto* wanted = reinterpret_cast<const std::uint8_t*>(query) + at;
        acc = Lanes::add_products(acc, Lanes::load(codes + at), Lanes::load(wanted));
    }
    std::int32_t parts[Lanes::kSumRows];
    Lanes::store(parts, acc);
    std::int32_t sum = start;
#pragma GCC unroll 16
    for (std::int64_t part = 0; part < Lanes::kSumRows; ++part) sum += parts[part];
    return sum;
}

}  // namespace
}  // namespace epibias::kernels
