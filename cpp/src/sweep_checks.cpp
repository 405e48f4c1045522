#include "sweep_checks.hpp"

#include <cstdint>
#include <limits>

#include "refuse.hpp"

namespace epibias::sweep {

namespace {

constexpr std::int64_t kMaxCandidates = std::numeric_limits<std::int32_t>::max();

void check_number(const char* argument, double value, double above, double at_most) {
    if (value > above && value <= at_most) return;
    refuse(argument, "a number > " + number_text(above) + " and at most " + number_text(at_most),
           number_text(value));
}

void check_shapes(MatrixView<const float> similarities, MatrixView<const float> scores) {
    const bool same =
        scores.n_rows == similarities.n_rows && scores.n_columns == similarities.n_columns;
    if (!same) {
        refuse("scores",
               "shape " + shape_text(similarities.n_rows, similarities.n_columns) +
                   ", as similarities",
               "shape " + shape_text(scores.n_rows, scores.n_columns));
    }
    if (similarities.n_columns > kMaxCandidates) {
        refuse("similarities", "at most " + std::to_string(kMaxCandidates) + " candidates a query",
               std::to_string(similarities.n_columns));
    }
}

}  // namespace

void check_threshold_sweep(MatrixView<const float> similarities, MatrixView<const float> scores,
                           const SweepResult& result, const ThresholdSweepOptions& options) {
    check_shapes(similarities, scores);
    check_at_least("min_kept", options.min_kept, 1);
    check_at_least("min_dropped", options.min_dropped, 1);
    check_at_least("permutations", options.permutations, 0);
    check_at_least("max_exceedances", options.max_exceedances, 0);
    check_number("kappa", options.kappa, 0, kMaxKappa);
    check_number("bandwidth_factor", options.bandwidth_factor, 0, kMaxBandwidthFactor);
    const auto n_queries = static_cast<std::size_t>(similarities.n_rows);
    if (!options.query_ids.empty() && options.query_ids.size() != n_queries) {
        refuse("query_ids", std::to_string(n_queries) + " ids, one a query",
               std::to_string(options.query_ids.size()));
    }
    if (result.curve.data != nullptr && options.precision == SweepPrecision::kFloat32) {
        refuse("curve", "none with precision float32, which does not evaluate every split exactly",
               "one");
    }
}

void check_printed_sweep(MatrixView<const float> similarities, MatrixView<const float> scores,
                         const PrintedSweepOptions& options) {
    check_shapes(similarities, scores);
    const bool tau_inside = options.tau >= 0 && options.tau < 0.5;
    if (!tau_inside) {
        refuse("tau", "a number of at least 0 and below 0.5", number_text(options.tau));
    }
    if (options.n_thresholds < 1 || options.n_thresholds > kMaxThresholds) {
        refuse("n_thresholds", "an integer from 1 to " + std::to_string(kMaxThresholds),
               std::to_string(options.n_thresholds));
    }
    check_number("floor", options.floor, 0, 1);
    check_number("bandwidth_factor", options.bandwidth_factor, 0, kMaxBandwidthFactor);
}

}  // namespace epibias::sweep
