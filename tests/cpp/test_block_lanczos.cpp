#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "../../cpp/src/anchor_rows.hpp"
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

using Disturb = std::function<void(int n_multiplications, double* results)>;

// A diagonal matrix: its eigenvectors are the unit vectors. `disturb` may change its products.
Found of_diagonal(const std::vector<double>& diagonal, std::int64_t most_vectors,
                  bool give_up_early, const Disturb& disturb = nullptr) {
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
        if (disturb) disturb(result.n_multiplications, results);
    };
    result.found = epibias::leading_eigenpair_lanczos(
        epibias::kernels::scalar::kPolarizationAxis, multiply, n, stride, most_vectors,
        give_up_early, 0, result.vector.data(), result.eigenvalues);
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

TEST_CASE("block Lanczos: a leading eigenpair with a gap") {
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

TEST_CASE("block Lanczos: the last multiplication decides, and either of its residuals does") {
    const std::vector<double> values = falling(403, 1, 0.5);
    const std::int64_t stride = 408;
    const Found clean = of_diagonal(values, 200, false);
    REQUIRE(clean.found);
    for (const std::int64_t pair : {0, 1}) {
        CAPTURE(pair);
        const auto changed_by = [&](double amount) {
            return of_diagonal(values, 200, false, [&](int n_multiplications, double* results) {
                // Along an eigenvector of neither pair, so that only the residual shows it.
                if (n_multiplications == clean.n_multiplications) {
                    results[pair * stride + 100] += amount;
                }
            });
        };
        const Found changed = changed_by(1e-4);
        CHECK_FALSE(changed.found);
        CHECK(changed.n_multiplications == clean.n_multiplications);
        CHECK(changed_by(1e-14).found);
    }
}

TEST_CASE(
    "block Lanczos: a start orthogonal to the leading vector misses it, another seed finds it") {
    const std::int64_t n = 300;
    const std::int64_t stride = 304;
    const std::int64_t n_hidden = kVectors + 1;  // coordinates of the leading vector
    std::vector<double> values(static_cast<std::size_t>(stride), 0.0);
    for (std::int64_t i = n_hidden; i < n; ++i) values[static_cast<std::size_t>(i)] = 1;
    values[50] = 488;
    values[60] = 294;
    std::vector<double> leading(static_cast<std::size_t>(n_hidden), 0.0);
    std::vector<double> start;
    const auto multiply = [&](const double* vectors, double* results) {
        if (start.empty()) start.assign(vectors, vectors + kVectors * stride);
        for (std::int64_t v = 0; v < kVectors; ++v) {
            double dot = 0;
            for (std::int64_t i = 0; i < n_hidden; ++i) {
                dot += leading[static_cast<std::size_t>(i)] * vectors[v * stride + i];
            }
            for (std::int64_t i = 0; i < stride; ++i) {
                results[v * stride + i] =
                    values[static_cast<std::size_t>(i)] * vectors[v * stride + i];
                if (i < n_hidden) {
                    results[v * stride + i] += 600 * dot * leading[static_cast<std::size_t>(i)];
                }
            }
        }
    };
    const auto run = [&](std::uint64_t seed) {
        Found result;
        result.vector.resize(static_cast<std::size_t>(stride));
        result.found = epibias::leading_eigenpair_lanczos(
            epibias::kernels::scalar::kPolarizationAxis, multiply, n, stride, 72, false, seed,
            result.vector.data(), result.eigenvalues);
        return result;
    };
    static_cast<void>(run(0));  // to see the start
    // Orthogonal to the four rows of the start's first coordinates: projected out of a unit vector
    // after the rows are made orthonormal, twice.
    std::vector<std::vector<double>> rows;
    for (std::int64_t v = 0; v <= kVectors; ++v) {
        std::vector<double> row(static_cast<std::size_t>(n_hidden), 0.0);
        if (v < kVectors) {
            std::copy_n(start.data() + v * stride, n_hidden, row.data());
        } else {
            row[0] = 1;
        }
        for (int pass = 0; pass < 3; ++pass) {
            for (const auto& other : rows) {
                double dot = 0;
                for (std::size_t i = 0; i < row.size(); ++i) dot += row[i] * other[i];
                for (std::size_t i = 0; i < row.size(); ++i) row[i] -= dot * other[i];
            }
            double squared = 0;
            for (const double value : row) squared += value * value;
            for (double& value : row) value /= std::sqrt(squared);
        }
        rows.push_back(row);
    }
    leading = rows.back();
    const Found missed = run(0);  // what no residual can show
    REQUIRE(missed.found);
    CHECK(missed.eigenvalues.first == doctest::Approx(488).epsilon(1e-12));
    for (const std::uint64_t seed : {1ULL, 2ULL, 0xFFFFFFFFFFFFFFFFULL}) {
        CAPTURE(seed);
        const Found result = run(seed);
        REQUIRE(result.found);
        CHECK(result.eigenvalues.first == doctest::Approx(600).epsilon(1e-12));
        CHECK(result.eigenvalues.second == doctest::Approx(488).epsilon(1e-11));
        double cosine = 0;
        for (std::size_t i = 0; i < leading.size(); ++i) cosine += leading[i] * result.vector[i];
        CHECK(std::abs(std::abs(cosine) - 1) <= 1e-12);
    }
}

TEST_CASE("anchors' fingerprint: every bit, the order of rows, and no thread counts") {
    const std::int64_t n_anchors = 600;
    const std::int64_t dim = 21;
    std::mt19937 generator(2);
    std::normal_distribution<float> normal;
    std::vector<float> rows(static_cast<std::size_t>(n_anchors * dim));
    for (float& value : rows) value = normal(generator);
    const auto print = [&](int n_threads) {
        epibias::AnchorRows anchors;
        anchors.rows = rows.data();
        anchors.n_anchors = n_anchors;
        anchors.dim = dim;
        return epibias::fingerprint(anchors, n_threads);
    };
    std::vector<std::uint64_t> seen = {print(1)};
    CHECK(print(2) == seen[0]);
    CHECK(print(5) == seen[0]);
    for (std::size_t place = 0; place < rows.size(); place += 7) {
        const float kept = rows[place];
        for (const float changed : {-kept, std::nextafter(kept, 10.0F)}) {
            rows[place] = changed;
            seen.push_back(print(1));
        }
        rows[place] = kept;
    }
    std::swap_ranges(rows.begin(), rows.begin() + dim, rows.end() - dim);
    seen.push_back(print(1));
    std::sort(seen.begin(), seen.end());
    CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
}
