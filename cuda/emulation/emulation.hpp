// What: CUDA C++ for g++: what a kernel and its launcher need, under CUDA's names, running on the
// CPU. Never included directly: kernels include device_code.hpp.
//
// For tests only; no release contains it. Every CUDA thread of a block is a fiber, so kernels stop
// at their barriers as on a device, and misuse is reported with the place in the source. See
// launch.hpp for what is not emulated.
#pragma once

#include <cstddef>
#include <cstring>

#include "atomics.hpp"
#include "epibias/cuda/stream.hpp"
#include "intrinsics.hpp"
#include "launch.hpp"
#include "matrix_operations.hpp"
#include "planted_bug.hpp"
#include "shared_memory.hpp"
#include "warp_operations.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

#define threadIdx (::epibias::cuda::emulation::current->index)
#define blockIdx (::epibias::cuda::emulation::current_block.index)
#define blockDim (::epibias::cuda::emulation::current_block.size)
#define gridDim (::epibias::cuda::emulation::current_block.grid)
inline constexpr int warpSize = 32;

// NOLINTBEGIN(bugprone-macro-parentheses): a type and a name take none
// The address of the static stands for the declaration; each instance of a template has its own.
#define EPIBIAS_SHARED(Type, name, count)                                                        \
    static const char name##_declaration = 0;                                                    \
    Type(&name)[count] = *static_cast<Type(*)[count]>(::epibias::cuda::emulation::static_shared( \
        &name##_declaration, sizeof(Type) * (count), #name))

#define EPIBIAS_DYNAMIC_SHARED(Type, name) \
    Type* name = static_cast<Type*>(::epibias::cuda::emulation::dynamic_shared())
// NOLINTEND(bugprone-macro-parentheses)

#define EPIBIAS_LAUNCH(kernel, grid, block_size, shared_bytes, stream, ...)             \
    (static_cast<void>(stream),                                                         \
     ::epibias::cuda::emulation::launch_kernel(#kernel, grid, block_size, shared_bytes, \
                                               [=](auto... kernel_arguments) {          \
                                                   kernel(kernel_arguments...);         \
                                               } __VA_OPT__(, ) __VA_ARGS__))

#if EPIBIAS_PLANTED_BUGS
#define EPIBIAS_PLANT(name)                     \
    (::epibias::cuda::emulation::kPlantedBug == \
     ::epibias::cuda::emulation::hash_at_compile_time(name))
#else
#define EPIBIAS_PLANT(name) false
#endif

namespace epibias::cuda {

// 16 bytes of global memory into shared memory, later; both addresses multiples of 16.
inline void copy_async_16(void* shared, const void* global,
                          emulation::Place place = emulation::Place::current()) {
    emulation::start_async_copy(shared, global, 16, place);
}

// Closes the group of the copies started since the last call.
inline void copy_async_commit() {
    emulation::commit_async_copies();
}

// Waits until at most kGroups of this thread's groups are under way.
template <int kGroups>
void copy_async_wait(emulation::Place place = emulation::Place::current()) {
    emulation::wait_async_copies(kGroups, place);
}

inline void check_launch(const char* /*kernel*/) {}  // a launch that fails has thrown already

inline void fill_async(void* device, int byte, std::size_t bytes, Stream /*stream*/) {
    if (bytes != 0) std::memset(device, byte, bytes);
}

inline void copy_to_device_async(void* device, const void* host, std::size_t bytes,
                                 Stream /*stream*/) {
    if (bytes != 0) std::memcpy(device, host, bytes);
}

}  // namespace epibias::cuda
