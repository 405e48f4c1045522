// AVX-512 level of quantized_scan for processors without VNNI. A query has 7 bits, or the sum of
// two products would not fit in 16: 2 * 255 * 63 < 2^15.
#include "kernels/quantized_scan_lanes512.hpp"

namespace epibias::kernels {
namespace {

struct Lanes512 : SharedLanes512 {
    static Sums add_products(Sums sums, Codes codes, Codes query) {
        const __m512i pairs = _mm512_maddubs_epi16(codes, query);
        return _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
    }
};

}  // namespace

namespace avx512 {
const QuantizedScanKernels kQuantizedScan = {
    .code_limit = 127,
    .query_limit = 63,
    .code_offset = 128,
    .n_queries = 5,
    .error_lanes = 16,
    .quantize = quantize<Lanes512>,
    .quantize_clipped = quantize_clipped<Lanes512>,
    .sum_tile = sum_tile<EightBits<Lanes512>, 4, 5>,
    .passing = passing<Lanes512>,
    .collect = collect<Lanes512>,
    .row_product = row_product<Lanes512>,
    .project = project<Lanes512, 4>,
};
const QuantizedScanKernels kQuantizedScanFourBits = {
    .code_limit = 7,
    .query_limit = 127,
    .code_offset = 8,
    .n_queries = 4,
    .error_lanes = 16,
    .quantize = quantize<Lanes512>,
    .quantize_clipped = quantize_clipped<Lanes512>,
    .sum_tile = sum_tile<FourBits<Lanes512>, 4, 4>,
    .passing = passing<Lanes512>,
    .collect = collect<Lanes512>,
    .row_product = row_product<Lanes512>,
    .project = project<Lanes512, 4>,
};
}  // namespace avx512

}  // namespace epibias::kernels
