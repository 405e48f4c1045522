// What: the CUDA thread that runs now, the block that it belongs to, and how it stops: to wait, to
// let others run, or for good because the kernel misused CUDA.
//
// One block runs at a time, its threads as fibers of the launching thread; a mutex keeps launches
// apart. What is declared here is read by kernels, therefore plain data.
#pragma once

#include <cstdint>

#include "async_copy.hpp"
#include "fiber.hpp"
#include "limits.hpp"
#include "place.hpp"
#include "vector_types.hpp"

namespace epibias::cuda::emulation {

struct Collective;  // warp_exchange.hpp

enum class Waiting { kForNothing, kAtBlockBarrier, kInWarpOperation };

struct Thread {
    uint3 index{};        // threadIdx
    unsigned number = 0;  // in the block: x runs fastest, as in CUDA
    Fiber fiber;
    Waiting waiting = Waiting::kForNothing;
    bool exited = false;
    std::uint64_t barrier = 0;  // the barrier waited at, by number
    Collective* collective = nullptr;
    Place place;  // of the operation waited in
    AsyncCopies copies;

    [[nodiscard]] unsigned lane() const { return number % kWarpLanes; }
    [[nodiscard]] unsigned warp() const { return number / kWarpLanes; }
};

struct Block {
    uint3 index{};  // blockIdx
    dim3 size;      // blockDim
    dim3 grid;      // gridDim
    unsigned n_threads = 0;
    unsigned n_alive = 0;
};

extern Thread* current;
extern Block current_block;
extern Thread threads[kMaxThreads];

// __syncthreads: every thread of the block, at one place in the source, none exited.
void block_barrier(const Place& place);

// Gives the processor back; the thread goes on when what it waits for has come.
void wait_for(Waiting what, const Place& place);

// A point where another thread may go first; only the random order ever takes it.
void maybe_switch();

// Ends the launch with "kernel: file:line: message". Formats into a fixed buffer: the stack of a
// thread that failed is abandoned, and what it held on the heap would leak.
[[noreturn]] void fail(const Place& place, const char* format, ...)
    __attribute__((format(printf, 2, 3)));

// __threadfence and __threadfence_block.
void device_fence();
void block_fence();

// An address that stands for one synchronisation of this block, fresh for each block: with one
// address for all, ThreadSanitizer would think that a block's barrier orders it after earlier
// blocks. __syncthreads has two, in turns: a thread that runs ahead releases the next barrier
// before others have acquired this one. Then come the block's fence and the warps' __syncwarp.
inline constexpr unsigned kBarrierSynchronisations = 2;
inline constexpr unsigned kFenceSynchronisation = kBarrierSynchronisations;
inline constexpr unsigned kFirstWarpSynchronisation = kFenceSynchronisation + 1;
void* synchronisation_address(unsigned number);

}  // namespace epibias::cuda::emulation
