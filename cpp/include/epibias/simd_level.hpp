// What: which instruction set the kernels use; one probe, one override, one place to ask.
//
// The best level that processor and operating system support, unless the environment variable
// EPIBIAS_SIMD (scalar | avx2 | avx512) names another. An unknown or unsupported name throws
// std::invalid_argument at the first use; it is never ignored. Results do not depend on the level.
//
// A stage has a table of kernels per level (cpp/src/kernels/<stage>_<level>.cpp) and picks one by
// active_simd_level() once per call; the x86 tables exist where EPIBIAS_X86_LEVELS is defined.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace epibias {

enum class SimdLevel { kScalar = 0, kAvx2 = 1, kAvx512 = 2 };

// "scalar", "avx2" or "avx512".
[[nodiscard]] std::string_view simd_level_name(SimdLevel level);

// Levels that this build contains and this machine can run, ascending; never empty.
[[nodiscard]] std::vector<SimdLevel> supported_simd_levels();

// The level that kernels use from now on. Throws where EPIBIAS_SIMD is wrong.
[[nodiscard]] SimdLevel active_simd_level();

// For tests and comparisons: choose a level by name. Throws std::invalid_argument, naming the
// supported ones, for any other. Not for use while another thread is inside a kernel.
void set_simd_level(std::string_view name);

}  // namespace epibias
