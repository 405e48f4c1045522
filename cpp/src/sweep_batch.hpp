// What: what both sweeps do around a query: keep everything, share the queries out over the
// threads. Private to threshold_sweep.cpp and printed_sweep.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "epibias/parallel.hpp"
#include "epibias/threshold_sweep.hpp"
#include "sweep_query.hpp"

namespace epibias::sweep {

// The answer where there is nothing to split.
void keep_all(std::int64_t row, std::int64_t n, const SweepResult& result);

// Runs `run(row, scratch)` for every row; rows of one task ascend, and parallel_for rethrows the
// lowest failed task, so the lowest row at fault is the one that is named.
template <typename Run>
void for_each_query(std::int64_t n_queries, std::int64_t n, double passes, int n_threads,
                    const Run& run) {
    constexpr double kTypicalGridPoints = 64;
    // One cell (exp, log, division, sums) against a multiply-add of `threads_worth_waking`.
    constexpr double kOperationsPerCell = 20;
    const double a_query =
        static_cast<double>(n) * kTypicalGridPoints * kOperationsPerCell * passes;
    const int threads =
        n_threads > 0 ? n_threads : threads_worth_waking(a_query * static_cast<double>(n_queries));
    // Tasks of about a tenth of a millisecond: far above the cost of handing one out.
    const auto rows_per_task =
        static_cast<std::int64_t>(std::clamp(2e6 / (a_query + 1), 1.0, 256.0));
    std::vector<Scratch> scratch(static_cast<std::size_t>(threads));
    parallel_for((n_queries + rows_per_task - 1) / rows_per_task,
                 [&](std::int64_t task, int thread) {
                     const std::int64_t end = std::min(n_queries, (task + 1) * rows_per_task);
                     for (std::int64_t row = task * rows_per_task; row < end; ++row) {
                         run(row, scratch[static_cast<std::size_t>(thread)]);
                     }
                 },
                 threads);
}

}  // namespace epibias::sweep
