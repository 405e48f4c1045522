// cosine_topk against the definition, written out naively; to the bit, at every SIMD level.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "epibias/cosine_topk.hpp"
#include "epibias/numeric.hpp"
#include "epibias/ranking.hpp"
#include "support.hpp"

using epibias::MatrixView;
using epibias::Ranked;
using epibias::test::at_every_level;
using epibias::test::integer_matrix;
using epibias::test::Matrix;
using epibias::test::random_matrix;

namespace {

double naive_dot(const std::vector<float>& left, const std::vector<float>& right) {
    std::vector<double> sums(32, 0.0);
    for (std::size_t i = 0; i < left.size(); ++i) {
        sums[i % 32] += static_cast<double>(left[i]) * static_cast<double>(right[i]);
    }
    for (std::size_t width = 16; width > 0; width /= 2) {
        for (std::size_t lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
    }
    return sums[0];
}

struct Answer {
    std::vector<std::int64_t> indices;
    std::vector<float> similarities;

    bool operator==(const Answer& other) const {
        const auto same_bits = [](float left, float right) {
            return std::bit_cast<std::uint32_t>(left) == std::bit_cast<std::uint32_t>(right);
        };
        return indices == other.indices &&
               std::equal(similarities.begin(), similarities.end(), other.similarities.begin(),
                          other.similarities.end(), same_bits);
    }
};

Answer naive_topk(const Matrix& queries, const Matrix& passages, std::int64_t k) {
    Answer answer;
    std::vector<double> inverse;
    for (std::int64_t row = 0; row < passages.n_rows(); ++row) {
        inverse.push_back(1.0 / std::sqrt(naive_dot(passages.row(row), passages.row(row))));
    }
    for (std::int64_t query = 0; query < queries.n_rows(); ++query) {
        const auto wanted = queries.row(query);
        const double own = 1.0 / std::sqrt(naive_dot(wanted, wanted));
        std::vector<Ranked> all;
        for (std::int64_t row = 0; row < passages.n_rows(); ++row) {
            const double cosine =
                naive_dot(wanted, passages.row(row)) * own * inverse[static_cast<std::size_t>(row)];
            all.push_back({static_cast<float>(cosine), row});
        }
        std::stable_sort(all.begin(), all.end(), [](const Ranked& left, const Ranked& right) {
            return left.similarity > right.similarity;
        });
        for (std::int64_t rank = 0; rank < k; ++rank) {
            answer.indices.push_back(all[static_cast<std::size_t>(rank)].index);
            answer.similarities.push_back(all[static_cast<std::size_t>(rank)].similarity);
        }
    }
    return answer;
}

Answer found(const Matrix& queries, const Matrix& passages, std::int64_t k,
             const epibias::CosineTopkOptions& options = {},
             const std::vector<double>& norms = {}) {
    const auto size = static_cast<std::size_t>(queries.n_rows() * k);
    Answer answer{std::vector<std::int64_t>(size, -1), std::vector<float>(size)};
    epibias::cosine_topk(queries.view(), passages.view(), k, norms,
                         {answer.indices.data(), queries.n_rows(), k},
                         {answer.similarities.data(), queries.n_rows(), k}, options);
    return answer;
}

std::string message(const Matrix& queries, const Matrix& passages, std::int64_t k,
                    const epibias::CosineTopkOptions& options = {}) {
    try {
        found(queries, passages, k, options);
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "no error";
}

}  // namespace

TEST_CASE("cosine_topk equals the definition for every level, dim, k and byte offset") {
    at_every_level([](const std::string& level) {
        CAPTURE(level);
        for (const std::int64_t dim : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 97, 384}) {
            CAPTURE(dim);
            const auto offset = static_cast<std::size_t>(dim % 5);
            const Matrix queries = random_matrix(3, dim, 1, offset);
            const Matrix passages = random_matrix(70, dim, 2, offset);
            for (const std::int64_t k : {1, 5, 70}) {
                CHECK(found(queries, passages, k) == naive_topk(queries, passages, k));
            }
        }
    });
}

TEST_CASE("cosine_topk: ties go to the lower index for every tile size and thread count") {
    // More queries than the largest panel, so that packed panels and left-over rows both run.
    const Matrix queries = integer_matrix(45, 5, 3);
    const Matrix passages = integer_matrix(700, 5, 4);
    const Answer expected = naive_topk(queries, passages, 20);
    at_every_level([&](const std::string& level) {
        CAPTURE(level);
        for (const std::int64_t tile_rows : {1, 7, 64, 5000}) {
            for (const int threads : {1, 2, 3}) {
                CAPTURE(tile_rows);
                CAPTURE(threads);
                CHECK(found(queries, passages, 20, {tile_rows, threads}) == expected);
            }
        }
    });
}

TEST_CASE("cosine_topk stays exact when everything must be re-scored") {
    const Matrix queries = random_matrix(2, 16, 5);
    Matrix equal = random_matrix(1000, 16, 6);
    for (std::int64_t row = 1; row < equal.n_rows(); ++row) equal.copy_row(0, row);
    // Row i leans towards the first query a little more than row i - 1: nothing is ever dropped.
    Matrix ascending(1000, 16);
    for (std::int64_t row = 0; row < ascending.n_rows(); ++row) {
        for (std::int64_t i = 0; i < 16; ++i) {
            const float towards = queries.get(0, i) * static_cast<float>(row) * 1e-3F;
            ascending.set(row, i, equal.get(0, i) + towards);
        }
    }
    at_every_level([&](const std::string& level) {
        CAPTURE(level);
        for (const int threads : {1, 3}) {
            CHECK(found(queries, equal, 20, {32, threads}) == naive_topk(queries, equal, 20));
            CHECK(found(queries, ascending, 20, {32, threads}) ==
                  naive_topk(queries, ascending, 20));
        }
    });
}

TEST_CASE("ties across threads go to the lower index however the threads take turns") {
    // A thread with high rows may prove the threshold first; low rows that only equal it must stay.
    const Matrix queries = random_matrix(2, 16, 17);
    Matrix equal = random_matrix(6000, 16, 18);
    for (std::int64_t row = 1; row < equal.n_rows(); ++row) equal.copy_row(0, row);
    for (int repeat = 0; repeat < 40; ++repeat) {
        const Answer answer = found(queries, equal, 20, {32, 3});
        for (std::size_t rank = 0; rank < 40; ++rank) {
            REQUIRE(answer.indices[rank] == static_cast<std::int64_t>(rank % 20));
        }
    }
}

TEST_CASE("cosine_topk works for norms that float32 cannot square") {
    const float huge = std::numeric_limits<float>::max();
    const float tiny = std::numeric_limits<float>::denorm_min();
    Matrix passages = random_matrix(60, 9, 7);
    for (std::int64_t row = 0; row < passages.n_rows(); row += 3) {
        for (std::int64_t i = 0; i < 9; ++i) {
            const float sign = passages.get(row, i) > 0 ? 1.0F : -1.0F;
            passages.set(row, i, sign * huge);
            passages.set(row + 1, i, sign * tiny * static_cast<float>(1 + i % 3));
        }
    }
    Matrix queries = random_matrix(3, 9, 8);
    for (std::int64_t i = 0; i < 9; ++i) {
        queries.set(1, i, queries.get(1, i) > 0 ? huge : -huge);
        queries.set(2, i, queries.get(2, i) > 0 ? tiny : -tiny);
    }
    at_every_level([&](const std::string& level) {
        CAPTURE(level);
        CHECK(found(queries, passages, 11) == naive_topk(queries, passages, 11));
    });
}

TEST_CASE("cosine_topk gives the same with prepared norms, and with several blocks of queries") {
    const Matrix queries = random_matrix(530, 6, 9);  // three blocks of at most 256
    const Matrix passages = random_matrix(90, 6, 10);
    std::vector<double> norms(90);
    epibias::inverse_norms(passages.view(), "passages", norms);
    const Answer expected = naive_topk(queries, passages, 4);
    CHECK(found(queries, passages, 4, {16, 2}) == expected);
    CHECK(found(queries, passages, 4, {16, 2}, norms) == expected);
}

TEST_CASE("cosine_topk is right where flush-to-zero was set by somebody else") {
    Matrix passages(40, 8);
    for (std::int64_t row = 0; row < 40; ++row) {
        for (std::int64_t i = 0; i < 8; ++i) {
            passages.set(row, i, static_cast<float>(1 + (row * 7 + i * 3) % 11) * 1e-44F);
        }
    }
    const Answer expected = naive_topk(passages, passages, 5);
#if defined(__SSE__)
    const unsigned saved = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(saved | 0x8040U);  // FTZ and DAZ
    const Answer flushed = found(passages, passages, 5);
    const unsigned after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(saved);
    CHECK((after & 0x8040U) == 0x8040U);  // and the caller's setting is left as it was
    CHECK(flushed == expected);
#else
    CHECK(found(passages, passages, 5) == expected);
#endif
}

TEST_CASE("the scan error bound grows with dim and gives up where it proves nothing") {
    CHECK(epibias::scan_error_bound(1) > 4 * 0x1p-24);
    CHECK(epibias::scan_error_bound(384) < 2.4e-5);
    CHECK(std::isinf(epibias::scan_error_bound(std::int64_t{1} << 24)));
}

TEST_CASE("cosine_topk refuses what it cannot answer, and names it") {
    const Matrix queries = random_matrix(2, 4, 11);
    const Matrix passages = random_matrix(3, 4, 12);
    CHECK(message(queries, passages, 7) == "k: expected 1 to 3 (the number of passages), got 7");
    CHECK(message(queries, passages, 0) == "k: expected 1 to 3 (the number of passages), got 0");
    CHECK(message(queries, Matrix(0, 4), 1) == "k: expected 0, as there are no passages, got 1");
    CHECK(message(queries, Matrix(0, 4), 0) == "no error");
    CHECK(message(Matrix(0, 4), passages, 2) == "no error");
    CHECK(message(random_matrix(2, 5, 1), passages, 1) ==
          "queries: expected rows of dim 4, as the passages have, and at least 1, got dim 5");
    CHECK(message(queries, passages, 1, {.tile_rows = -1}) ==
          "tile_rows: expected 0 (automatic) or more, got -1");
}

TEST_CASE("the lowest bad row is named whatever the thread count") {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const Matrix queries = random_matrix(2, 4, 13);
    for (const int threads : {1, 2, 3}) {
        const epibias::CosineTopkOptions options{8, threads};
        Matrix passages = random_matrix(400, 4, 14);
        passages.set(390, 2, kInfinity);
        CHECK(message(queries, passages, 3, options) ==
              "passages: expected finite rows of non-zero norm, got Inf in row 390");
        passages.set(17, 1, kNan);
        CHECK(message(queries, passages, 3, options) ==
              "passages: expected finite rows of non-zero norm, got NaN in row 17");
        for (std::int64_t i = 0; i < 4; ++i) passages.set(3, i, i == 1 ? -0.0F : 0.0F);
        CHECK(message(queries, passages, 3, options) ==
              "passages: expected finite rows of non-zero norm, got a zero row 3");
        CHECK(message(Matrix(0, 4), passages, 3, options) ==
              "passages: expected finite rows of non-zero norm, got a zero row 3");
    }
    // Bad rows in every task: threads find many of them at the same time.
    Matrix mostly_bad = random_matrix(4000, 4, 19);
    for (std::int64_t row = 37; row < mostly_bad.n_rows(); row += 1 + row % 5) {
        mostly_bad.set(row, 2, kNan);
    }
    for (int repeat = 0; repeat < 100; ++repeat) {
        REQUIRE(message(queries, mostly_bad, 3, {4, 3}) ==
                "passages: expected finite rows of non-zero norm, got NaN in row 37");
    }
    Matrix bad_queries = random_matrix(5, 4, 15);
    bad_queries.set(4, 3, -kInfinity);
    CHECK(message(bad_queries, random_matrix(9, 4, 16), 1) ==
          "queries: expected finite rows of non-zero norm, got Inf in row 4");
}
