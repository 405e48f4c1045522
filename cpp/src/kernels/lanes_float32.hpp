// What: one register of float32 lanes (16, 8 or 4: AVX-512, AVX2, portable), and the exponential
// and logarithm of the float32 sweep on them.
//
// Bits: fused multiply-adds and estimated reciprocals where the level has them, so the last bits
// differ from level to level; threshold_sweep.hpp bounds what that may do to a divergence.
// Included only by kernel bodies, after EPIBIAS_LEVEL is defined, and by the rules of lanes.hpp.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if !defined(EPIBIAS_LEVEL)
#error "define EPIBIAS_LEVEL (scalar, avx2 or avx512) before including lanes_float32.hpp"
#endif

#if !defined(EPIBIAS_INLINE)
#define EPIBIAS_INLINE [[gnu::always_inline]] inline
#endif

namespace epibias::kernels::EPIBIAS_LEVEL {
namespace {

#if defined(__AVX512F__)
constexpr std::int64_t kFloatLanes = 16;
#elif defined(__AVX2__)
constexpr std::int64_t kFloatLanes = 8;
#else
constexpr std::int64_t kFloatLanes = 4;
#endif

using Floats = float __attribute__((vector_size(kFloatLanes * 4)));
using FloatBits = std::int32_t __attribute__((vector_size(kFloatLanes * 4)));

EPIBIAS_INLINE Floats load_floats(const float* from) {
    Floats values;
    __builtin_memcpy(&values, from, sizeof(values));
    return values;
}
EPIBIAS_INLINE void store_floats(float* to, Floats values) {
    __builtin_memcpy(to, &values, sizeof(values));
}
EPIBIAS_INLINE Floats all_floats(float value) {
    return value - Floats{};  // x - 0 is x, -0 included
}
EPIBIAS_INLINE FloatBits all_bits(std::int32_t value) {
    return value - FloatBits{};
}
EPIBIAS_INLINE FloatBits bits_of_floats(Floats values) {
    return reinterpret_cast<FloatBits>(values);
}
EPIBIAS_INLINE Floats floats_of_bits(FloatBits bits) {
    return reinterpret_cast<Floats>(bits);
}

// a * b + c, with one rounding where the level has it.
EPIBIAS_INLINE Floats fused(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
    return _mm256_fmadd_ps(a, b, c);
#else
    return a * b + c;
#endif
}

// numerator / denominator; the denominator is positive, normal and below 2^126. The relative error
// is a rounding and the square of the estimate's: with u = 2^-24, 1.1 u of rcp14 (2^-14), and 3.3 u
// of rcp (1.5 * 2^-12, all that its manual promises).
EPIBIAS_INLINE Floats quotient(Floats numerator, Floats denominator) {
#if defined(__AVX512F__)
    const Floats estimate = _mm512_rcp14_ps(denominator);
#elif defined(__AVX2__)
    const Floats estimate = _mm256_rcp_ps(denominator);
#else
    return numerator / denominator;
#endif
#if defined(__AVX2__)
    // One step of Newton's on the quotient itself: what is left is divided by the estimate.
    const Floats rough = numerator * estimate;
    return fused(fused(-rough, denominator, numerator), estimate, rough);
#endif
}

EPIBIAS_INLINE Floats minus_square(Floats u) {
#if defined(__AVX512F__)
    return _mm512_fnmadd_ps(u, u, Floats{});
#elif defined(__AVX2__)
    return _mm256_fnmadd_ps(u, u, Floats{});
#else
    return -u * u;
#endif
}

EPIBIAS_INLINE Floats larger(Floats left, Floats right) {
#if defined(__AVX512F__)
    return _mm512_max_ps(left, right);
#elif defined(__AVX2__)
    return _mm256_max_ps(left, right);
#else
    return left > right ? left : right;
#endif
}

// counts[i] + 1 where left[i] < right[i].
EPIBIAS_INLINE FloatBits count_smaller(FloatBits counts, FloatBits left, FloatBits right) {
#if defined(__AVX512F__)
    const auto wide = reinterpret_cast<__m512i>(counts);
    const __mmask16 smaller =
        _mm512_cmplt_epi32_mask(reinterpret_cast<__m512i>(left), reinterpret_cast<__m512i>(right));
    return reinterpret_cast<FloatBits>(
        _mm512_mask_add_epi32(wide, smaller, wide, _mm512_set1_epi32(1)));
#else
    return counts - (left < right);
#endif
}

// Sum of the lanes by halving.
EPIBIAS_INLINE float sum_of_floats(Floats values) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps(values);
#endif
    float lane[kFloatLanes];
    store_floats(lane, values);
    for (std::int64_t half = kFloatLanes / 2; half > 0; half /= 2) {
        for (std::int64_t i = 0; i < half; ++i) lane[i] += lane[i + half];
    }
    return lane[0];
}

// ---- elementary functions ------------------------------------------------------------------

// 2^t for t <= 0; from -100 on it stays at 2^-100. Relative error <= 2.5e-7 (measured in
// test_sweep_float32.cpp): rounding plus 7.5e-8 of the minimax polynomial on [-1/2, 1/2].
EPIBIAS_INLINE Floats float_exp2_of_negative(Floats t) {
    t = larger(t, all_floats(-100.0F));
#if defined(__AVX512F__)
    const Floats whole = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT);
#else
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
    const Floats rounder = all_floats(0x1.8p23F);
    const Floats shifted = t + rounder;
    const Floats whole = shifted - rounder;
#endif
    const Floats f = t - whole;  // exact, in [-1/2, 1/2]
    Floats p = all_floats(0x1.5c08e6p-10F);
    p = fused(p, f, all_floats(0x1.3d0c52p-7F));
    p = fused(p, f, all_floats(0x1.c6b6e4p-5F));
    p = fused(p, f, all_floats(0x1.ebf918p-3F));
    // NOLINTNEXTLINE(modernize-use-std-numbers): near ln 2, but not it
    p = fused(p, f, all_floats(0x1.62e428p-1F));
    p = fused(p, f, all_floats(0x1.000002p+0F));
#if defined(__AVX512F__)
    return _mm512_scalef_ps(p, whole);
#else
    return floats_of_bits(bits_of_floats(p) + (bits_of_floats(shifted) << 23));
#endif
}

