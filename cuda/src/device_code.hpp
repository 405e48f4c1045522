// What: the one header that kernels and launchers include: CUDA under nvcc, and under g++ the
// emulation of cuda/emulation, with the same names and meanings.
//
// EPIBIAS_SHARED(Type, name, count);       an array in shared memory, aligned to 16 bytes
// EPIBIAS_DYNAMIC_SHARED(Type, name);      the launch's dynamic shared memory, aligned to 16 bytes
// EPIBIAS_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments…); opts in to more than 48
// KiB EPIBIAS_PLANT("stage.bug")               `false`, unless a test plants that bug Tensor cores,
// asynchronous copies, tf32 and bf16: the inline functions below. There is no wgmma and no TMA
// here: nothing but an sm_90a device can run them, so they could not be proved. nvcc compiles with
// --fmad=false and g++ with -ffp-contract=off: a * b + c rounds twice under both. Where one
// rounding is wanted, say __fmaf_rn or __fma_rn.
#pragma once

#if !defined(__CUDACC__)
#include "emulation.hpp"
#else
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "epibias/cuda/stream.hpp"

#define EPIBIAS_SHARED(Type, name, count) __shared__ __align__(16) Type name[count]

#define EPIBIAS_DYNAMIC_SHARED(Type, name)                                  \
    extern __shared__ __align__(16) unsigned char epibias_dynamic_shared[]; \
    Type* name = reinterpret_cast<Type*>(epibias_dynamic_shared)

#define EPIBIAS_LAUNCH(kernel, grid, block_size, shared_bytes, stream, ...)              \
    (::epibias::cuda::allow_dynamic_shared(#kernel, kernel, shared_bytes),               \
     kernel<<<grid, block_size, shared_bytes, ::epibias::cuda::native_stream(stream)>>>( \
         __VA_ARGS__))

#define EPIBIAS_PLANT(name) false

namespace epibias::cuda {

// ---- host ---------------------------------------------------------------------------------------
inline cudaStream_t native_stream(Stream stream) {
    return reinterpret_cast<cudaStream_t>(stream.handle);
}

inline void check_cuda(const char* what, cudaError_t error) {
    if (error == cudaSuccess) return;
    throw std::runtime_error(std::string("CUDA: ") + what + ": " + cudaGetErrorName(error) + ": " +
                             cudaGetErrorString(error));
}

// What a launch itself reports; a fault of a running kernel comes up at the caller's next
// synchronisation.
inline void check_launch(const char* kernel) {
    check_cuda(kernel, cudaGetLastError());
}

template <typename Kernel>
void allow_dynamic_shared(const char* name, Kernel kernel, std::size_t bytes) {
    constexpr std::size_t kWithoutAsking = std::size_t{48} << 10;
    if (bytes <= kWithoutAsking) return;
    check_cuda(name, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          static_cast<int>(bytes)));
}

inline void fill_async(void* device, int byte, std::size_t bytes, Stream stream) {
    if (bytes == 0) return;
    check_cuda("fill_async", cudaMemsetAsync(device, byte, bytes, native_stream(stream)));
}

// From pinned host memory or from the device; pageable memory makes the call wait.
inline void copy_to_device_async(void* device, const void* source, std::size_t bytes,
                                 Stream stream) {
    if (bytes == 0) return;
    check_cuda("copy_to_device_async",
               cudaMemcpyAsync(device, source, bytes, cudaMemcpyDefault, native_stream(stream)));
}

// ---- device -------------------------------------------------------------------------------------
// c (16 x 8) += a (16 x depth) · b (depth x 8), registers as PTX lays them out
// (cuda/emulation/matrix_operations.hpp spells the layout out).
__device__ __forceinline__ void mma_bf16_m16n8k16(float (&c)[4], const unsigned (&a)[4],
                                                  const unsigned (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void mma_s8_m16n8k32(int (&c)[4], const unsigned (&a)[4],
                                                const unsigned (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
        "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void mma_tf32_m16n8k8(float (&c)[4], const unsigned (&a)[4],
                                                 const unsigned (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// 16 bytes of global memory into shared memory, later; both addresses multiples of 16.
__device__ __forceinline__ void copy_async_16(void* shared, const void* global) {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global)
                 : "memory");
}

// Closes the group of the copies started since the last call.
__device__ __forceinline__ void copy_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most kGroups of this thread's groups are under way.
template <int kGroups>
__device__ __forceinline__ void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

// To the nearest, ties away from zero.
__device__ __forceinline__ unsigned to_tf32(float value) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
}

// To the nearest, ties to even.
__device__ __forceinline__ unsigned short to_bf16(float value) {
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

}  // namespace epibias::cuda
#endif
