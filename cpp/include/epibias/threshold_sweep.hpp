// What: where to cut a query's candidates by similarity so that the scores on both sides differ
// most.
//
// Formula: sort by similarity; for a split with m candidates on the left (kept) and n - m on the
// right (dropped), let S_L, S_R, S_T be the sums of exp(-((grid - y) / h)^2 / 2) over the left, the
// right and all scores y.
//   kKullbackLeibler: KL(q_L || q_R') in nats, q_L = S_L / m, q_R' = (S_R + kappa S_T) /
//     (n - m + kappa n): one log and one division a cell.
//   kMutualInformation: m/n KL(q_L || q_T) + (n - m)/n KL(q_R || q_T), q = S / count.
//   h = bandwidth_factor * sd(y) * n^(-1/5), sd with n - 1; grid from min - 5h to max + 5h with
//   16 ceil((ceil(3 range / h) + 1) / 16) points, at least 32 and at most 1024.
// Shapes: similarities and scores [n_queries, n] row-major, any byte address; per query: threshold,
//   n_kept, divergence (nats), p_value; curve [n_queries, max(n - 1, 0)]: the divergence with
//   m = 1 … n - 1 on the left, NaN where similarities m - 1 and m are equal.
// Units: scores in units of PS, h too; similarities are only compared.
// float32 in -> float64 sums -> float64 out; threshold float32: the smallest excluded similarity,
//   so `similarity < threshold` keeps exactly n_kept candidates.
// Ties: first maximum (within 1e-12), the smallest threshold. No admissible split, or h not above
//   1e-12 max(1, max |y|): everything is kept: threshold +inf, n_kept n, divergence 0, p 1.
// p-value: Fisher-Yates shuffles of y, keyed by SplitMix64 of (seed, query id, permutation);
//   p = (1 + #{null >= statistic - 1e-10 max(1, |statistic|)}) / (permutations + 1), or, with
//   max_exceedances, exceedances / permutations used when that many were reached (Besag, Clifford).
// Determinism: the same bits for every SIMD level, thread count and batch; but the last digits of a
//   divergence in kFloat32 hang on the level.
// kFloat32: thresholds, n_kept and p-values are those of kFloat64, divergences lie within
//   epsilon (4 + |divergence|) + 2e-7 of them, with u = 2^-24 and
//   epsilon = u (n' + n_grid / lanes + 25 + 3 w), n' = n, or 18 above 128 candidates (compensated).
//   Sums of kernels are off by n' u. A kernel at distance s of its point (in units of 1.2 h) is off
//   by 2.8 u s (w + s), w half the width of a tile of the grid in the same units; weighted with the
//   densities that is (1.9 w + 2) u for S_L and at most (9 w + 31) u for the floored S_R.
//   Logarithms are off by 5 u. Errors of both sums count once, and once more times
//   E|ln ratio| <= divergence + 2 / e; what the window of a large query leaves out is the 2e-7.
//   bench/check_threshold_sweep.py holds what is measured against a tenth of that at n = 20. A
//   decision that the bound leaves open is taken in float64, in both precisions; so are all where
//   kappa lies outside 1e-6 … 1e3 (kKullbackLeibler), the grid is coarser than 2 h, or n is above
//   10^6.
// kBinned: the splits at min_kept, ceil(q n / 256) for q = 1 … 255, and n - min_dropped, each moved
//   up to the next between two similarities; scores shared out linearly between the two nearest
//   grid points, and smoothed with a kernel of variance max(h^2 - step^2 / 6, h^2 / 4) that adds up
//   to 1. Always float64, and the same bits everywhere; another answer than kAllSplits
//   (docs/threshold.md says by how much), so never chosen but by name.
// Complexity: O(n * n_grid) a query, times 1 + permutations; binned O(n + 256 n_grid).
// Memory per thread: 3 n * 8 float64, and n * n_grid float32 where there are permutations (and
//   float64 where float32 left one open).
// References: arXiv 2512.00804, section VI; Silverman 1986 for h; Steele, Lea, Flood 2014,
//   doi:10.1145/2660193.2660195; Besag, Clifford 1991, doi:10.1093/biomet/78.2.301.
#pragma once

#include <cstdint>
#include <span>

#include "epibias/matrix_view.hpp"

namespace epibias {

enum class SweepCriterion { kKullbackLeibler, kMutualInformation };

enum class SweepPrecision { kFloat64, kFloat32 };
enum class SweepMethod { kAllSplits, kBinned, kAuto };  // kAuto: binned above kMostUnbinned

inline constexpr std::int64_t kMostUnbinned = 10'000;
inline constexpr std::int64_t kSweepQuantiles = 256;
[[nodiscard]] bool sweep_is_binned(SweepMethod method, std::int64_t n);

struct ThresholdSweepOptions {
    SweepCriterion criterion = SweepCriterion::kKullbackLeibler;
    std::int64_t min_kept = 1;     // admissible splits leave at least this many on the left
    std::int64_t min_dropped = 1;  // and this many on the right
    double kappa = 0.025;          // floor of kKullbackLeibler, as a share of all points
    double bandwidth_factor = 1.06;
    std::int64_t permutations = 0;     // 0: no test, p-values are 1
    std::int64_t max_exceedances = 0;  // 0: all permutations are used
    std::uint64_t seed = 0;
    SweepPrecision precision = SweepPrecision::kFloat64;  // of the divergence
    SweepMethod method = SweepMethod::kAllSplits;
    // [n_queries]; empty: the row numbers. The initialiser lets callers name only other members.
    std::span<const std::int64_t> query_ids = {};  // NOLINT(readability-redundant-member-init)
    int n_threads = 0;                             // 0 chooses
};

struct SweepResult {
    std::span<float> thresholds;     // [n_queries]
    std::span<std::int64_t> n_kept;  // [n_queries]
    std::span<double> divergences;   // [n_queries]
    std::span<double> p_values;      // [n_queries]; may be empty
    MatrixView<double> curve;        // data may be null: not wanted
    // [n_queries]; may be empty: how many decisions (the choice of the split, and one a
    // permutation) float32 left open, so that float64 took them.
    std::span<std::int64_t> n_undecided = {};  // NOLINT(readability-redundant-member-init)
};

// Throws std::invalid_argument for options out of range, shapes that do not fit, and the lowest
// row and column that is not finite.
void threshold_sweep(MatrixView<const float> similarities, MatrixView<const float> scores,
                     const SweepResult& result, const ThresholdSweepOptions& options = {});

inline constexpr std::int64_t kMaxThresholds = 1'000'000;

// Algorithm 1 of the paper as printed: uniform thresholds on the raw similarity and an additive
// floor on both densities.
struct PrintedSweepOptions {
    double tau = 0.05;                // thresholds go from tau to 1 - tau, rounded to float32
    std::int64_t n_thresholds = 100;  // at most kMaxThresholds
    double floor = 1e-12;             // in units of density
    double bandwidth_factor = 1.06;
    int n_threads = 0;  // 0 chooses
};

// As threshold_sweep; `curve` is [n_queries, n_thresholds], NaN where a side is empty.
void printed_sweep(MatrixView<const float> similarities, MatrixView<const float> scores,
                   const SweepResult& result, const PrintedSweepOptions& options = {});

// The shuffle of 0 … n - 1 that mix64 (numeric.hpp) keys: the last place is drawn first.
void keyed_permutation(std::uint64_t seed, std::int64_t query_id, std::int64_t permutation,
                       std::span<std::int32_t> order);

}  // namespace epibias
