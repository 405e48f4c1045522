// AVX-VNNI level of quantized_scan: AVX2 processors that add four 8-bit products a lane in one
// instruction. Register tile 16 rows x 5 queries: 10 of 16 registers hold sums.
//
// The instruction has two encodings. Where only the longer one runs, as on AVX-512 servers, the
// tests compile this source once more with that (tests/cpp/avx2_vnni_twin.cpp): the code is the
// same.
#include "kernels/quantized_scan_lanes256.hpp"

#if !defined(EPIBIAS_DPBUSD)
#define EPIBIAS_DPBUSD _mm256_dpbusd_avx_epi32
#define EPIBIAS_VNNI_LEVEL avx2_vnni
#endif

namespace epibias::kernels {
namespace {

struct LanesVnni256 : SharedLanes256 {
    static Sums add_products(Sums sums, Codes codes, Codes query) {
        return EPIBIAS_DPBUSD(sums, codes, query);
    }
};

}  // namespace

namespace EPIBIAS_VNNI_LEVEL {
const QuantizedScanKernels kQuantizedScan = {
    .code_limit = 127,
    .query_limit = 127,
    .code_offset = 128,
    .n_queries = 5,
    .error_lanes = 8,
    .quantize = quantize<LanesVnni256>,
    .quantize_clipped = quantize_clipped<LanesVnni256>,
    .sum_tile = sum_tile<EightBits<LanesVnni256>, 2, 5>,
    .passing = passing<LanesVnni256>,
    .collect = collect<LanesVnni256>,
    .row_product = row_product<LanesVnni256>,
    .project = project<LanesVnni256, 2>,
};
const QuantizedScanKernels kQuantizedScanFourBits = {
    .code_limit = 7,
    .query_limit = 127,
    .code_offset = 8,
    .n_queries = 4,
    .error_lanes = 8,
    .quantize = quantize<LanesVnni256>,
    .quantize_clipped = quantize_clipped<LanesVnni256>,
    .sum_tile = sum_tile<FourBits<LanesVnni256>, 2, 4>,
    .passing = passing<LanesVnni256>,
    .collect = collect<LanesVnni256>,
    .row_product = row_product<LanesVnni256>,
    .project = project<LanesVnni256, 2>,
};
}  // namespace EPIBIAS_VNNI_LEVEL

}  // namespace epibias::kernels