// log2(left / right) + added for positive normal numbers whose ratio lies within 2^±127; anything
// finite for left = 0. Error <= 3e-7 max(1, |log2|) (measured as above, at every level). A machine
// whose rcp is as poor as its manual allows adds up to 0.585 * 2.3 u, that is 8e-8; the 5 u that
// threshold_sweep.hpp counts for a natural logarithm (4.3e-7 of one to base 2) have room for both.
EPIBIAS_INLINE Floats log2_of_ratio(Floats left, Floats right, Floats added) {
    // As log_of_ratio in lanes.hpp: the difference of the bits, rounded at bit 23, is the power of
    // two that brings the ratio into [2/3, 3/2]; 2 artanh((x - 1) / (x + 1)) is the rest.
    const FloatBits difference = bits_of_floats(left) - bits_of_floats(right) + all_bits(1 << 22);
    const FloatBits power = difference & all_bits(-(1 << 23));
    const Floats scaled = floats_of_bits(bits_of_floats(left) - power);
    const Floats s = quotient(scaled - right, scaled + right);
    const Floats square = s * s;
    // Minimax (Remez, relative error 3e-7) of 2 artanh(s) / (s ln 2) in s^2, |s| <= 1/5.
    Floats p = all_floats(0x1.349b08p-1F);
    p = fused(p, square, all_floats(0x1.ec3d84p-1F));
    p = fused(p, square, all_floats(0x1.71547ep+1F));
    const Floats whole = __builtin_convertvector(power, Floats);
    return fused(s, p, fused(whole, all_floats(0x1p-23F), added));
}

// log2(left / right) within 0.0861, times 2^23: the bits of a float, read as an integer, are its
// log2 with the mantissa's part interpolated linearly, which lies up to 0.0861 too low.
EPIBIAS_INLINE Floats rough_log2_of_ratio(Floats left, Floats right) {
    return __builtin_convertvector(bits_of_floats(left) - bits_of_floats(right), Floats);
}

}  // namespace
}  // namespace epibias::kernels::EPIBIAS_LEVEL
