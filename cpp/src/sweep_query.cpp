#include "sweep_query.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "epibias/simd_level.hpp"
#include "refuse.hpp"

namespace epibias::sweep {

namespace {

// Below this a comparison sort is the faster one.
constexpr std::size_t kLeastRadixSorted = 400;

void copy_row(MatrixView<const float> matrix, std::int64_t row, const char* argument,
              std::vector<float>& copy) {
    copy.resize(static_cast<std::size_t>(matrix.n_columns));
    if (copy.empty()) return;
    const auto* bytes = reinterpret_cast<const unsigned char*>(matrix.data);
    const std::size_t row_bytes = copy.size() * sizeof(float);
    std::memcpy(copy.data(), bytes + static_cast<std::size_t>(row) * row_bytes, row_bytes);
    // Without a branch, so that the compiler makes vectors of it.
    std::uint32_t not_finite = 0;
    for (const float value : copy) {
        const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU;
        not_finite |= magnitude + 0x00800000U;  // the top bit is set from infinity on
    }
    if ((not_finite & 0x80000000U) == 0) return;
    const auto fault =
        std::ranges::find_if(copy, [](float value) { return !std::isfinite(value); });
    refuse(argument, "finite values",
           number_text(static_cast<double>(*fault)) + " (row " + std::to_string(row) + ", column " +
               std::to_string(fault - copy.begin()) + ")");
}

// Integers that sort as the float32 do. -0 and +0 are one value.
std::int32_t signed_key(float similarity) {
    const auto bits = std::bit_cast<std::int32_t>(similarity + 0.0F);
    return bits ^ ((bits >> 31) & 0x7FFFFFFF);
}

// The same above the place: a sort of these is stable and allocates nothing.
std::uint64_t placed_key(float similarity, std::size_t place) {
    const auto ordered = static_cast<std::uint32_t>(signed_key(similarity)) ^ 0x80000000U;
    return (static_cast<std::uint64_t>(ordered) << 32U) | place;
}

// Sorts by the upper half, stably: three passes of 11 bits, and passes that would move nothing are
// left out.
void radix_sort(std::vector<std::uint64_t>& keys, std::vector<std::uint64_t>& other) {
    constexpr unsigned kDigitBits = 11;
    constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
    other.resize(keys.size());
    std::array<std::array<std::uint32_t, kDigits>, 3> counts{};
    for (const std::uint64_t key : keys) {
        ++counts[0][(key >> 32U) % kDigits];
        ++counts[1][(key >> (32U + kDigitBits)) % kDigits];
        ++counts[2][key >> (32U + 2 * kDigitBits)];
    }
    for (unsigned pass = 0; pass < counts.size(); ++pass) {
        auto& places = counts[pass];
        const unsigned shift = 32U + pass * kDigitBits;
        if (places[(keys[0] >> shift) % kDigits] == keys.size()) continue;
        std::uint32_t first = 0;
        for (std::uint32_t& place : places) {
            const std::uint32_t count = place;
            place = first;
            first += count;
        }
        for (const std::uint64_t key : keys) other[places[(key >> shift) % kDigits]++] = key;
        keys.swap(other);
    }
}

void place_ranked(const kernels::SweepFloat32Kernels& table, Scratch& scratch) {
    const std::size_t n = scratch.similarities.size();
    std::array<std::int32_t, kernels::kMostRanked> keys;
    std::array<std::int32_t, kernels::kMostRanked> ranks;
    for (std::size_t i = 0; i < n; ++i) keys[i] = signed_key(scratch.similarities[i]);
    for (std::size_t i = n; i % kernels::kRankedTogether != 0; ++i) keys[i] = 0;
    table.rank(keys.data(), static_cast<std::int64_t>(n), ranks.data());
    std::array<std::uint8_t, kernels::kMostRanked> n_placed{};  // of those that share a rank
    for (std::size_t i = 0; i < n; ++i) {
        const auto rank = static_cast<std::size_t>(ranks[i]);
        const std::size_t place = rank + n_placed[rank]++;
        scratch.sorted_similarities[place] = scratch.similarities[i];
        scratch.sorted_scores[place] = static_cast<double>(scratch.scores[i]);
    }
}

}  // namespace

Kernels active_kernels() {
#if defined(EPIBIAS_X86_LEVELS)
    switch (active_simd_level()) {
        case SimdLevel::kAvx512:
            return {&kernels::avx512::kThresholdSweep, &kernels::avx512::kSweepFloat32};
        case SimdLevel::kAvx2:
            return {&kernels::avx2::kThresholdSweep, &kernels::avx2::kSweepFloat32};
        case SimdLevel::kScalar:
            break;
    }
#endif
    return {&kernels::scalar::kThresholdSweep, &kernels::scalar::kSweepFloat32};
}

void sort_by_similarity(const kernels::SweepFloat32Kernels& table, Scratch& scratch) {
    const std::size_t n = scratch.similarities.size();
    scratch.sorted_similarities.resize(n);
    scratch.sorted_scores.resize(n);
    if (n <= kernels::kMostRanked) return place_ranked(table, scratch);
    scratch.keys.resize(n);
    for (std::size_t i = 0; i < n; ++i) scratch.keys[i] = placed_key(scratch.similarities[i], i);
    if (n < kLeastRadixSorted) {
        std::ranges::sort(scratch.keys);
    } else {
        radix_sort(scratch.keys, scratch.other_keys);
    }
    for (std::size_t i = 0; i < n; ++i) {
        const auto place = static_cast<std::uint32_t>(scratch.keys[i]);
        scratch.sorted_similarities[i] = scratch.similarities[place];
        scratch.sorted_scores[i] = static_cast<double>(scratch.scores[place]);
    }
}

bool read_query(MatrixView<const float> similarities, MatrixView<const float> scores,
                std::int64_t row, double bandwidth_factor, Scratch& scratch, Query& query) {
    copy_row(similarities, row, "similarities", scratch.similarities);
    copy_row(scores, row, "scores", scratch.scores);
    query = {};
    query.n = similarities.n_columns;
    if (query.n < 2) return false;
    const auto n = static_cast<double>(query.n);
    double sum = 0, low = std::numeric_limits<double>::infinity(),
           high = -std::numeric_limits<double>::infinity();
    for (const float score : scratch.scores) {
        const auto y = static_cast<double>(score);
        sum += y;
        low = std::min(low, y);
        high = std::max(high, y);
    }
    const double mean = sum / n;
    double squares = 0;
    for (const float score : scratch.scores) {
        const double deviation = static_cast<double>(score) - mean;
        squares += deviation * deviation;
    }
    if (scratch.fifth_root.n != query.n) scratch.fifth_root = {query.n, inverse_fifth_root(n)};
    return fit_grid(low, high, squares, n, scratch.fifth_root.inverse, bandwidth_factor, query);
}

const std::vector<std::int32_t>& identity_of(std::int64_t n, Scratch& scratch) {
    const auto size = static_cast<std::size_t>(n);
    if (scratch.identity.size() != size) {
        scratch.identity.resize(size);
        for (std::size_t i = 0; i < size; ++i) scratch.identity[i] = static_cast<std::int32_t>(i);
    }
    return scratch.identity;
}

void fill_grid(Query& query, Scratch& scratch) {
    if (query.grid_filled) return;
    query.grid_filled = true;
    for (std::int64_t g = 0; g < query.n_grid; ++g) {
        scratch.grid[static_cast<std::size_t>(g)] = grid_point(query, g);
    }
}

}  // namespace epibias::sweep
