// polarization_axis on the emulated device against the CPU: angles, spectra, faults, determinism.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "epibias/cuda/polarization_axis.hpp"
#include "epibias/polarization_axis.hpp"
#include "refusal.hpp"

namespace epibias::cuda {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Topics {
    std::int64_t n_topics, n_anchors, dim;
    std::vector<float> anchors;
    std::vector<double> stances;

    // Around a common centre, spread most along one direction.
    Topics(std::int64_t topics, std::int64_t count, std::int64_t columns, unsigned seed)
        : n_topics(topics), n_anchors(count), dim(columns) {
        std::mt19937 generator(seed);
        std::normal_distribution<float> normal;
        for (std::int64_t topic = 0; topic < topics; ++topic) {
            std::vector<float> centre;
            std::vector<float> direction;
            for (std::int64_t i = 0; i < columns; ++i) {
                centre.push_back(normal(generator));
                direction.push_back(normal(generator));
            }
            for (std::int64_t anchor = 0; anchor < count; ++anchor) {
                const float amount = normal(generator);
                for (std::size_t i = 0; i < centre.size(); ++i) {
                    anchors.push_back(centre[i] + amount * direction[i] + 0.5F * normal(generator));
                }
            }
        }
    }

    // The first of each topic supports, the second opposes, the others are either or neither.
    void add_stances(unsigned seed) {
        std::mt19937 generator(seed);
        std::uniform_int_distribution<int> stance(-1, 1);
        for (std::int64_t i = 0; i < n_topics * n_anchors; ++i) {
            const std::int64_t anchor = i % n_anchors;
            stances.push_back(anchor == 0 ? 1 : anchor == 1 ? -1 : stance(generator));
        }
    }

    float& at(std::int64_t topic, std::int64_t anchor, std::int64_t column) {
        return anchors[static_cast<std::size_t>((topic * n_anchors + anchor) * dim + column)];
    }
    double& stance(std::int64_t topic, std::int64_t anchor) {
        return stances[static_cast<std::size_t>(topic * n_anchors + anchor)];
    }
    [[nodiscard]] MatrixView<const float> view() const {
        return {anchors.data(), n_topics * n_anchors, dim};
    }
    [[nodiscard]] MatrixView<const double> stance_view() const {
        if (stances.empty()) return {};
        return {stances.data(), n_topics, n_anchors};
    }
};

struct Fit {
    std::vector<float> axes;
    std::vector<double> explained, gap;
    Fault fault{.word = kNoFault, .value = 0};

    explicit Fit(const Topics& topics)
        : axes(static_cast<std::size_t>(topics.n_topics * topics.dim), -7.0F),
          explained(static_cast<std::size_t>(topics.n_topics), -7.0),
          gap(static_cast<std::size_t>(topics.n_topics), -7.0) {}

