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
    .query_limit = 127,
    .code_offset = 128,
    .n_queries = 6,
    .error_lanes = 16,
    .quantize = quantize<LanesVnni>,
    .sum_tile = sum_tile<LanesVnni, 4, 6>,
    .collect = collect<LanesVnni>,
};
}  // namespace avx512_vnni

}  // namespace epibias::kernels
