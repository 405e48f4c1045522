// What: ThreadSanitizer as a checker of races between CUDA threads.
//
// The kernels are compiled with -fsanitize=thread, the emulation never: its own reads and writes
// must not be taken for the kernels'. EPIBIAS_EMULATION_TSAN tells it that the program is linked
// with ThreadSanitizer; it then declares each CUDA thread a fiber and says which of CUDA's
// operations order memory: __syncthreads, __syncwarp and the fences do, shuffles and votes do not.
#pragma once

#include <cstddef>

#if defined(EPIBIAS_EMULATION_TSAN)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void __tsan_write_range(void* address, unsigned long size);
void __tsan_read_range(void* address, unsigned long size);
}
#endif

namespace epibias::cuda::emulation::tsan {

#if defined(EPIBIAS_EMULATION_TSAN)
inline constexpr bool kEnabled = true;
inline void acquire(void* address) {
    __tsan_acquire(address);
}
inline void release(void* address) {
    __tsan_release(address);
}
inline void wrote(void* address, std::size_t size) {
    __tsan_write_range(address, size);
}
inline void read(const void* address, std::size_t size) {
    __tsan_read_range(const_cast<void*>(address), size);
}
#else
inline constexpr bool kEnabled = false;
inline void acquire(void*) {}
inline void release(void*) {}
inline void wrote(void*, std::size_t) {}
inline void read(const void*, std::size_t) {}
#endif

}  // namespace epibias::cuda::emulation::tsan
