// What: BiasDef, from the similarities and scores of each query's candidates to the ones selected:
// sweep, gate, side, mitigation, fill, in one call for a batch.
//
// Formula: the sweep (threshold_sweep.hpp) splits the candidates: left is similarity < threshold.
//   Gate: a query is filtered only where its p-value is at most `gate`.
//   Side: the right one is dropped; with side_auto the one whose mean PS lies farther from the
//     neutral centre: d = |mean - centre|, SE = sqrt(var_L / n_L + var_R / n_R), where the d differ
//     by more than SE + 1e-9 max |y - centre| and the other side has min_kept candidates. A side of
//     one borrows the other's variance; one on either side: nothing is dropped.
//   Mitigation: each candidate goes to the side it is nearer to, itself left out, all at once:
//     distance^2 = (y - mean)^2 / v + (x - mean)^2 / w, v = (SS + 3 p) / (n + 2) the variance of
//     the side in PS, p and w the pooled variances in PS and similarity; both at least 1e-12 of the
//     variance of all. It moves where the other distance is below (1 - 1e-9) of its own. Skipped
//     where a side has fewer than 2.
//   Fill: the first k kept; with refill, then the first of the dropped, up to k.
// Shapes: ragged. Query i owns offsets[i] to offsets[i + 1] of similarities, scores and order.
// float32 in -> float64 sums in the order of the candidates -> positions.
// Order: positions as the candidates stand; a caller puts them in the total order (ranking.hpp).
// Determinism: the same for every SIMD level, thread count and batch.
// Complexity: the sweep's, plus O(n) a query (mitigation too). Memory per thread: the sweep's, and
//   8 bytes a candidate of one task.
// Reference: arXiv 2512.00804, section VI-A and Algorithm 1; versions 1 and 2 for the mitigation.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "epibias/threshold_sweep.hpp"

namespace epibias {

enum class DroppedSide : std::uint8_t { kNone, kRight, kLeft };

struct BiasDefOptions {
    std::int64_t k = 5;
    std::int64_t min_kept = 5;  // the sweep leaves so many; with side_auto, the dropping does
    std::int64_t min_side = 1;
    double slack = 0.05;      // least share on either side, in [0, 0.5], read to six decimals
    double kappa_points = 0;  // kappa = this / n where it is above 0
    double gate = std::numeric_limits<double>::infinity();
    bool side_auto = false;
    bool mitigation = false;
    bool refill = false;
    bool printed_rule = false;  // `printed` instead of `sweep`
    // min_kept and min_dropped are set for each query; n_threads is not read.
    ThresholdSweepOptions sweep = {};
    PrintedSweepOptions printed = {};
    int n_threads = 0;  // 0 chooses
};

struct BiasDefInput {
    std::span<const float> similarities;      // [n_candidates]
    std::span<const float> scores;            // [n_candidates]
    std::span<const std::int64_t> offsets;    // [n_queries + 1]
    std::span<const double> neutral_centres;  // [n_queries]; empty without side_auto
};

struct BiasDefResult {
    // [n_candidates]: for each query the positions of the kept, then those of the dropped, both
    // ascending. The first n_selected are selected; what follows max(n_kept, n_selected) is
    // dropped.
    std::span<std::int64_t> order;
    std::span<std::int64_t> n_selected, n_kept, n_moved;  // [n_queries]
    std::span<DroppedSide> sides;                         // [n_queries]
    std::span<float> sweep_thresholds;                    // [n_queries]; +inf: no split
    std::span<double> divergences, p_values;  // [n_queries]; the p-value is 1 without a test
};

// Throws std::invalid_argument for options out of range, shapes that do not fit, values that are
// not finite (query and column named).
void biasdef_select(const BiasDefInput& given, const BiasDefResult& result,
                    const BiasDefOptions& options = {});

}  // namespace epibias
