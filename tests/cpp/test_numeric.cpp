// The canonical dot product, norms, the total order and rows at any address.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <string>
#include <vector>

#include "epibias/matrix_view.hpp"
#include "epibias/numeric.hpp"
#include "epibias/ranking.hpp"
#include "epibias/simd_level.hpp"
#include "support.hpp"

using epibias::Ranked;
using epibias::ranks_before;

TEST_CASE("canonical_dot of whole numbers is exact") {
    epibias::test::at_every_level([](const std::string& level) {
        CAPTURE(level);
        for (std::int64_t dim = 0; dim <= 130; ++dim) {
            std::vector<float> left;
            std::vector<float> right;
            double expected = 0;
            for (std::int64_t i = 0; i < dim; ++i) {
                left.push_back(static_cast<float>(i + 1));
                right.push_back(static_cast<float>(i % 2 == 0 ? 3 : -2));
                expected += static_cast<double>((i + 1) * (i % 2 == 0 ? 3 : -2));
            }
            CHECK(epibias::canonical_dot(left.data(), right.data(), dim) == expected);
        }
    });
}

TEST_CASE("canonical_dot sums in the stated order") {
    // 1e16 + 1 is 1e16 in float64, so the order decides which ones survive.
    std::vector<float> left(65, 0.0F);
    const std::vector<float> right(65, 1.0F);
    left[0] = 1e16F;
    left[32] = 1.0F;  // same accumulator as 1e16: lost
    left[1] = 1.0F;   // joins accumulator 0 at the last step of the tree: lost, alone
    left[17] = 1.0F;  // joins accumulator 1 first: 1 + 1 = 2 is not lost
    const double expected = static_cast<double>(1e16F) + 2.0;
    epibias::test::at_every_level([&](const std::string& level) {
        CAPTURE(level);
        CHECK(epibias::canonical_dot(left.data(), right.data(), 65) == expected);
        CHECK(expected != static_cast<double>(1e16F));
    });
}

TEST_CASE("inverse norms neither overflow nor vanish") {
    const std::vector<float> huge(3, std::numeric_limits<float>::max());
    const std::vector<float> tiny(3, std::numeric_limits<float>::denorm_min());
    const double root = std::numbers::sqrt3;
    epibias::test::at_every_level([&](const std::string& level) {
        CAPTURE(level);
        CHECK(epibias::inverse_norm(huge.data(), 3) ==
              doctest::Approx(1 / (root * 3.4028234663852886e38)).epsilon(1e-14));
        CHECK(epibias::inverse_norm(tiny.data(), 3) ==
              doctest::Approx(1 / (root * 0x1p-149)).epsilon(1e-14));
    });
}

TEST_CASE("the total order: similarity descending, then index ascending") {
    CHECK(ranks_before({0.5F, 9}, {0.4F, 1}));
    CHECK_FALSE(ranks_before({0.4F, 1}, {0.5F, 9}));
    CHECK(ranks_before({0.5F, 1}, {0.5F, 2}));
    CHECK_FALSE(ranks_before({0.5F, 1}, {0.5F, 1}));
    CHECK(ranks_before({-0.0F, 1}, {0.0F, 2}));  // equal similarities
    CHECK(ranks_before({0.0F, 1}, {-0.0F, 2}));
    static_assert(ranks_before(Ranked{1.0F, 0}, Ranked{0.0F, 0}));
}

TEST_CASE("RowReader gives the values at any byte offset, without copying aligned rows") {
    for (std::size_t offset = 0; offset < 4; ++offset) {
        const auto matrix = epibias::test::random_matrix(5, 3, 1, offset);
        epibias::RowReader<float> reader(matrix.view());
        const float* rows = reader.rows(1, 3);
        CHECK(epibias::is_aligned(rows));
        CHECK((rows == matrix.view().row(1)) == (offset == 0));
        for (std::int64_t row = 0; row < 3; ++row) {
            for (std::int64_t i = 0; i < 3; ++i) CHECK(rows[row * 3 + i] == matrix.get(row + 1, i));
        }
    }
}

TEST_CASE("SIMD levels: the portable one is always there, an unknown one is refused by name") {
    const auto levels = epibias::supported_simd_levels();
    REQUIRE_FALSE(levels.empty());
    CHECK(levels.front() == epibias::SimdLevel::kScalar);
    for (const auto level : levels) {
        epibias::set_simd_level(epibias::simd_level_name(level));
        CHECK(epibias::active_simd_level() == level);
    }
    CHECK_THROWS_WITH_AS(epibias::set_simd_level("mmx"),
                         doctest::Contains("level: expected a SIMD level of this machine (scalar"),
                         std::invalid_argument);
    CHECK(epibias::active_simd_level() == levels.back());
}
