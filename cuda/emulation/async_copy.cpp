#include "async_copy.hpp"

#include <cstdint>

#include "raw_memory.hpp"
#include "shared_memory.hpp"
#include "thread.hpp"
#include "tsan.hpp"

namespace epibias::cuda::emulation {
namespace {

struct Copy {
    void* destination;
    const void* source;
    std::size_t bytes;
    int group;
    Place place;
};

constexpr int kMaxPending = 256;  // of a thread; tiles of real kernels take 2 to 16

// Apart from Thread, which is looked at all the time and should stay small.
Copy pending_copies[kMaxThreads][kMaxPending];

Copy* pending_of_current() {
    return pending_copies[current->number];
}

}  // namespace

void start_async_copy(void* shared, const void* global, std::size_t bytes, const Place& place) {
    AsyncCopies& copies = current->copies;
    const auto addresses =
        reinterpret_cast<std::uintptr_t>(shared) | reinterpret_cast<std::uintptr_t>(global);
    if (addresses % bytes != 0) {
        fail(place, "asynchronous copy at an address that is no multiple of %zu bytes", bytes);
    }
    if (!is_shared(shared, bytes)) {
        fail(place, "asynchronous copy to an address outside shared memory");
    }
    if (is_shared(global, 1)) fail(place, "asynchronous copy out of shared memory");
    if (copies.n_pending == kMaxPending) {
        fail(place, "more than %d asynchronous copies under way in one thread", kMaxPending);
    }
    // Both ends are touched now, so that a sanitizer's report names the place of the copy.
    char probe[64];
    copy_checked(probe, global, bytes);
    fill_checked(shared, kPoison, bytes);
    tsan::read(global, bytes);
    tsan::wrote(shared, bytes);
    Copy& copy = pending_of_current()[copies.n_pending++];
    copy.destination = shared;
    copy.source = global;
    copy.bytes = bytes;
    copy.group = copies.open_group;
    copy.place = place;
}

void commit_async_copies() {
    ++current->copies.open_group;
}

void wait_async_copies(int n_groups, const Place& place) {
    if (n_groups < 0) fail(place, "a wait for %d groups of copies", n_groups);
    AsyncCopies& copies = current->copies;
    Copy* pending = pending_of_current();
    int n_done = 0;
    while (n_done < copies.n_pending && pending[n_done].group < copies.open_group - n_groups) {
        const Copy& copy = pending[n_done++];
        copy_checked(copy.destination, copy.source, copy.bytes);
        tsan::read(copy.source, copy.bytes);
        tsan::wrote(copy.destination, copy.bytes);
    }
    for (int i = n_done; i < copies.n_pending; ++i) {
        copy_raw(&pending[i - n_done], &pending[i], sizeof(Copy));
    }
    copies.n_pending -= n_done;
}

void check_no_async_copy_pending() {
    if (current->copies.n_pending == 0) return;
    fail(pending_of_current()[0].place, "thread %u exits while this asynchronous copy is under way",
         current->number);
}

}  // namespace epibias::cuda::emulation
