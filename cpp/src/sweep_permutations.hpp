// What: the permutation test of one query. Private to the sweep's sources.
#pragma once

#include <cstdint>

#include "sweep_query.hpp"
#include "sweep_scalars.hpp"

namespace epibias::sweep {

// The largest divergence, known within `error` (0: its float64 value), and where it lies.
struct Statistic {
    double value = 0, error = 0;
    std::int32_t n_kept = 0;
};

// `reaches` is asked after each shuffle, which is in scratch.shuffled.
template <typename Reaches>
[[nodiscard]] double p_value_of_shuffles(std::int64_t n, std::int64_t query_id,
                                         const ThresholdSweepOptions& options, Scratch& scratch,
                                         const Reaches& reaches) {
    scratch.shuffled.resize(static_cast<std::size_t>(n));
    std::int64_t exceedances = 0;
    for (std::int64_t permutation = 0; permutation < options.permutations; ++permutation) {
        keyed_permutation(options.seed, query_id, permutation, scratch.shuffled);
        if (reaches()) ++exceedances;
        if (options.max_exceedances > 0 && exceedances >= options.max_exceedances) {
            return static_cast<double>(exceedances) / static_cast<double>(permutation + 1);
        }
    }
    return static_cast<double>(exceedances + 1) / static_cast<double>(options.permutations + 1);
}

// The p-value of `statistic` among shuffles of the scores over scratch.splits.n_left (whose float64
// weights are set): what float64 alone would give, to the bit. Adds to `n_undecided` how many
// comparisons float32 left open.
[[nodiscard]] double permutation_p_value(const Kernels& kernels, Query& query, Statistic statistic,
                                         std::int64_t query_id,
                                         const ThresholdSweepOptions& options, Scratch& scratch,
                                         std::int64_t& n_undecided);

}  // namespace epibias::sweep
