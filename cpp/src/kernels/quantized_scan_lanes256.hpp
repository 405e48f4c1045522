// What: what the two AVX2 levels of quantized_scan share: all but the product of codes.
#pragma once

#include <immintrin.h>

#include "kernels/quantized_scan_body.hpp"

namespace epibias::kernels {
namespace {

struct SharedLanes256 {
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
    static void store(std::int32_t* at, Sums sums) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), sums);
    }

    using Reals = __m256;
    static Reals reals(const void* at) { return _mm256_loadu_ps(static_cast<const float*>(at)); }
    static Reals value(const std::int32_t* sums, Reals scale, float query_scale) {
        const __m256i whole = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums));
        const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(whole), scale);
        return _mm256_mul_ps(scaled, _mm256_set1_ps(query_scale));
    }
    static unsigned passed(Reals value, Reals residual, const QueryFilter& filter) {
        const __m256 upper =
            _mm256_fmadd_ps(residual, _mm256_set1_ps(filter.residual_weight), value);
        return static_cast<unsigned>(
            _mm256_movemask_ps(_mm256_cmp_ps(upper, _mm256_set1_ps(filter.limit), _CMP_GE_OQ)));
    }
    static bool any_passes(Reals value, Reals residual, const QueryFilter& filter) {
        return passed(value, residual, filter) != 0;
    }

    static int take(const std::int32_t* sums, const void* scales, const void* residuals,
                    const QueryFilter& filter, std::uint32_t row, const CandidateArrays& out) {
        const __m256 all_values = value(sums, reals(scales), filter.scale);
        const unsigned chosen = passed(all_values, reals(residuals), filter);
        if (chosen == 0) return 0;
        float lane_values[kWidth];
        _mm256_storeu_ps(lane_values, all_values);
        return append(chosen, lane_values, residuals, row, out);
    }
};

}  // namespace
}  // namespace epibias::kernels
