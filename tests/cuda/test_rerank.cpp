// mmr on the emulated device: the CPU's positions, and the CPU's faults.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "epibias/cuda/rerank.hpp"
#include "epibias/rerank.hpp"
#include "refusal.hpp"
#include "support.hpp"

namespace epibias::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Selection {
    std::vector<std::int64_t> indices;
    Fault fault{.word = kNoFault, .value = 0};
};

// On at most `n_blocks` blocks.
Selection select(const test::Matrix& similarities, const test::Matrix& embeddings, std::int64_t k,
                 double relevance_weight, std::int64_t n_blocks = 1'000) {
    const std::int64_t n_queries = similarities.n_rows();
    Selection result{std::vector<std::int64_t>(
        static_cast<std::size_t>(n_queries * std::max<std::int64_t>(k, 0)), -7)};
    const std::size_t n_bytes =
        mmr_workspace_bytes(std::min(n_queries, n_blocks), similarities.n_columns());
    std::vector<double> workspace(n_bytes / sizeof(double),
                                  std::numeric_limits<double>::infinity());
    mmr(similarities.view(), embeddings.view(), k, {result.indices.data(), n_queries, k},
        relevance_weight, workspace.data(), n_bytes, &result.fault, Stream{});
    return result;
}

void check_same(const test::Matrix& similarities, const test::Matrix& embeddings, std::int64_t k,
                double relevance_weight, std::int64_t n_blocks = 1'000) {
    CAPTURE(k);
    CAPTURE(relevance_weight);
    const Selection got = select(similarities, embeddings, k, relevance_weight, n_blocks);
    std::vector<std::int64_t> expected(got.indices.size());
    epibias::mmr(similarities.view(), embeddings.view(), k,
                 {expected.data(), similarities.n_rows(), k},
                 {.relevance_weight = relevance_weight, .n_threads = 1});
    CHECK(got.indices == expected);
    CHECK(got.fault.word == kNoFault);
}

TEST_SUITE("rerank") {
    TEST_CASE("mmr: the CPU's positions for every size, weight and k") {
        for (const std::int64_t n : {1, 5, 31, 129}) {
            for (const std::int64_t dim : {1, 7, 33}) {
                const test::Matrix similarities = test::random_matrix(2, n, 1);
                const test::Matrix embeddings = test::random_matrix(2 * n, dim, 2);
                check_same(similarities, embeddings, 1, 0.3);
                const std::int64_t k = std::min<std::int64_t>(n, 6);
                for (const double weight : {0.0, 0.3, 1.0}) {
                    check_same(similarities, embeddings, k, weight);
                }
            }
        }
    }

    TEST_CASE("mmr: ties of whole numbers go by position, to the last candidate") {
        const test::Matrix similarities = test::integer_matrix(4, 40, 3);
        const test::Matrix embeddings = test::integer_matrix(160, 5, 4);
        for (const double weight : {0.0, 0.5, 1.0})
            check_same(similarities, embeddings, 40, weight);
        const test::Matrix equal = test::integer_matrix(40, 1, 5);  // all rows are 1
        test::Matrix all_one(1, 40);
        for (std::int64_t i = 0; i < 40; ++i) all_one.set(0, i, 1);
        const Selection got = select(all_one, equal, 40, 0.5);
        for (std::int64_t i = 0; i < 40; ++i) CHECK(got.indices[static_cast<std::size_t>(i)] == i);
    }

    TEST_CASE("mmr: more queries than blocks") {
        check_same(test::random_matrix(7, 9, 5), test::random_matrix(63, 2, 6), 4, 0.4, 3);
        CHECK(mmr_workspace_bytes(1'000'000, 9) == mmr_workspace_bytes(kMostMmrBlocks, 9));
    }

    TEST_CASE("mmr: a query at fault is -1, its neighbours are not, and the lowest is recorded") {
        test::Matrix similarities = test::random_matrix(4, 9, 7);
        test::Matrix embeddings = test::random_matrix(36, 33, 8);
        const Selection clean = select(similarities, embeddings, 3, 0.5);
        const auto check_fault = [&](std::int64_t query, std::int64_t place, MmrFault what) {
            const Selection got = select(similarities, embeddings, 3, 0.5);
            CHECK(got.fault.word ==
                  fault_word(kMmrArgument, query * 18 + place, static_cast<int>(what)));
            for (std::size_t i = 0; i < 3; ++i) {
                CHECK(got.indices[static_cast<std::size_t>(query * 3) + i] == -1);
                CHECK(got.indices[i] == clean.indices[i]);
            }
        };
        embeddings.set(3 * 9 + 8, 32, kInfinity);
        check_fault(3, 9 + 8, MmrFault::kRowNotFinite);
        embeddings.set(3 * 9 + 5, 0, std::numeric_limits<float>::quiet_NaN());
        check_fault(3, 9 + 5, MmrFault::kRowNotFinite);
        for (std::int64_t i = 0; i < 33; ++i) embeddings.set(2 * 9 + 7, i, 0);
        check_fault(2, 9 + 7, MmrFault::kRowZero);
        similarities.set(2, 8, -kInfinity);
        check_fault(2, 8, MmrFault::kSimilarityMinusInfinite);
        similarities.set(2, 4, std::numeric_limits<float>::quiet_NaN());
        check_fault(2, 4, MmrFault::kSimilarityNan);
        similarities.set(1, 8, kInfinity);
        check_fault(1, 8, MmrFault::kSimilarityInfinite);
    }

    TEST_CASE("mmr: rows of any norm") {
        test::Matrix embeddings = test::random_matrix(20, 8, 9);
        for (std::int64_t row = 0; row < 20; ++row) {
            const float scale = row % 3 == 0 ? 0x1p-140F : row % 3 == 1 ? 1.0F : 0x1p120F;
            for (std::int64_t i = 0; i < 8; ++i)
                embeddings.set(row, i, embeddings.get(row, i) * scale);
            embeddings.set(row, 0, scale);
        }
        check_same(test::random_matrix(1, 20, 10), embeddings, 20, 0.5);
    }

    TEST_CASE("mmr: what the launcher refuses, and nothing to do") {
        const test::Matrix similarities = test::random_matrix(2, 3, 1);
        const test::Matrix embeddings = test::random_matrix(6, 4, 1);
        const auto message = [&](std::int64_t k, double weight) {
            return test::message_of([&] { select(similarities, embeddings, k, weight); });
        };
        CHECK(message(4, 0.5) == "k: expected 0 to 3 (the number of candidates), got 4");
        CHECK(message(-1, 0.5) == "k: expected 0 to 3 (the number of candidates), got -1");
        CHECK(message(1, 1.5) == "relevance_weight: expected a number from 0 to 1, got 1.5");
        CHECK(test::message_of([&] {
                  select(similarities, test::random_matrix(5, 4, 1), 1, 0.5);
              }) == "embeddings: expected 2 x 3 rows, as similarities, got 5");
        CHECK(select(similarities, embeddings, 0, 0.5).indices.empty());
        CHECK(select(test::Matrix(0, 3), test::Matrix(0, 4), 2, 0.5).indices.empty());
    }
}

}  // namespace
}  // namespace epibias::cuda
