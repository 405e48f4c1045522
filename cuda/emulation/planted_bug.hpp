// What: bugs that are put into kernels on purpose, to see that the tests would find them.
//
// In a build with EPIBIAS_PLANTED_BUGS=1 the bug that EPIBIAS_PLANTED_BUG names is there; in every
// other build EPIBIAS_PLANT(…) is the constant `false`. bench/check_planted_bugs.py runs them all.
#pragma once

#include <cstdint>

namespace epibias::cuda::emulation {

// FNV-1a: a kernel compares numbers, because a string function would be instrumented.
constexpr std::uint64_t hash_of_name(const char* name) noexcept {
    std::uint64_t hash = 0xCBF29CE484222325U;
    for (; *name != '\0'; ++name) {
        hash = (hash ^ static_cast<unsigned char>(*name)) * 0x100000001B3U;
    }
    return hash;
}

// Of the environment variable when the program starts; 0 without one.
extern const std::uint64_t kPlantedBug;

consteval std::uint64_t hash_at_compile_time(const char* name) {
    return hash_of_name(name);
}

}  // namespace epibias::cuda::emulation
