// What: the inner loop of rank_candidates, one table per SIMD level.
//
// Plain data and function pointers only (see cosine_topk_kernels.hpp).
#pragma once

#include <cstdint>

namespace epibias::kernels {

struct RowProducts {
    double squared;  // row . row
    double first;    // row . first
    double second;   // row . second
};

struct RankCandidatesKernels {
    // Three canonical dot products (numeric.hpp), to the bit, in one pass over the row. `first` and
    // `second` are float32 rows widened once to float64. One canonical_dot waits for its four sums
    // most of the time; three at once keep the multipliers busy and convert the row once.
    RowProducts (*row_products)(const float* row, const double* first, const double* second,
                                std::int64_t dim);
};

namespace scalar {
extern const RankCandidatesKernels kRankCandidates;
}
namespace avx2 {
extern const RankCandidatesKernels kRankCandidates;
}
namespace avx512 {
extern const RankCandidatesKernels kRankCandidates;
}

}  // namespace epibias::kernels
