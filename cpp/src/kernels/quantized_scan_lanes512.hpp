// What: what the two AVX-512 levels of quantized_scan share: all but the product of codes.
#pragma once

#include <immintrin.h>

#include "kernels/quantized_scan_body.hpp"

namespace epibias::kernels {
namespace {

struct SharedLanes512 {
    using Floats = float __attribute__((vector_size(64)));
    using Integers = std::int32_t __attribute__((vector_size(64)));
    using Bytes = std::int8_t __attribute__((vector_size(16)));
    using Sums = __m512i;
    using Codes = __m512i;
    static constexpr int kWidth = 16;
    static constexpr std::int64_t kSumRows = 16;

    static Sums zero_based(std::int32_t start) { return _mm512_set1_epi32(start); }
    static Codes load(const std::uint8_t* at) { return _mm512_loadu_si512(at); }
    static Codes low_halves(Codes codes) { return _mm512_and_si512(codes, _mm512_set1_epi8(15)); }
    static Codes high_halves(Codes codes) {
        return _mm512_and_si512(_mm512_srli_epi16(codes, 4), _mm512_set1_epi8(15));
    }
    static Codes repeat(std::int32_t word) { return _mm512_set1_epi32(word); }
    static void store(std::int32_t* at, Sums sums) { _mm512_storeu_si512(at, sums); }

    using Reals = __m512;
    static Reals reals(const void* at) { return _mm512_loadu_ps(at); }
    static Reals value(const std::int32_t* sums, Reals scale, float query_scale) {
        const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(sums)), scale);
        return _mm512_mul_ps(scaled, _mm512_set1_ps(query_scale));
    }
    static __mmask16 passed(Reals value, Reals residual, const QueryFilter& filter) {
        const __m512 upper =
            _mm512_fmadd_ps(residual, _mm512_set1_ps(filter.residual_weight), value);
        return _mm512_cmp_ps_mask(upper, _mm512_set1_ps(filter.limit), _CMP_GE_OQ);
    }
    static bool any_passes(Reals value, Reals residual, const QueryFilter& filter) {
        return passed(value, residual, filter) != 0;
    }

    static int take(const std::int32_t* sums, const void* scales, const void* residuals,
                    const QueryFilter& filter, std::uint32_t row, const CandidateArrays& out) {
        const __m512 all_values = value(sums, reals(scales), filter.scale);
        const __m512 all_residuals = reals(residuals);
        const __mmask16 chosen = passed(all_values, all_residuals, filter);
        if (chosen == 0) return 0;
        // Compressed in registers: compressing into memory is microcoded on Zen 4.
        const __m512i lanes =
            _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        const __m512i all = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(row)));
        _mm512_storeu_ps(out.values, _mm512_maskz_compress_ps(chosen, all_values));
        _mm512_storeu_ps(out.residuals, _mm512_maskz_compress_ps(chosen, all_residuals));
        _mm512_storeu_si512(out.rows, _mm512_maskz_compress_epi32(chosen, all));
        return __builtin_popcount(chosen);
    }
};

}  // namespace
}  // namespace epibias::kernels
