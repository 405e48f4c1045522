// What: the numbers that every stage agrees on: the canonical float64 dot product of float32 rows,
// inverse norms made from it, and the floating-point environment that they are computed in.
//
// Formula: element i is added into accumulator i mod 32; the 32 accumulators are summed by halving
//   (16, 8, 4, 2, 1). inverse_norm(x) = 1 / sqrt(canonical_dot(x, x)).
// float32 in -> float64 sums -> float64 out. A product of two float32 is exact in float64, so fused
//   and separate rounding agree and every SIMD level and CUDA give the same bits. No overflow: the
//   square of the largest float32 is 1.2e77, the square of the smallest denormal 2e-90.
// Declared here, defined per SIMD level (cpp/src/kernels/): sources that are compiled once per
// level
//   must not contain inline functions of headers, because the linker may keep the copy of the
//   highest level for every caller.
#pragma once

#include <cfenv>
#include <cstdint>
#include <span>
#include <string>

#include "epibias/matrix_view.hpp"

#if defined(__CUDACC__)
#define EPIBIAS_HOST_DEVICE __host__ __device__
#else
#define EPIBIAS_HOST_DEVICE
#endif

namespace epibias {

// Accumulators of the canonical dot product.
inline constexpr int kCanonicalLanes = 32;

// Canonical dot product at the active SIMD level. Pointers aligned for float.
[[nodiscard]] double canonical_dot(const float* left, const float* right, std::int64_t dim);

// 1 / norm of a row; infinite for a zero row and NaN or 0 for a non-finite one: check rows first.
[[nodiscard]] double inverse_norm(const float* row, std::int64_t dim);

// inverse_norm of every row, [n_rows], on all threads. Throws std::invalid_argument, naming
// `argument` and the lowest row at fault, where a row is not finite or has norm zero.
void inverse_norms(MatrixView<const float> rows, const std::string& argument,
                   std::span<double> result);

// What is wrong with a row whose canonical_dot with itself is not a positive finite number.
[[noreturn]] void refuse_row(const std::string& argument, const float* row, std::int64_t dim,
                             std::int64_t row_number);

// SplitMix64's finaliser: random numbers that are a function of a counter (Steele, Lea, Flood 2014,
// doi:10.1145/2660193.2660195).
[[nodiscard]] EPIBIAS_HOST_DEVICE constexpr std::uint64_t mix64(std::uint64_t value) {
    value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31U);
}

// Round-to-nearest, denormals kept, for as long as the object lives. A library loaded by the same
// process may have set flush-to-zero for its threads (any shared object linked with -ffast-math
// does), and denormal rows would then change their norm.
class DefaultFloatEnvironment {
  public:
    DefaultFloatEnvironment() {
        std::fegetenv(&saved_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~DefaultFloatEnvironment() { std::fesetenv(&saved_); }
    DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
    DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

  private:
    std::fenv_t saved_{};
};

}  // namespace epibias
