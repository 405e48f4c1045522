// AVX2 + FMA level of cosine_topk. Register tile 6 x 16: 12 of 16 registers hold sums.
#include <immintrin.h>

#include "kernels/cosine_topk_body.hpp"

namespace epibias::kernels {
namespace {

// Lane masks for the first n of 8: a window that slides over ones and zeros.
alignas(64) constexpr std::int32_t kFirst[16] = {-1, -1, -1, -1, -1, -1, -1, -1};

__m256i first_lanes(int count) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kFirst + 8 - count));
}

float sum_of_four(__m128 values) {
    const __m128 two = _mm_add_ps(values, _mm_movehl_ps(values, values));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

struct Lanes256 {
    using Vector = __m256;
    static constexpr int kWidth = 8;

    static Vector zero() { return _mm256_setzero_ps(); }
    static Vector load(const float* at) { return _mm256_loadu_ps(at); }
    static Vector load_first(const float* at, int count) {
        return _mm256_maskload_ps(at, first_lanes(count));
    }
    static Vector broadcast(const float* at) { return _mm256_broadcast_ss(at); }
    static Vector multiply_add(Vector left, Vector right, Vector sum) {
        return _mm256_fmadd_ps(left, right, sum);
    }
    static Vector multiply(Vector left, Vector right) { return _mm256_mul_ps(left, right); }
    static float sum(Vector values) {
        return sum_of_four(
            _mm_add_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps(values, 1)));
    }
    static void store(float* at, Vector values) { _mm256_store_ps(at, values); }
    static unsigned at_least(Vector values, Vector limits) {
        return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(values, limits, _CMP_GE_OQ)));
    }
};

// Four accumulators a register, eight registers.
double canonical_dot(const float* left, const float* right, std::int64_t dim) {
    __m256d sums[8];
#pragma GCC unroll 8
    for (auto& sum : sums) sum = _mm256_setzero_pd();
    std::int64_t i = 0;
    for (; i + 32 <= dim; i += 32) {
#pragma GCC unroll 8
        for (std::int64_t part = 0; part < 8; ++part) {
            const __m256d wide_left = _mm256_cvtps_pd(_mm_loadu_ps(left + i + 4 * part));
            const __m256d wide_right = _mm256_cvtps_pd(_mm_loadu_ps(right + i + 4 * part));
            sums[part] = _mm256_fmadd_pd(wide_left, wide_right, sums[part]);
        }
    }
    // Missing elements add +0 to sums that are never -0, which changes no bit.
    for (int part = 0; i < dim; ++part, i += 4) {
        const int rest = dim - i >= 4 ? 4 : static_cast<int>(dim - i);
        const __m128i mask = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kFirst + 8 - rest));
        const __m256d wide_left = _mm256_cvtps_pd(_mm_maskload_ps(left + i, mask));
        const __m256d wide_right = _mm256_cvtps_pd(_mm_maskload_ps(right + i, mask));
        sums[part] = _mm256_fmadd_pd(wide_left, wide_right, sums[part]);
    }
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) sums[part] = _mm256_add_pd(sums[part], sums[part + 4]);
    const __m256d four =
        _mm256_add_pd(_mm256_add_pd(sums[0], sums[2]), _mm256_add_pd(sums[1], sums[3]));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

}  // namespace

namespace avx2 {
const CosineTopkKernels kCosineTopk = {
    .panel_width = 16,
    .few_queries = 12,
    .group_rows = 6,
    .canonical_dot = canonical_dot,
    .scan_panel = scan_panel<Lanes256, 6, 2>,
    .scan_few = scan_few<Lanes256, 2, 4, 2>,
};
}  // namespace avx2

}  // namespace epibias::kernels
