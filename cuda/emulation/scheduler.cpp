// Runs a launch: block after block, and in a block warp after warp as long as any lane can move.
#include <cfenv>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>

#include "async_copy.hpp"
#include "launch.hpp"
#include "order.hpp"
#include "pages.hpp"
#include "shared_memory.hpp"
#include "thread.hpp"
#include "tsan.hpp"
#include "warp_exchange.hpp"

namespace epibias::cuda::emulation {

Thread* current = nullptr;
Block current_block;
Thread threads[kMaxThreads];

namespace {

// A multiple of 8: ThreadSanitizer keeps one clock per 8 bytes.
constexpr std::size_t kSynchronisationBytes =
    8 * (kFirstWarpSynchronisation + std::size_t{kMaxWarps} * kWarpLanes);
constexpr std::size_t kBlocksOfAddresses = 1 << 16;

std::mutex launch_mutex;
Order order;
StackPool stacks;
Fiber host;
const Launch* launch = nullptr;
int n_only_end_blocks = 0;

std::uint64_t barrier_number = 0;
unsigned n_at_barrier = 0;
Place barrier_place;

char failure[1024];
bool has_failed = false;

char* synchronisation_addresses = nullptr;
std::size_t blocks_of_addresses_used = kBlocksOfAddresses;
char order_of_fences[8];
char order_of_launches[8];
char order_of_exits[8];
bool odd_block = false;

void begin_synchronisation_addresses() {
    if (!tsan::kEnabled) return;
    constexpr std::size_t kBytes = kBlocksOfAddresses * kSynchronisationBytes;
    if (++blocks_of_addresses_used < kBlocksOfAddresses) {
        synchronisation_addresses += kSynchronisationBytes;
        return;
    }
    static char* memory = nullptr;
    if (memory != nullptr) unmap_pages(memory, kBytes);
    memory = map_pages(kBytes);
    synchronisation_addresses = memory;
    blocks_of_addresses_used = 0;
}

void leave_to_host(Leaving leaving) {
    Thread& thread = *current;
    switch_fiber(thread.fiber, host, leaving);
}

// The first and last function on every fiber's stack.
void run_thread() {
    begin_fiber();
    tsan::acquire(order_of_launches);
    launch->body(launch->context);
    check_no_async_copy_pending();
    if (n_at_barrier != 0) {
        fail(barrier_place, "__syncthreads waits for thread %u, which has exited", current->number);
    }
    tsan::release(order_of_exits);
    current->exited = true;
    --current_block.n_alive;
    leave_to_host(Leaving::kForGood);
}

bool can_run(const Thread& thread) {
    if (thread.exited) return false;
    switch (thread.waiting) {
        case Waiting::kAtBlockBarrier:
            return thread.barrier != barrier_number;
        case Waiting::kInWarpOperation:
            return thread.collective->arrived == thread.collective->mask;
        case Waiting::kForNothing:
            break;
    }
    return true;
}

bool run_lanes_once(unsigned warp) {
    const unsigned first = warp * kWarpLanes;
    const unsigned n_lanes = std::min(kWarpLanes, current_block.n_threads - first);
    bool moved = false;
    for (const unsigned lane : order.lanes(n_lanes)) {
        Thread& thread = threads[first + lane];
        if (!can_run(thread)) continue;
        moved = true;
        current = &thread;
        switch_fiber(host, thread.fiber);
        if (has_failed) return true;
    }
    return moved;
}

bool run_warps_once() {
    bool moved = false;
    for (const unsigned warp :
         order.warps((current_block.n_threads + kWarpLanes - 1) / kWarpLanes)) {
        for (unsigned rounds = order.rounds_of_a_warp(); rounds != 0 && run_lanes_once(warp);
             --rounds) {
            moved = true;
            if (has_failed) return true;
        }
    }
    return moved;
}

void report_deadlock() {
    std::string text = "deadlock:";
    int n_shown = 0;
    for (unsigned i = 0; i < current_block.n_threads && n_shown < 4; ++i) {
        const Thread& thread = threads[i];
        if (thread.exited) continue;
        ++n_shown;
        const bool at_barrier = thread.waiting == Waiting::kAtBlockBarrier;
        text += " thread " + std::to_string(i) + " waits at " + file_name(thread.place) + ":" +
                std::to_string(thread.place.line()) + " (" +
                (at_barrier ? "__syncthreads" : operation_name(thread.collective->operation)) +
                ");";
    }
    std::snprintf(failure, sizeof(failure), "%s", text.c_str());
    has_failed = true;
}

void begin_block(std::int64_t number) {
    const dim3& grid = current_block.grid;
    const dim3& size = current_block.size;
    const auto linear = static_cast<std::uint64_t>(number);
    current_block.index = {static_cast<unsigned>(linear % grid.x),
                           static_cast<unsigned>(linear / grid.x % grid.y),
                           static_cast<unsigned>(linear / grid.x / grid.y)};
    current_block.n_alive = current_block.n_threads;
    barrier_number = 0;
    n_at_barrier = 0;
    begin_shared_memory(launch->shared_bytes);
    begin_warp_exchanges((current_block.n_threads + kWarpLanes - 1) / kWarpLanes);
    begin_synchronisation_addresses();
    if (tsan::kEnabled) stacks.renew(current_block.n_threads);
    for (unsigned i = 0; i < current_block.n_threads; ++i) {
        Thread& thread = threads[i];
        thread.index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
        thread.number = i;
        thread.waiting = Waiting::kForNothing;
        thread.exited = false;
        thread.collective = nullptr;
        thread.copies.n_pending = 0;
        thread.copies.open_group = 0;
        prepare_fiber(thread.fiber, stacks.stack(i), run_thread);
        thread.fiber.tsan_fiber = tsan::fiber_of_thread(i, odd_block);
    }
}

void end_block() {
    for (unsigned i = 0; tsan::kEnabled && has_failed && i < current_block.n_threads; ++i) {
        if (!threads[i].exited) {
            tsan::discard_fiber(i, odd_block, host.tsan_fiber, order_of_exits);
        }
    }
    odd_block = !odd_block;
    const char* overrun = end_shared_memory();
    if (overrun != nullptr && !has_failed) {
        std::snprintf(failure, sizeof(failure), "shared array %s was written past its end",
                      overrun);
        has_failed = true;
    }
}

void run_block(std::int64_t number) {
    begin_block(number);
    while (current_block.n_alive != 0 && !has_failed) {
        if (!run_warps_once()) report_deadlock();
    }
    end_block();
}

void check_launch_limits(const Launch& asked) {
    const auto [name, grid, size, shared_bytes, body, context] = asked;
    const std::uint64_t n_threads = std::uint64_t{size.x} * size.y * size.z;
    const bool good_block = n_threads != 0 && n_threads <= kMaxThreads && size.z <= kMaxBlockDepth;
    const bool good_grid = grid.x != 0 && grid.y != 0 && grid.z != 0 && grid.x <= kMaxGridWidth &&
                           grid.y <= kMaxGridHeight && grid.z <= kMaxGridHeight;
    if (good_block && good_grid && shared_bytes <= kMaxSharedBytes) return;
    char text[256];
    std::snprintf(text, sizeof(text),
                  "kernel %s: invalid launch: grid %u x %u x %u, block %u x %u x %u, %zu bytes of "
                  "dynamic shared memory",
                  name, grid.x, grid.y, grid.z, size.x, size.y, size.z, shared_bytes);
    throw std::invalid_argument(text);
}

}  // namespace

void block_barrier(const Place& place) {
    if (n_at_barrier == 0) {
        barrier_place = place;
    } else if (barrier_place.line() != place.line() || barrier_place.column() != place.column() ||
               std::strcmp(barrier_place.file_name(), place.file_name()) != 0) {
        fail(place, "divergent __syncthreads: other threads wait at %s:%u",
             file_name(barrier_place), static_cast<unsigned>(barrier_place.line()));
    }
    if (current_block.n_alive != current_block.n_threads) {
        fail(place, "__syncthreads after %u threads of the block have exited",
             current_block.n_threads - current_block.n_alive);
    }
    void* order_of_barrier =
        synchronisation_address(static_cast<unsigned>(barrier_number % kBarrierSynchronisations));
    tsan::release(order_of_barrier);
    if (++n_at_barrier == current_block.n_alive) {
        n_at_barrier = 0;
        ++barrier_number;
        maybe_switch();
    } else {
        current->barrier = barrier_number;
        wait_for(Waiting::kAtBlockBarrier, place);
    }
    tsan::acquire(order_of_barrier);
}

void wait_for(Waiting what, const Place& place) {
    Thread& thread = *current;
    thread.waiting = what;
    thread.place = place;
    leave_to_host(Leaving::kForNow);
    thread.waiting = Waiting::kForNothing;
}

void maybe_switch() {
    if (order.switches_here()) leave_to_host(Leaving::kForNow);
}

void fail(const Place& place, const char* format, ...) {
    if (!has_failed) {
        const int used = std::snprintf(failure, sizeof(failure), "%s:%u: ", file_name(place),
                                       static_cast<unsigned>(place.line()));
        std::va_list values;
        va_start(values, format);
        std::vsnprintf(failure + used, sizeof(failure) - static_cast<std::size_t>(used), format,
                       values);
        va_end(values);
        has_failed = true;
    }
    for (;;) leave_to_host(Leaving::kForNow);
}

void device_fence() {
    tsan::release(order_of_fences);
    tsan::acquire(order_of_fences);
}

void block_fence() {
    tsan::release(synchronisation_address(kFenceSynchronisation));
    tsan::acquire(synchronisation_address(kFenceSynchronisation));
}

void* synchronisation_address(unsigned number) {
    return tsan::kEnabled ? synchronisation_addresses + std::size_t{number} * 8 : nullptr;
}

void run_launch(const Launch& asked) {
    check_launch_limits(asked);
    const std::scoped_lock lock(launch_mutex);
    std::fenv_t environment;
    std::fegetenv(&environment);
    std::fesetenv(FE_DFL_ENV);
    order = Order::from_environment();
    launch = &asked;
    current_block.grid = asked.grid;
    current_block.size = asked.block;
    current_block.n_threads = asked.block.x * asked.block.y * asked.block.z;
    has_failed = false;
    adopt_host(host);
    tsan::release(order_of_launches);
    const auto n_blocks = static_cast<std::int64_t>(asked.grid.x) * asked.grid.y * asked.grid.z;
    for (const std::int64_t number : order.blocks(n_blocks, n_only_end_blocks != 0)) {
        run_block(number);
        if (has_failed) break;
    }
    tsan::acquire(order_of_exits);
    current = nullptr;
    launch = nullptr;
    std::fesetenv(&environment);
    if (!has_failed) return;
    stacks.renew(current_block.n_threads);
    throw Misuse(std::string("kernel ") + asked.name + ": " + failure);
}

OnlyEndBlocks::OnlyEndBlocks() {
    ++n_only_end_blocks;
}
OnlyEndBlocks::~OnlyEndBlocks() {
    --n_only_end_blocks;
}

}  // namespace epibias::cuda::emulation
