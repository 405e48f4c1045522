// quantized_scan against cosine_topk, whose own tests compare it with the definition: the same
// indices and bits at every SIMD level, through all codes.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "epibias/cosine_topk.hpp"
#include "epibias/numeric.hpp"
#include "epibias/quantized_scan.hpp"
#include "quantized_cases.hpp"
#include "support.hpp"

using epibias::QuantizedScanOptions;
using epibias::test::at_every_level;
using epibias::test::codes_of;
using epibias::test::integer_matrix;
using epibias::test::Matrix;
using epibias::test::norms_of;
using epibias::test::OwnPrincipalCodes;
using epibias::test::random_matrix;

namespace {

struct Answer {
    std::vector<std::int64_t> indices;
    std::vector<float> similarities;

    Answer(std::int64_t n_queries, std::int64_t k)
        : indices(static_cast<std::size_t>(n_queries * k), -1), similarities(indices.size()) {}

    bool operator==(const Answer& other) const {
        const auto same_bits = [](float left, float right) {
            return std::bit_cast<std::uint32_t>(left) == std::bit_cast<std::uint32_t>(right);
        };
        return indices == other.indices &&
               std::equal(similarities.begin(), similarities.end(), other.similarities.begin(),
                          other.similarities.end(), same_bits);
    }
};

// Which codes a search goes through.
enum class Codes { kEight, kFourFirst, kPrincipal, kOnce };

struct Way {
    QuantizedScanOptions options = {};
    Codes codes = Codes::kEight;
};

Answer expected(const Matrix& queries, const Matrix& passages, std::int64_t k) {
    Answer answer(queries.n_rows(), k);
    epibias::cosine_topk(queries.view(), passages.view(), k, {},
                         {answer.indices.data(), queries.n_rows(), k},
                         {answer.similarities.data(), queries.n_rows(), k});
    return answer;
}

Answer found(const Matrix& queries, const Matrix& passages, std::int64_t k, const Way& way = {},
             epibias::QuantizedScanCounts* counts = nullptr) {
    const auto norms = norms_of(passages);
    Answer answer(queries.n_rows(), k);
    const epibias::MatrixView<std::int64_t> indices{answer.indices.data(), queries.n_rows(), k};
    const epibias::MatrixView<float> similarities{answer.similarities.data(), queries.n_rows(), k};
    epibias::QuantizedScanCounts counted;
    if (way.codes == Codes::kOnce) {
        counted = epibias::quantized_scan_once(queries.view(), passages.view(), k, norms, indices,
                                               similarities, way.options);
    } else {
        const auto eight = codes_of(passages, norms, 8);
        std::vector<std::uint8_t> four;
        if (way.codes == Codes::kFourFirst) four = codes_of(passages, norms, 4);
        // A half of the axes, of which a half are scanned; or all that there are.
        const std::int64_t dim = passages.n_columns();
        const std::int64_t n_axes = dim % 2 == 0 && dim > 4 ? dim / 2 : dim;
        const std::int64_t n_leading = dim % 3 == 0 ? n_axes : (n_axes + 1) / 2;
        std::optional<OwnPrincipalCodes> principal;
        if (way.codes == Codes::kPrincipal) principal.emplace(passages, norms, n_axes, n_leading);
        counted = epibias::quantized_scan(
            queries.view(), passages.view(), k, norms,
            {eight, four, principal ? principal->view() : epibias::PrincipalCodes{}}, indices,
            similarities, way.options);
    }
    CHECK(counted.n_rescored >= queries.n_rows() * k);
    if (counts != nullptr) *counts = counted;
    return answer;
}

std::string message(const Matrix& queries, const Matrix& passages, std::int64_t k,
                    const Way& way = {}) {
    try {
        found(queries, passages, k, way);
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "no error";
}

// At every level, at AVX-512 with and without VNNI, and through all codes.
template <typename Test>
void in_every_way(Test test) {
    at_every_level([&](const std::string& level) {
        CAPTURE(level);
        for (const Codes codes :
             {Codes::kEight, Codes::kFourFirst, Codes::kPrincipal, Codes::kOnce}) {
            CAPTURE(static_cast<int>(codes));
            test(Way{.codes = codes});
            if (level == "avx512") test(Way{.options = {.vnni = false}, .codes = codes});
        }
    });
}

}  // namespace

TEST_CASE("quantized_scan equals cosine_topk for every kernel, dim, k and byte offset") {
    in_every_way([](const Way& way) {
        for (const std::int64_t dim : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 97, 384}) {
            CAPTURE(dim);
            const auto offset = static_cast<std::size_t>(dim % 5);
            const Matrix passages = random_matrix(150, dim, 2, offset);
            for (const std::int64_t n_queries : {1, 3, 13}) {
                const Matrix queries = random_matrix(n_queries, dim, 1, offset);
                for (const std::int64_t k : {1, 5, 150}) {
                    CHECK(found(queries, passages, k, way) == expected(queries, passages, k));
                }
            }
        }
    });
}

