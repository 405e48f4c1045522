// What: the inner loops of the threshold sweep, one table per SIMD level.
//
// The score grid is processed in blocks of kGridBlock points. A block's kernel rows are
// [n, kGridBlock] float64 (row i belongs to the i-th candidate by ascending similarity); sums are
// [n_splits, kGridBlock], one row a split, added to over all blocks and folded at the end.
// All buffers belong to the caller. Every level gives the same bits (lanes.hpp).
#pragma once

#include <cstdint>

namespace epibias::kernels {

inline constexpr int kGridBlock = 8;

// Which rows stand on the left of which split.
struct Splits {
    const std::int32_t* order;  // [n] the candidates' rows by ascending similarity, or shuffled
    std::int64_t n;
    const std::int32_t* n_left;  // [n_splits] ascending, each in [1, n - 1]
    std::int64_t n_splits;
    // [n_splits] what the sums of the left and right rows are multiplied by before their ratio.
    const double* left_weight;
    const double* right_weight;
};

struct ThresholdSweepKernels {
    // rows[i][g] = exp(-((grid[g] - scores[i]) / h)^2 / 2), `scale` = sqrt(log2(e) / 2) / h.
    void (*kernel_rows)(const double* grid, const double* scores, std::int64_t n, double scale,
                        double* rows);

    // sums += S_L ln(left_weight S_L / (S_R + kappa S_T)); right_weight is not read.
    // `suffixes` [n_splits, kGridBlock] is scratch in all three.
    void (*add_floored_kl)(const Splits& splits, const double* rows, double kappa, double* suffixes,
                           double* sums);

    // sums += S_L ln(left_weight S_L / S_T) + S_R ln(right_weight S_R / S_T).
    void (*add_mutual_information)(const Splits& splits, const double* rows, double unused,
                                   double* suffixes, double* sums);

    // sums += Q_L ln(Q_L / Q_R) with Q = weight S + floor.
    void (*add_printed_kl)(const Splits& splits, const double* rows, double floor, double* suffixes,
                           double* sums);

    // totals[j] = sum over the block of sums[j].
    void (*fold)(const double* sums, std::int64_t n_splits, double* totals);

    // rows[i][g] = sum over k from -n_side to n_side of taps[|k|] histograms[i stride + g + k]; not
    // below 1e-295, as of kernel_rows.
    void (*smooth)(const double* histograms, std::int64_t n_rows, std::int64_t stride,
                   const double* taps, std::int64_t n_side, double* rows);
};

namespace scalar {
extern const ThresholdSweepKernels kThresholdSweep;
}
namespace avx2 {
extern const ThresholdSweepKernels kThresholdSweep;
}
namespace avx512 {
extern const ThresholdSweepKernels kThresholdSweep;
}

}  // namespace epibias::kernels
