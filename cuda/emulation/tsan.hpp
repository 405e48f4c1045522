// What: ThreadSanitizer as a checker of races between CUDA threads.
//
// The kernels are compiled with -fsanitize=thread, the emulation never: its own reads and writes
// must not be taken for the kernels'. EPIBIAS_EMULATION_TSAN tells it that the program is linked
// with ThreadSanitizer; it then declares each CUDA thread a fiber and says which of CUDA's
// operations order memory: __syncthreads, __syncwarp and the fences do, shuffles and votes do not.
#pragma once

#include <cstddef>

namespace epibias::cuda::emulation::tsan {

#if defined(EPIBIAS_EMULATION_TSAN)
inline constexpr bool kEnabled = true;
#else
inline constexpr bool kEnabled = false;
#endif

// "Whoever acquires this address later sees what I did until now."
void release(void* address);
void acquire(void* address);
// An access by the running thread, as if the kernel's own code had made it.
void wrote(void* address, std::size_t size);
void read(const void* address, std::size_t size);

// ThreadSanitizer's idea of a thread. Making one takes half a millisecond, so a block takes over
// those of the last block but one; between neighbouring blocks, and only between them, races are
// seen. null without ThreadSanitizer.
void* host_fiber();
void* fiber_of_thread(unsigned number, bool odd_block);
// For a thread that was abandoned in the middle of its calls: releases what it did, and is not
// reused.
void discard_fiber(unsigned number, bool odd_block, void* host, void* released);
void switch_to(void* fiber);

}  // namespace epibias::cuda::emulation::tsan
