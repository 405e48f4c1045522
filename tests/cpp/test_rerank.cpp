#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "epibias/rerank.hpp"
#include "epibias/simd_level.hpp"
#include "refusal.hpp"

namespace {

using epibias::test::message_of;
using Positions = std::vector<std::int64_t>;

Positions mmr(const std::vector<float>& similarities, const std::vector<float>& embeddings,
              std::int64_t n_queries, std::int64_t k, double relevance_weight, int n_threads = 1) {
    const auto n = static_cast<std::int64_t>(similarities.size()) / n_queries;
    const auto n_rows = static_cast<std::int64_t>(similarities.size());
    const auto dim = static_cast<std::int64_t>(embeddings.size()) / n_rows;
    Positions indices(static_cast<std::size_t>(n_queries * std::max<std::int64_t>(k, 0)));
    epibias::mmr({similarities.data(), n_queries, n}, {embeddings.data(), n_rows, dim}, k,
                 {indices.data(), n_queries, k}, {relevance_weight, n_threads});
    return indices;
}

Positions dpp(const std::vector<double>& kernel, std::int64_t n, std::int64_t k,
              std::int64_t& n_selected) {
    Positions indices(static_cast<std::size_t>(std::max<std::int64_t>(k, 0)));
    epibias::dpp_greedy({kernel.data(), n, n}, k, {indices.data(), 1, k}, {&n_selected, 1});
    return indices;
}

std::vector<float> random_values(std::size_t size, unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(size);
    for (float& value : values) value = normal(generator);
    return values;
}

}  // namespace

TEST_CASE("mmr: relevance against diversity (field cases 1 and 2)") {
    const std::vector<float> embeddings = {0.9F, 0.44F, 0,     0, 0.88F, 0.47F, 0, 0,
                                           0.7F, 0,     0.71F, 0, 0.65F, 0,     0, 0.76F};
    const std::vector<float> similarities = {0.8983F, 0.8821F, 0.7021F, 0.65F};
    CHECK(mmr(similarities, embeddings, 1, 3, 0.5) == Positions{0, 2, 3});
    CHECK(mmr(similarities, embeddings, 1, 4, 1) == Positions{0, 1, 2, 3});
    CHECK(mmr(similarities, embeddings, 1, 4, 0) == Positions{0, 3, 2, 1});
    CHECK(mmr(similarities, embeddings, 1, 0, 0.5).empty());
}

TEST_CASE("mmr: equal candidates go by position; batch, threads and levels do not matter") {
    const std::vector<float> equal(5 * 4, 0.5F);
    CHECK(mmr({1, 1, 1, 1, 1}, equal, 1, 5, 0.3) == Positions{0, 1, 2, 3, 4});
    constexpr std::int64_t kQueries = 9;
    const auto similarities = random_values(kQueries * 20, 1);
    const auto embeddings = random_values(kQueries * 20 * 33, 2);
    const Positions expected = mmr(similarities, embeddings, kQueries, 20, 0.5);
    for (const auto level : epibias::supported_simd_levels()) {
        epibias::set_simd_level(epibias::simd_level_name(level));
        for (const int n_threads : {1, 2, 3}) {
            CHECK(mmr(similarities, embeddings, kQueries, 20, 0.5, n_threads) == expected);
        }
    }
    for (std::int64_t query = 0; query < kQueries; ++query) {
        const std::vector<float> own(similarities.begin() + query * 20,
                                     similarities.begin() + query * 20 + 20);
        const std::vector<float> rows(embeddings.begin() + query * 660,
                                      embeddings.begin() + query * 660 + 660);
        const Positions one = mmr(own, rows, 1, 20, 0.5);
        CHECK(std::equal(one.begin(), one.end(), expected.begin() + query * 20));
    }
}

TEST_CASE("dpp_greedy: picks by gain, stops where gains end, pads with -1") {
    std::int64_t n_selected = 0;
    // Two equal items and one orthogonal one: the duplicate has gain 0.
    const std::vector<double> kernel = {4, 4, 0, 4, 4, 0, 0, 0, 1};
    CHECK(dpp(kernel, 3, 3, n_selected) == Positions{0, 2, -1});
    CHECK(n_selected == 2);
    // Indefinite: |K| of {0, 1} is negative, so nothing follows item 0 but item 2.
    const std::vector<double> indefinite = {1, 2, 0, 2, 1, 0, 0, 0, 0.5};
    CHECK(dpp(indefinite, 3, 3, n_selected) == Positions{0, 2, -1});
    const std::vector<double> negative = {-1, 0, 0, -1};
    CHECK(dpp(negative, 2, 2, n_selected) == Positions{-1, -1});
    CHECK(n_selected == 0);
    CHECK(dpp(kernel, 3, 0, n_selected).empty());
}

TEST_CASE("rerank: error texts") {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> embeddings(2 * 3 * 2, 1.0F);
    const std::vector<float> similarities(6, 0.5F);
    CHECK(message_of([&] { mmr(similarities, embeddings, 2, 4, 0.5); }) ==
          "k: expected 0 to 3 (the number of candidates), got 4");
    CHECK(message_of([&] { mmr(similarities, embeddings, 2, -1, 0.5); }) ==
          "k: expected 0 to 3 (the number of candidates), got -1");
    CHECK(message_of([&] { mmr(similarities, embeddings, 2, 1, 1.5); }) ==
          "relevance_weight: expected a number from 0 to 1, got 1.5");
    std::vector<float> bad = similarities;
    bad[4] = kNan;
    CHECK(message_of([&] { mmr(bad, embeddings, 2, 1, 0.5); }) ==
          "similarities: expected finite values, got nan (row 1, column 1)");
    bad = embeddings;
    bad[8] = bad[9] = 0;
    CHECK(message_of([&] { mmr(similarities, bad, 2, 1, 0.5); }) ==
          "embeddings: expected finite rows of non-zero norm, got a zero row 1 (query 1)");
    bad[8] = kNan;
    CHECK(message_of([&] { mmr(similarities, bad, 2, 1, 0.5); }) ==
          "embeddings: expected finite rows of non-zero norm, got NaN or Inf in row 1 (query 1)");
    std::int64_t n_selected = 0;
    CHECK(message_of([&] { dpp({1, 2, 3, 1}, 2, 1, n_selected); }) ==
          "kernel: expected a symmetric matrix, got 3 against 2 (query 0, row 1, column 0)");
    CHECK(message_of([&] { dpp({1, 2, 2, static_cast<double>(kNan)}, 2, 1, n_selected); }) ==
          "kernel: expected finite values, got nan (query 0, row 1, column 1)");
    CHECK(message_of([&] { dpp({1, 0, 0, 1}, 2, 3, n_selected); }) ==
          "k: expected 0 to 2 (the number of candidates), got 3");
}
