#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "../../cpp/src/sweep_query.hpp"
#include "support.hpp"

#define EPIBIAS_LEVEL scalar
#include "../../cpp/src/kernels/lanes_float32.hpp"

namespace {

using epibias::test::at_every_level;

}  // namespace

TEST_CASE("float32 lanes: errors of float_exp2_of_negative and log2_of_ratio against float64") {
    namespace level = epibias::kernels::scalar;
    std::mt19937 generator(1);
    std::uniform_real_distribution<float> exponent(0, 99), mantissa(1, 2), near(-1e-3F, 1e-3F);
    std::uniform_int_distribution<int> power(-60, 60);
    double worst_exp = 0, worst_log = 0, least_rough = 0, most_rough = 0;
    float out[level::kFloatLanes];
    for (int round = 0; round < 200000; ++round) {
        const float q = round % 2 == 0 ? exponent(generator) : exponent(generator) / 100;
        level::store_floats(out, level::float_exp2_of_negative(level::all_floats(-q)));
        const double exact_exp = std::exp2(-static_cast<double>(q));
        worst_exp = std::max(worst_exp, std::abs(out[round % 4] - exact_exp) / exact_exp);
        const float left = std::ldexp(mantissa(generator), power(generator));
        float right = std::ldexp(mantissa(generator), power(generator));
        if (round % 3 == 0) right = left * (1 + near(generator));
        const auto lefts = level::all_floats(left), rights = level::all_floats(right);
        const double exact = std::log2(static_cast<double>(left) / static_cast<double>(right));
        level::store_floats(out, level::log2_of_ratio(lefts, rights, level::all_floats(0.5F)));
        worst_log =
            std::max(worst_log, std::abs(out[1] - 0.5 - exact) / std::max(1.0, std::abs(exact)));
        level::store_floats(out, level::rough_log2_of_ratio(lefts, rights));
        least_rough = std::min(least_rough, out[2] * 0x1p-23 - exact);
        most_rough = std::max(most_rough, out[2] * 0x1p-23 - exact);
    }
    MESSAGE("worst errors: exp2 " << worst_exp << ", log2 " << worst_log << ", rough "
                                  << least_rough << " to " << most_rough);
    CHECK(worst_exp <= 2.5e-7);
    CHECK(worst_log <= 3e-7);
    CHECK(least_rough >= -epibias::kernels::kRoughLog2Error);
    CHECK(most_rough <= epibias::kernels::kRoughLog2Error);
    CHECK(most_rough > 0.08);  // the bound is no larger than it must be
    level::store_floats(out, level::float_exp2_of_negative(level::all_floats(-1e30F)));
    CHECK(std::abs(out[0] / std::ldexp(1.0F, -100) - 1) <= 2e-7F);
    level::store_floats(out, level::log2_of_ratio(level::all_floats(0), level::all_floats(3),
                                                  level::all_floats(0)));
    CHECK(std::isfinite(out[0]));
}

TEST_CASE("float32 kernels: rows, sums and ranks are what they say, at every level") {
    at_every_level([](const std::string& name) {
        CAPTURE(name);
        const auto& table = *epibias::sweep::active_kernels().float32;
        std::mt19937 generator(2);
        std::normal_distribution<float> normal(0, 2);
        std::uniform_int_distribution<std::int32_t> key(-20, 20);
        for (const std::int64_t n : {1, 2, 16, 17, 100, 300}) {
            for (int n_blocks = 1; n_blocks <= epibias::kernels::kMostTileBlocks; ++n_blocks) {
                CAPTURE(n);
                CAPTURE(n_blocks);
                const auto width =
                    static_cast<std::size_t>(n_blocks) * static_cast<std::size_t>(table.lanes);
                const auto count = static_cast<std::size_t>(n);
                std::vector<float> scores(count), rows(count * width),
                    suffixes(rows.size() + width);
                for (float& score : scores) score = normal(generator);
                table.kernel_rows(scores.data(), n, n_blocks, 0.25F, rows.data(), suffixes.data());
                double worst_row = 0, worst_sum = 0;
                for (std::size_t column = 0; column < width; ++column) {
                    const double point =
                        (static_cast<double>(column) - 0.5 * static_cast<double>(width - 1)) * 0.25;
                    double sum = 0;
                    CHECK(suffixes[count * width + column] == 0);
                    for (std::size_t i = count; i-- > 0;) {
                        const double u = point - static_cast<double>(scores[i]);
                        const auto row = static_cast<double>(rows[i * width + column]);
                        // u itself is rounded: relative error 2 u^2 ln 2 units of 2^-24 and more.
                        const double expected = std::exp2(-std::min(u * u, 100.0));
                        worst_row =
                            std::max(worst_row, std::abs(row - expected) / expected / (1 + u * u));
                        sum += row;
                        const auto got = static_cast<double>(suffixes[i * width + column]);
                        worst_sum = std::max(worst_sum, std::abs(got - sum) / sum);
                    }
                }
                CHECK(worst_row <= 6e-7);
                // n - 1 roundings; tiles of one block are compensated.
                const double n_roundings = n_blocks == 1 ? 18 : static_cast<double>(n);
                CHECK(worst_sum <= n_roundings * 0x1p-24);
            }
        }
        std::vector<std::int32_t> keys(epibias::kernels::kMostRanked), ranks(keys.size());
        for (const std::size_t n : {std::size_t{1}, std::size_t{20}, keys.size()}) {
            for (std::size_t i = 0; i < n; ++i) keys[i] = key(generator);
            table.rank(keys.data(), static_cast<std::int64_t>(n), ranks.data());
            for (std::size_t i = 0; i < n; ++i) {
                const auto smaller =
                    std::count_if(keys.begin(), keys.begin() + static_cast<long>(n),
                                  [&](std::int32_t other) { return other < keys[i]; });
                CHECK(ranks[i] == smaller);
            }
        }
    });
}
