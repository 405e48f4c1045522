// What: fibers: stacks that one operating-system thread switches between, so that each CUDA thread
// of a block can stop in the middle of a kernel and go on later.
//
// Sanitizers are told of every switch: AddressSanitizer follows the stacks, ThreadSanitizer takes
// each fiber for a thread of its own and a switch for no synchronisation at all, which makes it a
// checker of races between CUDA threads (see tsan.hpp). x86-64, System V calling convention.
#pragma once

#include <cstddef>

#include "tsan.hpp"

namespace epibias::cuda::emulation {

struct Fiber {
    void* stack_pointer = nullptr;
    char* stack = nullptr;  // lowest address; null for the host's own stack
    void* asan_fake_stack = nullptr;
    void* tsan_fiber = nullptr;
};

// The memory of all stacks, mapped once and touched as needed; a guard page lies below each.
class StackPool {
  public:
    // Under ThreadSanitizer the stacks of every block are mapped anew, all at once and without
    // guards, and their size is most of the cost.
    static constexpr std::size_t kStackBytes = std::size_t{tsan::kEnabled ? 64U : 256U} << 10;

    // Lowest address of stack `number`, below kMaxThreads.
    char* stack(unsigned number);
    // Makes the sanitizers forget what the first `count` stacks held: ThreadSanitizer the accesses
    // of earlier blocks' threads, AddressSanitizer the frames of threads that were abandoned.
    void renew(unsigned count);

  private:
    char* memory_ = nullptr;
};

// `entry` runs on first switch; it must call begin_fiber() first and must never return.
void prepare_fiber(Fiber& fiber, char* stack, void (*entry)());
void begin_fiber();

// The fiber that the launching thread itself runs on.
void adopt_host(Fiber& host);

enum class Leaving { kForNow, kForGood };
void switch_fiber(Fiber& from, Fiber& to, Leaving leaving = Leaving::kForNow);

}  // namespace epibias::cuda::emulation
