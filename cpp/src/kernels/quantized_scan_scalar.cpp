// Portable level of quantized_scan: no intrinsics, 16-byte vectors of GCC and Clang, which are SSE2
// on x86-64 and NEON on AArch64.
//
// Codes are widened to 16 bits; a product is at most 127^2, so the products of two steps add up in
// 16 bits before they are widened to 32.
#include "kernels/quantized_scan_body.hpp"

namespace epibias::kernels {
namespace {

using Codes = std::int8_t __attribute__((vector_size(8)));
using Shorts = std::int16_t __attribute__((vector_size(16)));
using Integers4 = std::int32_t __attribute__((vector_size(16)));

struct Lanes128 {
    using Floats = float __attribute__((vector_size(16)));
    using Integers = Integers4;
    using Bytes = std::int8_t __attribute__((vector_size(4)));
    static constexpr int kWidth = 4;

    using Reals = Floats;
    static Reals reals(const void* at) { return load_from<Floats>(at); }
    static Reals value(const std::int32_t* sums, Reals scale, float query_scale) {
        return __builtin_convertvector(load_from<Integers>(sums), Floats) * scale * query_scale;
    }
    static Reals weighted(Reals values, float weight) { return values * weight; }
    static Reals plus_weighted(Reals sum, Reals values, float weight) {
        return sum + values * weight;
    }
    static Floats multiply_add(Floats left, Floats right, Floats sum) { return left * right + sum; }
    static bool any_passes(Reals upper, float limit) {
        const Integers yes = upper >= limit;
        return ((yes[0] | yes[1]) | (yes[2] | yes[3])) != 0;
    }

