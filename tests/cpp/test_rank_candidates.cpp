#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "epibias/numeric.hpp"
#include "epibias/rank_candidates.hpp"
#include "epibias/ranking.hpp"
#include "refusal.hpp"
#include "support.hpp"

namespace {

using epibias::test::at_every_level;
using epibias::test::Matrix;
using epibias::test::message_of;
using epibias::test::random_matrix;
using Integers = std::vector<std::int64_t>;

struct Ranked {
    Integers rows, indices;
    std::vector<float> similarities, scores;
    bool operator==(const Ranked&) const = default;
};

Ranked rank(const epibias::CandidateRows& given, int n_threads = 1) {
    const auto n = static_cast<std::size_t>(given.candidates.n_rows);
    Ranked ranked{Integers(n), Integers(n), std::vector<float>(n), std::vector<float>(n)};
    epibias::rank_candidates(
        given, {ranked.rows, ranked.indices, ranked.similarities, ranked.scores}, n_threads);
    return ranked;
}

// One canonical dot after the other, at whatever level is active.
Ranked rank_naively(const Matrix& queries, const Matrix& candidates, const Integers& offsets,
                    const Matrix& axis) {
    Ranked ranked;
    const std::vector<float> axis_row = axis.row(0);
    const std::int64_t dim = queries.n_columns();
    for (std::int64_t query = 0; query < queries.n_rows(); ++query) {
        const std::vector<float> query_row = queries.row(query);
        const std::int64_t first = offsets[static_cast<std::size_t>(query)];
        const std::int64_t last = offsets[static_cast<std::size_t>(query) + 1];
        std::vector<epibias::Ranked> places;
        for (std::int64_t row = first; row < last; ++row) {
            const std::vector<float> values = candidates.row(row);
            const double dot = epibias::canonical_dot(query_row.data(), values.data(), dim);
            const double scale = epibias::inverse_norm(query_row.data(), dim);
            const double inverse = epibias::inverse_norm(values.data(), dim);
            places.push_back({static_cast<float>(dot * scale * inverse), row - first});
        }
        std::ranges::sort(places, epibias::ranks_before);
        for (const epibias::Ranked& place : places) {
            const std::vector<float> values = candidates.row(first + place.index);
            const double dot = epibias::canonical_dot(values.data(), axis_row.data(), dim);
            ranked.rows.push_back(first + place.index);
            ranked.indices.push_back(place.index);
            ranked.similarities.push_back(place.similarity);
            ranked.scores.push_back(
                static_cast<float>(dot * epibias::inverse_norm(values.data(), dim)));
        }
    }
    return ranked;
}

}  // namespace

TEST_CASE("rank_candidates: the bits of canonical dots, for every level, address and thread") {
    const Integers offsets = {0, 9, 9, 10, 31};
    for (const std::int64_t dim : {1, 3, 8, 15, 16, 31, 32, 33, 40, 64, 100}) {
        const Matrix queries = random_matrix(4, dim, 1);
        Matrix candidates = random_matrix(31, dim, 2);
        candidates.copy_row(11, 12);
        candidates.copy_row(11, 30);
        const Matrix moved = random_matrix(4, dim, 1, 1);
        const Matrix axis = random_matrix(1, dim, 3);
        const Ranked expected = rank_naively(queries, candidates, offsets, axis);
        at_every_level([&](const std::string& level) {
            CAPTURE(dim);
            CAPTURE(level);
            epibias::CandidateRows given;
            given.candidates = candidates.view();
            given.offsets = offsets;
            given.axes = axis.view();
            for (const auto& view : {queries.view(), moved.view()}) {
                given.queries = view;
                for (const int n_threads : {1, 3}) CHECK(rank(given, n_threads) == expected);
            }
        });
    }
}

TEST_CASE("rank_candidates: what does not fit is named") {
    const Integers offsets = {0, 2, 3};
    const Matrix queries = random_matrix(2, 4, 1);
    Matrix candidates = random_matrix(3, 4, 2);
    const Matrix axes = random_matrix(1, 4, 3);
    epibias::CandidateRows given;
    given.queries = queries.view();
    given.candidates = candidates.view();
    given.offsets = offsets;
    given.axes = axes.view();
    const auto message = [&] { return message_of([&] { rank(given); }); };
    CHECK(message() == "nothing was thrown");
    const Integers twice = {4, 4, 1};
    given.indices = twice;
    CHECK(message() == "indices: expected each candidate once, got 4 twice (query 0)");
    given.indices = {};
    candidates.set(2, 3, std::numeric_limits<float>::quiet_NaN());
    CHECK(
        message() ==
        "candidate_embeddings: expected finite rows of non-zero norm, got NaN in row 0 (query 1)");
    const Integers short_offsets = {0, 3};
    given.offsets = short_offsets;
    CHECK(message() == "offsets: expected 3 of them, one more than queries, got 2");
}
