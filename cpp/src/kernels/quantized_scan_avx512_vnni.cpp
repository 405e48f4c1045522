// AVX-512 VNNI level of quantized_scan: four 8-bit products a lane are added in one instruction,
// without an intermediate of 16 bits. Register tile 64 rows x 6 queries: 24 of 32 registers.
#include "kernels/quantized_scan_lanes512.hpp"

namespace epibias::kernels {
namespace {

struct LanesVnni : SharedLanes512 {
    static Sums add_products(Sums sums, Codes codes, Codes query) {
        return _mm512_dpbusd_epi32(sums, codes, query);
    }
};

}  // namespace

namespace avx512_vnni {
const QuantizedScanKernels kQuantizedScan = {
    .code_limit = 127,
    .query_limit = 127,
    .code_offset = 128,
    .n_queries = 6,
    .error_lanes = 16,
    .quantize = quantize<LanesVnni>,
    .quantize_clipped = quantize_clipped<LanesVnni>,
    .sum_tile = sum_tile<EightBits<LanesVnni>, 4, 6>,
    .passing = passing<LanesVnni>,
    .collect = collect<LanesVnni>,
    .row_product = row_product<LanesVnni>,
    .project = project<LanesVnni, 4>,
};
const QuantizedScanKernels kQuantizedScanFourBits = {
    .code_limit = 7,
    .query_limit = 127,
    .code_offset = 8,
    .n_queries = 4,
    .error_lanes = 16,
    .quantize = quantize<LanesVnni>,
    .quantize_clipped = quantize_clipped<LanesVnni>,
    .sum_tile = sum_tile<FourBits<LanesVnni>, 4, 4>,
    .passing = passing<LanesVnni>,
    .collect = collect<LanesVnni>,
    .row_product = row_product<LanesVnni>,
    .project = project<LanesVnni, 4>,
};
}  // namespace avx512_vnni

}  // namespace epibias::kernels
