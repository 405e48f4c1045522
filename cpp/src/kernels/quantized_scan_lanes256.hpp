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
    static Reals weighted(Reals values, float weight) {
        return _mm256_mul_ps(values, _mm256_set1_ps(weight));
    }
    static Reals plus_weighted(Reals sum, Reals values, float weight) {
        return _mm256_fmadd_ps(values, _mm256_set1_ps(weight), sum);
    }
    static Floats multiply_add(Floats left, Floats right, Floats sum) {
        return _mm256_fmadd_ps(left, right, sum);
    }
    static unsigned passed(Reals upper, float limit) {
        return static_cast<unsigned>(
            _mm256_movemask_ps(_mm256_cmp_ps(upper, _mm256_set1_ps(limit), _CMP_GE_OQ)));
    }
    static bool any_passes(Reals upper, float limit) { return passed(upper, limit) != 0; }

    static int take(Reals upper, Reals values, Reals margins, float limit, std::uint32_t row,
                    const CandidateArrays& out) {
        float lane_values[kWidth];
        float lane_margins[kWidth];
        _mm256_storeu_ps(lane_values, values);
        _mm256_storeu_ps(lane_margins, margins);
        return append(passed(upper, limit), lane_values, lane_margins, row, out);
    }
};

}  // namespace
}  // namespace epibias::kernels
