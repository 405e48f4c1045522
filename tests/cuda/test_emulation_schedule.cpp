// Orders of threads, limits of a launch, the life of shared memory and of asynchronous copies.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "emulation_cases.hpp"

namespace epibias::cuda {
namespace {

__global__ void write_down_order(unsigned* next, unsigned* order) {
    order[atomicAdd(next, 1U)] = blockIdx.x * blockDim.x + threadIdx.x;
}

// Without a barrier, warp `writer` may or may not have written.
__global__ void read_other_warp(unsigned writer, float* result) {
    EPIBIAS_SHARED(float, value, 1);
    const unsigned warp = threadIdx.x / 32;
    if (threadIdx.x % 32 != 0) return;
    if (warp == writer) value[0] = 5.0F;
    if (warp != writer) *result = value[0];
}

__global__ void write_down_places(unsigned* places) {
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    places[block * blockDim.x * blockDim.y * blockDim.z + thread] = 1000 * block + thread;
}

__global__ void nothing() {}

__global__ void first_use_of_shared(float* before, int* integers) {
    EPIBIAS_SHARED(float, values, 4);
    EPIBIAS_SHARED(int, numbers, 4);
    before[blockIdx.x] = values[3];
    integers[blockIdx.x] = numbers[0];
    values[3] = 1.0F;
    numbers[0] = 1;
}

template <int kNumber>
__device__ int* shared_of_instance() {
    EPIBIAS_SHARED(int, number, 1);
    return number;
}

__global__ void instances_of_a_template(int* result) {
    *shared_of_instance<1>() = 1;
    *shared_of_instance<2>() = 2;
    result[0] = *shared_of_instance<1>();
    result[1] = *shared_of_instance<2>();
}

// Two groups of one copy each; `seen` shows what is there after each wait.
__global__ void two_groups(const float* global, float* seen) {
    EPIBIAS_SHARED(float, tile, 8);
    copy_async_16(tile, global);
    copy_async_commit();
    copy_async_16(tile + 4, global + 4);
    copy_async_commit();
    seen[0] = tile[0];
    copy_async_wait<1>();
    seen[1] = tile[0];
    seen[2] = tile[4];
    copy_async_wait<0>();
    seen[3] = tile[4];
}

const Stream kStream{};

std::vector<unsigned> order_of_threads(const char* name) {
    const test::OrderOfThreads order(name);
    unsigned next = 0;
    std::vector<unsigned> numbers(192, ~0U);
    unsigned* const counter = &next;
    unsigned* const data = numbers.data();
    EPIBIAS_LAUNCH(write_down_order, 2, 96, 0, kStream, counter, data);
    return numbers;
}

float what_the_other_warp_saw(const char* name, unsigned writer) {
    const test::OrderOfThreads order(name);
    float result = 0;
    float* const data = &result;
    EPIBIAS_LAUNCH(read_other_warp, 1, 64, 0, kStream, writer, data);
    return result;
}

#if defined(__SANITIZE_THREAD__)
const test::ChildCase kReadForward("read forward", [] { what_the_other_warp_saw("forward", 0); });
const test::ChildCase kReadReverse("read reverse", [] { what_the_other_warp_saw("reverse", 0); });
#endif

TEST_SUITE("emulation") {
    TEST_CASE("forward, reverse and random orders run every thread once") {
        std::vector<unsigned> ascending(192);
        std::iota(ascending.begin(), ascending.end(), 0U);
        CHECK(order_of_threads("forward") == ascending);
        const std::vector<unsigned> descending(ascending.rbegin(), ascending.rend());
        CHECK(order_of_threads("reverse") == descending);
        std::vector<unsigned> random = order_of_threads("random:3");
        CHECK(random == order_of_threads("random:3"));
        CHECK(random != order_of_threads("random:4"));
        CHECK(random != ascending);
        CHECK(order_of_threads("random") == order_of_threads("random:1"));
        std::sort(random.begin(), random.end());
        CHECK(random == ascending);
    }

    TEST_CASE("an order that does not exist is refused") {
        for (const char* name : {"", "backward", "random:", "random:x", "random:1x", "random3"}) {
            CAPTURE(name);
            CHECK_THROWS_AS(order_of_threads(name), std::invalid_argument);
        }
    }

    TEST_CASE("a missing barrier shows in one of forward and reverse, and is a race") {
#if defined(__SANITIZE_THREAD__)
        CHECK(kReadForward.status() != 0);
        CHECK(kReadReverse.status() != 0);
#else
        CHECK(std::isnan(what_the_other_warp_saw("forward", 1)));
        CHECK(what_the_other_warp_saw("forward", 0) == 5.0F);
        CHECK(std::isnan(what_the_other_warp_saw("reverse", 0)));
        CHECK(what_the_other_warp_saw("reverse", 1) == 5.0F);
#endif
    }

    TEST_CASE("indices of threads and blocks in three dimensions") {
        const dim3 grid(2, 3, 2);
        const dim3 size(5, 2, 3);
        std::vector<unsigned> places(12 * 30, ~0U);
        unsigned* const data = places.data();
        EPIBIAS_LAUNCH(write_down_places, grid, size, 0, kStream, data);
        for (unsigned i = 0; i < 360; ++i) CHECK(places[i] == 1000 * (i / 30) + i % 30);
    }

    TEST_CASE("launches outside a device's limits are refused") {
        const auto accepts = [](dim3 grid, dim3 size, std::size_t bytes) {
            try {
                EPIBIAS_LAUNCH(nothing, grid, size, bytes, kStream);
                return true;
            } catch (const std::invalid_argument&) {
                return false;
            }
        };
        CHECK(accepts(1, 1024, 227 * 1024));
        CHECK(accepts(dim3(1, 3, 2), dim3(2, 2, 64), 0));
        CHECK_FALSE(accepts(0, 32, 0));
        CHECK_FALSE(accepts(dim3(1, 65536, 1), 32, 0));
        CHECK_FALSE(accepts(dim3(1, 1, 65536), 32, 0));
        CHECK_FALSE(accepts(1, 0, 0));
        CHECK_FALSE(accepts(1, 1025, 0));
        CHECK_FALSE(accepts(1, dim3(1, 1, 65), 0));
        CHECK_FALSE(accepts(1, 32, 227 * 1024 + 1));
    }

    TEST_CASE("only the first and the last block of a grid that is too large to run") {
        const emulation::OnlyEndBlocks only_ends;
        unsigned next = 0;
        std::vector<unsigned> numbers(2);
        unsigned* const counter = &next;
        unsigned* const data = numbers.data();
        constexpr unsigned kBlocks = 0x7FFFFFFF;
        const test::OrderOfThreads order("forward");
        EPIBIAS_LAUNCH(write_down_order, kBlocks, 1, 0, kStream, counter, data);
        CHECK(next == 2);
        CHECK(numbers == std::vector<unsigned>{0, kBlocks - 1});
    }

    TEST_CASE("shared memory is poisoned for every block") {
        std::vector<float> before(3);
        std::vector<int> integers(3);
        float* const floats = before.data();
        int* const ints = integers.data();
        EPIBIAS_LAUNCH(first_use_of_shared, 3, 1, 0, kStream, floats, ints);
        for (const float value : before) CHECK(std::isnan(value));
        CHECK(integers == std::vector<int>{-1, -1, -1});
    }

    TEST_CASE("each instance of a template has shared memory of its own") {
        std::vector<int> result(2);
        int* const data = result.data();
        EPIBIAS_LAUNCH(instances_of_a_template, 1, 1, 0, kStream, data);
        CHECK(result == std::vector<int>{1, 2});
    }

    TEST_CASE("asynchronous copies arrive with the wait that asks for them, not earlier") {
        alignas(16) const float global[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        float seen[4] = {};
        const float* const source = global;
        float* const result = seen;
        EPIBIAS_LAUNCH(two_groups, 1, 1, 0, kStream, source, result);
        CHECK(std::isnan(seen[0]));
        CHECK(seen[1] == 1);
        CHECK(std::isnan(seen[2]));
        CHECK(seen[3] == 5);
    }

    TEST_CASE("host helpers fill and copy, and take nothing for nothing") {
        int numbers[2] = {3, 4};
        fill_async(numbers, 0xFF, sizeof(int), kStream);
        CHECK(numbers[0] == -1);
        const int source = 9;
        copy_to_device_async(numbers + 1, &source, sizeof(int), kStream);
        CHECK(numbers[1] == 9);
        fill_async(nullptr, 0, 0, kStream);
        copy_to_device_async(nullptr, nullptr, 0, kStream);
        check_launch("nothing");
    }

    TEST_CASE("no bug is planted") {
        CHECK_FALSE(EPIBIAS_PLANT("emulation.no_such_bug"));
    }
}

}  // namespace
}  // namespace epibias::cuda
