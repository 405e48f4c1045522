// What: one query of the threshold sweep, made ready: read, checked, sorted by similarity, with its
// bandwidth and its grid of scores. Private to threshold_sweep.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "aligned_buffer.hpp"
#include "epibias/matrix_view.hpp"
#include "refuse.hpp"

namespace epibias::sweep {

constexpr std::int64_t kMinGridPoints = 32;
constexpr std::int64_t kMaxGridPoints = 1024;

// What one thread needs for one query; sized by the first query that needs it.
struct Scratch {
    std::vector<float> similarities, scores, sorted_similarities;
    std::vector<std::uint64_t> keys;
    std::vector<std::int32_t> identity, shuffled, n_left;
    std::vector<std::int64_t> split_of_threshold;
    std::vector<double> left_weight, right_weight, scale, divergences;
    std::vector<double> sorted_scores;
    std::array<double, kMaxGridPoints> grid{};
    AlignedBuffer rows, suffixes, sums;
};

// One query, sorted by similarity, with its bandwidth and grid.
struct Query {
    std::int64_t n = 0;
    double bandwidth = 0;
    std::int64_t n_grid = 0;
    double grid_step = 0;
};

inline void copy_row(MatrixView<const float> matrix, std::int64_t row, const char* argument,
                     std::vector<float>& copy) {
    copy.resize(static_cast<std::size_t>(matrix.n_columns));
    if (copy.empty()) return;
    const auto* bytes = reinterpret_cast<const unsigned char*>(matrix.data);
    const std::size_t row_bytes = copy.size() * sizeof(float);
    std::memcpy(copy.data(), bytes + static_cast<std::size_t>(row) * row_bytes, row_bytes);
    for (std::size_t column = 0; column < copy.size(); ++column) {
        if (!std::isfinite(copy[column])) {
            refuse(argument, "finite values",
                   number_text(static_cast<double>(copy[column])) + " (row " + std::to_string(row) +
                       ", column " + std::to_string(column) + ")");
        }
    }
}

// A key that sorts as the float32 does, with the place below it: the sort is stable and allocates
// nothing. -0 and +0 are one value.
inline std::uint64_t sort_key(float similarity, std::size_t place) {
    const auto bits = std::bit_cast<std::uint32_t>(similarity + 0.0F);
    const std::uint32_t ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
    return (static_cast<std::uint64_t>(ordered) << 32U) | place;
}

inline void sort_by_similarity(Scratch& scratch) {
    const std::size_t n = scratch.similarities.size();
    scratch.keys.resize(n);
    for (std::size_t i = 0; i < n; ++i) scratch.keys[i] = sort_key(scratch.similarities[i], i);
    std::ranges::sort(scratch.keys);
    scratch.sorted_similarities.resize(n);
    scratch.sorted_scores.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
        const auto place = static_cast<std::uint32_t>(scratch.keys[i]);
        scratch.sorted_similarities[i] = scratch.similarities[place];
        scratch.sorted_scores[i] = static_cast<double>(scratch.scores[place]);
    }
}

// n^(-1/5) by Newton's method, within one unit in the last place: additions and products alone, so
// that no C library's pow decides a bit. The start lies below the root and within a factor of 2.3.
inline double inverse_fifth_root(double n) {
    int exponent = 0;
    std::frexp(n, &exponent);
    double root = std::ldexp(1.0, -((exponent + 4) / 5));
    for (int step = 0; step < 24; ++step) {
        const double square = root * root;
        root += root * (1 - n * (square * square * root)) * 0.2;
    }
    return root;
}

// Reads, checks and sorts row `row`. False where the scores are too close for a density.
inline bool prepare(MatrixView<const float> similarities, MatrixView<const float> scores,
                    std::int64_t row, double bandwidth_factor, Scratch& scratch, Query& query) {
    copy_row(similarities, row, "similarities", scratch.similarities);
    copy_row(scores, row, "scores", scratch.scores);
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
    const double h = bandwidth_factor * std::sqrt(squares / (n - 1)) * inverse_fifth_root(n);
    if (!(h > 1e-12 * std::max({1.0, std::abs(low), std::abs(high)}))) return false;
    // The arithmetic of numpy's linspace, so that the oracle stands on the same grid.
    const double first = low - 5 * h;
    const double last = high + 5 * h;
    const double wanted = 16 * std::ceil((std::ceil(3 * (last - first) / h) + 1) / 16);
    query.n_grid = kMaxGridPoints;
    if (wanted < static_cast<double>(kMaxGridPoints)) {
        query.n_grid = std::max(kMinGridPoints, static_cast<std::int64_t>(wanted));
    }
    const double step = (last - first) / static_cast<double>(query.n_grid - 1);
    for (std::int64_t g = 0; g < query.n_grid; ++g) {
        scratch.grid[static_cast<std::size_t>(g)] = static_cast<double>(g) * step + first;
    }
    scratch.grid[static_cast<std::size_t>(query.n_grid - 1)] = last;
    query.grid_step = scratch.grid[1] - scratch.grid[0];
    query.bandwidth = h;
    sort_by_similarity(scratch);
    scratch.identity.resize(static_cast<std::size_t>(query.n));
    for (std::size_t i = 0; i < scratch.identity.size(); ++i) {
        scratch.identity[i] = static_cast<std::int32_t>(i);
    }
    return true;
}

}  // namespace epibias::sweep
