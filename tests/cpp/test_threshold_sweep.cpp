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

#include "epibias/numeric.hpp"
#include "epibias/threshold_sweep.hpp"
#include "refusal.hpp"
#include "support.hpp"

#define EPIBIAS_LEVEL scalar
#include "../../cpp/src/kernels/lanes.hpp"

namespace {

using epibias::MatrixView;
using epibias::SweepCriterion;
using epibias::test::at_every_level;
using epibias::test::message_of;

struct Pools {
    std::int64_t n_queries, n;
    std::vector<float> similarities, scores;

    Pools(std::int64_t queries, std::int64_t candidates, unsigned seed)
        : n_queries(queries), n(candidates) {
        std::mt19937 generator(seed);
        std::uniform_real_distribution<float> uniform(0, 1);
        std::normal_distribution<float> normal(0, 0.1F);
        for (std::int64_t i = 0; i < queries * candidates; ++i) {
            similarities.push_back(uniform(generator));
            scores.push_back(normal(generator) + (i % 5 == 0 ? 0.3F : 0.0F));
        }
    }
    [[nodiscard]] MatrixView<const float> similarity_view() const {
        return {similarities.data(), n_queries, n};
    }
    [[nodiscard]] MatrixView<const float> score_view() const {
        return {scores.data(), n_queries, n};
    }
};

struct Result {
    std::vector<float> thresholds;
    std::vector<std::int64_t> n_kept;
    std::vector<double> divergences, p_values, curve;

    explicit Result(const Pools& pools, std::int64_t curve_columns)
        : thresholds(static_cast<std::size_t>(pools.n_queries)),
          n_kept(thresholds.size()),
          divergences(thresholds.size()),
          p_values(thresholds.size()),
          curve(thresholds.size() * static_cast<std::size_t>(curve_columns)) {}

    [[nodiscard]] epibias::SweepResult view(const Pools& pools, std::int64_t curve_columns) {
        return {thresholds,
                n_kept,
                divergences,
                p_values,
                {curve.data(), pools.n_queries, curve_columns}};
    }
};

Result sweep(const Pools& pools, const epibias::ThresholdSweepOptions& options) {
    Result result(pools, pools.n - 1);
    epibias::threshold_sweep(pools.similarity_view(), pools.score_view(),
                             result.view(pools, pools.n - 1), options);
    return result;
}

Result printed(const Pools& pools, const epibias::PrintedSweepOptions& options) {
    Result result(pools, options.n_thresholds);
    epibias::printed_sweep(pools.similarity_view(), pools.score_view(),
                           result.view(pools, options.n_thresholds), options);
    return result;
}

template <typename Value>
bool same_bits(const std::vector<Value>& left, const std::vector<Value>& right) {
    return left.size() == right.size() &&
           std::memcmp(left.data(), right.data(), left.size() * sizeof(Value)) == 0;
}

bool same_bits(const Result& left, const Result& right) {
    return same_bits(left.thresholds, right.thresholds) && same_bits(left.n_kept, right.n_kept) &&
           same_bits(left.divergences, right.divergences) &&
           same_bits(left.p_values, right.p_values) && same_bits(left.curve, right.curve);
}

// sum over the grid of left ln(left / right), straight from the definition, long double.
long double direct_divergence(const Pools& pools, std::int64_t m, double h, long double kappa) {
    std::vector<std::size_t> order(static_cast<std::size_t>(pools.n));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
        return pools.similarities[left] < pools.similarities[right];
    });
    const long double width = h;
    const long double step = width / 50;  // much finer than the kernel's grid
    const long double density = 1 / (width * std::sqrt(2 * std::numbers::pi_v<long double>));
    long double divergence = 0;
    const auto n_steps = static_cast<std::int64_t>(6 / step);
    for (std::int64_t number = 0; number <= n_steps; ++number) {
        const long double y = -3 + static_cast<long double>(number) * step;
        long double sums[2] = {0, 0};
        for (std::int64_t i = 0; i < pools.n; ++i) {
            const long double score = pools.scores[order[static_cast<std::size_t>(i)]];
            const long double u = (y - score) / width;
            sums[i < m ? 0 : 1] += std::exp(-u * u / 2);
        }
        const auto n_left = static_cast<long double>(m);
        const auto n_all = static_cast<long double>(pools.n);
        const long double left = sums[0] / n_left * density;
        const long double right =
            (sums[1] + kappa * (sums[0] + sums[1])) / (n_all - n_left + kappa * n_all) * density;
        if (left > 0) divergence += left * std::log(left / right) * step;
    }
    return divergence;
}

