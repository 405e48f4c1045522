#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "../../cpp/src/block_lanczos.hpp"
#include "../../cpp/src/kernels/polarization_axis_kernels.hpp"

namespace {

using epibias::LeadingEigenvalues;

constexpr std::int64_t kVectors = epibias::kernels::kVectorBlock;

struct Found {
    bool found = false;
    std::vector<double> vector;
    LeadingEigenvalues eigenvalues;
    int n_multiplications = 0;
};

// A diagonal matrix: its eigenvectors are the unit vectors.
Found of_diagonal(const std::vector<double>& diagonal, std::int64_t most_vectors,
                  bool give_up_early) {
    const auto n = static_cast<std::int64_t>(diagonal.size());
    const std::int64_t stride = (n + 7) / 8 * 8;
    Found result;
    result.vector.resize(static_cast<std::size_t>(stride));
    const auto multiply = [&](const double* vectors, double* results) {
        ++result.n_multiplications;
        for (std::int64_t v = 0; v < kVectors; ++v) {
            for (std::int64_t i = 0; i < stride; ++i) {
                const double value = i < n ? diagonal[static_cast<std::size_t>(i)] : 0;
                results[v * stride + i] = value * vectors[v * stride + i];
            }
        }
    };
    result.found = epibias::leading_eigenpair_lanczos(
        epibias::kernels::scalar::kPolarizationAxis, multiply, n, stride, most_vectors,
        give_up_early, result.vector.data(), result.eigenvalues);
    return result;
}

std::vector<double> falling(std::int64_t n, double leading, double second) {
    std::mt19937 generator(1);
    std::uniform_real_distribution<double> uniform(0, 0.5);
    std::vector<double> values(static_cast<std::size_t>(n));
    for (double& value : values) value = uniform(generator);
    values[5] = leading;
    values[17] = second;
    return values;
}

}  // namespace

TEST_CASE("block Lanczos: a leading eigenpair with a gap, and its certificate") {
    for (const double gap : {0.5, 0.1, 1e-3, 1e-6}) {
        CAPTURE(gap);
        const Found result = of_diagonal(falling(403, 1, 1 - gap), 200, false);
        REQUIRE(result.found);
        CHECK(std::abs(result.eigenvalues.first - 1) <= 1e-13);
        CHECK(std::abs(result.eigenvalues.second - (1 - gap)) <= 1e-11);
        CHECK(std::abs(std::abs(result.vector[5]) - 1) <= 1e-12);
        CHECK(std::abs(result.vector[17]) <= 2e-7);  // the angle, at a gap of 1e-6
        for (std::size_t i = 403; i < result.vector.size(); ++i) CHECK(result.vector[i] == 0);
    }
}

TEST_CASE("block Lanczos: a double leading eigenvalue is seen twice") {
    std::vector<double> values = falling(300, 2, 2);
    const Found twice = of_diagonal(values, 100, false);
    REQUIRE(twice.found);
    CHECK(std::abs(twice.eigenvalues.second - 2) <= 1e-12);
    for (std::size_t i = 20; i < 29; ++i) values[i] = 2;
    const Found often = of_diagonal(values, 100, false);
    REQUIRE(often.found);
    CHECK(std::abs(often.eigenvalues.second - 2) <= 1e-12);
}

TEST_CASE("block Lanczos: few directions, one, or none") {
    std::vector<double> values(300, 0.0);
    values[7] = 3;
    const Found one = of_diagonal(values, 64, false);
    REQUIRE(one.found);
    CHECK(std::abs(one.eigenvalues.first - 3) <= 1e-13);
    CHECK(std::abs(one.eigenvalues.second) <= 1e-13);
    CHECK(std::abs(std::abs(one.vector[7]) - 1) <= 1e-13);
    CHECK(one.n_multiplications <= 6);
    values[9] = 2;
    values[11] = 1;
    const Found three = of_diagonal(values, 64, false);
    REQUIRE(three.found);
    CHECK(std::abs(three.eigenvalues.second - 2) <= 1e-12);
}

TEST_CASE("block Lanczos: says so when the basis is too small, and early if it may") {
    std::vector<double> values(400);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1 + 1e-3 * static_cast<double>(i);
    CHECK_FALSE(of_diagonal(values, 40, false).found);
    const Found patient = of_diagonal(values, 100, false);
    const Found early = of_diagonal(values, 100, true);
    CHECK_FALSE(patient.found);
    CHECK_FALSE(early.found);
    CHECK(early.n_multiplications < patient.n_multiplications);
}
