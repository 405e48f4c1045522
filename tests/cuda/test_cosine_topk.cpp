// cosine_topk on the emulated device against the CPU: every storage and path, to the bit. The suite
// is small, because it runs in every thread order, under sanitizers, and once a planted bug.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "cosine_cases.hpp"
#include "cosine_topk_bounds.hpp"
#include "topk_key.hpp"

using namespace epibias::test;
using epibias::Ranked;
using epibias::ranks_before;
using epibias::cuda::CosineStorage;
using epibias::cuda::CosineTopkOptions;

namespace {

// Several rounds, tiles of several blocks, and a sample that is not all there is.
const CosineTopkOptions kSmallRounds{.sample_rows = 24, .capacity = 96, .round_growth = 3};

}  // namespace

TEST_SUITE("cosine_topk") {
    TEST_CASE("keys have the order of ranked passages and give them back") {
        std::vector<Ranked> all;
        for (const float similarity :
             {-1.0000001F, -1.0F, -0.5F, -1e-45F, -0.0F, 0.0F, 1e-45F, 0.25F, 1.0F, 1.0000001F}) {
            for (const std::int64_t index : {std::int64_t{0}, std::int64_t{1}, std::int64_t{70'000},
                                             epibias::cuda::kMostPassages - 1}) {
                all.push_back({similarity, index});
            }
        }
        for (const Ranked& left : all) {
            const auto key = epibias::cuda::topk_key(left.similarity, left.index);
            CHECK(key != epibias::cuda::kNoKey);
            const Ranked back = epibias::cuda::ranked_of(key);
            CHECK(back.index == left.index);
            CHECK(std::bit_cast<std::uint32_t>(back.similarity) ==
                  std::bit_cast<std::uint32_t>(left.similarity));
            for (const Ranked& right : all) {
                if (left.index == right.index) continue;
                const auto other = epibias::cuda::topk_key(right.similarity, right.index);
                CHECK((key > other) == ranks_before(left, right));
            }
        }
        CHECK(epibias::cuda::topk_key(std::nanf(""), 3) == epibias::cuda::kNoKey);
    }

    TEST_CASE("equals the CPU for every storage, path and dim") {
        for (const ScanCase& scan : scan_cases()) {
            CAPTURE(scan.name);
            for (const std::int64_t dim : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 97, 384}) {
                // Dims decide how rows are copied, which all paths of a storage share.
                if (!scan.tensor_cores && dim != 7 && dim != 64 && dim != 97) continue;
                CAPTURE(dim);
                const Matrix queries = random_matrix(2, dim, 1);
                const Matrix passages = random_matrix(140, dim, 2);
                CHECK(device_topk(queries, passages, 5, scan, kSmallRounds) ==
                      cpu_topk(queries, passages, 5));
            }
        }
    }

    TEST_CASE("k from 1 to all passages, in registers and in shared memory") {
        const Matrix queries = random_matrix(2, 8, 3);
        const Matrix passages = random_matrix(400, 8, 4);
        const ScanCase& scan = scan_cases()[4];
        for (const std::int64_t k : {1, 33, 100, 256, 257, 400}) {
            CAPTURE(k);
            const CosineTopkOptions small{.sample_rows = k, .capacity = 2 * k};
            CHECK(device_topk(queries, passages, k, scan, small) == cpu_topk(queries, passages, k));
        }
        CHECK(device_topk(queries, passages, 7, scan) == cpu_topk(queries, passages, 7));
    }

    TEST_CASE("the largest k") {
        const Matrix queries = random_matrix(1, 4, 5);
        const Matrix passages = random_matrix(4500, 4, 6);
        CHECK(device_topk(queries, passages, 4096, scan_cases()[0],
                          {.sample_rows = 4200, .capacity = 4400}) ==
              cpu_topk(queries, passages, 4096));
    }

    TEST_CASE("ties and duplicates go to the lower index") {
        const Matrix queries = integer_matrix(3, 5, 7);
        const Matrix passages = integer_matrix(250, 5, 8);
        const Topk expected = cpu_topk(queries, passages, 20);
        for (const ScanCase& scan : scan_cases()) {
            CAPTURE(scan.name);
            CHECK(device_topk(queries, passages, 20, scan, kSmallRounds) == expected);
        }
    }

    TEST_CASE("the filter drops nearly everything, and always the same") {
        const Matrix queries = random_matrix(1, 64, 15);
        const Matrix passages = random_matrix(700, 64, 16);
        const CosineTopkOptions sampled{.sample_rows = 64, .capacity = 512, .round_growth = 20};
        const auto count = [&](const ScanCase& scan) {
            const DevicePassages prepared(passages.view(), norms_of(passages), scan.storage);
            epibias::cuda::Fault fault = kClearFault;
            std::int64_t n_rescored = -1;
            CosineTopkOptions options = sampled;
            options.tensor_cores = scan.tensor_cores;
            device_topk(queries, prepared.get(), 3, options, fault, &n_rescored);
            return n_rescored;
        };
        for (const ScanCase& scan : scan_cases()) {
            CAPTURE(scan.name);
            const std::int64_t n_rescored = count(scan);
            CHECK(n_rescored > 64);
            CHECK(n_rescored < 64 + 70);  // a tenth of the passages
        }
        CHECK(count(scan_cases()[4]) == count(scan_cases()[4]));
    }

    TEST_CASE("tiles of queries of every width, with some left over") {
        const Matrix passages = random_matrix(150, 16, 9);
        // A round for all rows behind the sample: the tile is what is tried here.
        const CosineTopkOptions one_round{.sample_rows = 16, .capacity = 150, .round_growth = 10};
        for (const std::int64_t n_queries : {9, 67}) {
            CAPTURE(n_queries);
            const Matrix queries = random_matrix(n_queries, 16, 10);
            const Topk expected = cpu_topk(queries, passages, 4);
            for (const ScanCase& scan : scan_cases()) {
                if (!scan.tensor_cores && n_queries > 64) continue;  // their widest tile is 64
                CAPTURE(scan.name);
                CHECK(device_topk(queries, passages, 4, scan, one_round) == expected);
            }
        }
    }

    TEST_CASE("a query of which too many rows survive loses none of them") {
        // Row i leans towards the first query a little more than row i - 1: nothing is dropped.
        const Matrix queries = random_matrix(2, 16, 11);
        const Matrix direction = random_matrix(1, 16, 12);
        Matrix ascending(200, 16);
        for (std::int64_t row = 0; row < ascending.n_rows(); ++row) {
            for (std::int64_t i = 0; i < 16; ++i) {
                const float towards = queries.get(0, i) * static_cast<float>(row) * 1e-3F;
                ascending.set(row, i, direction.get(0, i) + towards);
            }
        }
        Matrix equal = ascending;
        for (std::int64_t row = 1; row < equal.n_rows(); ++row) equal.copy_row(0, row);
        const CosineTopkOptions tight{.sample_rows = 16, .capacity = 32, .round_growth = 8};
        const Topk expected = cpu_topk(queries, ascending, 20);
        for (const ScanCase& scan : scan_cases()) {
            CAPTURE(scan.name);
            CHECK(device_topk(queries, ascending, 20, scan, tight) == expected);
        }
        const ScanCase& int8 = scan_cases()[4];
        CHECK(device_topk(queries, equal, 20, int8, tight) == cpu_topk(queries, equal, 20));
        CHECK(device_topk(queries, equal, 190, int8, tight) == cpu_topk(queries, equal, 190));
    }

    TEST_CASE("norms that float32 cannot square, and similarities of -0") {
        const float huge = std::numeric_limits<float>::max();
        const float tiny = std::numeric_limits<float>::denorm_min();
        Matrix passages = random_matrix(90, 9, 13);
        for (std::int64_t row = 0; row < passages.n_rows(); row += 3) {
            for (std::int64_t i = 0; i < 9; ++i) {
                const float sign = passages.get(row, i) > 0 ? 1.0F : -1.0F;
                passages.set(row, i, sign * huge);
                passages.set(row + 1, i, sign * tiny * static_cast<float>(1 + i % 3));
            }
        }
        Matrix queries = random_matrix(4, 9, 14);
        for (std::int64_t i = 0; i < 9; ++i) {
            queries.set(1, i, queries.get(1, i) > 0 ? huge : -huge);
            queries.set(2, i, queries.get(2, i) > 0 ? tiny : -tiny);
            // A cosine of -4e-84 for the passages below: -0 as float32, a tie with +0.
            queries.set(3, i, i == 0 ? 1.0F : 0.0F);
        }
        for (const std::int64_t row : {2, 5, 8, 11}) {
            for (std::int64_t i = 0; i < 9; ++i) passages.set(row, i, i == 1 ? huge : 0.0F);
            if (row % 2 == 0) passages.set(row, 0, -tiny);
        }
        const Topk expected = cpu_topk(queries, passages, 90);
        bool has_negative_zero = false;
        for (const float similarity : expected.similarities) {
            has_negative_zero = has_negative_zero || (similarity == 0 && std::signbit(similarity));
        }
        REQUIRE(has_negative_zero);
        for (const ScanCase& scan : scan_cases()) {
            CAPTURE(scan.name);
            CHECK(device_topk(queries, passages, 90, scan, kSmallRounds) == expected);
            CHECK(device_topk(queries, passages, 6, scan, kSmallRounds) ==
                  cpu_topk(queries, passages, 6));
        }
    }
}
