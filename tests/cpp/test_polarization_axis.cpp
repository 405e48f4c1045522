#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "../../cpp/src/kernels/polarization_axis_kernels.hpp"
#include "epibias/numeric.hpp"
#include "epibias/polarization_axis.hpp"
#include "epibias/simd_level.hpp"
#include "refusal.hpp"
#include "support.hpp"

namespace {

using epibias::MatrixView;
using epibias::test::at_every_level;
using epibias::test::message_of;

struct Topics {
    std::int64_t n_topics, n_anchors, dim;
    std::vector<float> anchors;

    Topics(std::int64_t topics, std::int64_t count, std::int64_t columns, unsigned seed)
        : n_topics(topics), n_anchors(count), dim(columns) {
        std::mt19937 generator(seed);
        std::normal_distribution<float> normal;
        for (std::int64_t i = 0; i < topics * count * columns; ++i) {
            anchors.push_back(normal(generator) + 0.3F);
        }
    }
    [[nodiscard]] MatrixView<const float> view() const {
        return {anchors.data(), n_topics * n_anchors, dim};
    }
};

struct Fit {
    std::vector<float> axes;
    std::vector<double> explained, gap;

    bool operator==(const Fit& other) const {  // by bits: a NaN would differ from itself
        return std::memcmp(axes.data(), other.axes.data(), axes.size() * sizeof(float)) == 0 &&
               explained == other.explained && gap == other.gap;
    }
};

Fit fit(const Topics& topics, const std::vector<double>& stances = {},
        const epibias::PolarizationAxisOptions& options = {}) {
    const auto size = static_cast<std::size_t>(topics.n_topics);
    Fit result{std::vector<float>(size * static_cast<std::size_t>(topics.dim)),
               std::vector<double>(size), std::vector<double>(size)};
    MatrixView<const double> stance_view;
    if (!stances.empty()) stance_view = {stances.data(), topics.n_topics, topics.n_anchors};
    epibias::polarization_axis(
        topics.view(), topics.n_anchors, stance_view,
        {{result.axes.data(), topics.n_topics, topics.dim}, result.explained, result.gap}, options);
    return result;
}

}  // namespace

TEST_CASE("polarization_axis: the same bits on every level, thread count and batch") {
    for (const std::int64_t n_anchors : {2, 3, 8, 25, 40}) {
        for (const std::int64_t dim : {1, 2, 7, 8, 9, 31, 33, 97}) {
            CAPTURE(n_anchors);
            CAPTURE(dim);
            // One dimension has only the directions +1 and -1: unit rows there may all be equal.
            const epibias::PolarizationAxisOptions raw{.normalize = dim > 1, .n_threads = 1};
            const Topics topics(5, n_anchors, dim, static_cast<unsigned>(n_anchors * 100 + dim));
            epibias::set_simd_level("scalar");
            const Fit expected = fit(topics, {}, raw);
            at_every_level([&](const std::string& level) {
                CAPTURE(level);
                for (const int n_threads : {1, 2, 3}) {
                    CHECK(fit(topics, {}, {raw.normalize, n_threads}) == expected);
                }
            });
            for (std::int64_t topic = 0; topic < topics.n_topics; ++topic) {
                Topics one(1, n_anchors, dim, 0);
                const auto size = n_anchors * dim;
                std::copy_n(topics.anchors.begin() + topic * size, size, one.anchors.begin());
                const Fit single = fit(one, {}, raw);
                CHECK(single.gap[0] == expected.gap[static_cast<std::size_t>(topic)]);
                CHECK(std::memcmp(single.axes.data(), expected.axes.data() + topic * dim,
                                  single.axes.size() * sizeof(float)) == 0);
                double squares = 0;
                for (const float value : single.axes) {
                    squares += static_cast<double>(value) * static_cast<double>(value);
                }
                CHECK(std::abs(squares - 1) <= 2e-7);  // float32 components
            }
        }
    }
}

