// What: the leading eigenpairs of eight small symmetric matrices at once, and the two operations
// that tridiagonalise a large one; one table per SIMD level.
//
// Small: lane l of every group of eight values belongs to matrix l: matrices[(i * n + j) * 8 + l]
// is element (i, j), j <= i, of matrix l; only the lower triangle is read, and it is overwritten.
// What a lane holds does not depend on the other lanes, nor on the level (lanes.hpp).
#pragma once

#include <cstdint>

namespace epibias::kernels {

inline constexpr std::int64_t kEigenLanes = 8;
inline constexpr int kMaxSweeps = 16;  // quadratic convergence: 5 to 8 are seen up to n = 24

// Values of scratch that `jacobi` needs: cosine and sine of every rotation, to be undone later.
[[nodiscard]] constexpr std::int64_t rotation_values(std::int64_t n) {
    return kMaxSweeps * (n * (n - 1) / 2) * 2 * kEigenLanes;
}

struct SymmetricEigenKernels {
    // vectors [n, 8]: unit eigenvectors of the largest eigenvalues; values [2, 8]: the largest and
    // the second (0 for n = 1). A lane of zeros gives the first unit vector and zeros.
    void (*jacobi)(double* matrices, std::int64_t n, double* rotations, double* vectors,
                   double* values);

    // product = A u for the leading n rows and columns of A, of which the lower triangle is read.
    void (*multiply_lower)(const double* matrix, std::int64_t stride, std::int64_t n,
                           const double* u, double* product);

    // A -= u w^T + w u^T, in the lower triangle of the leading n rows and columns.
    void (*subtract_outer)(double* matrix, std::int64_t stride, std::int64_t n, const double* u,
                           const double* w);
};

// The table of the active level.
[[nodiscard]] const SymmetricEigenKernels& symmetric_eigen_kernels();

namespace scalar {
extern const SymmetricEigenKernels kSymmetricEigen;
}
namespace avx2 {
extern const SymmetricEigenKernels kSymmetricEigen;
}
namespace avx512 {
extern const SymmetricEigenKernels kSymmetricEigen;
}

}  // namespace epibias::kernels
