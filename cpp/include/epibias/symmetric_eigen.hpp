// What: the leading eigenpair of a dense symmetric matrix, and its second eigenvalue.
//
// Formula: A v = first * v, |v| = 1, first >= second >= all others. Shapes: matrix [n, n]
// row-major,
//   only its lower triangle is read; vector [n]. float64 throughout.
// Method: n <= kJacobiLimit: Jacobi, eight matrices at a time, one a lane of the vector registers.
//   Above: Householder tridiagonalisation, both eigenvalues by bisection on Sturm counts, inverse
//   iteration with partial pivoting, back-transformation.
// Accuracy: |A v - first v| <= kResidualFactor n eps |A| (Frobenius), by the second method checked
//   on the way; eigenvalues to a few n eps |A|. The angle to the true vector is at most residual /
//   (first - second). In a cluster (second within rounding of first) v is one unit vector of the
//   cluster's space.
// Sign and, in a cluster, choice of v: unspecified but deterministic, the same on every machine
//   with IEEE float64; no dependence on SIMD level or threads, nor on the matrices of other lanes.
// Complexity: Jacobi about 6 sweeps of 3 n^3, for eight matrices what one would cost; else 4/3 n^3.
//   Memory: the caller's matrices are overwritten; Jacobi 16 (8 n)^2 of scratch, else O(n).
// References: Golub, Van Loan, Matrix Computations, 4th ed., sections 8.3-8.5; Wilkinson 1965.
#pragma once

#include <cstdint>

namespace epibias {

inline constexpr std::int64_t kJacobiLimit = 16;
inline constexpr double kResidualFactor = 10;

struct LeadingEigenvalues {
    double first = 0;
    double second = 0;  // 0 for n = 1
};

// Throws std::runtime_error where no vector passes the residual check (a matrix with non-finite
// entries; nothing else is known to).
LeadingEigenvalues leading_eigenpair(double* matrix, std::int64_t n, double* vector);

// The `n_values` largest eigenvalues, descending, and orthonormal eigenvectors of the first
// `n_vectors` of them, [n_vectors, n]. n_vectors <= n_values <= n.
void leading_eigenpairs_tridiagonal(double* matrix, std::int64_t n, std::int64_t n_values,
                                    std::int64_t n_vectors, double* values, double* vectors);

// The two methods by themselves, for tests. n >= 1. Jacobi leaves the matrix as it is.
LeadingEigenvalues leading_eigenpair_jacobi(const double* matrix, std::int64_t n, double* vector);
LeadingEigenvalues leading_eigenpair_tridiagonal(double* matrix, std::int64_t n, double* vector);

}  // namespace epibias
