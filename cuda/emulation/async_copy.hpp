// What: copies from global to shared memory that go on while the thread computes (cp.async).
//
// A copy is done as late as the kernel's waits allow, and its destination is poisoned until then:
// a wait for too few groups, or a read before the wait, shows in every run.
#pragma once

#include <cstddef>

#include "place.hpp"

namespace epibias::cuda::emulation {

struct AsyncCopies {  // of one thread
    int n_pending = 0;
    int open_group = 0;
};

void start_async_copy(void* shared, const void* global, std::size_t bytes, const Place& place);
void commit_async_copies();
// Waits until at most `n_groups` committed groups are unfinished.
void wait_async_copies(int n_groups, const Place& place);
// A thread must not exit while copies are under way: they would write into freed shared memory.
void check_no_async_copy_pending();

}  // namespace epibias::cuda::emulation
