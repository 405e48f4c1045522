// What: divergences of splits in float64, the meaning of the sweep: the same bits on every SIMD
// level, and for a split alone as among others. Private to the sweep's sources.
#pragma once

#include <cstdint>
#include <vector>

#include "sweep_query.hpp"

namespace epibias::sweep {

using AddTerms = decltype(kernels::ThresholdSweepKernels::add_floored_kl);

[[nodiscard]] AddTerms add_terms_of(const kernels::ThresholdSweepKernels& table,
                                    SweepCriterion criterion);

// The weights of set.n_left.
void set_weights(const Query& query, const ThresholdSweepOptions& options, SplitSet& set);

// Kernel rows of all blocks, [n_grid / kGridBlock, n, kGridBlock], in scratch.rows.
[[nodiscard]] const double* all_kernel_rows(const kernels::ThresholdSweepKernels& table,
                                            Query& query, Scratch& scratch);

// set.divergences. `order`: which candidate stands at which place. `rows` null: the kernel rows are
// made block by block and not kept.
void evaluate_splits(const kernels::ThresholdSweepKernels& table, AddTerms add_terms,
                     double parameter, Query& query, const double* rows,
                     const std::vector<std::int32_t>& order, Scratch& scratch, SplitSet& set);

}  // namespace epibias::sweep
