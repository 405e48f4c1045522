// AVX2 level of quantized_scan for processors without AVX-VNNI. A query has 7 bits, or the sum of
// two products would not fit in 16: 2 * 255 * 63 < 2^15. Register tile 16 rows x 4 queries: 8 of 16
// registers hold sums.
#include "kernels/quantized_scan_lanes256.hpp"

namespace epibias::kernels {
namespace {

struct Lanes256 : SharedLanes256 {
    static Sums add_products(Sums sums, Codes codes, Codes query) {
        const __m256i pairs = _mm256_maddubs_epi16(codes, query);
        return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
};

}  // namespace

namespace avx2 {
const QuantizedScanKernels kQuantizedScan = {
    .code_limit = 127,
    .query_limit = 63,
    .code_offset = 128,
    .n_queries = 4,
    .error_lanes = 8,
    .quantize = quantize<Lanes256>,
    .quantize_clipped = quantize_clipped<Lanes256>,
    .sum_tile = sum_tile<EightBits<Lanes256>, 2, 4>,
    .passing = passing<Lanes256>,
    .collect = collect<Lanes256>,
    .row_product = row_product<Lanes256>,
    .project = project<Lanes256, 2>,
};
const QuantizedScanKernels kQuantizedScanFourBits = {
    .code_limit = 7,
    .query_limit = 127,
    .code_offset = 8,
    .n_queries = 4,
    .error_lanes = 8,
    .quantize = quantize<Lanes256>,
    .quantize_clipped = quantize_clipped<Lanes256>,
    .sum_tile = sum_tile<FourBits<Lanes256>, 2, 4>,
    .passing = passing<Lanes256>,
    .collect = collect<Lanes256>,
    .row_product = row_product<Lanes256>,
    .project = project<Lanes256, 2>,
};
}  // namespace avx2

}  // namespace epibias::kernels
