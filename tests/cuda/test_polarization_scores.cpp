// Projections on axes on the emulated device: the CPU's bits, and the CPU's faults.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "epibias/cuda/polarization_scores.hpp"
#include "epibias/polarization_axis.hpp"
#include "refusal.hpp"
#include "support.hpp"

namespace epibias::cuda {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Indices = std::vector<std::int64_t>;

struct Scores {
    std::vector<float> values;
    Fault fault{.word = kNoFault, .value = 0};
};

Scores score(const test::Matrix& rows, const test::Matrix& axes, bool normalize = true) {
    Scores scores{std::vector<float>(static_cast<std::size_t>(rows.n_rows() * axes.n_rows()), -7)};
    polarization_scores(rows.view(), axes.view(),
                        {scores.values.data(), axes.n_rows(), rows.n_rows()}, normalize,
                        &scores.fault, Stream{});
    return scores;
}

Scores gather(const test::Matrix& rows, const test::Matrix& axes, const Indices& indices,
              std::int64_t n_queries, const Indices& axis_of_query = {}, bool normalize = true) {
    const auto m = static_cast<std::int64_t>(indices.size()) / n_queries;
    Scores scores{std::vector<float>(indices.size(), -7)};
    gathered_polarization_scores(rows.view(), axes.view(), {indices.data(), n_queries, m},
                                 axis_of_query.empty() ? nullptr : axis_of_query.data(),
                                 {scores.values.data(), n_queries, m}, normalize, &scores.fault,
                                 Stream{});
    return scores;
}

TEST_SUITE("polarization_scores") {
    TEST_CASE("every row on every axis has the CPU's bits") {
        for (const std::int64_t dim : {1, 2, 31, 32, 33, 97}) {
            for (const std::int64_t n_axes : {1, 3, 4, 5, 9}) {
                for (const bool normalize : {true, false}) {
                    const test::Matrix rows = test::random_matrix(21, dim, 3);
                    const test::Matrix axes = test::random_matrix(n_axes, dim, 4);
                    std::vector<float> expected(static_cast<std::size_t>(21 * n_axes));
                    epibias::polarization_scores(rows.view(), axes.view(),
                                                 {expected.data(), n_axes, 21},
                                                 {.normalize = normalize, .n_threads = 1});
                    const Scores got = score(rows, axes, normalize);
                    CHECK(got.values == expected);
                    CHECK(got.fault.word == kNoFault);
                }
            }
        }
    }

    TEST_CASE("anchors on their own axes have the CPU's bits in float64") {
        const test::Matrix anchors = test::random_matrix(15, 40, 5);
        const test::Matrix axes = test::random_matrix(3, 40, 6);
        std::vector<double> expected(15);
        epibias::anchor_scores(anchors.view(), axes.view(), {expected.data(), 3, 5});
        std::vector<double> got(15, -7);
        Fault fault{.word = kNoFault, .value = 0};
        anchor_scores(anchors.view(), axes.view(), {got.data(), 3, 5}, true, &fault, Stream{});
        CHECK(got == expected);
        CHECK(fault.word == kNoFault);
    }

    TEST_CASE("gathered rows: their own axis, the one axis, or axis q; only they are read") {
        test::Matrix rows = test::random_matrix(12, 33, 7);
        const test::Matrix axes = test::random_matrix(3, 33, 8);
        const Indices indices = {0, 5, 11, 5, 2, 2, 7, 8, 9};
        const Scores all = score(rows, axes);
        rows.set(1, 0, kNan);  // no query names it
        const auto check = [&](const Scores& got, const Indices& topics) {
            CHECK(got.fault.word == kNoFault);
            for (std::size_t i = 0; i < indices.size(); ++i) {
                const auto place = static_cast<std::size_t>(topics[i / 3] * 12 + indices[i]);
                CHECK(got.values[i] == all.values[place]);
            }
        };
        check(gather(rows, axes, indices, 3, {2, 0, 2}), {2, 0, 2});
        check(gather(rows, axes, indices, 3), {0, 1, 2});
        test::Matrix one = test::random_matrix(1, 33, 8);
        check(gather(rows, one, indices, 3), {0, 0, 0});
    }

    TEST_CASE("faulty rows and axes: NaN in their scores alone, the lowest recorded") {
        test::Matrix rows = test::random_matrix(6, 33, 9);
        test::Matrix axes = test::random_matrix(5, 33, 10);
        rows.set(4, 32, kNan);
        for (std::int64_t i = 0; i < 33; ++i) rows.set(2, i, 0);
        const auto word = [](std::int64_t row, ScoreFault what) {
            return fault_word(kScoresArgument, row, static_cast<int>(what));
        };
        const auto check_nan = [](const Scores& got, std::int64_t bad_axis, bool zero_is_bad) {
            for (std::int64_t i = 0; i < 30; ++i) {
                const bool bad = i / 6 == bad_axis || i % 6 == 4 || (zero_is_bad && i % 6 == 2);
                CHECK(std::isnan(got.values[static_cast<std::size_t>(i)]) == bad);
            }
        };
        Scores got = score(rows, axes);
        CHECK(got.fault.word == word(2, ScoreFault::kRowZero));
        check_nan(got, -1, true);
        got = score(rows, axes, false);
        CHECK(got.fault.word == word(4, ScoreFault::kRowNan));
        check_nan(got, -1, false);
        rows.set(4, 3, -std::numeric_limits<float>::infinity());
        CHECK(score(rows, axes, false).fault.word == word(4, ScoreFault::kRowInfinite));
        axes.set(3, 1, std::numeric_limits<float>::infinity());
        got = score(rows, axes);
        CHECK(got.fault.word == fault_word(kAxesArgument, 3, 0));
        check_nan(got, 3, true);
    }

    TEST_CASE("indices and axes out of range, with the number that the message names") {
        test::Matrix rows = test::random_matrix(4, 9, 1);
        const test::Matrix axes = test::random_matrix(2, 9, 2);
        const auto word = [](std::int64_t query, std::int64_t place, ScoreFault what) {
            return fault_word(kScoresArgument, query * 3 + place, static_cast<int>(what));
        };
        Scores got = gather(rows, axes, {0, 1, 2, 4, -1, 3}, 3, {0, 1, 1});
        CHECK(got.fault.word == word(1, 2, ScoreFault::kIndexOutOfRange));
        CHECK(got.fault.value == 4);
        for (std::size_t i = 0; i < 6; ++i) {
            CHECK(std::isnan(got.values[i]) == (i == 3 || i == 4));
        }
        got = gather(rows, axes, {0, 1, 2, 4, -1, 3}, 3, {0, 2, -1});
        CHECK(got.fault.word == word(1, 0, ScoreFault::kAxisOutOfRange));
        CHECK(got.fault.value == 2);
        CHECK(std::isnan(got.values[2]));
        rows.set(1, 2, kNan);
        got = gather(rows, axes, {0, 1, 2, 3, 3, 3}, 3, {0, 1, -1});
        CHECK(got.fault.word == word(0, 2, ScoreFault::kRowNan));
        CHECK(got.fault.value == 1);
        got = gather(rows, axes, Indices(2, 0), 2, {0, 5});
        CHECK(got.fault.value == 5);
    }

    TEST_CASE("what the launchers refuse, and nothing to do") {
        const test::Matrix rows = test::random_matrix(4, 9, 1);
        CHECK(test::message_of([&] { score(rows, test::random_matrix(2, 8, 1)); }) ==
              "axes: expected dim 9, as rows, got dim 8");
        CHECK(test::message_of([&] {
                  gather(rows, test::random_matrix(2, 9, 1), Indices(3, 0), 3);
              }).starts_with("axis_of_query: expected the axis of every query"));
        CHECK(score(test::Matrix(0, 9), rows).values.empty());
        CHECK(score(rows, test::Matrix(0, 9)).values.empty());
    }
}

}  // namespace
}  // namespace epibias::cuda
