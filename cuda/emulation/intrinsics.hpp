// What: CUDA's intrinsics of one thread: bits, conversions, rounded arithmetic, loads.
//
// The fast functions (__expf, rsqrtf, …) are the exact ones here: their error belongs to the
// device. Add here what a kernel needs; the name and the meaning are CUDA's.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "thread.hpp"

// ---- memory -----------------------------------------------------------------------------------
inline void __threadfence() {
    epibias::cuda::emulation::device_fence();
}
inline void __threadfence_block() {
    epibias::cuda::emulation::block_fence();
}

template <typename Value>
Value __ldg(const Value* address) {
    return *address;
}
template <typename Value>
Value __ldcs(const Value* address) {
    return *address;
}
template <typename Value>
Value __ldcg(const Value* address) {
    return *address;
}
template <typename Value>
void __stcs(Value* address, Value value) {
    *address = value;
}

// ---- bits -------------------------------------------------------------------------------------
inline int __popc(unsigned value) {
    return std::popcount(value);
}
inline int __popcll(unsigned long long value) {
    return std::popcount(value);
}
inline int __clz(int value) {
    return std::countl_zero(static_cast<unsigned>(value));
}
inline int __clzll(long long value) {
    return std::countl_zero(static_cast<unsigned long long>(value));
}
// One more than the number of the lowest set bit; 0 where none is set.
inline int __ffs(int value) {
    return value == 0 ? 0 : std::countr_zero(static_cast<unsigned>(value)) + 1;
}
inline int __ffsll(long long value) {
    return value == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(value)) + 1;
}
inline unsigned __brev(unsigned value) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= (value >> bit & 1U) << (31 - bit);
    return reversed;
}
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(high) << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned from = selector >> (4 * i) & 7U;
        result |= static_cast<unsigned>(bytes >> (8 * from) & 0xFFU) << (8 * i);
    }
    return result;
}
inline unsigned __umulhi(unsigned left, unsigned right) {
    return static_cast<unsigned>(static_cast<std::uint64_t>(left) * right >> 32);
}

// Four products of signed bytes, added to `sum`.
inline int __dp4a(int left, int right, int sum) {
    auto total = static_cast<unsigned>(sum);
    for (int i = 0; i < 4; ++i) {
        const auto left_byte = static_cast<std::int8_t>(left >> (8 * i));
        const auto right_byte = static_cast<std::int8_t>(right >> (8 * i));
        total += static_cast<unsigned>(left_byte * right_byte);
    }
    return static_cast<int>(total);
}

inline unsigned __float_as_uint(float value) {
    return std::bit_cast<unsigned>(value);
}
inline float __uint_as_float(unsigned bits) {
    return std::bit_cast<float>(bits);
}
inline int __float_as_int(float value) {
    return std::bit_cast<int>(value);
}
inline float __int_as_float(int bits) {
    return std::bit_cast<float>(bits);
}
inline long long __double_as_longlong(double value) {
    return std::bit_cast<long long>(value);
}
inline double __longlong_as_double(long long bits) {
    return std::bit_cast<double>(bits);
}

// ---- conversions ------------------------------------------------------------------------------
inline float __double2float_rn(double value) {
    return static_cast<float>(value);
}
inline int __float2int_rn(float value) {
    return static_cast<int>(std::nearbyint(value));
}
inline float __int2float_rn(int value) {
    return static_cast<float>(value);
}
inline double __ll2double_rn(long long value) {
    return static_cast<double>(value);
}

// ---- arithmetic, rounded to nearest and never contracted --------------------------------------
inline float __fadd_rn(float left, float right) {
    return left + right;
}
inline float __fsub_rn(float left, float right) {
    return left - right;
}
inline float __fmul_rn(float left, float right) {
    return left * right;
}
inline float __fdiv_rn(float left, float right) {
    return left / right;
}
inline float __fsqrt_rn(float value) {
    return std::sqrt(value);
}
inline float __fmaf_rn(float left, float right, float sum) {
    return std::fma(left, right, sum);
}
inline double __dadd_rn(double left, double right) {
    return left + right;
}
inline double __dsub_rn(double left, double right) {
    return left - right;
}
inline double __dmul_rn(double left, double right) {
    return left * right;
}
inline double __ddiv_rn(double left, double right) {
    return left / right;
}
inline double __drcp_rn(double value) {
    return 1.0 / value;
}
inline double __dsqrt_rn(double value) {
    return std::sqrt(value);
}
inline double __fma_rn(double left, double right, double sum) {
    return std::fma(left, right, sum);
}

// Directed rounding: from the exact remainder of the rounded result.
inline float __fadd_ru(float left, float right) {
    const double exact = static_cast<double>(left) + static_cast<double>(right);
    const auto rounded = static_cast<float>(exact);
    return static_cast<double>(rounded) < exact ? std::nextafter(rounded, HUGE_VALF) : rounded;
}
inline float __fmul_ru(float left, float right) {
    const double exact = static_cast<double>(left) * static_cast<double>(right);
    const auto rounded = static_cast<float>(exact);
    return static_cast<double>(rounded) < exact ? std::nextafter(rounded, HUGE_VALF) : rounded;
}
inline float __double2float_ru(double value) {
    const auto rounded = static_cast<float>(value);
    return static_cast<double>(rounded) < value ? std::nextafter(rounded, HUGE_VALF) : rounded;
}
inline float __double2float_rd(double value) {
    const auto rounded = static_cast<float>(value);
    return static_cast<double>(rounded) > value ? std::nextafter(rounded, -HUGE_VALF) : rounded;
}

inline float __saturatef(float value) {
    return value > 0 ? (value < 1 ? value : 1.0F) : 0.0F;
}
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): glibc has functions of these
// names
inline float __expf(float value) {
    return std::exp(value);
}
inline float __logf(float value) {
    return std::log(value);
}
inline float __fdividef(float left, float right) {
    return left / right;
}
inline float rsqrtf(float value) {
    return 1.0F / std::sqrt(value);
}
inline double rsqrt(double value) {
    return 1.0 / std::sqrt(value);
}

inline int min(int left, int right) {
    return right < left ? right : left;
}
inline int max(int left, int right) {
    return left < right ? right : left;
}
inline unsigned min(unsigned left, unsigned right) {
    return right < left ? right : left;
}
inline unsigned max(unsigned left, unsigned right) {
    return left < right ? right : left;
}
inline long min(long left, long right) {
    return right < left ? right : left;
}
inline long max(long left, long right) {
    return left < right ? right : left;
}
inline long long min(long long left, long long right) {
    return right < left ? right : left;
}
inline long long max(long long left, long long right) {
    return left < right ? right : left;
}
inline unsigned long min(unsigned long left, unsigned long right) {
    return right < left ? right : left;
}
inline unsigned long max(unsigned long left, unsigned long right) {
    return left < right ? right : left;
}
inline unsigned long long min(unsigned long long left, unsigned long long right) {
    return right < left ? right : left;
}
inline unsigned long long max(unsigned long long left, unsigned long long right) {
    return left < right ? right : left;
}
inline float min(float left, float right) {
    return std::fmin(left, right);
}
inline float max(float left, float right) {
    return std::fmax(left, right);
}
inline double min(double left, double right) {
    return std::fmin(left, right);
}
inline double max(double left, double right) {
    return std::fmax(left, right);
}
