// What: scalar steps on a symmetric tridiagonal matrix T: Sturm counts, and the solution of
// (T - shift I) x = b. symmetric_eigen.cpp and the CUDA kernels share them, so that both find an
// eigenpair by the same arithmetic.
//
// Shapes: diagonal [n], below [n]: below[i] joins i - 1 and i, below[0] is not read. float64.
// Complexity: O(n) each, serial. Memory: the caller's. Determinism: no choice is left to the
//   compiler where products and sums are not contracted.
// References: Golub, Van Loan, Matrix Computations, 4th ed., sections 8.4 and 8.5; Wilkinson 1965.
#pragma once

#include <cstdint>

#include "epibias/numeric.hpp"

namespace epibias {

inline constexpr double kFloat64Epsilon = 0x1p-52;
inline constexpr double kSmallestNormal = 0x1p-1022;
// Inverse iteration: two iterations are enough unless the start was unlucky.
inline constexpr int kInverseAttempts = 5;
inline constexpr int kInverseIterations = 5;

struct TridiagonalView {
    const double* diagonal;
    const double* below;
    std::int64_t n;
};

EPIBIAS_HOST_DEVICE inline double magnitude(double value) {
    return value < 0 ? -value : value;
}

// Sum of the absolute values of row i; the largest one bounds every eigenvalue.
EPIBIAS_HOST_DEVICE inline double absolute_row_sum(const TridiagonalView& t, std::int64_t i) {
    const double before = i > 0 ? magnitude(t.below[i]) : 0;
    const double next = i + 1 < t.n ? magnitude(t.below[i + 1]) : 0;
    return magnitude(t.diagonal[i]) + before + next;
}

// A pivot below this is moved away from zero.
EPIBIAS_HOST_DEVICE inline double smallest_pivot(double bound) {
    return kFloat64Epsilon * kFloat64Epsilon * bound + kSmallestNormal;
}

// How many eigenvalues lie above `value`: signs of the pivots of T - value I (Sylvester).
EPIBIAS_HOST_DEVICE inline std::int64_t count_above(const TridiagonalView& t, double value,
                                                    double tiny) {
    std::int64_t count = 0;
    double pivot = 1;
    for (std::int64_t i = 0; i < t.n; ++i) {
        const double below = i > 0 ? t.below[i] : 0;
        pivot = t.diagonal[i] - value - below * below / pivot;
        if (magnitude(pivot) < tiny) pivot = -tiny;
        if (pivot > 0) ++count;
    }
    return count;
}

// T - shift I by Gaussian elimination with partial pivoting. The arrays [n] are the caller's.
struct ShiftedFactors {
    double *pivot, *upper, *second, *multiplier;
    unsigned char* swapped;
};

// A pivot of zero becomes `tiny`, which is what makes inverse iteration work at an exact
// eigenvalue.
EPIBIAS_HOST_DEVICE inline void factor_shifted(const TridiagonalView& t, double shift, double tiny,
                                               const ShiftedFactors& f) {
    const std::int64_t n = t.n;
    double diagonal = t.diagonal[0] - shift;
    double upper = n > 1 ? t.below[1] : 0;
    for (std::int64_t i = 0; i + 1 < n; ++i) {
        const double below = t.below[i + 1];
        const double next_diagonal = t.diagonal[i + 1] - shift;
        const double next_upper = i + 2 < n ? t.below[i + 2] : 0;
        f.swapped[i] = magnitude(below) > magnitude(diagonal) ? 1 : 0;
        if (f.swapped[i] != 0) {
            f.pivot[i] = below;
            f.upper[i] = next_diagonal;
            f.second[i] = next_upper;
            f.multiplier[i] = diagonal / below;
            diagonal = upper - f.multiplier[i] * next_diagonal;
            upper = -f.multiplier[i] * next_upper;
        } else {
            f.pivot[i] = magnitude(diagonal) < tiny ? tiny : diagonal;
            f.upper[i] = upper;
            f.second[i] = 0;
            f.multiplier[i] = below / f.pivot[i];
            diagonal = next_diagonal - f.multiplier[i] * upper;
            upper = next_upper;
        }
    }
    f.pivot[n - 1] = magnitude(diagonal) < tiny ? tiny : diagonal;
}

EPIBIAS_HOST_DEVICE inline void solve_shifted(const ShiftedFactors& f, std::int64_t n, double* x) {
    for (std::int64_t i = 0; i + 1 < n; ++i) {
        if (f.swapped[i] != 0) {
            const double kept = x[i];
            x[i] = x[i + 1];
            x[i + 1] = kept;
        }
        x[i + 1] -= f.multiplier[i] * x[i];
    }
    for (std::int64_t i = n; i-- > 0;) {
        double value = x[i];
        if (i + 1 < n) value -= f.upper[i] * x[i + 1];
        if (i + 2 < n) value -= f.second[i] * x[i + 2];
        x[i] = value / f.pivot[i];
    }
}

// Element i of (T - value I) x.
EPIBIAS_HOST_DEVICE inline double residual_element(const TridiagonalView& t, double value,
                                                   const double* x, std::int64_t i) {
    double element = (t.diagonal[i] - value) * x[i];
    if (i > 0) element += t.below[i] * x[i - 1];
    if (i + 1 < t.n) element += t.below[i + 1] * x[i + 1];
    return element;
}

// Start vectors without structure, so that none is orthogonal to the wanted one: 0.5 … 1.5 by the
// golden ratio.
EPIBIAS_HOST_DEVICE inline void fill_start(double* vector, std::int64_t n, int attempt) {
    double position = 0.1 * attempt;
    for (std::int64_t i = 0; i < n; ++i) {
        position += 0.6180339887498949;
        while (position >= 1) position -= 1;  // two steps at most
        vector[i] = 0.5 + position;
    }
}

}  // namespace epibias
