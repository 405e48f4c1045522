// What: eight float64 lanes as the vector registers of one SIMD level hold them, and the
// exponential and logarithm of the sweep on them.
//
// One source for every level: AVX-512 has one register of eight lanes, AVX2 a pair of four, the
// portable level a pair of pairs of two. (A single 64-byte vector type would serve too, but g++ 12
// tends to keep vectors wider than a register in memory.)
// Bits: only +, -, *, /, comparisons and integer operations, lane by lane, and no contraction
// (-ffp-contract=off): every level and compiler gives the same bits.
// Included only by kernel bodies, after EPIBIAS_LEVEL is defined. Everything lies in the level's
// unnamed namespace, so that no copy of one level can be linked into another.
#pragma once

#include <cstdint>
#include <numbers>

#include "kernels/sweep_polynomials.hpp"

#if !defined(EPIBIAS_LEVEL)
#error "define EPIBIAS_LEVEL (scalar, avx2 or avx512) before including lanes.hpp"
#endif

#define EPIBIAS_INLINE [[gnu::always_inline]] inline

namespace epibias::kernels::EPIBIAS_LEVEL {
namespace {

constexpr int kLanes = 8;

#if defined(__AVX512F__)
constexpr int kRegisterLanes = 8;
#elif defined(__AVX2__)
constexpr int kRegisterLanes = 4;
#else
constexpr int kRegisterLanes = 2;
#endif

using RegisterDoubles = double __attribute__((vector_size(kRegisterLanes * 8)));
using RegisterBits = std::uint64_t __attribute__((vector_size(kRegisterLanes * 8)));
using RegisterFloats = float __attribute__((vector_size(kRegisterLanes * 4)));

template <typename Half>
struct Pair {
    Half low, high;
};

#if defined(__AVX512F__)
using Lanes = RegisterDoubles;
using LaneBits = RegisterBits;
#elif defined(__AVX2__)
using Lanes = Pair<RegisterDoubles>;
using LaneBits = Pair<RegisterBits>;
#else
using Lanes = Pair<Pair<RegisterDoubles>>;
using LaneBits = Pair<Pair<RegisterBits>>;
#endif

// ---- lane by lane: pairs hand on to their halves -------------------------------------------

#define EPIBIAS_PAIR_OPERATOR(op)                                                            \
    template <typename Half>                                                                 \
    EPIBIAS_INLINE Pair<Half> operator op(const Pair<Half>& left, const Pair<Half>& right) { \
        return {left.low op right.low, left.high op right.high};                             \
    }
EPIBIAS_PAIR_OPERATOR(+)
EPIBIAS_PAIR_OPERATOR(-)
EPIBIAS_PAIR_OPERATOR(*)
EPIBIAS_PAIR_OPERATOR(/)
EPIBIAS_PAIR_OPERATOR(&)
EPIBIAS_PAIR_OPERATOR(|)
#undef EPIBIAS_PAIR_OPERATOR

template <typename Half>
EPIBIAS_INLINE Pair<Half> operator<<(const Pair<Half>& bits, int count) {
    return {bits.low << count, bits.high << count};
}
template <typename Half>
EPIBIAS_INLINE Pair<Half> operator>>(const Pair<Half>& bits, int count) {
    return {bits.low >> count, bits.high >> count};
}

EPIBIAS_INLINE RegisterBits bits_of(RegisterDoubles values) {
    return reinterpret_cast<RegisterBits>(values);
}
EPIBIAS_INLINE RegisterDoubles doubles_of(RegisterBits bits) {
    return reinterpret_cast<RegisterDoubles>(bits);
}
template <typename Half>
EPIBIAS_INLINE auto bits_of(const Pair<Half>& values) {
    return Pair<decltype(bits_of(values.low))>{bits_of(values.low), bits_of(values.high)};
}
template <typename Half>
EPIBIAS_INLINE auto doubles_of(const Pair<Half>& bits) {
    return Pair<decltype(doubles_of(bits.low))>{doubles_of(bits.low), doubles_of(bits.high)};
}

// The right one where they are equal.
EPIBIAS_INLINE RegisterDoubles maximum(RegisterDoubles left, RegisterDoubles right) {
    return left > right ? left : right;
}
template <typename Half>
EPIBIAS_INLINE Pair<Half> maximum(const Pair<Half>& left, const Pair<Half>& right) {
    return {maximum(left.low, right.low), maximum(left.high, right.high)};
}

// ---- memory; addresses need only be aligned for their element type -------------------------

template <typename Wanted>
struct Access {
    EPIBIAS_INLINE static Wanted load(const double* from) {
        Wanted values;
        __builtin_memcpy(&values, from, sizeof(values));
        return values;
    }
    EPIBIAS_INLINE static Wanted load(const float* from) {
        RegisterFloats narrow;
        __builtin_memcpy(&narrow, from, sizeof(narrow));
        return __builtin_convertvector(narrow, Wanted);
    }
    EPIBIAS_INLINE static void store(double* to, const Wanted& values) {
        __builtin_memcpy(to, &values, sizeof(values));
    }
    template <typename Scalar>
    EPIBIAS_INLINE static Wanted broadcast(Scalar value) {
        return value - Wanted{};  // x - 0 is x, -0 included
    }
};
template <typename Half>
struct Access<Pair<Half>> {
    static constexpr int kHalf = static_cast<int>(sizeof(Half) / sizeof(double));
    template <typename Scalar>
    EPIBIAS_INLINE static Pair<Half> load(const Scalar* from) {
        return {Access<Half>::load(from), Access<Half>::load(from + kHalf)};
    }
    EPIBIAS_INLINE static void store(double* to, const Pair<Half>& values) {
        Access<Half>::store(to, values.low);
        Access<Half>::store(to + kHalf, values.high);
    }
    template <typename Scalar>
    EPIBIAS_INLINE static Pair<Half> broadcast(Scalar value) {
        return {Access<Half>::broadcast(value), Access<Half>::broadcast(value)};
    }
};

template <typename Scalar>
EPIBIAS_INLINE Lanes load(const Scalar* from) {
    return Access<Lanes>::load(from);
}
EPIBIAS_INLINE void store(double* to, const Lanes& values) {
    Access<Lanes>::store(to, values);
}
EPIBIAS_INLINE Lanes broadcast(double value) {
    return Access<Lanes>::broadcast(value);
}
EPIBIAS_INLINE LaneBits broadcast_bits(std::uint64_t value) {
    return Access<LaneBits>::broadcast(value);
}

// Sum of the lanes by halving: 8, 4, 2, 1.
EPIBIAS_INLINE double sum_of_lanes(const Lanes& values) {
    double lane[kLanes];
    store(lane, values);
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

// ---- elementary functions ------------------------------------------------------------------

// 2^t for t <= 0; below -995 (3e-300) it stays at 2^-995, which no sum of the sweep can notice.
// Relative error <= 4.2e-16 (measured in test_threshold_sweep.cpp against long double): rounding
// plus 2.1e-16 of the minimax polynomial of degree 10 on [-1/2, 1/2].
EPIBIAS_INLINE Lanes exp2_of_negative(Lanes t) {
    // Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits.
    const Lanes rounder = broadcast(0x1.8p52);
    t = maximum(t, broadcast(kLeastExponent));
    const Lanes shifted = t + rounder;
    const Lanes f = t - (shifted - rounder);  // exact
    Lanes p = broadcast(kExp2Coefficients[kExp2Degree]);
    for (int power = kExp2Degree - 1; power >= 0; --power) {
        p = p * f + broadcast(kExp2Coefficients[power]);
    }
    return p * doubles_of((bits_of(shifted) + broadcast_bits(1023)) << 52);
}

// ln(left / right) for positive normal numbers, with one division. Relative error <= 3.8e-16
// (measured as above), also where the two are near: their difference is then exact.
// Anything finite for left = 0 or denormal.
EPIBIAS_INLINE Lanes log_of_ratio(const Lanes& left, const Lanes& right) {
    // The bits of a double are nearly linear in its log2: their difference, rounded at bit 52, is
    // the power of two that brings the ratio into [2/3, 3/2]. Biased by 2048 to stay unsigned.
    constexpr std::uint64_t kBias = 1ULL << 63;
    const LaneBits biased = bits_of(left) - bits_of(right) + broadcast_bits(kBias + (1ULL << 51));
    const Lanes power = doubles_of((biased >> 52) | broadcast_bits(0x4330000000000000ULL)) -
                        broadcast(0x1p52 + 2048.0);
    const Lanes scaled =
        doubles_of(bits_of(left) - (biased & broadcast_bits(~0ULL << 52)) + broadcast_bits(kBias));
    // ln x = 2 artanh((x - 1) / (x + 1)).
    const Lanes s = (scaled - right) / (scaled + right);
    const Lanes square = s * s;
    Lanes p = broadcast(kArtanhCoefficients[kArtanhDegree]);
    for (int degree = kArtanhDegree - 1; degree >= 0; --degree) {
        p = p * square + broadcast(kArtanhCoefficients[degree]);
    }
    return power * broadcast(std::numbers::ln2) + s * p;
}

}  // namespace
}  // namespace epibias::kernels::EPIBIAS_LEVEL
