// AVX-512 level of cosine_topk. Register tile 12 x 32: 24 of 32 registers hold sums.
#include <immintrin.h>

#include "kernels/cosine_topk_body.hpp"

namespace epibias::kernels {
namespace {

struct Lanes512 {
    using Vector = __m512;
    static constexpr int kWidth = 16;

    static Vector zero() { return _mm512_setzero_ps(); }
    static Vector load(const float* at) { return _mm512_loadu_ps(at); }
    static Vector load_first(const float* at, int count) {
        return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1U), at);
    }
    static Vector broadcast(const float* at) { return _mm512_set1_ps(*at); }
    static Vector multiply_add(Vector left, Vector right, Vector sum) {
        return _mm512_fmadd_ps(left, right, sum);
    }
    static Vector multiply(Vector left, Vector right) { return _mm512_mul_ps(left, right); }
    static float sum(Vector values) { return _mm512_reduce_add_ps(values); }
    static void store(float* at, Vector values) { _mm512_store_ps(at, values); }
    static unsigned at_least(Vector values, Vector limits) {
        return _mm512_cmp_ps_mask(values, limits, _CMP_GE_OQ);
    }
};

// Accumulators 0-7, 8-15, 16-23, 24-31 in four registers.
double canonical_dot(const float* left, const float* right, std::int64_t dim) {
    __m512d sums[4] = {_mm512_setzero_pd(), _mm512_setzero_pd(), _mm512_setzero_pd(),
                       _mm512_setzero_pd()};
    std::int64_t i = 0;
    for (; i + 32 <= dim; i += 32) {
#pragma GCC unroll 4
        for (std::int64_t part = 0; part < 4; ++part) {
            const __m512d wide_left = _mm512_cvtps_pd(_mm256_loadu_ps(left + i + 8 * part));
            const __m512d wide_right = _mm512_cvtps_pd(_mm256_loadu_ps(right + i + 8 * part));
            sums[part] = _mm512_fmadd_pd(wide_left, wide_right, sums[part]);
        }
    }
    // Missing elements add +0 to sums that are never -0, which changes no bit.
    for (int part = 0; i < dim; ++part, i += 8) {
        const auto rest = dim - i;
        const auto mask = static_cast<__mmask8>(rest >= 8 ? 0xFFU : (1U << rest) - 1U);
        const __m512d wide_left = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, left + i));
        const __m512d wide_right = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, right + i));
        sums[part] = _mm512_fmadd_pd(wide_left, wide_right, sums[part]);
    }
    const __m512d eight =
        _mm512_add_pd(_mm512_add_pd(sums[0], sums[2]), _mm512_add_pd(sums[1], sums[3]));
    const __m256d four =
        _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

}  // namespace

namespace avx512 {
const CosineTopkKernels kCosineTopk = {
    .panel_width = 32,
    .few_queries = 20,
    .group_rows = 12,
    .canonical_dot = canonical_dot,
    .scan_panel = scan_panel<Lanes512, 12, 2>,
    .scan_few = scan_few<Lanes512, 2, 4, 4>,
};
}  // namespace avx512

}  // namespace epibias::kernels
