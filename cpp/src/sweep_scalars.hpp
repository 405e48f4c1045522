// What: the scalar functions of the threshold sweep that CPU and CUDA share, so that both give the
// same bits: exponential, logarithm, bandwidth and grid, tolerances, the keyed shuffle's draws.
//
// Bits: only +, -, *, /, sqrt, comparisons and integer operations, each rounded once: compile with
//   -ffp-contract=off, and nvcc with --fmad=false. exp2_of_negative and log_of_ratio are one lane
//   of lanes.hpp (tests/cpp/test_sweep_scalars.cpp compares them).
// Not for sources that are compiled once per SIMD level: it has inline functions.
// Private to the sweep's sources and to cuda/src.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "epibias/numeric.hpp"  // EPIBIAS_HOST_DEVICE, mix64
#include "kernels/sweep_polynomials.hpp"

namespace epibias::sweep {

constexpr std::int64_t kMinGridPoints = 32;
constexpr std::int64_t kMaxGridPoints = 1024;
inline constexpr double kTieTolerance = 1e-12;

// std::max, which CUDA does not offer to device code: the left one where they are equal.
EPIBIAS_HOST_DEVICE inline double larger(double left, double right) {
    return left < right ? right : left;
}
EPIBIAS_HOST_DEVICE inline double smaller(double left, double right) {
    return right < left ? right : left;
}

EPIBIAS_HOST_DEVICE inline std::uint64_t bits_of_double(double value) {
    return __builtin_bit_cast(std::uint64_t, value);
}
EPIBIAS_HOST_DEVICE inline double double_of_bits(std::uint64_t bits) {
    return __builtin_bit_cast(double, bits);
}

// ---- elementary functions: one lane of lanes.hpp -------------------------------------------

// Horner's scheme; the coefficients become immediate operands, as device code cannot read a host
// array.
template <int kPower = 0>
EPIBIAS_HOST_DEVICE inline double exp2_polynomial(double f) {
    constexpr double kCoefficient = kernels::kExp2Coefficients[kPower];
    if constexpr (kPower == kernels::kExp2Degree) {
        return kCoefficient;
    } else {
        return exp2_polynomial<kPower + 1>(f) * f + kCoefficient;
    }
}
template <int kPower = 0>
EPIBIAS_HOST_DEVICE inline double artanh_polynomial(double square) {
    constexpr double kCoefficient = kernels::kArtanhCoefficients[kPower];
    if constexpr (kPower == kernels::kArtanhDegree) {
        return kCoefficient;
    } else {
        return artanh_polynomial<kPower + 1>(square) * square + kCoefficient;
    }
}

EPIBIAS_HOST_DEVICE inline double exp2_of_negative(double t) {
    constexpr double kRounder = 0x1.8p52;
    t = t > kernels::kLeastExponent ? t : kernels::kLeastExponent;
    const double shifted = t + kRounder;
    const double f = t - (shifted - kRounder);  // exact
    return exp2_polynomial(f) * double_of_bits((bits_of_double(shifted) + 1023) << 52);
}

EPIBIAS_HOST_DEVICE inline double log_of_ratio(double left, double right) {
    constexpr std::uint64_t kBias = 1ULL << 63;
    const std::uint64_t biased =
        bits_of_double(left) - bits_of_double(right) + (kBias + (1ULL << 51));
    const double power = double_of_bits((biased >> 52) | 0x4330000000000000ULL) - (0x1p52 + 2048.0);
    const double scaled = double_of_bits(bits_of_double(left) - (biased & (~0ULL << 52)) + kBias);
    const double s = (scaled - right) / (scaled + right);
    return power * std::numbers::ln2 + s * artanh_polynomial(s * s);
}

// ---- bandwidth and grid --------------------------------------------------------------------

// n^(-1/5) by Newton's method, within one unit in the last place: additions and products alone, so
// that no C library's pow decides a bit. The start lies below the root and within a factor of 2.3.
// n >= 1.
EPIBIAS_HOST_DEVICE inline double inverse_fifth_root(double n) {
    const auto exponent = static_cast<int>(bits_of_double(n) >> 52) - 1022;  // n < 2^exponent
    double root = double_of_bits(static_cast<std::uint64_t>(1023 - (exponent + 4) / 5) << 52);
    for (int step = 0; step < 24; ++step) {
        const double square = root * root;
        root += root * (1 - n * (square * square * root)) * 0.2;
    }
    return root;
}

// No initialisers: a device's shared memory takes none.
struct ScoreGrid {
    double bandwidth;
    double low, high;  // of the grid
    std::int64_t n_grid;
    double step, grid_step;  // the second as the rounded grid has it
    double scale;            // sqrt(log2(e) / 2) / h: the kernel is 2^-(scale (grid - y))^2
    double share;            // weight of one cell: grid_step / (h sqrt(2 pi))
};

// `low`, `high` and `squares` (about the mean) of n >= 2 scores. False where they are too close for
// a density.
EPIBIAS_HOST_DEVICE inline bool fit_grid(double low, double high, double squares, double n,
                                         double inverse_root, double bandwidth_factor,
                                         ScoreGrid& grid) {
    const double h = bandwidth_factor * std::sqrt(squares / (n - 1)) * inverse_root;
    if (!(h > 1e-12 * larger(larger(1.0, std::abs(low)), std::abs(high)))) return false;
    grid.bandwidth = h;
    grid.low = low - 5 * h;
    grid.high = high + 5 * h;
    const double range = grid.high - grid.low;
    const double wanted = 16 * std::ceil((std::ceil(3 * range / h) + 1) / 16);
    grid.n_grid = kMaxGridPoints;
    if (wanted < static_cast<double>(kMaxGridPoints)) {
        grid.n_grid = static_cast<std::int64_t>(wanted);
        grid.n_grid = grid.n_grid < kMinGridPoints ? kMinGridPoints : grid.n_grid;
    }
    // The arithmetic of numpy's linspace (grid_point), so that the oracle stands on the same grid.
    grid.step = range / static_cast<double>(grid.n_grid - 1);
    grid.grid_step = (grid.step + grid.low) - grid.low;
    grid.scale = std::sqrt(0.5 * std::numbers::log2e) / h;
    grid.share = grid.grid_step / (h * std::sqrt(2 * std::numbers::pi));
    return true;
}

EPIBIAS_HOST_DEVICE inline double grid_point(const ScoreGrid& grid, std::int64_t number) {
    if (number == grid.n_grid - 1) return grid.high;
    return static_cast<double>(number) * grid.step + grid.low;
}

// ---- one split at one point of the grid ----------------------------------------------------

// What the sums of the left and right kernels are multiplied by before their ratio, and the sum of
// all terms afterwards.
struct SplitWeights {
    double left = 0, right = 0, scale = 0;
};

// m of n candidates on the left.
EPIBIAS_HOST_DEVICE inline SplitWeights split_weights(bool floored, double n, double m,
                                                      double kappa, double share) {
    return {floored ? (n - m + kappa * n) / m : n / m, n / (n - m), share / (floored ? m : n)};
}

EPIBIAS_HOST_DEVICE inline SplitWeights printed_weights(double n, double m, const ScoreGrid& grid) {
    const double density = 1 / (grid.bandwidth * std::sqrt(2 * std::numbers::pi));
    return {density / m, density / (n - m), grid.grid_step};
}

// The terms of threshold_sweep_kernels.hpp, of the sums on the left, on the right, and of all.
EPIBIAS_HOST_DEVICE inline double floored_kl_term(double left, double right, double all,
                                                  double left_weight, double kappa) {
    const double weighted = left * left_weight;
    const double floored = right + all * kappa;
    return left * log_of_ratio(weighted,
                               floored > kernels::kLeastFloored ? floored : kernels::kLeastFloored);
}

EPIBIAS_HOST_DEVICE inline double mutual_information_term(double left, double right, double all,
                                                          double left_weight, double right_weight) {
    return left * log_of_ratio(left * left_weight, all) +
           right * log_of_ratio(right * right_weight, all);
}

EPIBIAS_HOST_DEVICE inline double printed_kl_term(double left, double right, double left_weight,
                                                  double right_weight, double floor) {
    const double density_left = left * left_weight + floor;
    const double density_right = right * right_weight + floor;
    return density_left * log_of_ratio(density_left, density_right);
}

// ---- decisions -----------------------------------------------------------------------------

// Divergences that differ by no more are one.
[[nodiscard]] EPIBIAS_HOST_DEVICE inline double tie_tolerance(double divergence) {
    return kTieTolerance * larger(1.0, std::abs(divergence));
}

// What a shuffled query's largest divergence must reach to count.
[[nodiscard]] EPIBIAS_HOST_DEVICE inline double bar_of(double statistic) {
    constexpr double kTolerance = 1e-10;
    return statistic - kTolerance * larger(1.0, std::abs(statistic));
}

// The arithmetic of numpy's linspace from tau to 1 - tau. float32, because float32 similarities are
// compared with it.
[[nodiscard]] EPIBIAS_HOST_DEVICE inline float printed_threshold(std::int64_t number,
                                                                 std::int64_t n_thresholds,
                                                                 double tau) {
    const double last = 1 - tau;
    if (number == n_thresholds - 1 && n_thresholds > 1) return static_cast<float>(last);
    if (number == 0) return static_cast<float>(0.0 + tau);
    const double step = (last - tau) / static_cast<double>(n_thresholds - 1);
    return static_cast<float>(static_cast<double>(number) * step + tau);
}

// ---- shuffles ------------------------------------------------------------------------------

[[nodiscard]] EPIBIAS_HOST_DEVICE inline std::uint64_t shuffle_key(std::uint64_t seed,
                                                                   std::int64_t query_id,
                                                                   std::int64_t permutation) {
    const std::uint64_t query_key = mix64(mix64(seed) + static_cast<std::uint64_t>(query_id));
    return mix64(query_key + static_cast<std::uint64_t>(permutation));
}

// With which of the places 0 … last the place `last` is exchanged; places go from n - 1 down to 1.
// The upper 32 bits, scaled to [0, last] by a multiplication (Lemire): no modulo.
[[nodiscard]] EPIBIAS_HOST_DEVICE inline std::uint64_t shuffle_draw(std::uint64_t key,
                                                                    std::uint64_t n,
                                                                    std::uint64_t last) {
    const std::uint64_t state = key + (n - last) * 0x9E3779B97F4A7C15ULL;
    return ((mix64(state) >> 32U) * (last + 1)) >> 32U;
}

}  // namespace epibias::sweep
