// The AVX-VNNI kernels with the encoding that AVX-512 processors run; see the source.
#include "kernels/quantized_scan_kernels.hpp"

namespace epibias::kernels::avx2_vnni_twin {
extern const QuantizedScanKernels kQuantizedScan;
extern const QuantizedScanKernels kQuantizedScanFourBits;
}  // namespace epibias::kernels::avx2_vnni_twin

#define EPIBIAS_DPBUSD _mm256_dpbusd_epi32
#define EPIBIAS_VNNI_LEVEL avx2_vnni_twin
#include "kernels/quantized_scan_avx2_vnni.cpp"  // NOLINT(bugprone-suspicious-include)
