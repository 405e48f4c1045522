#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "epibias/threshold_sweep.hpp"
#include "kernels/threshold_sweep_kernels.hpp"
#include "support.hpp"
#include "sweep_query.hpp"
#include "sweep_scalars.hpp"

namespace {

namespace kernels = epibias::kernels;
namespace sweep = epibias::sweep;
using epibias::test::at_every_level;

constexpr int kBlock = kernels::kGridBlock;

}  // namespace

TEST_CASE("sweep_scalars: the exponential is one lane of every level's, to the bit") {
    std::mt19937_64 generator(5);
    std::uniform_real_distribution<double> small(-4, 4), large(-40, 40);
    at_every_level([&](const std::string& level) {
        CAPTURE(level);
        const auto& table = *sweep::active_kernels().float64;
        for (int trial = 0; trial < 500; ++trial) {
            double grid[kBlock], row[kBlock];
            for (double& point : grid) point = trial % 2 == 0 ? small(generator) : large(generator);
            const double score = small(generator), scale = trial % 3 == 0 ? 1.0 : small(generator);
            table.kernel_rows(grid, &score, 1, scale, row);
            for (int lane = 0; lane < kBlock; ++lane) {
                const double u = (grid[lane] - score) * scale;
                CHECK(row[lane] == sweep::exp2_of_negative(0.0 - u * u));
            }
        }
    });
}

TEST_CASE("sweep_scalars: the terms of a split are every level's, to the bit") {
    std::mt19937_64 generator(6);
    std::uniform_real_distribution<double> exponent(-60, 3);
    at_every_level([&](const std::string& level) {
        CAPTURE(level);
        const auto& table = *sweep::active_kernels().float64;
        for (int trial = 0; trial < 500; ++trial) {
            double rows[2 * kBlock], suffixes[kBlock];
            for (double& value : rows) value = std::exp2(exponent(generator));
            const std::int32_t order[2] = {0, 1}, n_left = 1;
            const double left_weight = 1.025, right_weight = 2, kappa = 0.025;
            const kernels::Splits splits{order, 2, &n_left, 1, &left_weight, &right_weight};
            double floored[kBlock] = {}, information[kBlock] = {};
            table.add_floored_kl(splits, rows, kappa, suffixes, floored);
            table.add_mutual_information(splits, rows, 0, suffixes, information);
            for (int lane = 0; lane < kBlock; ++lane) {
                const double left = rows[lane], right = rows[kBlock + lane];
                CHECK(floored[lane] ==
                      sweep::floored_kl_term(left, right, right + left, left_weight, kappa));
                CHECK(information[lane] == sweep::mutual_information_term(left, right, right + left,
                                                                          left_weight,
                                                                          right_weight));
            }
        }
    });
}

TEST_CASE("sweep_scalars: the fifth root inverts the fifth power within two units") {
    for (std::int64_t n = 1; n < 10'000'000; n += n * 37 / 100 + 1) {
        const auto count = static_cast<double>(n);
        const double root = sweep::inverse_fifth_root(count);
        CHECK(std::abs(root - std::pow(count, -0.2)) <= 4.5e-16 * root);
    }
}

TEST_CASE("sweep_scalars: draws are those of keyed_permutation") {
    constexpr std::uint64_t kN = 37;
    std::vector<std::int32_t> expected(kN), order(kN);
    epibias::keyed_permutation(11, -4, 3, expected);
    const std::uint64_t key = sweep::shuffle_key(11, -4, 3);
    for (std::uint64_t i = 0; i < kN; ++i) order[i] = static_cast<std::int32_t>(i);
    for (std::uint64_t last = kN - 1; last > 0; --last) {
        std::swap(order[last], order[sweep::shuffle_draw(key, kN, last)]);
    }
    CHECK(order == expected);
}
