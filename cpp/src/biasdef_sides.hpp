// What: which side of a threshold is suspicious, and which candidates stand on the wrong one. The
// formulas are in biasdef_select.hpp. Private to biasdef_select.cpp and to cuda/src, which share
// every sum and decision, so that both give the same bits.
//
// Ties that exact arithmetic knows are decided by tolerances, never by the order of a sum.
#pragma once

#include <cmath>
#include <cstdint>

#include "epibias/biasdef_select.hpp"
#include "epibias/numeric.hpp"  // EPIBIAS_HOST_DEVICE
#include "sweep_scalars.hpp"    // larger

namespace epibias::biasdef {

// Degrees of freedom with which a side's variance leans on the pooled one.
inline constexpr double kPriorFreedom = 3;
// Differences below this share are rounding: float32 scores have seven digits.
inline constexpr double kSame = 1e-9;
// Variances below this share of the query's are rounding.
inline constexpr double kLeastVariance = 1e-12;
inline constexpr std::int64_t kMillion = 1'000'000;

// The fewest candidates on a side: at least `slack` of n, counted in whole millionths so that 0.05
// of 20 is 1 and not 2.
EPIBIAS_HOST_DEVICE inline std::int64_t least_on_a_side(std::int64_t slack_millionths,
                                                        std::int64_t min_side, std::int64_t n) {
    const std::int64_t share = (slack_millionths * n + kMillion - 1) / kMillion;
    return share > min_side ? share : min_side;
}

// Count, mean and sum of squares about the mean.
struct Side {
    double n = 0, mean = 0, squares = 0;

    // Of the values whose mark is `mark`; marks are 0 or 1.
    EPIBIAS_HOST_DEVICE static Side of(const float* values, const std::uint8_t* marks,
                                       std::int64_t n_values, std::uint8_t mark) {
        Side side;
        double sum = 0;
        for (std::int64_t i = 0; i < n_values; ++i) {
            if (marks[i] != mark) continue;
            side.n += 1;
            sum += static_cast<double>(values[i]);
        }
        if (side.n == 0) return side;
        side.mean = sum / side.n;
        for (std::int64_t i = 0; i < n_values; ++i) {
            if (marks[i] != mark) continue;
            const double deviation = static_cast<double>(values[i]) - side.mean;
            side.squares += deviation * deviation;
        }
        return side;
    }

    // The side without one of its own values; at least two are on it.
    [[nodiscard]] EPIBIAS_HOST_DEVICE Side without(double value) const {
        const double rest = n - 1;
        const double deviation = value - mean;
        return {rest, (n * mean - value) / rest,
                sweep::larger(squares - deviation * deviation * n / rest, 0.0)};
    }

    [[nodiscard]] EPIBIAS_HOST_DEVICE double variance_or(const Side& other) const {
        if (n >= 2) return squares / (n - 1);
        return other.squares / sweep::larger(other.n - 1, 1.0);
    }
};

// Of the scores on the left and on the right.
EPIBIAS_HOST_DEVICE inline DroppedSide suspicious_side(const Side& left, const Side& right,
                                                       const float* scores, std::int64_t n,
                                                       double neutral_centre,
                                                       std::int64_t min_kept) {
    if (left.n < 1 || right.n < 1 || left.n + right.n < 3) return DroppedSide::kNone;
    double farthest = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        farthest =
            sweep::larger(farthest, std::abs(static_cast<double>(scores[i]) - neutral_centre));
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

EPIBIAS_HOST_DEVICE inline double total_variance(const float* values, std::int64_t n) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(values[i]);
    const double mean = sum / static_cast<double>(n);
    double squares = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        const double deviation = static_cast<double>(values[i]) - mean;
        squares += deviation * deviation;
    }
    return squares / static_cast<double>(n);
}

// What the mitigation knows of a candidate's own side and of the other one.
struct Sides {
    Side own_y, other_y, own_x, other_x;  // scores, similarities
    double least_y, least_x;              // variances are not below these
};

EPIBIAS_HOST_DEVICE inline double squared_distance(const Side& side_y, const Side& side_x, double y,
                                                   double x, double pooled, double width,
                                                   double least_y) {
    const double shrunk =
        (side_y.squares + kPriorFreedom * pooled) / (side_y.n - 1 + kPriorFreedom);
    const double dy = y - side_y.mean;
    const double dx = x - side_x.mean;
    return dy * dy / sweep::larger(shrunk, least_y) + dx * dx / width;
}

// Whether a candidate is nearer to the other side, itself left out.
EPIBIAS_HOST_DEVICE inline bool is_nearer_to_other(const Sides& sides, double y, double x) {
    const Side own_y = sides.own_y.without(y), own_x = sides.own_x.without(x);
    const double freedom = own_y.n + sides.other_y.n - 2;
    const double pooled = (own_y.squares + sides.other_y.squares) / freedom;
    const double width =
        sweep::larger((own_x.squares + sides.other_x.squares) / freedom, sides.least_x);
    return squared_distance(sides.other_y, sides.other_x, y, x, pooled, width, sides.least_y) <
           squared_distance(own_y, own_x, y, x, pooled, width, sides.least_y) * (1 - kSame);
}

}  // namespace epibias::biasdef
