// The AVX-VNNI kernels with the encoding that AVX-512 processors run; see the source.
#define EPIBIAS_DPBUSD _mm256_dpbusd_epi32
#define EPIBIAS_VNNI_LEVEL avx2_vnni_twin
#include "kernels/quantized_scan_avx2_vnni.cpp"