    static int take(Reals upper, Reals values, Reals margins, float limit, std::uint32_t row,
                    const CandidateArrays& out) {
        const Integers yes = upper >= limit;
        const unsigned chosen =
            (static_cast<unsigned>(yes[0]) & 1U) | (static_cast<unsigned>(yes[1]) & 2U) |
            (static_cast<unsigned>(yes[2]) & 4U) | (static_cast<unsigned>(yes[3]) & 8U);
        return append(chosen, reinterpret_cast<const float*>(&values),
                      reinterpret_cast<const float*>(&margins), row, out);
    }
};

constexpr std::int64_t kRowPairs = 4;  // two rows of four columns in a vector of eight shorts

// The codes of two rows in two successive words of columns.
struct TwoWords {
    Shorts first, second;
};

// 8 bits: a line a word, stored as codes + 128, so the highest bit is flipped.
struct PortableEightBits {
    static constexpr std::int64_t kLines = 2;
    static TwoWords load(const std::uint8_t* at) {
        const auto widen = [](const std::uint8_t* from) {
            return __builtin_convertvector(load_from<Codes>(from) ^ static_cast<std::int8_t>(-128),
                                           Shorts);
        };
        return {widen(at), widen(at + kStepBytes)};
    }
};

// 4 bits: both words in one line, stored as codes + 8.
struct PortableFourBits {
    static constexpr std::int64_t kLines = 1;
    static TwoWords load(const std::uint8_t* at) {
        const auto both = load_from<Codes>(at);
        const auto widen = [](Codes half) {
            return __builtin_convertvector((half & std::int8_t{15}) - std::int8_t{8}, Shorts);
        };
        return {widen(both), widen(both >> 4)};
    }
};

// The four codes of a query, twice.
Shorts repeat(std::int32_t word) {
    const std::int32_t twice[2] = {word, word};
    return __builtin_convertvector(load_from<Codes>(twice), Shorts);
}

template <typename Bits, int kQueries>
void sum_eight_rows(const std::uint8_t* codes, std::int64_t n_steps, const std::int32_t* words,
                    NextLines& next, std::int32_t* sums) {
    Integers4 acc[kQueries][kRowPairs] = {};
    for (std::int64_t step = 0; step < n_steps; step += Bits::kLines) {  // n_steps: a multiple
        if (step % kStepsPerBurst == 0) next.fetch_some();
        const std::uint8_t* at = codes + step * kStepBytes;
        const std::int32_t* wanted = words + step * (2 / Bits::kLines) * kQueries;
#pragma GCC unroll 2
        for (int query = 0; query < kQueries; ++query) {
            const Shorts first = repeat(wanted[query]);
            const Shorts second = repeat(wanted[kQueries + query]);
#pragma GCC unroll 4
            for (std::int64_t pair = 0; pair < kRowPairs; ++pair) {
                const TwoWords two = Bits::load(at + 8 * pair);
                const Shorts products = two.first * first + two.second * second;
                // Both halves of each 32 bits, with their signs.
                const auto halves = load_from<Integers4>(&products);
                acc[query][pair] += ((halves << 16) >> 16) + (halves >> 16);
            }
        }
    }
    for (int query = 0; query < kQueries; ++query) {
        for (std::int64_t row = 0; row < 2 * kRowPairs; ++row) {
            const Integers4& pair = acc[query][row / 2];
            sums[query * kTileRows + row] = pair[row % 2 * 2] + pair[row % 2 * 2 + 1];
        }
    }
}

template <typename Bits, int kQueries>
void sum_portable(const QuantizedTile& tile, const std::int32_t* words, std::int32_t* sums) {
    constexpr std::int64_t kRows = 2 * kRowPairs;
    const std::int64_t n_bursts =
        kTileRows / kRows * ((tile.n_steps + kStepsPerBurst - 1) / kStepsPerBurst);
    NextLines next(tile, n_bursts);
    for (std::int64_t row = 0; row < kTileRows; row += kRows) {
        const std::uint8_t* codes =
            tile.data + row / kGroupRows * tile.group_bytes + row % kGroupRows * 4;
        sum_eight_rows<Bits, kQueries>(codes, tile.n_steps, words, next, sums + row);
    }
}

// The codes need no offset here, so `starts` are zero.
template <typename Bits>
void sum_tile_portable(const QuantizedTile& tile, const std::int32_t* words,
                       const std::int32_t* /*starts*/, int n_queries, std::int32_t* sums) {
    if (n_queries == 2) {
        sum_portable<Bits, 2>(tile, words, sums);
    } else {
        sum_portable<Bits, 1>(tile, words, sums);
    }
}

std::int32_t row_product_portable(const std::uint8_t* codes, const std::int8_t* query,
                                  std::int64_t n_lines, std::int32_t start) {
    Integers4 acc = {start};
    for (std::int64_t at = 0; at < n_lines * kStepBytes; at += 8) {
        const auto row = load_from<Codes>(codes + at) ^ static_cast<std::int8_t>(-128);
        const Shorts products = __builtin_convertvector(row, Shorts) *
                                __builtin_convertvector(load_from<Codes>(query + at), Shorts);
        // Both halves of each 32 bits, with their signs.
        const auto halves = load_from<Integers4>(&products);
        acc += ((halves << 16) >> 16) + (halves >> 16);
    }
    return (acc[0] + acc[1]) + (acc[2] + acc[3]);
}

}  // namespace

namespace scalar {
const QuantizedScanKernels kQuantizedScan = {
    .code_limit = 127,
    .query_limit = 127,
    .code_offset = 0,
    .n_queries = 2,
    .error_lanes = 4,
    .quantize = quantize<Lanes128>,
    .quantize_clipped = quantize_clipped<Lanes128>,
    .sum_tile = sum_tile_portable<PortableEightBits>,
    .passing = passing<Lanes128>,
    .collect = collect<Lanes128>,
    .row_product = row_product_portable,
    .project = project<Lanes128, 2>,
};
const QuantizedScanKernels kQuantizedScanFourBits = {
    .code_limit = 7,
    .query_limit = 127,
    .code_offset = 0,
    .n_queries = 2,
    .error_lanes = 4,
    .quantize = quantize<Lanes128>,
    .quantize_clipped = quantize_clipped<Lanes128>,
    .sum_tile = sum_tile_portable<PortableFourBits>,
    .passing = passing<Lanes128>,
    .collect = collect<Lanes128>,
    .row_product = row_product_portable,
    .project = project<Lanes128, 2>,
};
}  // namespace scalar

}  // namespace epibias::kernels
