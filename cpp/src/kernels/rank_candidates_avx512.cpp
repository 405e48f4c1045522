// AVX-512 level of rank_candidates: twelve sums in registers.
#include <immintrin.h>

#include "kernels/rank_candidates_kernels.hpp"

namespace epibias::kernels {
namespace {

// Accumulators 0-7, 8-15, 16-23, 24-31 in four registers.
double folded(const __m512d* sums) {
    const __m512d eight =
        _mm512_add_pd(_mm512_add_pd(sums[0], sums[2]), _mm512_add_pd(sums[1], sums[3]));
    const __m256d four =
        _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

RowProducts row_products(const float* row, const double* first, const double* second,
                         std::int64_t dim) {
    __m512d squared_sums[4];
    __m512d first_sums[4];
    __m512d second_sums[4];
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) {
        squared_sums[part] = _mm512_setzero_pd();
        first_sums[part] = _mm512_setzero_pd();
        second_sums[part] = _mm512_setzero_pd();
    }
    std::int64_t i = 0;
    for (; i + 32 <= dim; i += 32) {
#pragma GCC unroll 4
        for (std::int64_t part = 0; part < 4; ++part) {
            const std::int64_t at = i + 8 * part;
            const __m512d value = _mm512_cvtps_pd(_mm256_loadu_ps(row + at));
            squared_sums[part] = _mm512_fmadd_pd(value, value, squared_sums[part]);
            first_sums[part] =
                _mm512_fmadd_pd(value, _mm512_loadu_pd(first + at), first_sums[part]);
            second_sums[part] =
                _mm512_fmadd_pd(value, _mm512_loadu_pd(second + at), second_sums[part]);
        }
    }
    // Missing elements add +0 to sums that are never -0, which changes no bit.
#pragma GCC unroll 4
    for (std::int64_t part = 0; part < 4; ++part) {
        const std::int64_t at = i + 8 * part;
        if (at >= dim) break;
        const std::int64_t rest = dim - at;
        const auto mask = static_cast<__mmask8>(rest >= 8 ? 0xFFU : (1U << rest) - 1U);
        const __m512d value = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, row + at));
        squared_sums[part] = _mm512_fmadd_pd(value, value, squared_sums[part]);
        first_sums[part] =
            _mm512_fmadd_pd(value, _mm512_maskz_loadu_pd(mask, first + at), first_sums[part]);
        second_sums[part] =
            _mm512_fmadd_pd(value, _mm512_maskz_loadu_pd(mask, second + at), second_sums[part]);
    }
    return {folded(squared_sums), folded(first_sums), folded(second_sums)};
}

}  // namespace

namespace avx512 {
const RankCandidatesKernels kRankCandidates = {.row_products = row_products};
}

}  // namespace epibias::kernels
