// What: which side of a threshold is suspicious, and which candidates stand on the wrong one. The
// formulas are in biasdef_select.hpp. Private to biasdef_select.cpp.
//
// Ties that exact arithmetic knows are decided by tolerances, never by the order of a sum.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "epibias/biasdef_select.hpp"

namespace epibias::biasdef {

// Degrees of freedom with which a side's variance leans on the pooled one.
inline constexpr double kPriorFreedom = 3;
// Differences below this share are rounding: float32 scores have seven digits.
inline constexpr double kSame = 1e-9;
// Variances below this share of the query's are rounding.
inline constexpr double kLeastVariance = 1e-12;

// Per candidate: 1 where it is marked (dropped, or on the left).
using Marks = std::vector<std::uint8_t>;

// Count, mean and sum of squares about the mean.
struct Side {
    double n = 0, mean = 0, squares = 0;

    static Side of(std::span<const float> values, const Marks& marks, std::uint8_t mark) {
        Side side;
        double sum = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (marks[i] != mark) continue;
            side.n += 1;
            sum += static_cast<double>(values[i]);
        }
        if (side.n == 0) return side;
        side.mean = sum / side.n;
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (marks[i] != mark) continue;
            const double deviation = static_cast<double>(values[i]) - side.mean;
            side.squares += deviation * deviation;
        }
        return side;
    }

    // The side without one of its own values; at least two are on it.
    [[nodiscard]] Side without(double value) const {
        const double rest = n - 1;
        const double deviation = value - mean;
        return {rest, (n * mean - value) / rest,
                std::max(squares - deviation * deviation * n / rest, 0.0)};
    }

    [[nodiscard]] double variance_or(const Side& other) const {
        if (n >= 2) return squares / (n - 1);
        return other.squares / std::max(other.n - 1, 1.0);
    }
};

inline DroppedSide suspicious_side(std::span<const float> scores, const Marks& is_left,
                                   double neutral_centre, std::int64_t min_kept) {
    const Side left = Side::of(scores, is_left, 1);
    const Side right = Side::of(scores, is_left, 0);
    if (left.n < 1 || right.n < 1 || left.n + right.n < 3) return DroppedSide::kNone;
    double farthest = 0;
    for (const float score : scores) {
        farthest = std::max(farthest, std::abs(static_cast<double>(score) - neutral_centre));
    }
    const double error =
        std::sqrt(left.variance_or(right) / left.n + right.variance_or(left) / right.n);
    const double least = error + kSame * farthest;
    const double from_left = std::abs(left.mean - neutral_centre);
    const double from_right = std::abs(right.mean - neutral_centre);
    const auto enough = static_cast<double>(min_kept);
    if (from_left - from_right > least && right.n >= enough) return DroppedSide::kLeft;
    if (from_right - from_left > least && left.n >= enough) return DroppedSide::kRight;
    return DroppedSide::kNone;
}

inline double total_variance(std::span<const float> values) {
    double sum = 0;
    for (const float value : values) sum += static_cast<double>(value);
    const double mean = sum / static_cast<double>(values.size());
    double squares = 0;
    for (const float value : values) {
        const double deviation = static_cast<double>(value) - mean;
        squares += deviation * deviation;
    }
    return squares / static_cast<double>(values.size());
}

// Moves candidates to the side they are nearer to; returns how many.
inline std::int64_t move_to_nearer_side(std::span<const float> similarities,
                                        std::span<const float> scores, Marks& dropped,
                                        Marks& before) {
    before = dropped;
    const Side sides_y[2] = {Side::of(scores, before, 0), Side::of(scores, before, 1)};
    if (sides_y[0].n < 2 || sides_y[1].n < 2) return 0;
    const Side sides_x[2] = {Side::of(similarities, before, 0), Side::of(similarities, before, 1)};
    const double least_y = kLeastVariance * total_variance(scores);
    const double least_x = kLeastVariance * total_variance(similarities);
    std::int64_t n_moved = 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
        const auto x = static_cast<double>(similarities[i]);
        const auto y = static_cast<double>(scores[i]);
        const int mark = before[i];
        const Side own_y = sides_y[mark].without(y), other_y = sides_y[1 - mark];
        const Side own_x = sides_x[mark].without(x), other_x = sides_x[1 - mark];
        const double freedom = own_y.n + other_y.n - 2;
        const double pooled = (own_y.squares + other_y.squares) / freedom;
        const double width = std::max((own_x.squares + other_x.squares) / freedom, least_x);
        const auto squared_distance = [&](const Side& side_y, const Side& side_x) {
            const double shrunk =
                (side_y.squares + kPriorFreedom * pooled) / (side_y.n - 1 + kPriorFreedom);
            const double dy = y - side_y.mean;
            const double dx = x - side_x.mean;
            return dy * dy / std::max(shrunk, least_y) + dx * dx / width;
        };
        const bool nearer =
            squared_distance(other_y, other_x) < squared_distance(own_y, own_x) * (1 - kSame);
        if (!nearer) continue;
        dropped[i] = static_cast<std::uint8_t>(1 - mark);
        ++n_moved;
    }
    return n_moved;
}

}  // namespace epibias::biasdef
