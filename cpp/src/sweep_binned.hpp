// What: the sweep of a large query over quantiles, on binned scores. Private to the sweep's
// sources; the meaning is in threshold_sweep.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "sweep_permutations.hpp"
#include "sweep_query.hpp"

namespace epibias::sweep {

// Of a query that is read and sorted. Fills the curve where there is one.
class BinnedQuery {
  public:
    BinnedQuery(const Kernels& kernels, const Query& query, const ThresholdSweepOptions& options,
                Scratch& scratch);

    // The first maximum over the quantile splits; n_kept 0: there are none. `curve` [n - 1] or
    // null.
    [[nodiscard]] Statistic best(double* curve);

    [[nodiscard]] double p_value(const Statistic& statistic, std::int64_t query_id);

  private:
    void list_splits();
    void set_taps();
    // scratch_.splits.divergences with order[i] at place i; null: with i.
    void evaluate(const std::vector<std::int32_t>* order);

    const Kernels& kernels_;
    const Query& query_;
    const ThresholdSweepOptions& options_;
    Scratch& scratch_;
    std::int64_t stride_ = 0;  // of a padded histogram
};

}  // namespace epibias::sweep