TEST_CASE("squared_norm of the axis kernels is the canonical dot product to the bit") {
    for (const std::int64_t dim : {1, 2, 7, 8, 9, 31, 32, 33, 64, 97, 384, 1000}) {
        CAPTURE(dim);
        const Topics rows(1, 1, dim, static_cast<unsigned>(dim));
        const double expected =
            epibias::canonical_dot(rows.anchors.data(), rows.anchors.data(), dim);
        std::vector<const epibias::kernels::PolarizationAxisKernels*> tables = {
            &epibias::kernels::scalar::kPolarizationAxis};
#if defined(__x86_64__)
        for (const epibias::SimdLevel level : epibias::supported_simd_levels()) {
            if (level == epibias::SimdLevel::kAvx2) {
                tables.push_back(&epibias::kernels::avx2::kPolarizationAxis);
            }
            if (level == epibias::SimdLevel::kAvx512) {
                tables.push_back(&epibias::kernels::avx512::kPolarizationAxis);
            }
        }
#endif
        for (const auto* table : tables) {
            CHECK(table->squared_norm(rows.anchors.data(), dim) == expected);
        }
    }
}

TEST_CASE("polarization_axis: Gram and covariance find the axis of a planted direction") {
    for (const std::int64_t n_anchors : {4, 64}) {  // below and above dim
        Topics topics(1, n_anchors, 16, 5);
        for (std::int64_t i = 0; i < n_anchors; ++i) {
            for (std::int64_t column = 0; column < 16; ++column) {
                float& value = topics.anchors[static_cast<std::size_t>(i * 16 + column)];
                value = 1e-4F * value + (column == 3 ? (i % 2 == 0 ? 2.0F : -1.0F) : 0.0F);
            }
        }
        const Fit result = fit(topics, {}, {.normalize = false});
        CHECK(result.axes[3] >= 0.999F);  // mean PS is positive: 2 and -1 alternate
        CHECK(result.explained[0] >= 0.999);
        CHECK(result.gap[0] >= 0.999);
        std::vector<double> stances(static_cast<std::size_t>(n_anchors));
        for (std::size_t i = 0; i < stances.size(); ++i) stances[i] = i % 2 == 0 ? -1.0 : 1.0;
        CHECK(fit(topics, stances, {.normalize = false}).axes[3] <= -0.999F);
    }
}

TEST_CASE("polarization_axis: anchors around the origin are oriented by the largest component") {
    Topics topics(1, 2, 3, 1);
    topics.anchors = {0.0F, 3.0F, -4.0F, 0.0F, -3.0F, 4.0F};
    const Fit first = fit(topics);
    CHECK(first.axes[2] == doctest::Approx(0.8));
    topics.anchors = {0.0F, -1.0F, 1.0F, 0.0F, 1.0F, -1.0F};  // a tie: the lowest index decides
    const Fit tied = fit(topics);
    CHECK(tied.axes[1] == doctest::Approx(std::sqrt(0.5)));
    CHECK(tied.axes[2] == doctest::Approx(-std::sqrt(0.5)));
}

TEST_CASE("polarization_axis: error texts name topic and row") {
    Topics topics(3, 4, 5, 2);
    const Topics good = topics;
    CHECK(message_of([&] { fit(Topics(2, 1, 5, 2)); }) ==
          "anchors: expected at least 2 anchors a topic, got 1");
    topics.anchors[(1 * 4 + 2) * 5 + 3] = std::numeric_limits<float>::quiet_NaN();
    CHECK(message_of([&] { fit(topics); }) ==
          "anchors: expected finite rows of non-zero norm, got NaN or Inf in row 2 (topic 1)");
    topics = good;
    std::fill_n(topics.anchors.begin() + (2 * 4 + 1) * 5, 5, 0.0F);
    CHECK(message_of([&] { fit(topics); }) ==
          "anchors: expected finite rows of non-zero norm, got a zero row 1 (topic 2)");
    CHECK(message_of([&] { fit(topics, {}, {.normalize = false}); }) == "nothing was thrown");
    topics = good;
    for (std::int64_t i = 0; i < 4; ++i) {
        std::copy_n(good.anchors.begin() + 20, 5, topics.anchors.begin() + 20 + i * 5);
    }
    CHECK(message_of([&] { fit(topics); }) ==
          "anchors: expected anchors that differ, got equal ones (topic 1)");
    std::vector<double> stances(12, 1.0);
    CHECK(message_of([&] { fit(good, stances); }) ==
          "stances: expected positive and negative ones, got none that is negative (topic 0)");
    stances[1] = -std::numeric_limits<double>::infinity();
    CHECK(message_of([&] { fit(good, stances); }) ==
          "stances: expected finite values, got -inf for anchor 1 (topic 0)");
}

