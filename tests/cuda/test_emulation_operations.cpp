// Warp operations, matrix products, atomics and intrinsics mean what CUDA's mean.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "emulation_cases.hpp"

namespace epibias::cuda {
namespace {

constexpr unsigned kAll = 0xFFFFFFFFU;
const Stream kStream{};

__global__ void shuffles(int* result) {
    const int lane = static_cast<int>(threadIdx.x);
    int* mine = result + lane * 8;
    mine[0] = __shfl_sync(kAll, lane, 5);
    mine[1] = __shfl_sync(kAll, lane, 9, 8);  // lane 1 of the section of 8
    mine[2] = __shfl_xor_sync(kAll, lane, 3);
    mine[3] = __shfl_down_sync(kAll, lane, 3);
    mine[4] = __shfl_up_sync(kAll, lane, 3);
    mine[5] = __shfl_down_sync(kAll, lane, 3, 8);
    mine[6] = __shfl_up_sync(kAll, lane, 3, 8);
    mine[7] = __shfl_xor_sync(kAll, lane, 12, 8);
}

__global__ void votes(unsigned* result) {
    const unsigned lane = threadIdx.x;
    if (lane >= 16) return;
    constexpr unsigned kHalf = 0x0000FFFFU;
    unsigned* mine = result + lane * 9;
    mine[0] = __ballot_sync(kHalf, lane % 3 == 0);
    mine[1] = static_cast<unsigned>(__any_sync(kHalf, lane == 15));
    mine[2] = static_cast<unsigned>(__all_sync(kHalf, lane < 15));
    mine[3] = static_cast<unsigned>(__all_sync(kHalf, lane < 16));
    mine[4] = __match_any_sync(kHalf, lane % 4);
    mine[5] = __reduce_add_sync(kHalf, lane);
    mine[6] = static_cast<unsigned>(__reduce_min_sync(kHalf, static_cast<int>(lane) - 3));
    mine[7] = __reduce_max_sync(kHalf, lane);
    mine[8] = __reduce_or_sync(kHalf, 1U << lane) & ~__reduce_and_sync(kHalf, lane | 64U);
}

// Two halves of a warp, each with operations of its own in its own time.
__global__ void halves(int* result) {
    const bool low = threadIdx.x < 16;
    const unsigned mask = low ? 0x0000FFFFU : 0xFFFF0000U;
    int value = static_cast<int>(threadIdx.x);
    for (int lanes = low ? 8 : 4; lanes != 0; lanes >>= 1) {
        value += __shfl_xor_sync(mask, value, lanes);
    }
    __syncwarp(mask);
    result[threadIdx.x] = value;
}

__global__ void atomics(int* integers, double* reals, unsigned long long* words) {
    atomicAdd(&integers[0], 2);
    atomicMax(&integers[1], static_cast<int>(threadIdx.x) - 40);
    atomicMin(&integers[2], static_cast<int>(threadIdx.x) - 40);
    atomicSub(&integers[3], 1);
    atomicOr(&integers[4], 1 << (threadIdx.x % 8));
    atomicAnd(&integers[5], ~(1 << (threadIdx.x % 8)));
    atomicAdd(reals, 0.5);
    atomicMin(&words[0], 1ULL << threadIdx.x);
    atomicMax(&words[1], 1ULL << threadIdx.x);
    if (threadIdx.x == 7) atomicExch(&words[2], 70ULL);
    atomicCAS(&words[3], static_cast<unsigned long long>(threadIdx.x),
              static_cast<unsigned long long>(threadIdx.x) + 1);
}

// Whole numbers, so that every order of adding gives the same sum.
struct Matrices {
    int a[16][32];
    int b[32][8];
    int product[16][8];
};

Matrices random_matrices(int depth, int low, int high) {
    std::mt19937 generator(11);
    std::uniform_int_distribution<int> number(low, high);
    Matrices matrices{};
    for (auto& row : matrices.a) {
        for (int i = 0; i < depth; ++i) row[i] = number(generator);
    }
    for (int i = 0; i < depth; ++i) {
        for (int& value : matrices.b[i]) value = number(generator);
    }
    for (int row = 0; row < 16; ++row) {
        for (int column = 0; column < 8; ++column) {
            int sum = 100 * row + column;  // what c holds before
            for (int i = 0; i < depth; ++i) sum += matrices.a[row][i] * matrices.b[i][column];
            matrices.product[row][column] = sum;
        }
    }
    return matrices;
}

unsigned short bf16_of(int value) {
    return to_bf16(static_cast<float>(value));
}

// The tables of the PTX manual, lane by lane: row and column of each register.
__global__ void product_bf16(const Matrices* in, float* result) {
    const unsigned group = threadIdx.x / 4;
    const unsigned t = threadIdx.x % 4;
    unsigned a[4];
    unsigned b[2];
    float c[4];
    for (unsigned i = 0; i < 4; ++i) {
        const auto* row = in->a[group + 8 * (i % 2)];
        const unsigned first = 2 * t + 8 * (i / 2);
        a[i] = bf16_of(row[first]) | static_cast<unsigned>(bf16_of(row[first + 1])) << 16;
    }
    for (unsigned i = 0; i < 2; ++i) {
        const unsigned first = 2 * t + 8 * i;
        b[i] = bf16_of(in->b[first][group]) |
               static_cast<unsigned>(bf16_of(in->b[first + 1][group])) << 16;
    }
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned before = 100 * (group + 8 * (i / 2)) + 2 * t + i % 2;
        c[i] = static_cast<float>(before);
    }
    mma_bf16_m16n8k16(c, a, b);
    for (unsigned i = 0; i < 4; ++i) result[(group + 8 * (i / 2)) * 8 + 2 * t + i % 2] = c[i];
}

__global__ void product_s8(const Matrices* in, int* result) {
    const unsigned group = threadIdx.x / 4;
    const unsigned t = threadIdx.x % 4;
    unsigned a[4] = {};
    unsigned b[2] = {};
    int c[4];
    for (unsigned byte = 0; byte < 4; ++byte) {
        for (unsigned i = 0; i < 4; ++i) {
            const int value = in->a[group + 8 * (i % 2)][4 * t + 16 * (i / 2) + byte];
            a[i] |= static_cast<unsigned>(value & 0xFF) << (8 * byte);
        }
        for (unsigned i = 0; i < 2; ++i) {
            const int value = in->b[4 * t + 16 * i + byte][group];
            b[i] |= static_cast<unsigned>(value & 0xFF) << (8 * byte);
        }
    }
    for (unsigned i = 0; i < 4; ++i) {
        c[i] = static_cast<int>(100 * (group + 8 * (i / 2)) + 2 * t + i % 2);
    }
    mma_s8_m16n8k32(c, a, b);
    for (unsigned i = 0; i < 4; ++i) result[(group + 8 * (i / 2)) * 8 + 2 * t + i % 2] = c[i];
}

__global__ void product_tf32(const Matrices* in, float* result) {
    const unsigned group = threadIdx.x / 4;
    const unsigned t = threadIdx.x % 4;
    constexpr unsigned kIgnored = 0x1FFF;  // bits that a tensor core does not look at
    unsigned a[4];
    unsigned b[2];
    float c[4];
    for (unsigned i = 0; i < 4; ++i) {
        const int value = in->a[group + 8 * (i % 2)][t + 4 * (i / 2)];
        a[i] = to_tf32(static_cast<float>(value)) | kIgnored;
    }
    for (unsigned i = 0; i < 2; ++i) b[i] = to_tf32(static_cast<float>(in->b[t + 4 * i][group]));
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned before = 100 * (group + 8 * (i / 2)) + 2 * t + i % 2;
        c[i] = static_cast<float>(before);
    }
    mma_tf32_m16n8k8(c, a, b);
    for (unsigned i = 0; i < 4; ++i) result[(group + 8 * (i / 2)) * 8 + 2 * t + i % 2] = c[i];
}

