// What: divergences of splits in float32, with a bound on how far each lies from its float64 value,
// so that float64 need only decide what the bound leaves open. Private to the sweep's sources.
//
// Bound (derived in threshold_sweep.hpp): |float32 - float64| <= epsilon (4 + |divergence|) + 2e-7.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "sweep_query.hpp"

namespace epibias::sweep {

struct ErrorBound {
    double epsilon = 0;

    [[nodiscard]] double of(double divergence) const {
        return epsilon * (4 + std::abs(divergence)) + 2e-7;
    }
};

// False where a grid coarser than the kernels, or a floor near the ends of float32, voids the
// bound; such queries are swept in float64 alone.
[[nodiscard]] bool float32_applies(const Query& query, const ThresholdSweepOptions& options);

[[nodiscard]] ErrorBound error_bound(const kernels::SweepFloat32Kernels& table, const Query& query);

// Divergences of the splits with n_left candidates on the left, in scratch.float32.divergences.
void evaluate_float32(const kernels::SweepFloat32Kernels& table, const Query& query,
                      const ThresholdSweepOptions& options, const std::vector<std::int32_t>& n_left,
                      Scratch& scratch);

// Whether the largest divergence of a shuffled query reaches a bar.
class ShuffledQuery {
  public:
    enum class Verdict { kReaches, kFallsShort, kOpen };

    // Makes the kernel rows. `n_left` must outlive this.
    ShuffledQuery(const kernels::SweepFloat32Kernels& table, const Query& query,
                  const ThresholdSweepOptions& options, const std::vector<std::int32_t>& n_left,
                  Scratch& scratch);

    // Of the candidates in this order, where the bar lies in [low, high]. The splits that decide it
    // when it is open are in scratch.float32.open.
    [[nodiscard]] Verdict compare(const std::vector<std::int32_t>& order, double low, double high);

  private:
    void sum_tiles(const std::vector<std::int32_t>& order, const std::vector<std::int32_t>& n_left,
                   bool rough);

    const kernels::SweepFloat32Kernels& table_;
    const Query& query_;
    const ThresholdSweepOptions& options_;
    const std::vector<std::int32_t>& n_left_;
    Scratch& scratch_;
    ErrorBound bound_;
    double rough_error_ = 0;  // 0: the rough logarithm is not used
    std::vector<std::int32_t> candidates_;
};

}  // namespace epibias::sweep
