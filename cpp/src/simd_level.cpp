#include "epibias/simd_level.hpp"

#include <atomic>
#include <cstdlib>
#include <stdexcept>

namespace epibias {

namespace {

constexpr int kNotChosen = -1;
std::atomic<int> chosen_level{kNotChosen};

std::vector<SimdLevel> probe() {
    std::vector<SimdLevel> levels{SimdLevel::kScalar};
#if defined(EPIBIAS_X86_LEVELS)
    // __builtin_cpu_supports also asks the operating system whether it saves the registers
    // (XGETBV).
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2) levels.push_back(SimdLevel::kAvx2);
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        levels.push_back(SimdLevel::kAvx512);
    }
#endif
    return levels;
}

// The probe cannot change while the process lives.
const std::vector<SimdLevel>& supported() {
    static const std::vector<SimdLevel> levels = probe();
    return levels;
}

SimdLevel level_from_name(const std::string& source, std::string_view name) {
    std::string names;
    for (const SimdLevel level : supported()) {
        if (simd_level_name(level) == name) return level;
        if (!names.empty()) names += ", ";
        names += simd_level_name(level);
    }
    throw std::invalid_argument(source + ": expected a SIMD level of this machine (" + names +
                                "), got '" + std::string(name) + "'");
}

}  // namespace

std::string_view simd_level_name(SimdLevel level) {
    switch (level) {
        case SimdLevel::kAvx512:
            return "avx512";
        case SimdLevel::kAvx2:
            return "avx2";
        case SimdLevel::kScalar:
            break;
    }
    return "scalar";
}

std::vector<SimdLevel> supported_simd_levels() {
    return supported();
}

SimdLevel active_simd_level() {
    const int chosen = chosen_level.load(std::memory_order_relaxed);
    if (chosen != kNotChosen) return static_cast<SimdLevel>(chosen);
    const char* wanted = std::getenv("EPIBIAS_SIMD");
    const SimdLevel level = wanted != nullptr && *wanted != '\0'
                                ? level_from_name("EPIBIAS_SIMD", wanted)
                                : supported().back();
    // Another thread may have chosen meanwhile (set_simd_level): its choice stands.
    int none = kNotChosen;
    chosen_level.compare_exchange_strong(none, static_cast<int>(level));
    return static_cast<SimdLevel>(chosen_level.load());
}

void set_simd_level(std::string_view name) {
    chosen_level.store(static_cast<int>(level_from_name("level", name)));
}

}  // namespace epibias
