// What: memory written by the emulation itself.
//
// ThreadSanitizer replaces memcpy and memset even in sources that are compiled without it, and
// would take the emulation's writes for the kernel's; string instructions escape it.
// AddressSanitizer's versions are wanted where an address comes from the kernel, because they check
// it.
#pragma once

#include <cstddef>
#include <cstring>

namespace epibias::cuda::emulation {

// Float and double NaN, integer -1.
inline constexpr int kPoison = 0xFF;

inline void copy_raw(void* destination, const void* source, std::size_t bytes) {
    asm volatile("rep movsb" : "+D"(destination), "+S"(source), "+c"(bytes)::"memory");
}

inline void fill_raw(void* destination, int byte, std::size_t bytes) {
    asm volatile("rep stosb" : "+D"(destination), "+c"(bytes) : "a"(byte) : "memory");
}

inline void copy_checked(void* destination, const void* source, std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    std::memcpy(destination, source, bytes);
#else
    copy_raw(destination, source, bytes);
#endif
}

inline void fill_checked(void* destination, int byte, std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    std::memset(destination, byte, bytes);
#else
    fill_raw(destination, byte, bytes);
#endif
}

}  // namespace epibias::cuda::emulation
