// The emulation reports every kind of misuse with its place: a kernel that is wrong on a device
// must not pass here.
#include <doctest/doctest.h>

#include <vector>

#include "emulation_cases.hpp"

namespace epibias::cuda {
namespace {

__global__ void divergent_barrier() {
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        __syncthreads();
    }
}

__global__ void barrier_after_exit(unsigned first_to_exit) {
    if (threadIdx.x >= first_to_exit) return;
    __syncthreads();
}

__global__ void shuffle_without_exited_lanes(float* result) {
    if (threadIdx.x >= 16) return;
    result[threadIdx.x] = __shfl_sync(0xFFFFFFFFU, 1.0F, 0);
}

__global__ void vote_with_mask(unsigned mask) {
    __ballot_sync(mask, 1);
}

__global__ void shuffle_meets_vote() {
    if (threadIdx.x < 16) {
        __shfl_sync(0xFFFFFFFFU, 1, 0);
    } else {
        __ballot_sync(0xFFFFFFFFU, 1);
    }
}

__global__ void shuffle_of_two_sizes() {
    if (threadIdx.x < 16) {
        __shfl_sync(0xFFFFFFFFU, 1, 0);
    } else {
        __shfl_sync(0xFFFFFFFFU, 1.0, 0);
    }
}

__global__ void matrix_product_in_two_places() {
    float c[4] = {};
    const unsigned a[4] = {};
    const unsigned b[2] = {};
    if (threadIdx.x < 16) {
        mma_bf16_m16n8k16(c, a, b);
    } else {
        mma_bf16_m16n8k16(c, a, b);
    }
}

// Lanes of one warp wait for each other in two different ways.
__global__ void deadlock() {
    if (threadIdx.x == 0) __syncwarp();
    __syncthreads();
}

__global__ void copy_from(const float* global, int offset_of_shared, int offset_of_global) {
    EPIBIAS_SHARED(float, tile, 8);
    copy_async_16(tile + offset_of_shared, global + offset_of_global);
    copy_async_commit();
    copy_async_wait<0>();
}

__global__ void copy_into_global(float* global) {
    copy_async_16(global, global + 4);
}

__global__ void copy_out_of_shared() {
    EPIBIAS_SHARED(float, tile, 8);
    copy_async_16(tile, tile + 4);
}

__global__ void copy_without_wait(const float* global) {
    EPIBIAS_SHARED(float, tile, 4);
    copy_async_16(tile, global);
    copy_async_commit();
}

__global__ void too_many_copies(const float* global) {
    EPIBIAS_SHARED(float, tile, 4);
    for (int i = 0; i < 257; ++i) copy_async_16(tile, global);
}

__global__ void needs_dynamic_shared(int* result) {
    EPIBIAS_DYNAMIC_SHARED(int, values);
    values[threadIdx.x] = static_cast<int>(threadIdx.x);
    __syncthreads();
    result[threadIdx.x] = values[blockDim.x - 1 - threadIdx.x];
}

__global__ void too_much_shared() {
    EPIBIAS_SHARED(float, large, 12 * 1024 + 1);
    large[0] = 0;
}

__global__ void write_behind_shared(unsigned n_values) {
    EPIBIAS_SHARED(float, values, 33);
    float* first = values;  // not by the array's own type: its bound would be known
    for (unsigned i = threadIdx.x; i < n_values; i += blockDim.x) first[i] = 1.0F;
}

[[maybe_unused]] __global__ void append_without_atomic(unsigned* count, bool atomic) {
    if (atomic) {
        atomicAdd(count, 1U);
    } else {
        *count += 1;
    }
}

[[maybe_unused]] __global__ void neighbours_through_shared(float* result, bool with_barrier) {
    EPIBIAS_SHARED(float, values, 64);
    values[threadIdx.x] = 1.0F;
    if (with_barrier) __syncthreads();
    result[threadIdx.x] = values[threadIdx.x ^ 1U];
}

// The first thread is at the second barrier before the others have left the first.
[[maybe_unused]] __global__ void race_between_barriers(float* result) {
    EPIBIAS_SHARED(float, value, 1);
    __syncthreads();
    value[0] = 1.0F;
    __syncthreads();
    result[threadIdx.x] = value[0];
}

[[maybe_unused]] __global__ void lanes_through_shared(float* result, bool with_syncwarp) {
    EPIBIAS_SHARED(float, values, 32);
    values[threadIdx.x] = 1.0F;
    // A shuffle makes lanes meet, but orders no memory.
    const float zero = __shfl_sync(0xFFFFFFFFU, 0.0F, 0);
    if (with_syncwarp) __syncwarp();
    result[threadIdx.x] = values[threadIdx.x ^ 1U] + zero;
}

// The last block adds up what the others wrote: a fence before the ticket, a fence after it.
[[maybe_unused]] __global__ void last_block_adds(float* parts, unsigned* ticket, float* sum,
                                                 bool with_fence) {
    if (threadIdx.x != 0) return;
    parts[blockIdx.x] = 1.0F;
    if (with_fence) __threadfence();
    if (atomicAdd(ticket, 1U) != gridDim.x - 1) return;
    if (with_fence) __threadfence();
    for (unsigned i = 0; i < gridDim.x; ++i) *sum += parts[i];
}

const Stream kStream{};
float results[64];
unsigned counter = 0;
float* const kResults = results;
unsigned* const kCounter = &counter;

const test::ChildCase kWriteInside("write inside", [] {
    EPIBIAS_LAUNCH(write_behind_shared, 2, 16, 0, kStream, 33U);
});
const test::ChildCase kWriteBehind("write behind", [] {
    EPIBIAS_LAUNCH(write_behind_shared, 2, 16, 0, kStream, 34U);
});

#if defined(__SANITIZE_THREAD__)
const test::ChildCase kAppendAtomically("append atomically", [] {
    EPIBIAS_LAUNCH(append_without_atomic, 2, 1, 0, kStream, kCounter, true);
});
const test::ChildCase kAppendPlainly("append plainly", [] {
    EPIBIAS_LAUNCH(append_without_atomic, 2, 1, 0, kStream, kCounter, false);
});
const test::ChildCase kBlockWithBarrier("block with barrier", [] {
    EPIBIAS_LAUNCH(neighbours_through_shared, 1, 64, 0, kStream, kResults, true);
});
const test::ChildCase kBlockWithoutBarrier("block without barrier", [] {
    EPIBIAS_LAUNCH(neighbours_through_shared, 1, 64, 0, kStream, kResults, false);
});
const test::ChildCase kBetweenBarriers("between barriers", [] {
    EPIBIAS_LAUNCH(race_between_barriers, 1, 64, 0, kStream, kResults);
});
const test::ChildCase kWarpWithBarrier("warp with barrier", [] {
    EPIBIAS_LAUNCH(lanes_through_shared, 1, 32, 0, kStream, kResults, true);
});
const test::ChildCase kWarpWithoutBarrier("warp without barrier", [] {
    EPIBIAS_LAUNCH(lanes_through_shared, 1, 32, 0, kStream, kResults, false);
});
const test::ChildCase kLastBlockWithFences("last block with fences", [] {
    EPIBIAS_LAUNCH(last_block_adds, 4, 32, 0, kStream, kResults, kCounter, kResults + 32, true);
});
const test::ChildCase kLastBlockWithoutFences("last block without fences", [] {
    EPIBIAS_LAUNCH(last_block_adds, 4, 32, 0, kStream, kResults, kCounter, kResults + 32, false);
});
#endif

TEST_SUITE("emulation") {
    TEST_CASE("barriers that not all threads reach") {
        CHECK_MISUSE([] { EPIBIAS_LAUNCH(divergent_barrier, 1, 64, 0, kStream); },
                     "divergent __syncthreads: other threads wait at test_emulation.cpp:");
        CHECK_MISUSE([] { EPIBIAS_LAUNCH(barrier_after_exit, 1, 64, 0, kStream, 40U); }, "exited");
        {
            const test::OrderOfThreads order("reverse");
            CHECK_MISUSE([] { EPIBIAS_LAUNCH(barrier_after_exit, 1, 64, 0, kStream, 40U); },
                         "__syncthreads after 24 threads of the block have exited");
        }
        CHECK(test::misuse_of([] {
                  EPIBIAS_LAUNCH(barrier_after_exit, 3, 64, 0, kStream, 64U);
              }).empty());
    }

    TEST_CASE("masks that do not fit the warp") {
        std::vector<float> result(32);
        float* const data = result.data();
        {
            const test::OrderOfThreads order("reverse");
            CHECK_MISUSE(
                [&] { EPIBIAS_LAUNCH(shuffle_without_exited_lanes, 1, 32, 0, kStream, data); },
                "mask ffffffff names lane 16, which has exited");
        }
        {
            const test::OrderOfThreads order("forward");
            CHECK_MISUSE(
                [&] { EPIBIAS_LAUNCH(shuffle_without_exited_lanes, 1, 32, 0, kStream, data); },
                "deadlock");
        }
        CHECK_MISUSE([] { EPIBIAS_LAUNCH(vote_with_mask, 1, 20, 0, kStream, 0xFFFFFFFFU); },
                     "names lane 20, which the block does not have");
        CHECK_MISUSE([] { EPIBIAS_LAUNCH(vote_with_mask, 1, 32, 0, kStream, 0x0000FFFFU); },
                     "is not in its own mask 0000ffff");
    }

    TEST_CASE("lanes that meet in different operations") {
        CHECK_MISUSE([] { EPIBIAS_LAUNCH(shuffle_meets_vote, 1, 32, 0, kStream); }, "meets __");
        CHECK_MISUSE([] { EPIBIAS_LAUNCH(shuffle_of_two_sizes, 1, 32, 0, kStream); },
                     "__shfl_sync meets __shfl_sync at test_emulation.cpp:");
        CHECK_MISUSE([] { EPIBIAS_LAUNCH(matrix_product_in_two_places, 1, 32, 0, kStream); },
                     "mma_bf16_m16n8k16 meets mma_bf16_m16n8k16 at test_emulation.cpp:");
    }

    TEST_CASE("a deadlock names the threads that wait and where") {
        const std::string report =
            test::misuse_of([] { EPIBIAS_LAUNCH(deadlock, 1, 32, 0, kStream); });
        CAPTURE(report);
        CHECK(test::contains(report,
                             "kernel deadlock: deadlock: thread 0 waits at "
                             "test_emulation.cpp:"));
        CHECK(test::contains(report, "(__syncwarp)"));
        CHECK(test::contains(report, "(__syncthreads)"));
    }

    TEST_CASE("asynchronous copies") {
        alignas(16) float values[16] = {};
        float* const global = values;
        const auto copy = [&](int shared, int source) {
            return [=] { EPIBIAS_LAUNCH(copy_from, 1, 1, 0, kStream, global, shared, source); };
        };
        CHECK(test::misuse_of(copy(4, 8)).empty());
        CHECK_MISUSE(copy(1, 8), "no multiple of 16 bytes");
        CHECK_MISUSE(copy(4, 9), "no multiple of 16 bytes");
        CHECK_MISUSE([=] { EPIBIAS_LAUNCH(copy_into_global, 1, 1, 0, kStream, global); },
                     "to an address outside shared memory");
        CHECK_MISUSE([] { EPIBIAS_LAUNCH(copy_out_of_shared, 1, 1, 0, kStream); },
                     "out of shared memory");
        CHECK_MISUSE([=] { EPIBIAS_LAUNCH(copy_without_wait, 1, 1, 0, kStream, global); },
                     "thread 0 exits while this asynchronous copy is under way");
        CHECK_MISUSE([=] { EPIBIAS_LAUNCH(too_many_copies, 1, 1, 0, kStream, global); },
                     "more than 256 asynchronous copies");
    }

    TEST_CASE("shared memory: none asked for, too much, and the dynamic one as asked") {
        std::vector<int> result(64, -7);
        int* const data = result.data();
        CHECK_MISUSE([=] { EPIBIAS_LAUNCH(needs_dynamic_shared, 1, 64, 0, kStream, data); },
                     "launched without dynamic shared memory");
        CHECK_MISUSE([] { EPIBIAS_LAUNCH(too_much_shared, 1, 1, 0, kStream); },
                     "49156 bytes of declared and 0 of dynamic shared memory");
        EPIBIAS_LAUNCH(needs_dynamic_shared, 1, 64, 64 * sizeof(int), kStream, data);
        for (int i = 0; i < 64; ++i) CHECK(result[static_cast<std::size_t>(i)] == 63 - i);
    }

    TEST_CASE("a write behind a shared array stops the launch, in every build") {
        CHECK(kWriteInside.status() == 0);
        CHECK(kWriteBehind.status() != 0);
    }

#if defined(__SANITIZE_THREAD__)
    TEST_CASE("races within a warp, a block and between blocks; none where there is none") {
        CHECK(kAppendAtomically.status() == 0);
        CHECK(kAppendPlainly.status() != 0);
        CHECK(kBlockWithBarrier.status() == 0);
        CHECK(kBlockWithoutBarrier.status() != 0);
        CHECK(kBetweenBarriers.status() != 0);
        CHECK(kWarpWithBarrier.status() == 0);
        CHECK(kWarpWithoutBarrier.status() != 0);
        CHECK(kLastBlockWithFences.status() == 0);
        CHECK(kLastBlockWithoutFences.status() != 0);
    }
#endif
}

}  // namespace
}  // namespace epibias::cuda