TEST_CASE("quantized_scan: any sample, capacity and thread count give the same answer") {
    const Matrix queries = integer_matrix(15, 6, 3);
    const Matrix passages = integer_matrix(3000, 6, 4);  // full of exact ties
    for (const std::int64_t k : {1, 20, 700}) {
        const Answer answer = expected(queries, passages, k);
        in_every_way([&](Way way) {
            for (const std::int64_t stride : {0, 1, 2, 5, 1000}) {
                for (const std::int64_t capacity : {0, 1, 100}) {
                    way.options.sample_stride = stride;
                    way.options.capacity = capacity;
                    way.options.n_threads = 1 + static_cast<int>(stride % 3);
                    CAPTURE(stride);
                    CAPTURE(capacity);
                    CHECK(found(queries, passages, k, way) == answer);
                }
            }
        });
    }
}

TEST_CASE("a guess that is too high is mended by a second scan") {
    // All that is near the query lies in the sampled tiles: the sample promises far too much.
    const Matrix queries = random_matrix(4, 24, 5);
    Matrix passages = random_matrix(2560, 24, 6);
    for (std::int64_t row = 0; row < passages.n_rows(); ++row) {
        if (row / 64 % 4 != 0) continue;
        for (std::int64_t i = 0; i < 24; ++i) {
            passages.set(row, i, queries.get(row % 4, i) + 0.3F * passages.get(row, i));
        }
    }
    const Answer answer = expected(queries, passages, 400);
    in_every_way([&](Way way) {
        way.options.sample_stride = 4;
        epibias::QuantizedScanCounts counts;
        CHECK(found(queries, passages, 400, way, &counts) == answer);
        if (way.codes == Codes::kEight) CHECK(counts.n_repeated == 4);
    });
}

TEST_CASE("quantized_scan stays exact when everything must be re-scored") {
    const Matrix queries = random_matrix(2, 16, 7);
    Matrix equal = random_matrix(6000, 16, 8);
    for (std::int64_t row = 1; row < equal.n_rows(); ++row) equal.copy_row(0, row);
    Matrix ascending(6000, 16);  // row i leans a little more towards the query than row i - 1
    for (std::int64_t row = 0; row < ascending.n_rows(); ++row) {
        for (std::int64_t i = 0; i < 16; ++i) {
            const float towards = queries.get(0, i) * static_cast<float>(row) * 1e-4F;
            ascending.set(row, i, equal.get(0, i) + towards);
        }
    }
    const Answer of_equal = expected(queries, equal, 20);
    const Answer of_ascending = expected(queries, ascending, 20);
    in_every_way([&](Way way) {
        for (const int threads : {1, 2, 3}) {
            way.options.n_threads = threads;
            CHECK(found(queries, equal, 20, way) == of_equal);
            CHECK(found(queries, ascending, 20, way) == of_ascending);
        }
    });
}

