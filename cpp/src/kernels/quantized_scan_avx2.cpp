// AVX2 level of quantized_scan. A query has 7 bits, or the sum of two products would not fit in 16:
// 2 * 255 * 63 < 2^15. Register tile 16 rows x 4 queries: 8 of 16 registers hold sums.
#include <immintrin.h>

#include "kernels/quantized_scan_body.hpp"

namespace epibias::kernels {
namespace {

struct Lanes256 {
    using Floats = float __attribute__((vector_size(32)));
    using Integers = std::int32_t __attribute__((vector_size(32)));
    using Bytes = std::int8_t __attribute__((vector_size(8)));
    using Sums = __m256i;
    using Codes = __m256i;
    static constexpr int kWidth = 8;
    static constexpr std::int64_t kSumRows = 8;

    static Sums zero_based(std::int32_t start) { return _mm256_set1_epi32(start); }
    static Codes load(const std::uint8_t* at) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    }
    static Codes low_halves(Codes codes) { return _mm256_and_si256(codes, _mm256_set1_epi8(15)); }
    static Codes high_halves(Codes codes) {
        return _mm256_and_si256(_mm256_srli_epi16(codes, 4), _mm256_set1_epi8(15));
    }
    static Codes repeat(std::int32_t word) { return _mm256_set1_epi32(word); }
    static Sums add_products(Sums sums, Codes codes, Codes query) {
        const __m256i pairs = _mm256_maddubs_epi16(codes, query);
        return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    static void store(std::int32_t* at, Sums sums) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), sums);
    }

    static int take(const std::int32_t* sums, const void* scales, const void* residuals,
                    const QueryFilter& filter, std::uint32_t row, const CandidateArrays& out) {
        const __m256i whole = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums));
        const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(whole),
                                            _mm256_loadu_ps(static_cast<const float*>(scales)));
        const __m256 value = _mm256_mul_ps(scaled, _mm256_set1_ps(filter.scale));
        const __m256 upper = _mm256_fmadd_ps(_mm256_loadu_ps(static_cast<const float*>(residuals)),
                                             _mm256_set1_ps(filter.residual_weight), value);
        const auto passed = static_cast<unsigned>(
            _mm256_movemask_ps(_mm256_cmp_ps(upper, _mm256_set1_ps(filter.limit), _CMP_GE_OQ)));
        if (passed == 0) [[likely]]
            return 0;
        float lane_values[kWidth];
        _mm256_storeu_ps(lane_values, value);
        return append(passed, lane_values, residuals, row, out);
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
    .collect = collect<Lanes256>,
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
    .collect = collect<Lanes256>,
};
}  // namespace avx2

}  // namespace epibias::kernels
