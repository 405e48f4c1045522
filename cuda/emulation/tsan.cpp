#include "tsan.hpp"

#include "limits.hpp"

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

namespace epibias::cuda::emulation::tsan {
namespace {

void* fibers[2][kMaxThreads];

}  // namespace

void acquire(void* address) {
    __tsan_acquire(address);
}
void release(void* address) {
    __tsan_release(address);
}
void wrote(void* address, std::size_t size) {
    __tsan_write_range(address, size);
}
void read(const void* address, std::size_t size) {
    __tsan_read_range(const_cast<void*>(address), size);
}

void* host_fiber() {
    return __tsan_get_current_fiber();
}

void* fiber_of_thread(unsigned number, bool odd_block) {
    void*& fiber = fibers[odd_block ? 1 : 0][number];
    if (fiber == nullptr) fiber = __tsan_create_fiber(0);
    return fiber;
}

void switch_to(void* fiber) {
    constexpr unsigned kNoSynchronisation = 1;
    __tsan_switch_to_fiber(fiber, kNoSynchronisation);
}

void discard_fiber(unsigned number, bool odd_block, void* host, void* released) {
    void*& fiber = fibers[odd_block ? 1 : 0][number];
    switch_to(fiber);
    release(released);
    switch_to(host);
    __tsan_destroy_fiber(fiber);
    fiber = nullptr;
}

}  // namespace epibias::cuda::emulation::tsan

#else

namespace epibias::cuda::emulation::tsan {

void acquire(void* /*address*/) {}
void release(void* /*address*/) {}
void wrote(void* /*address*/, std::size_t /*size*/) {}
void read(const void* /*address*/, std::size_t /*size*/) {}
void* host_fiber() {
    return nullptr;
}
void* fiber_of_thread(unsigned /*number*/, bool /*odd_block*/) {
    return nullptr;
}
void switch_to(void* /*fiber*/) {}
void discard_fiber(unsigned /*number*/, bool /*odd_block*/, void* /*host*/, void* /*released*/) {}

}  // namespace epibias::cuda::emulation::tsan

#endif
