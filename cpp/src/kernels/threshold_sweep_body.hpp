// What: the inner loops of threshold_sweep_kernels.hpp on eight lanes; compiled once per SIMD level
// by threshold_sweep_<level>.cpp. No inline function of a library: see lanes.hpp.
#pragma once

#include "kernels/lanes.hpp"
#include "kernels/threshold_sweep_kernels.hpp"

namespace epibias::kernels::EPIBIAS_LEVEL {
namespace {

static_assert(kGridBlock == kLanes);

void kernel_rows(const double* grid, const double* scores, std::int64_t n, double scale,
                 double* rows) {
    const Lanes points = load(grid);
    const Lanes scales = broadcast(scale);
    for (std::int64_t i = 0; i < n; ++i) {
        const Lanes u = (points - broadcast(scores[i])) * scales;
        store(rows + i * kLanes, exp2_of_negative(broadcast(0.0) - u * u));
    }
}

EPIBIAS_INLINE Lanes row_of(const Splits& splits, const double* rows, std::int64_t place) {
    return load(rows + static_cast<std::int64_t>(splits.order[place]) * kLanes);
}

// The sums of the rows on the right of every split, by adding and never by subtracting from the
// total: where the right side has little mass, a difference would be rounding noise.
// Returns the total of all rows.
EPIBIAS_INLINE Lanes right_sums(const Splits& splits, const double* rows, double* suffixes) {
    Lanes sum = broadcast(0.0);
    std::int64_t place = splits.n;
    for (std::int64_t split = splits.n_splits - 1; split >= 0; --split) {
        while (place > splits.n_left[split]) sum = sum + row_of(splits, rows, --place);
        store(suffixes + split * kLanes, sum);
    }
    while (place > 0) sum = sum + row_of(splits, rows, --place);
    return sum;
}

// sums[split] += term(split, S_L, S_R) for every split.
template <typename Term>
EPIBIAS_INLINE void add_terms(const Splits& splits, const double* rows, const double* suffixes,
                              double* sums, const Term& term) {
    Lanes left = broadcast(0.0);
    std::int64_t place = 0;
    for (std::int64_t split = 0; split < splits.n_splits; ++split) {
        while (place < splits.n_left[split]) left = left + row_of(splits, rows, place++);
        const Lanes right = load(suffixes + split * kLanes);
        double* sum = sums + split * kLanes;
        store(sum, load(sum) + term(split, left, right));
    }
}

// The smallest kernel value is 3e-300 (exp2_of_negative), so sums of rows are positive normal
// numbers; kappa times a sum may not be.
void add_floored_kl(const Splits& splits, const double* rows, double kappa, double* suffixes,
                    double* sums) {
    const Lanes floor = right_sums(splits, rows, suffixes) * broadcast(kappa);
    const Lanes smallest = broadcast(kLeastFloored);
    add_terms(splits, rows, suffixes, sums,
              [&](std::int64_t split, const Lanes& left, const Lanes& right) {
                  const Lanes weighted = left * broadcast(splits.left_weight[split]);
                  return left * log_of_ratio(weighted, maximum(right + floor, smallest));
              });
}

void add_mutual_information(const Splits& splits, const double* rows, double /*unused*/,
                            double* suffixes, double* sums) {
    const Lanes all = right_sums(splits, rows, suffixes);
    add_terms(splits, rows, suffixes, sums,
              [&](std::int64_t split, const Lanes& left, const Lanes& right) {
                  const Lanes weighted_left = left * broadcast(splits.left_weight[split]);
                  const Lanes weighted_right = right * broadcast(splits.right_weight[split]);
                  return left * log_of_ratio(weighted_left, all) +
                         right * log_of_ratio(weighted_right, all);
              });
}

void add_printed_kl(const Splits& splits, const double* rows, double floor, double* suffixes,
                    double* sums) {
    const Lanes added = broadcast(floor);
    right_sums(splits, rows, suffixes);
    add_terms(splits, rows, suffixes, sums,
              [&](std::int64_t split, const Lanes& left, const Lanes& right) {
                  const Lanes density_left = left * broadcast(splits.left_weight[split]) + added;
                  const Lanes density_right = right * broadcast(splits.right_weight[split]) + added;
                  return density_left * log_of_ratio(density_left, density_right);
              });
}

void fold(const double* sums, std::int64_t n_splits, double* totals) {
    for (std::int64_t split = 0; split < n_splits; ++split) {
        totals[split] = sum_of_lanes(load(sums + split * kLanes));
    }
}

void smooth(const double* histograms, std::int64_t n_rows, std::int64_t stride, const double* taps,
            std::int64_t n_side, double* rows) {
    for (std::int64_t i = 0; i < n_rows; ++i) {
        const double* histogram = histograms + i * stride;
        // Two sums, so that one's additions need not wait for the other's.
        Lanes even = load(histogram) * broadcast(taps[0]);
        Lanes odd = broadcast(0.0);
        std::int64_t k = 1;
        for (; k < n_side; k += 2) {
            odd = odd + (load(histogram - k) + load(histogram + k)) * broadcast(taps[k]);
            even =
                even + (load(histogram - k - 1) + load(histogram + k + 1)) * broadcast(taps[k + 1]);
        }
        if (k == n_side) {
            odd = odd + (load(histogram - k) + load(histogram + k)) * broadcast(taps[k]);
        }
        store(rows + i * kLanes, maximum(even + odd, broadcast(1e-295)));
    }
}

}  // namespace

const ThresholdSweepKernels kThresholdSweep{kernel_rows,    add_floored_kl, add_mutual_information,
                                            add_printed_kl, fold,           smooth};

}  // namespace epibias::kernels::EPIBIAS_LEVEL
