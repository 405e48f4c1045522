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
    static Reals weighted(Reals values, float weight) {
        return _mm512_mul_ps(values, _mm512_set1_ps(weight));
    }
    static Reals plus_weighted(Reals sum, Reals values, float weight) {
        return _mm512_fmadd_ps(values, _mm512_set1_ps(weight), sum);
    }
    static Floats multiply_add(Floats left, Floats right, Floats sum) {
        return _mm512_fmadd_ps(left, right, sum);
    }
    static __mmask16 passed(Reals upper, float limit) {
        return _mm512_cmp_ps_mask(upper, _mm512_set1_ps(limit), _CMP_GE_OQ);
    }
    static bool any_passes(Reals upper, float limit) { return passed(upper, limit) != 0; }

    static int take(Reals upper, Reals values, Reals margins, float limit, std::uint32_t row,
                    const CandidateArrays& out) {
        const __mmask16 chosen = passed(upper, limit);
        // Compressed in registers: compressing into memory is microcoded on Zen 4.
        const __m512i lanes =
            _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        const __m512i all = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(row)));
        _mm512_storeu_ps(out.values, _mm512_maskz_compress_ps(chosen, values));
        _mm512_storeu_ps(out.margins, _mm512_maskz_compress_ps(chosen, margins));
        _mm512_storeu_si512(out.rows, _mm512_maskz_compress_epi32(chosen, all));
        return __builtin_popcount(chosen);
    }
};

}  // namespace
}  // namespace epibias::kernels
