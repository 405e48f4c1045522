#include <new>

#include "device_code.hpp"
#include "device_memory.hpp"

namespace epibias::cuda::check {

#if defined(__CUDACC__)

void* allocate(std::size_t n_bytes) {
    void* memory = nullptr;
    check_cuda("cudaMalloc", cudaMalloc(&memory, n_bytes));
    return memory;
}

void release(void* memory) noexcept {
    static_cast<void>(cudaFree(memory));
}

void copy_to_device(void* device, const void* host, std::size_t n_bytes) {
    check_cuda("cudaMemcpy", cudaMemcpy(device, host, n_bytes, cudaMemcpyHostToDevice));
}

void copy_to_host(void* host, const void* device, std::size_t n_bytes) {
    check_cuda("cudaMemcpy", cudaMemcpy(host, device, n_bytes, cudaMemcpyDeviceToHost));
}

#else

constexpr std::align_val_t kAlignment{256};  // cudaMalloc's

void* allocate(std::size_t n_bytes) {
    void* memory = ::operator new(n_bytes, kAlignment);
    std::memset(memory, 0xA5, n_bytes);
    return memory;
}

void release(void* memory) noexcept {
    ::operator delete(memory, kAlignment);
}

void copy_to_device(void* device, const void* host, std::size_t n_bytes) {
    if (n_bytes != 0) std::memcpy(device, host, n_bytes);
}

void copy_to_host(void* host, const void* device, std::size_t n_bytes) {
    if (n_bytes != 0) std::memcpy(host, device, n_bytes);
}

#endif

}  // namespace epibias::cuda::check