double bandwidth(const std::vector<float>& scores) {
    double mean = 0, squares = 0;
    for (const float score : scores) mean += static_cast<double>(score);
    mean /= static_cast<double>(scores.size());
    for (const float score : scores) squares += std::pow(static_cast<double>(score) - mean, 2);
    const auto n = static_cast<double>(scores.size());
    return 1.06 * std::sqrt(squares / (n - 1)) * std::pow(n, -0.2);
}

}  // namespace

TEST_CASE("exp2_of_negative and log_of_ratio: relative errors against long double") {
    namespace level = epibias::kernels::scalar;
    std::mt19937_64 generator(1);
    std::uniform_real_distribution<double> exponent(-990, 0), mantissa(1, 2), power(-900, 900);
    std::uniform_real_distribution<double> near(-1e-3, 1e-3);
    double worst_exp = 0, worst_log = 0;
    double out[level::kLanes];
    for (int round = 0; round < 40000; ++round) {
        const double t = round % 2 == 0 ? exponent(generator) : exponent(generator) / 1000;
        level::store(out, level::exp2_of_negative(level::broadcast(t)));
        const long double exact_exp = std::exp2(static_cast<long double>(t));
        worst_exp = std::max(worst_exp,
                             static_cast<double>(std::abs(out[round % 8] - exact_exp) / exact_exp));
        const double left = std::ldexp(mantissa(generator), static_cast<int>(power(generator)));
        double right = std::ldexp(mantissa(generator), static_cast<int>(power(generator)));
        if (round % 3 == 0) right = left * (1 + near(generator));  // where log is small
        if (round % 3 == 1) right = left * mantissa(generator);
        level::store(out, level::log_of_ratio(level::broadcast(left), level::broadcast(right)));
        // log1p: the rounded ratio itself would be the larger error near 1.
        const auto wide = static_cast<long double>(left);
        const bool close = std::abs(left / right - 1) < 0.1;
        const long double exact_log =
            close ? std::log1p((wide - right) / right) : std::log(wide / right);
        if (exact_log == 0 || std::isinf(exact_log)) continue;
        worst_log = std::max(worst_log, static_cast<double>(std::abs(out[round % 8] - exact_log) /
                                                            std::abs(exact_log)));
    }
    MESSAGE("worst relative errors: exp2 " << worst_exp << ", log " << worst_log);
    CHECK(worst_exp <= 8e-16);
    CHECK(worst_log <= 8e-16);
    level::store(out, level::exp2_of_negative(level::broadcast(0.0)));
    CHECK(out[0] == 1);
    level::store(out, level::exp2_of_negative(level::broadcast(-1e300)));
    CHECK(out[0] == std::ldexp(1.0, -995));
    level::store(out, level::log_of_ratio(level::broadcast(3.25), level::broadcast(3.25)));
    CHECK(out[0] == 0);
    level::store(out, level::log_of_ratio(level::broadcast(0.0), level::broadcast(2.0)));
    CHECK(std::isfinite(out[0]));
}

TEST_CASE("threshold_sweep: the same bits on every level, thread count and batch") {
    for (const std::int64_t n : {2, 3, 7, 8, 9, 20, 65, 150}) {
        CAPTURE(n);
        const Pools pools(40, n, static_cast<unsigned>(n));
        for (const auto criterion :
             {SweepCriterion::kKullbackLeibler, SweepCriterion::kMutualInformation}) {
            epibias::ThresholdSweepOptions options;
            options.criterion = criterion;
            options.permutations = 9;
            epibias::set_simd_level("scalar");
            options.n_threads = 1;
            const Result expected = sweep(pools, options);
            const Result expected_printed = printed(pools, {.n_threads = 1});
            at_every_level([&](const std::string& level) {
                CAPTURE(level);
                for (const int n_threads : {1, 2, 3}) {
                    options.n_threads = n_threads;
                    CHECK(same_bits(sweep(pools, options), expected));
                    CHECK(same_bits(printed(pools, {.n_threads = n_threads}), expected_printed));
                }
            });
            // One by one; query ids keep the permutations of the batch.
            for (std::int64_t row = 0; row < pools.n_queries; row += 13) {
                Pools one(1, n, 0);
                const auto first = static_cast<std::size_t>(row * n);
                const auto size = static_cast<std::size_t>(n);
                std::copy_n(pools.similarities.begin() + row * n, size, one.similarities.begin());
                std::copy_n(pools.scores.begin() + row * n, size, one.scores.begin());
                options.query_ids = {&row, 1};
                const Result single = sweep(one, options);
                options.query_ids = {};
                const auto place = static_cast<std::size_t>(row);
                CHECK(single.thresholds[0] == expected.thresholds[place]);
                CHECK(single.divergences[0] == expected.divergences[place]);
                CHECK(single.p_values[0] == expected.p_values[place]);
                CHECK(std::memcmp(single.curve.data(), expected.curve.data() + first - place,
                                  single.curve.size() * sizeof(double)) == 0);
            }
        }
    }
}