template <typename Value>
void check_product(const Matrices& matrices, const std::vector<Value>& result) {
    for (int row = 0; row < 16; ++row) {
        for (int column = 0; column < 8; ++column) {
            CAPTURE(row);
            CAPTURE(column);
            CHECK(result[static_cast<std::size_t>(row * 8 + column)] ==
                  static_cast<Value>(matrices.product[row][column]));
        }
    }
}

TEST_SUITE("emulation") {
    TEST_CASE("shuffles, within sections too") {
        std::vector<int> result(32 * 8, -7);
        int* const data = result.data();
        EPIBIAS_LAUNCH(shuffles, 1, 32, 0, kStream, data);
        for (int lane = 0; lane < 32; ++lane) {
            CAPTURE(lane);
            const int* mine = result.data() + lane * 8;
            const int place = lane % 8;
            CHECK(mine[0] == 5);
            CHECK(mine[1] == lane - place + 1);
            CHECK(mine[2] == (lane ^ 3));
            CHECK(mine[3] == (lane + 3 < 32 ? lane + 3 : lane));
            CHECK(mine[4] == (lane >= 3 ? lane - 3 : lane));
            CHECK(mine[5] == (place + 3 < 8 ? lane + 3 : lane));
            CHECK(mine[6] == (place >= 3 ? lane - 3 : lane));
            // Into a later section a lane does not see, into an earlier one it does.
            CHECK(mine[7] == ((lane ^ 12) <= (lane | 7) ? (lane ^ 12) : lane));
        }
    }

    TEST_CASE("votes, matches and reductions of half a warp") {
        std::vector<unsigned> result(16 * 9, 7777);
        unsigned* const data = result.data();
        EPIBIAS_LAUNCH(votes, 1, 32, 0, kStream, data);
        for (unsigned lane = 0; lane < 16; ++lane) {
            const unsigned* mine = result.data() + std::size_t{lane} * 9;
            CHECK(mine[0] == 0x9249U);
            CHECK(mine[1] == 1);
            CHECK(mine[2] == 0);
            CHECK(mine[3] == 1);
            CHECK(mine[4] == 0x1111U << lane % 4);
            CHECK(mine[5] == 120);
            CHECK(mine[6] == static_cast<unsigned>(-3));
            CHECK(mine[7] == 15);
            CHECK(mine[8] == (0xFFFFU & ~64U));
        }
    }

    TEST_CASE("halves of a warp go their own ways") {
        std::vector<int> result(32);
        int* const data = result.data();
        EPIBIAS_LAUNCH(halves, 1, 32, 0, kStream, data);
        for (int lane = 0; lane < 16; ++lane) CHECK(result[static_cast<std::size_t>(lane)] == 120);
        for (int lane = 16; lane < 24; ++lane) {
            CHECK(result[static_cast<std::size_t>(lane)] == 8 * 16 + 28);
        }
    }

    TEST_CASE("atomics") {
        std::vector<int> integers{0, -100, 100, 64, 0, 0xFFF};
        double real = 0;
        std::vector<unsigned long long> words{~0ULL, 0, 0, 0};
        int* const ints = integers.data();
        double* const reals = &real;
        unsigned long long* const longs = words.data();
        EPIBIAS_LAUNCH(atomics, 1, 64, 0, kStream, ints, reals, longs);
        CHECK(integers == std::vector<int>{128, 23, -40, 0, 0xFF, 0xF00});
        CHECK(real == 32.0);
        CHECK(words[0] == 1);
        CHECK(words[1] == 1ULL << 63);
        CHECK(words[2] == 70);
        CHECK(words[3] >= 1);  // thread 0 meets 0; later ones may meet their number
    }

    TEST_CASE("matrix products with the operands where PTX puts them") {
        const Matrices halves = random_matrices(16, -100, 100);
        const Matrices bytes = random_matrices(32, -128, 127);
        const Matrices words = random_matrices(8, -500, 500);
        const Matrices* in = &halves;
        std::vector<float> reals(128, -7);
        std::vector<int> integers(128, -7);
        float* const real = reals.data();
        int* const integer = integers.data();
        EPIBIAS_LAUNCH(product_bf16, 1, 32, 0, kStream, in, real);
        check_product(halves, reals);
        in = &words;
        EPIBIAS_LAUNCH(product_tf32, 1, 32, 0, kStream, in, real);
        check_product(words, reals);
        in = &bytes;
        EPIBIAS_LAUNCH(product_s8, 1, 32, 0, kStream, in, integer);
        check_product(bytes, integers);
    }

    TEST_CASE("rounding to bfloat16 and tf32") {
        CHECK(to_bf16(1.0F) == 0x3F80);
        CHECK(to_bf16(__uint_as_float(0x3F808000U)) == 0x3F80);  // a tie, down to even
        CHECK(to_bf16(__uint_as_float(0x3F818000U)) == 0x3F82);  // a tie, up to even
        CHECK(to_bf16(__uint_as_float(0x3F808001U)) == 0x3F81);
        CHECK(to_bf16(std::numeric_limits<float>::max()) == 0x7F80);
        CHECK(to_bf16(-std::numeric_limits<float>::infinity()) == 0xFF80);
        CHECK(to_bf16(std::numeric_limits<float>::quiet_NaN()) == 0x7FFF);
        CHECK(to_tf32(1.0F) == 0x3F800000U);
        CHECK(to_tf32(__uint_as_float(0x3F801000U)) == 0x3F802000U);  // a tie, away from zero
        CHECK(to_tf32(__uint_as_float(0xBF801000U)) == 0xBF802000U);
        CHECK(to_tf32(__uint_as_float(0x3F800FFFU)) == 0x3F800000U);
        CHECK(to_tf32(std::numeric_limits<float>::infinity()) == 0x7F800000U);
        CHECK(to_tf32(std::numeric_limits<float>::quiet_NaN()) == 0x7FFFFFFFU);
    }

    TEST_CASE("bits") {
        CHECK(__popc(0xF0F0U) == 8);
        CHECK(__popcll(~0ULL) == 64);
        CHECK(__clz(1) == 31);
        CHECK(__clzll(1) == 63);
        CHECK(__ffs(0) == 0);
        CHECK(__ffs(8) == 4);
        CHECK(__ffsll(1LL << 40) == 41);
        CHECK(__ffsll(0) == 0);
        CHECK(__brev(1U) == 0x80000000U);
        CHECK(__byte_perm(0x33221100U, 0x77665544U, 0x7520) == 0x77552200U);
        CHECK(__umulhi(0x80000000U, 6U) == 3U);
        CHECK(__dp4a(0x01FF02FE, 0x03040506, 100) == 100 + 3 - 4 + 10 - 12);
        CHECK(__int_as_float(__float_as_int(-2.5F)) == -2.5F);
        CHECK(__longlong_as_double(__double_as_longlong(-2.5)) == -2.5);
    }

    TEST_CASE("directed rounding bounds the exact value") {
        const float third = 1.0F / 3.0F;
        CHECK(static_cast<double>(__fmul_ru(third, third)) >=
              static_cast<double>(third) * static_cast<double>(third));
        CHECK(__fmul_ru(2.0F, 3.0F) == 6.0F);
        CHECK(__fadd_ru(1.0F, 1e-10F) > 1.0F);
        CHECK(__fadd_ru(1.0F, 2.0F) == 3.0F);
        CHECK(__double2float_ru(0.1) > __double2float_rd(0.1));
        CHECK(__double2float_ru(0.5) == __double2float_rd(0.5));
    }
}

}  // namespace
}  // namespace epibias::cuda