TEST_CASE("polarization_scores: whole and gathered agree to the bit with the canonical dot") {
    const Topics rows(1, 12, 33, 8);
    const Topics axes(1, 3, 33, 9);
    const MatrixView<const float> row_view{rows.anchors.data(), 12, 33};
    const MatrixView<const float> axis_view{axes.anchors.data(), 3, 33};
    const std::vector<std::int64_t> indices = {11, 0, 5, 5, 3, 2};
    const std::vector<std::int64_t> axis_of_query = {2, 0, 2};
    at_every_level([&](const std::string& level) {
        CAPTURE(level);
        for (const bool normalize : {true, false}) {
            std::vector<float> scores(3 * 12), gathered(6);
            epibias::polarization_scores(row_view, axis_view, {scores.data(), 3, 12},
                                         {.normalize = normalize});
            for (std::int64_t topic = 0; topic < 3; ++topic) {
                for (std::int64_t row = 0; row < 12; ++row) {
                    double score =
                        epibias::canonical_dot(row_view.row(row), axis_view.row(topic), 33);
                    if (normalize) score *= epibias::inverse_norm(row_view.row(row), 33);
                    CHECK(scores[static_cast<std::size_t>(topic * 12 + row)] ==
                          static_cast<float>(score));
                }
            }
            epibias::gathered_polarization_scores(row_view, axis_view, {indices.data(), 3, 2},
                                                  axis_of_query, {gathered.data(), 3, 2},
                                                  {.normalize = normalize, .n_threads = 2});
            for (std::size_t i = 0; i < 6; ++i) {
                const auto place = static_cast<std::size_t>(axis_of_query[i / 2] * 12 + indices[i]);
                CHECK(gathered[i] == scores[place]);
            }
        }
    });
}

TEST_CASE("polarization_scores: error texts name the position") {
    const Topics rows(1, 4, 3, 8);
    const Topics axes(1, 2, 3, 9);
    const MatrixView<const float> row_view{rows.anchors.data(), 4, 3};
    const MatrixView<const float> axis_view{axes.anchors.data(), 2, 3};
    std::vector<float> scores(8);
    const auto gather = [&](const std::vector<std::int64_t>& indices,
                            const std::vector<std::int64_t>& topics, std::int64_t n_queries) {
        const auto columns = static_cast<std::int64_t>(indices.size()) / n_queries;
        epibias::gathered_polarization_scores(row_view, axis_view,
                                              {indices.data(), n_queries, columns}, topics,
                                              {scores.data(), n_queries, columns});
    };
    CHECK(message_of([&] { gather({0, 1, 2, 4}, {}, 2); }) ==
          "indices: expected 0 to 3 (the number of rows less 1), got 4 (row 1, column 1)");
    CHECK(message_of([&] { gather({0, -1, 2, 3}, {}, 2); }) ==
          "indices: expected 0 to 3 (the number of rows less 1), got -1 (row 0, column 1)");
    CHECK(message_of([&] { gather({0, 1, 2, 3}, {0, 2}, 2); }) ==
          "axis_of_query: expected 0 to 1 (the number of axes less 1), got 2 (query 1)");
    CHECK(message_of([&] { gather({0, 1, 2, 3}, {}, 4); }) ==
          "axis_of_query: expected the axis of every query, as there are 2 axes and 4 rows of "
          "indices, got none");
    const std::vector<float> zero(12, 0.0F);
    CHECK(message_of([&] {
              epibias::polarization_scores({zero.data(), 4, 3}, axis_view, {scores.data(), 2, 4});
          }) == "rows: expected finite rows of non-zero norm, got a zero row 0");
    CHECK(message_of([&] {
              epibias::polarization_scores(row_view, {axes.anchors.data(), 3, 2},
                                           {scores.data(), 3, 4});
          }) == "axes: expected dim 3, as rows, got dim 2");
}