TEST_CASE("threshold_sweep: the divergence is the integral that the header states") {
    const Pools pools(1, 40, 3);
    const Result result = sweep(pools, {});
    const double h = bandwidth(pools.scores);
    for (const std::int64_t m : {1, 5, 20, 33, 39}) {
        const auto exact = static_cast<double>(direct_divergence(pools, m, h, 0.025L));
        // 5e-5: error of the grid of spacing h / 3 (algorithms.md, section 3).
        CHECK(std::abs(result.curve[static_cast<std::size_t>(m - 1)] - exact) <= 5e-5);
    }
}

TEST_CASE("threshold_sweep: degenerate queries keep everything") {
    at_every_level([](const std::string& level) {
        CAPTURE(level);
        for (const std::int64_t n : {0, 1, 2, 9}) {
            Pools pools(2, n, 1);
            std::fill(pools.scores.begin(), pools.scores.end(), 0.83F);
            Result result(pools, std::max<std::int64_t>(n - 1, 0));
            epibias::threshold_sweep(pools.similarity_view(), pools.score_view(),
                                     result.view(pools, std::max<std::int64_t>(n - 1, 0)),
                                     {.permutations = 5});
            CHECK(result.thresholds[1] == std::numeric_limits<float>::infinity());
            CHECK(result.n_kept[1] == n);
            CHECK(result.divergences[1] == 0);
            CHECK(result.p_values[1] == 1);
            for (const double value : result.curve) CHECK(std::isnan(value));
        }
        Pools ties(1, 6, 2);
        std::fill(ties.similarities.begin(), ties.similarities.end(), 0.5F);
        ties.similarities[3] = 0.5F;
        CHECK(sweep(ties, {}).n_kept[0] == 6);
        CHECK(sweep(Pools(1, 6, 2), {.min_kept = 4, .min_dropped = 3}).n_kept[0] == 6);
        CHECK(sweep(Pools(1, 6, 2), {.min_kept = 3, .min_dropped = 3}).n_kept[0] == 3);
        Pools zeros(1, 2, 4);
        zeros.similarities = {0.0F, -0.0F};  // one value
        CHECK(sweep(zeros, {}).n_kept[0] == 2);
    });
}

TEST_CASE("keyed_permutation: a permutation, keyed by all three numbers") {
    std::vector<std::int32_t> order(50), other(50);
    epibias::keyed_permutation(7, 11, 13, order);
    std::vector<std::int32_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (std::int32_t i = 0; i < 50; ++i) CHECK(sorted[static_cast<std::size_t>(i)] == i);
    epibias::keyed_permutation(8, 11, 13, other);
    CHECK(other != order);
    epibias::keyed_permutation(7, 12, 13, other);
    CHECK(other != order);
    epibias::keyed_permutation(7, 11, 14, other);
    CHECK(other != order);
    epibias::keyed_permutation(7, 11, 13, other);
    CHECK(other == order);
    CHECK(epibias::mix64(1) == 0x5692161D100B05E5ULL);  // SplitMix64's finaliser of 1
}

TEST_CASE("threshold_sweep and printed_sweep: error texts") {
    Pools pools(3, 6, 1);
    CHECK(message_of([&] { sweep(pools, {.min_kept = 0}); }) ==
          "min_kept: expected an integer of at least 1, got 0");
    CHECK(message_of([&] { sweep(pools, {.kappa = 0}); }) ==
          "kappa: expected a number > 0 and at most 1000000, got 0");
    CHECK(message_of([&] {
              sweep(pools, {.bandwidth_factor = std::numeric_limits<double>::quiet_NaN()});
          }).starts_with("bandwidth_factor: expected a number > 0"));
    CHECK(message_of([&] { printed(pools, {.tau = 0.5}); }) ==
          "tau: expected a number of at least 0 and below 0.5, got 0.5");
    CHECK(message_of([&] {
              Result result(pools, 5);
              epibias::threshold_sweep(pools.similarity_view(), {pools.scores.data(), 2, 9},
                                       result.view(pools, 5));
          }) == "scores: expected shape (3, 6), as similarities, got shape (2, 9)");
    pools.scores[7] = std::numeric_limits<float>::quiet_NaN();
    pools.similarities[15] = std::numeric_limits<float>::infinity();
    CHECK(message_of([&] { sweep(pools, {.n_threads = 2}); }) ==
          "scores: expected finite values, got nan (row 1, column 1)");
    pools.scores[7] = 0;
    CHECK(message_of([&] { printed(pools, {}); }) ==
          "similarities: expected finite values, got inf (row 2, column 3)");
}