TEST_CASE("quantized_scan works for norms that float32 cannot square, and for spikes") {
    const float huge = std::numeric_limits<float>::max();
    const float tiny = std::numeric_limits<float>::denorm_min();
    Matrix passages = random_matrix(300, 9, 9);
    for (std::int64_t row = 0; row < passages.n_rows(); row += 3) {
        for (std::int64_t i = 0; i < 9; ++i) {
            const float sign = passages.get(row, i) > 0 ? 1.0F : -1.0F;
            passages.set(row, i, sign * huge);
            passages.set(row + 1, i, sign * tiny * static_cast<float>(1 + i % 3));
        }
        passages.set(row + 2, row % 9, 1e6F);  // all else becomes code 0
    }
    Matrix queries = random_matrix(3, 9, 10);
    for (std::int64_t i = 0; i < 9; ++i) {
        queries.set(1, i, queries.get(1, i) > 0 ? huge : -huge);
        queries.set(2, i, queries.get(2, i) > 0 ? tiny : -tiny);
    }
    const Answer answer = expected(queries, passages, 110);
    in_every_way([&](const Way& way) { CHECK(found(queries, passages, 110, way) == answer); });
}

TEST_CASE("several blocks of queries") {
    const Matrix queries = random_matrix(530, 6, 11);
    const Matrix passages = random_matrix(500, 6, 12);
    CHECK(found(queries, passages, 4) == expected(queries, passages, 4));
    CHECK(found(queries, passages, 4, {.options = {.n_threads = 3}}) ==
          expected(queries, passages, 4));
}

TEST_CASE("4 bits give up where they leave too much, and 8 bits answer") {
    const Matrix queries = random_matrix(1, 64, 19);
    Matrix passages = random_matrix(30000, 64, 20);
    for (std::int64_t row = 0; row < 30000; ++row) {  // differ by less than 4 bits can tell
        for (std::int64_t i = 0; i < 64; ++i) {
            passages.set(row, i, queries.get(0, i) + 0.3F * passages.get(row, i));
        }
    }
    const Answer answer = expected(queries, passages, 5);
    epibias::QuantizedScanCounts counts;
    CHECK(found(queries, passages, 5, {.codes = Codes::kFourFirst}, &counts) == answer);
    CHECK(counts.n_repeated == 1);
    CHECK(counts.n_rescored < 10000);
}

TEST_CASE("principal axes that say nothing give up, and 8 bits answer") {
    // All that differs lies beyond the axes.
    Matrix passages = random_matrix(30000, 64, 25);
    const Matrix axes = epibias::test::axes_of(32, 64);
    const Matrix queries = random_matrix(3, 64, 26);
    for (std::int64_t row = 0; row < 30000; ++row) {
        for (std::int64_t axis = 0; axis < 32; ++axis) {
            double along = 0;
            for (std::int64_t i = 0; i < 64; ++i) {
                along += static_cast<double>(axes.get(axis, i) * passages.get(row, i));
            }
            for (std::int64_t i = 0; i < 64; ++i) {
                passages.set(row, i,
                             passages.get(row, i) - static_cast<float>(along) * axes.get(axis, i));
            }
        }
    }
    const Answer answer = expected(queries, passages, 5);
    for (const int threads : {1, 2}) {
        epibias::QuantizedScanCounts counts;
        const Way way{.options = {.n_threads = threads}, .codes = Codes::kPrincipal};
        CHECK(found(queries, passages, 5, way, &counts) == answer);
        CHECK(counts.n_repeated == 3);
        CHECK(counts.n_rescored < 10000);
    }
}

