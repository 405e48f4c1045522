#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "../../cpp/src/sweep_query.hpp"
#include "support.hpp"

namespace {

using epibias::kernels::SweepFloat32Kernels;
using epibias::kernels::TileRows;
using epibias::kernels::TileSplits;
using epibias::test::at_every_level;

constexpr std::int64_t kRounds = 100'000;

const SweepFloat32Kernels& active_table() {
    return *epibias::sweep::active_kernels().float32;
}

// Every lane's 2^-u^2: a row of one block whose points all lie at 0.
class Exponential {
  public:
    explicit Exponential(const SweepFloat32Kernels& table)
        : table_(table), row_(lanes()), suffixes_(2 * lanes()) {}
    const std::vector<float>& operator()(float u) {
        table_.kernel_rows(&u, 1, 1, 0.0F, row_.data(), suffixes_.data());
        return row_;
    }

  private:
    [[nodiscard]] std::size_t lanes() const { return static_cast<std::size_t>(table_.lanes); }
    const SweepFloat32Kernels& table_;
    std::vector<float> row_, suffixes_;
};

// log2(left / right) as the terms of the two criteria take it: one row, one split, no weights.
// What they give is the logarithm times `left`, rounded once more unless that is a power of two.
class Logarithm {
  public:
    explicit Logarithm(const SweepFloat32Kernels& table)
        : table_(table),
          row_(static_cast<std::size_t>(table.lanes)),
          suffixes_(2 * row_.size()),
          sums_(row_.size()) {}

    // Lane by lane; floored_total is left + right for the rough one.
    const std::vector<float>& of(const std::vector<float>& left, const std::vector<float>& right,
                                 bool rough) {
        const std::int32_t n_left = 1;
        const float nothing = 0;
        const TileSplits splits{&n_left, &nothing, &nothing, 1, false};
        row_ = left;
        for (std::size_t lane = 0; lane < row_.size(); ++lane) {
            suffixes_[lane] = rough ? left[lane] + right[lane] : 0;
            suffixes_[row_.size() + lane] = right[lane];
        }
        const TileRows tile{row_.data(), suffixes_.data(), nullptr, nullptr, 1, 1};
        (rough ? table_.add_rough_kl : table_.add_floored_kl)(tile, splits, 0.0F, sums_.data());
        return sums_;
    }

  private:
    const SweepFloat32Kernels& table_;
    std::vector<float> row_, suffixes_, sums_;
};

}  // namespace

TEST_CASE("float32 kernels: error of the exponential at every level") {
    at_every_level([](const std::string& name) {
        CAPTURE(name);
        const SweepFloat32Kernels& table = active_table();
        Exponential exponential(table);
        std::mt19937 generator(1);
        std::uniform_real_distribution<float> distance(0, 9.94F);
        double worst = 0;
        for (std::int64_t round = 0; round < kRounds; ++round) {
            const float u = distance(generator) / (round % 2 == 0 ? 1.0F : 10.0F);
            const float exponent = u * u;
            const double exact = std::exp2(-static_cast<double>(exponent));
            for (const float got : exponential(u)) {
                worst = std::max(worst, std::abs(static_cast<double>(got) - exact) / exact);
            }
        }
        MESSAGE(name << ": exp2 " << worst);
        CHECK(worst <= 2.5e-7);
        for (const float got : exponential(1e15F)) {
            CHECK(std::abs(got / std::ldexp(1.0F, -100) - 1) <= 2e-7F);
        }
    });
}

TEST_CASE("float32 kernels: errors of the logarithms at every level") {
    at_every_level([](const std::string& name) {
        CAPTURE(name);
        const SweepFloat32Kernels& table = active_table();
        const auto lanes = static_cast<std::size_t>(table.lanes);
        Logarithm logarithm(table);
        std::mt19937 generator(1);
        std::uniform_real_distribution<float> mantissa(1, 2), near(-1e-3F, 1e-3F);
        std::uniform_int_distribution<int> power(-30, 30);
        std::vector<float> left(lanes), right(lanes);
        double worst = 0, least_rough = 0, most_rough = 0;
        for (std::int64_t round = 0; round < kRounds; ++round) {
            for (std::size_t lane = 0; lane < lanes; ++lane) {
                left[lane] = std::ldexp(1.0F, power(generator));
                right[lane] = left[lane] * mantissa(generator);
                if (round % 3 == 0) right[lane] = left[lane] * (1 + near(generator));
                if (round % 3 == 1) right[lane] = std::ldexp(mantissa(generator), power(generator));
            }
            const std::vector<float>& got = logarithm.of(left, right, false);
            for (std::size_t lane = 0; lane < lanes; ++lane) {
                const double exact =
                    std::log2(static_cast<double>(left[lane]) / static_cast<double>(right[lane]));
                const double value = static_cast<double>(got[lane]) / left[lane];
                worst = std::max(worst, std::abs(value - exact) / std::max(1.0, std::abs(exact)));
            }
            // A total of about twice the row: their difference is exact.
            for (std::size_t lane = 0; lane < lanes; ++lane) {
                left[lane] = mantissa(generator);
                right[lane] = 0.6F + 0.7F * (mantissa(generator) - 1);
                right[lane] = (left[lane] + right[lane]) - left[lane];
            }
            const std::vector<float>& rough = logarithm.of(left, right, true);
            for (std::size_t lane = 0; lane < lanes; ++lane) {
                const double exact =
                    std::log2(static_cast<double>(left[lane]) / static_cast<double>(right[lane]));
                const double error =
                    static_cast<double>(rough[lane]) / left[lane] * 0x1p-23 - exact;
                least_rough = std::min(least_rough, error);
                most_rough = std::max(most_rough, error);
            }
        }
        MESSAGE(name << ": log2 " << worst << ", rough " << least_rough << " to " << most_rough);
        CHECK(worst <= 3e-7);
        CHECK(least_rough >= -epibias::kernels::kRoughLog2Error);
        CHECK(most_rough <= epibias::kernels::kRoughLog2Error);
        CHECK(most_rough > 0.08);  // the bound is no larger than it must be
        left.assign(lanes, 0);
        right.assign(lanes, 3);
        for (const float got : logarithm.of(left, right, false)) CHECK(got == 0);
    });
}

TEST_CASE("float32 kernels: rows, sums and ranks are what they say, at every level") {
    at_every_level([](const std::string& name) {
        CAPTURE(name);
        const SweepFloat32Kernels& table = active_table();
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
