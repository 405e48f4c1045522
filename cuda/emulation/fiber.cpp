#include "fiber.hpp"

#include <sys/mman.h>

#include <cstdint>

#include "limits.hpp"
#include "pages.hpp"
#include "tsan.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#error "the emulation switches stacks with x86-64 instructions"
#endif

// Saves the registers that a call preserves, exchanges the stacks, restores them.
extern "C" void epibias_emulation_switch(void** saved_stack_pointer, void* stack_pointer);
asm(R"(.text
.globl epibias_emulation_switch
.hidden epibias_emulation_switch
.type epibias_emulation_switch, @function
epibias_emulation_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
.size epibias_emulation_switch, .-epibias_emulation_switch
)");

namespace epibias::cuda::emulation {
namespace {

constexpr std::size_t kGuardBytes = tsan::kEnabled ? 0 : 4096;
constexpr std::size_t kStrideBytes = StackPool::kStackBytes + kGuardBytes;
constexpr int kSavedRegisters = 6;

#if defined(__SANITIZE_ADDRESS__)
// Bounds of the stack that the host switched from; AddressSanitizer needs them for the way back.
const void* host_stack_bottom = nullptr;
std::size_t host_stack_bytes = 0;
#endif

}  // namespace

char* StackPool::stack(unsigned number) {
    if (memory_ == nullptr) {
        memory_ = map_pages(kMaxThreads * kStrideBytes);
        for (std::size_t i = 0; kGuardBytes != 0 && i < kMaxThreads; ++i) {
            mprotect(memory_ + i * kStrideBytes, kGuardBytes, PROT_NONE);
        }
    }
    return memory_ + number * kStrideBytes + kGuardBytes;
}

void StackPool::renew([[maybe_unused]] unsigned count) {
    if (tsan::kEnabled) {
        char* const first = stack(0);
        unmap_pages(first, count * kStrideBytes);
        map_pages(count * kStrideBytes, first);
    }
#if defined(__SANITIZE_ADDRESS__)
    for (unsigned i = 0; i < count; ++i) __asan_unpoison_memory_region(stack(i), kStackBytes);
#endif
}

void prepare_fiber(Fiber& fiber, char* stack, void (*entry)()) {
    fiber.stack = stack;
    fiber.asan_fake_stack = nullptr;
    // The first switch pops the registers and returns into `entry`; the null above it ends
    // backtraces, and its place keeps the stack aligned as a call would have left it.
    void** top = reinterpret_cast<void**>(stack + StackPool::kStackBytes);
    top[-1] = nullptr;
    top[-2] = reinterpret_cast<void*>(entry);
    fiber.stack_pointer = static_cast<void*>(top - 2 - kSavedRegisters);
}

void begin_fiber() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &host_stack_bottom, &host_stack_bytes);
#endif
}

void adopt_host(Fiber& host) {
    host = Fiber{};
    host.tsan_fiber = tsan::host_fiber();
}

void switch_fiber(Fiber& from, Fiber& to, [[maybe_unused]] Leaving leaving) {
#if defined(__SANITIZE_ADDRESS__)
    const bool to_host = to.stack == nullptr;
    __sanitizer_start_switch_fiber(leaving == Leaving::kForGood ? nullptr : &from.asan_fake_stack,
                                   to_host ? host_stack_bottom : to.stack,
                                   to_host ? host_stack_bytes : StackPool::kStackBytes);
#endif
    tsan::switch_to(to.tsan_fiber);
    epibias_emulation_switch(&from.stack_pointer, to.stack_pointer);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(from.asan_fake_stack, nullptr, nullptr);
#endif
}

}  // namespace epibias::cuda::emulation