TEST_CASE("principal axes that say all settle nearly every row by codes") {
    const Matrix queries = random_matrix(5, 48, 27);
    Matrix passages = random_matrix(20000, 48, 28);
    for (std::int64_t row = 0; row < 20000; ++row) {
        for (std::int64_t i = 24; i < 48; ++i) passages.set(row, i, 0.01F * passages.get(row, i));
    }
    const auto norms = norms_of(passages);
    Matrix identity(36, 48);
    for (std::int64_t axis = 0; axis < 36; ++axis) identity.set(axis, axis, 1.0F);
    const auto eight = codes_of(passages, norms, 8);
    const auto sizes = epibias::principal_sizes(20000, 36, 24);
    std::vector<std::uint8_t> leading(static_cast<std::size_t>(sizes.leading));
    std::vector<std::uint8_t> rest(static_cast<std::size_t>(sizes.rest));
    epibias::quantize_principal(passages.view(), norms, {identity.view(), 24}, leading, rest);
    Answer answer(5, 10);
    const auto counts = epibias::quantized_scan(queries.view(), passages.view(), 10, norms,
                                                {eight, {}, {{identity.view(), 24}, leading, rest}},
                                                {answer.indices.data(), 5, 10},
                                                {answer.similarities.data(), 5, 10});
    CHECK(answer == expected(queries, passages, 10));
    CHECK(counts.n_repeated == 0);
    CHECK(counts.n_rescored < 5 * 400);
}

TEST_CASE("without codes at hand: several chunks, blocks and threads") {
    const Matrix queries = random_matrix(300, 260, 21);
    Matrix passages = random_matrix(40000, 260, 22);  // three chunks
    for (std::int64_t row = 0; row < 40000; row += 9) passages.copy_row(row / 5, row);
    for (const std::int64_t k : {1, 30}) {
        const Answer answer = expected(queries, passages, k);
        for (const int threads : {1, 3}) {
            const Way way{.options = {.n_threads = threads}, .codes = Codes::kOnce};
            CHECK(found(queries, passages, k, way) == answer);
        }
    }
}

TEST_CASE("quantized_scan refuses what it cannot answer, and names it") {
    const Matrix queries = random_matrix(2, 4, 14);
    const Matrix passages = random_matrix(3, 4, 15);
    CHECK(message(queries, passages, 7) == "k: expected 1 to 3 (the number of passages), got 7");
    CHECK(message(queries, passages, 0) == "k: expected 1 to 3 (the number of passages), got 0");
    CHECK(message(queries, Matrix(0, 4), 1) == "k: expected 0, as there are no passages, got 1");
    CHECK(message(queries, Matrix(0, 4), 0) == "no error");
    CHECK(message(Matrix(0, 4), passages, 2) == "no error");
    CHECK(message(random_matrix(2, 5, 1), passages, 1) ==
          "queries: expected rows of dim 4, as the passages have, got dim 5");
    CHECK(message(queries, passages, 1, {.options = {.sample_stride = -1}}) ==
          "sample_stride: expected 0 (automatic) or more, got -1");
    CHECK(message(queries, passages, 1, {.options = {.capacity = -2}}) ==
          "capacity: expected 0 (automatic) or more, got -2");
    Matrix bad = random_matrix(5, 4, 16);
    bad.set(4, 3, -std::numeric_limits<float>::infinity());
    CHECK(message(bad, random_matrix(9, 4, 17), 1) ==
          "queries: expected finite rows of non-zero norm, got Inf in row 4");
    CHECK_THROWS_WITH_AS(
        static_cast<void>(epibias::quantized_size(3, epibias::kLargestQuantizedDim + 1, 8)),
        "passages: expected 1 to 65536 columns for a scan of codes, got 65537",
        std::invalid_argument);
    std::vector<double> norms = norms_of(passages);
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(epibias::quantized_size(3, 4, 8)));
    norms[1] = 0;
    CHECK_THROWS_WITH_AS(epibias::quantize_passages(passages.view(), norms, 8, codes),
                         "inverse_norms: expected positive finite numbers, got 0 in row 1",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(static_cast<void>(epibias::quantized_size(3, 4, 6)),
                         "bits: expected 8 or 4, got 6", std::invalid_argument);
}
