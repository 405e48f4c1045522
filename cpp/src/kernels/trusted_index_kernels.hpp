// What: the loop over a row of trusted_index, one per SIMD level.
//
// No inline function of a library header may be used in the sources of this folder (see
// numeric.hpp).
#pragma once

#include <cstdint>

namespace epibias::kernels {

struct TrustedKernels {
    // Eight signed sums of a row, of every eighth column each; returns the sum of its squares.
    double (*sketch)(const float* values, const float* signs, std::int64_t dim, float* sums);
};

namespace scalar {
extern const TrustedKernels kTrusted;
}
namespace avx2 {
extern const TrustedKernels kTrusted;
}
namespace avx512 {
extern const TrustedKernels kTrusted;
}

}  // namespace epibias::kernels
