// What: the checks of both sweeps' options and shapes, which look at no array's values; shared with
// the launchers of cuda/src.
#pragma once

#include <string>

#include "epibias/threshold_sweep.hpp"

namespace epibias::sweep {

// Beyond these a floor or a width says nothing, and products could leave the range of float64.
constexpr double kMaxKappa = 1e6;
constexpr double kMaxBandwidthFactor = 1e6;

void check_threshold_sweep(MatrixView<const float> similarities, MatrixView<const float> scores,
                           const SweepResult& result, const ThresholdSweepOptions& options);

void check_printed_sweep(MatrixView<const float> similarities, MatrixView<const float> scores,
                         const PrintedSweepOptions& options);

}  // namespace epibias::sweep
