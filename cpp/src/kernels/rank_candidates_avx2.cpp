// AVX2 level of rank_candidates. 3 x 32 sums need 24 of 16 registers, so the row is read twice:
// accumulators 0-15, then 16-31.
#include <immintrin.h>

#include "kernels/rank_candidates_kernels.hpp"

namespace epibias::kernels {
namespace {

struct HalfSums {
    __m256d squared[4];
    __m256d first[4];
    __m256d second[4];
};

// Mask of the first `count` of four lanes, from the place that has so many ones behind it.
alignas(32) constexpr std::int64_t kMasks[8] = {-1, -1, -1, -1, 0, 0, 0, 0};

__m256i first_lanes(std::int64_t count) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMasks + 4 - count));
}

// Lowest 32 bits of each 64: the mask of as many floats.
__m128i narrowed(__m256i mask) {
    const __m256i picked =
        _mm256_permutevar8x32_epi32(mask, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
    return _mm256_castsi256_si128(picked);
}

HalfSums half_products(const float* row, const double* first, const double* second,
                       std::int64_t from, std::int64_t dim) {
    HalfSums sums;
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) {
        sums.squared[part] = _mm256_setzero_pd();
        sums.first[part] = _mm256_setzero_pd();
        sums.second[part] = _mm256_setzero_pd();
    }
    std::int64_t i = from;
    for (; i + 16 <= dim; i += 32) {
#pragma GCC unroll 4
        for (std::int64_t part = 0; part < 4; ++part) {
            const std::int64_t at = i + 4 * part;
            const __m256d value = _mm256_cvtps_pd(_mm_loadu_ps(row + at));
            sums.squared[part] = _mm256_fmadd_pd(value, value, sums.squared[part]);
            sums.first[part] =
                _mm256_fmadd_pd(value, _mm256_loadu_pd(first + at), sums.first[part]);
            sums.second[part] =
                _mm256_fmadd_pd(value, _mm256_loadu_pd(second + at), sums.second[part]);
        }
    }
    // Missing elements add +0 to sums that are never -0, which changes no bit.
#pragma GCC unroll 4
    for (std::int64_t part = 0; part < 4; ++part) {
        const std::int64_t at = i + 4 * part;
        if (at >= dim) break;
        const __m256i mask = first_lanes(dim - at < 4 ? dim - at : 4);
        const __m256d value = _mm256_cvtps_pd(_mm_maskload_ps(row + at, narrowed(mask)));
        sums.squared[part] = _mm256_fmadd_pd(value, value, sums.squared[part]);
        sums.first[part] =
            _mm256_fmadd_pd(value, _mm256_maskload_pd(first + at, mask), sums.first[part]);
        sums.second[part] =
            _mm256_fmadd_pd(value, _mm256_maskload_pd(second + at, mask), sums.second[part]);
    }
    return sums;
}

double folded(const __m256d* low, const __m256d* high) {
    __m256d sums[4];
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) sums[part] = _mm256_add_pd(low[part], high[part]);
    const __m256d four =
        _mm256_add_pd(_mm256_add_pd(sums[0], sums[2]), _mm256_add_pd(sums[1], sums[3]));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

RowProducts row_products(const float* row, const double* first, const double* second,
                         std::int64_t dim) {
    const HalfSums low = half_products(row, first, second, 0, dim);
    const HalfSums high = half_products(row, first, second, 16, dim);
    return {folded(low.squared, high.squared), folded(low.first, high.first),
            folded(low.second, high.second)};
}

}  // namespace

namespace avx2 {
const RankCandidatesKernels kRankCandidates = {.row_products = row_products};
}

}  // namespace epibias::kernels