    PolarizationAxisResult result(const Topics& topics) {
        return {{axes.data(), topics.n_topics, topics.dim}, explained, gap};
    }
    [[nodiscard]] const float* axis(const Topics& topics, std::int64_t topic) const {
        return axes.data() + topic * topics.dim;
    }
};

// At most `at_once` topics share the workspace.
Fit on_device(const Topics& topics, bool normalize = true, std::int64_t at_once = 1'000) {
    Fit fit(topics);
    const std::size_t n_bytes = polarization_axis_workspace_bytes(
        std::min(at_once, topics.n_topics), topics.n_anchors, topics.dim);
    std::vector<double> workspace(n_bytes / sizeof(double), kNan);
    polarization_axis(topics.view(), topics.n_anchors, topics.stance_view(), fit.result(topics),
                      normalize, workspace.data(), n_bytes, &fit.fault, Stream{});
    return fit;
}

Fit on_cpu(const Topics& topics, bool normalize = true) {
    Fit fit(topics);
    epibias::polarization_axis(topics.view(), topics.n_anchors, topics.stance_view(),
                               fit.result(topics), {.normalize = normalize, .n_threads = 1});
    return fit;
}

double angle(const float* left, const float* right, std::int64_t dim) {
    double apart = 0;
    double together = 0;
    for (std::int64_t i = 0; i < dim; ++i) {
        apart += std::pow(static_cast<double>(left[i]) - static_cast<double>(right[i]), 2);
        together += std::pow(static_cast<double>(left[i]) + static_cast<double>(right[i]), 2);
    }
    return 2 * std::atan2(std::sqrt(apart), std::sqrt(together));
}

// Both axes are rounded to float32: 1.2e-7 of the bound is that.
void check_same(const Topics& topics, bool normalize = true, double bound = 3e-7) {
    const Fit got = on_device(topics, normalize);
    const Fit expected = on_cpu(topics, normalize);
    CHECK(got.fault.word == kNoFault);
    for (std::int64_t topic = 0; topic < topics.n_topics; ++topic) {
        CAPTURE(topic);
        const auto place = static_cast<std::size_t>(topic);
        CHECK(angle(got.axis(topics, topic), expected.axis(topics, topic), topics.dim) <= bound);
        CHECK(std::abs(got.explained[place] - expected.explained[place]) <= 1e-12);
        CHECK(std::abs(got.gap[place] - expected.gap[place]) <= 2e-11);
    }
}

bool is_poisoned(const Topics& topics, const Fit& fit, std::int64_t topic) {
    const auto place = static_cast<std::size_t>(topic);
    return std::isnan(fit.explained[place]) && std::isnan(fit.gap[place]) &&
           std::all_of(fit.axis(topics, topic), fit.axis(topics, topic + 1),
                       [](float value) { return std::isnan(value); });
}

bool same_bits(const Topics& topics, const Fit& one, std::int64_t one_topic, const Fit& other,
               std::int64_t topic) {
    const auto bytes = static_cast<std::size_t>(topics.dim) * sizeof(float);
    return std::memcmp(one.axis(topics, one_topic), other.axis(topics, topic), bytes) == 0 &&
           one.explained[static_cast<std::size_t>(one_topic)] ==
               other.explained[static_cast<std::size_t>(topic)] &&
           one.gap[static_cast<std::size_t>(one_topic)] ==
               other.gap[static_cast<std::size_t>(topic)];
}

TEST_SUITE("polarization_axis") {
    TEST_CASE("few anchors: the CPU's axis on both sides of every switch") {
        for (const std::int64_t n_anchors : {2, 3, 8, 9, 16, 17, 32}) {
            for (const std::int64_t dim : {1, 2, 31, 33, 65}) {
                CAPTURE(n_anchors);
                CAPTURE(dim);
                // One dimension: unit rows may all be equal.
                check_same(Topics(2, n_anchors, dim, 7), dim > 1);
            }
        }
    }

    TEST_CASE("many anchors: the CPU's axis by products of anchors and of columns") {
        // Above 128 of the fewer the block is larger. Tiles are of 64.
        const std::int64_t sizes[][2] = {{33, 1},  {33, 2},  {40, 33},
                                         {33, 34}, {66, 65}, {129, 130}};
        for (const auto& [n_anchors, dim] : sizes) {
            CAPTURE(n_anchors);
            CAPTURE(dim);
            check_same(Topics(n_anchors < 60 ? 2 : 1, n_anchors, dim, 8), dim > 1);
        }
    }

    TEST_CASE("stances orient, and equal means leave the sign to the anchors") {
        for (const std::int64_t n_anchors : {4, 20, 40}) {
            Topics topics(6, n_anchors, 33, 9);
            topics.add_stances(3);
            check_same(topics);
        }
        for (const std::int64_t copies : {1, 10}) {  // few and many anchors
            Topics topics(2, 4 * copies, 3, 1);
            topics.add_stances(1);
            for (std::int64_t topic = 0; topic < 2; ++topic) {
                for (std::int64_t anchor = 0; anchor < 4 * copies; ++anchor) {
                    topics.at(topic, anchor, 0) = 0;
                    topics.at(topic, anchor, 2) = 0;
                    const float centre = topic == 0 ? -10.0F : 10.0F;
                    topics.at(topic, anchor, 1) = centre + (anchor % 2 == 0 ? 3.0F : -3.0F);
                    topics.stance(topic, anchor) = anchor % 4 < 2 ? 1 : -1;
                }
            }
            const Fit fit = on_device(topics, false);
            CHECK(std::abs(fit.axes[1] + 1) <= 1e-7F);
            CHECK(std::abs(fit.axes[4] - 1) <= 1e-7F);
        }
    }

    TEST_CASE("around the origin the largest component decides, the lowest of equal ones") {
        for (const std::int64_t pairs : {1, 20}) {
            Topics topics(2, 2 * pairs, 3, 1);
            for (std::int64_t anchor = 0; anchor < 2 * pairs; ++anchor) {
                const float sign = anchor % 2 == 0 ? 1.0F : -1.0F;
                const float rows[2][3] = {{0, 3 * sign, -4 * sign}, {0, -sign, sign}};
                for (std::int64_t i = 0; i < 3; ++i) {
                    topics.at(0, anchor, i) = rows[0][i];
                    topics.at(1, anchor, i) = rows[1][i];
                }
            }
            const Fit fit = on_device(topics);
            CHECK(std::abs(fit.axes[1] + 0.6F) <= 1e-7F);
            CHECK(std::abs(fit.axes[2] - 0.8F) <= 1e-7F);
            CHECK(fit.axes[4] > 0.7F);
            CHECK(fit.axes[5] < -0.7F);
        }
    }

    TEST_CASE(
        "rows of any scale, denormal and near the largest float, and columns that are constant") {
        for (const std::int64_t n_anchors : {8, 40}) {
            Topics topics(4, n_anchors, 35, 11);
            for (std::int64_t topic = 0; topic < 4; ++topic) {
                for (std::int64_t anchor = 0; anchor < n_anchors; ++anchor) {
                    const float scale = anchor % 3 == 0   ? 0x1p-130F
                                        : anchor % 3 == 1 ? 1
                                                          : 0x1p120F;
                    for (std::int64_t i = 0; i < 35; ++i) {
                        float& value = topics.at(topic, anchor, i);
                        if (topic == 1 && i % 2 == 0) value = 0;
                        value *= scale;
                    }
                }
            }
            check_same(topics);
            Topics raw(3, n_anchors, 35, 12);
            for (float& value : raw.anchors) value *= 0x1p100F;
            check_same(raw, false);
            for (float& value : raw.anchors) value = value * 0x1p-115F * 0x1p-115F;  // denormal
            check_same(raw, false);
        }
    }

    TEST_CASE("equal leading eigenvalues: an eigenvector of the plane, and no gap") {
        for (const std::int64_t n_anchors : {8, 30, 40}) {
            CAPTURE(n_anchors);
            Topics topics(1, n_anchors, 40, 2);
            const double turn = 2 * std::numbers::pi / static_cast<double>(n_anchors);
            for (std::int64_t anchor = 0; anchor < n_anchors; ++anchor) {
                for (std::int64_t i = 0; i < 40; ++i) topics.at(0, anchor, i) = 0;
                topics.at(0, anchor, 3) =
                    static_cast<float>(std::cos(turn * static_cast<double>(anchor)));
                topics.at(0, anchor, 17) =
                    static_cast<float>(std::sin(turn * static_cast<double>(anchor)));
            }
            const Fit fit = on_device(topics, false);
            CHECK(fit.gap[0] <= 1e-6);
            CHECK(std::abs(fit.explained[0] - 0.5) <= 1e-6);
            CHECK(std::abs(std::hypot(fit.axes[3], fit.axes[17]) - 1) <= 1e-6F);
        }
    }

    TEST_CASE("a batch is its topics one by one to the bit, also in chunks of the workspace") {
        for (const std::int64_t n_anchors : {8, 20, 33}) {
            const Topics topics(3, n_anchors, 37, 13);
            const Fit batch = on_device(topics);
            const Fit in_chunks = on_device(topics, true, 2);
            for (std::int64_t topic = 0; topic < 3; ++topic) {
                Topics one(1, n_anchors, 37, 1);
                const std::int64_t size = n_anchors * 37;
                std::copy_n(topics.anchors.begin() + topic * size, size, one.anchors.begin());
                CHECK(same_bits(topics, on_device(one), 0, batch, topic));
                CHECK(same_bits(topics, in_chunks, topic, batch, topic));
            }
        }
        // 600 topics would need 400 MB at once.
        const std::size_t one = polarization_axis_workspace_bytes(1, 33, 40'000);
        const std::size_t all = polarization_axis_workspace_bytes(600, 33, 40'000);
        CHECK(all % one == 0);
        CHECK(all / one < 600);
        CHECK(all <= kMostWorkspaceBytes);
        CHECK(polarization_axis_workspace_bytes(2, 20'000, 20'000) ==
              polarization_axis_workspace_bytes(1, 20'000, 20'000));
        CHECK(polarization_axis_workspace_bytes(2, 32, 40'000) == 0);
    }

    TEST_CASE("a topic at fault is NaN, its neighbours are not, and the lowest is recorded") {
        for (const std::int64_t n_anchors : {6, 34}) {
            CAPTURE(n_anchors);
            const std::int64_t places = axis_fault_places(n_anchors);
            const auto word = [&](std::int64_t topic, std::int64_t place, AxisFault what) {
                return fault_word(kAxisFaultArgument, topic * places + place,
                                  static_cast<int>(what));
            };
            Topics topics(3, n_anchors, 12, 14);
            topics.add_stances(1);
            const Fit clean = on_device(topics);
            const auto check_fault = [&](std::int64_t topic, std::uint64_t expected) {
                const Fit fit = on_device(topics);
                CHECK(fit.fault.word == expected);
                CHECK(is_poisoned(topics, fit, topic));
                CHECK(same_bits(topics, fit, 0, clean, 0));
            };
            for (std::int64_t anchor = 0; anchor < n_anchors; ++anchor) {
                for (std::int64_t i = 0; i < 12; ++i) {
                    topics.at(2, anchor, i) = topics.at(2, 0, i);
                }
            }
            check_fault(2, word(2, places - 1, AxisFault::kEqualAnchors));
            topics.at(1, 5, 11) = std::numeric_limits<float>::infinity();
            check_fault(1, word(1, n_anchors + 6, AxisFault::kAnchorNotFinite));
            for (std::int64_t i = 0; i < 12; ++i) topics.at(1, 3, i) = 0;
            check_fault(1, word(1, n_anchors + 4, AxisFault::kAnchorZero));
            for (std::int64_t i = 0; i < n_anchors; ++i) topics.stance(1, i) = 0;
            check_fault(1, word(1, n_anchors, AxisFault::kZerosOnly));
            topics.stance(1, 2) = 1;
            check_fault(1, word(1, n_anchors, AxisFault::kNoneNegative));
            topics.stance(1, 2) = -1;
            check_fault(1, word(1, n_anchors, AxisFault::kNonePositive));
            topics.stance(1, 4) = kNan;
            check_fault(1, word(1, 4, AxisFault::kStanceNan));
            topics.stance(1, 3) = -kInfinity;
            check_fault(1, word(1, 3, AxisFault::kStanceMinusInfinite));
            topics.stance(1, 1) = kInfinity;
            check_fault(1, word(1, 1, AxisFault::kStanceInfinite));
        }
    }

    TEST_CASE("what the launcher refuses, in the CPU's words") {
        const Topics one_anchor(2, 1, 4, 1);
        CHECK(test::message_of([&] { on_device(one_anchor); }) ==
              "anchors: expected at least 2 anchors a topic, got 1");
        Topics topics(2, 40, 4, 1);
        Fit fit(topics);
        CHECK(test::message_of([&] {
                  polarization_axis(topics.view(), 40, {}, fit.result(topics), true, nullptr, 8,
                                    &fit.fault, Stream{});
              }).starts_with("workspace: expected "));
        topics.add_stances(1);
        topics.stances.resize(40);
        CHECK(test::message_of([&] {
                  polarization_axis(topics.view(), 40, {topics.stances.data(), 1, 40},
                                    fit.result(topics), true, nullptr, 0, &fit.fault, Stream{});
              }) == "stances: expected shape (2, 40), got shape (1, 40)");
    }
}

}  // namespace
}  // namespace epibias::cuda
