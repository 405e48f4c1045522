// What: the inner loops of the polarization axis, one table per SIMD level.
//
// Centred rows are float64 [n_rows, stride] with stride a multiple of kRowBlock and zeros behind
// the last column. All buffers belong to the caller. Every level gives the same bits (lanes.hpp).
#pragma once

#include <cstdint>

namespace epibias::kernels {

inline constexpr std::int64_t kRowBlock = 8;

struct PolarizationAxisKernels {
    // mean = mean over i of scales[i] * rows[i]; centred[i] = scales[i] * rows[i] - mean.
    void (*centre)(const float* rows, const double* scales, std::int64_t n_rows, std::int64_t dim,
                   double* mean, double* centred, std::int64_t stride);

    // Lower triangle of products[i][j] = centred[i] . centred[j], [n_rows, n_rows].
    void (*gram)(const double* centred, std::int64_t n_rows, std::int64_t stride, double* products);

    // combination = sum over i of weights[i] * centred[i].
    void (*combine)(const double* centred, const double* weights, std::int64_t n_rows,
                    std::int64_t stride, double* combination);

    double (*dot)(const double* left, const double* right, std::int64_t stride);
};

namespace scalar {
extern const PolarizationAxisKernels kPolarizationAxis;
}
namespace avx2 {
extern const PolarizationAxisKernels kPolarizationAxis;
}
namespace avx512 {
extern const PolarizationAxisKernels kPolarizationAxis;
}

}  // namespace epibias::kernels
