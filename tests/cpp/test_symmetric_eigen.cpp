#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../cpp/src/kernels/symmetric_eigen_kernels.hpp"
#include "epibias/symmetric_eigen.hpp"
#include "support.hpp"

namespace {

using epibias::LeadingEigenvalues;
using Matrix = std::vector<double>;  // [n, n], row-major
using Method = LeadingEigenvalues (*)(double*, std::int64_t, double*);

constexpr std::array<std::int64_t, 11> kSizes = {1, 2, 3, 5, 8, 23, 24, 25, 40, 97, 200};

LeadingEigenvalues jacobi(double* matrix, std::int64_t n, double* vector) {
    return epibias::leading_eigenpair_jacobi(matrix, n, vector);
}

double frobenius(const Matrix& matrix) {
    double squares = 0;
    for (const double value : matrix) squares += value * value;
    return std::sqrt(squares);
}

double residual(const Matrix& matrix, std::int64_t n, const std::vector<double>& vector,
                double value) {
    double squares = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        double element = -value * vector[static_cast<std::size_t>(i)];
        for (std::int64_t j = 0; j < n; ++j) {
            element +=
                matrix[static_cast<std::size_t>(i * n + j)] * vector[static_cast<std::size_t>(j)];
        }
        squares += element * element;
    }
    return std::sqrt(squares);
}

// Q diag(values) Q^T with Q a product of random reflections: the spectrum is known.
Matrix with_spectrum(const std::vector<double>& values, unsigned seed) {
    const std::size_t n = values.size();
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal;
    Matrix matrix(n * n, 0.0);
    for (std::size_t i = 0; i < n; ++i) matrix[i * n + i] = values[i];
    std::vector<double> u(n), product(n);
    for (int reflection = 0; reflection < 3; ++reflection) {
        double squares = 0;
        for (double& value : u) {
            value = normal(generator);
            squares += value * value;
        }
        for (int side = 0; side < 2; ++side) {  // from the left, then (transposed) from the right
            for (std::size_t j = 0; j < n; ++j) {
                product[j] = 0;
                for (std::size_t i = 0; i < n; ++i) product[j] += u[i] * matrix[i * n + j];
            }
            Matrix next(n * n);
            for (std::size_t i = 0; i < n; ++i) {
                for (std::size_t j = 0; j < n; ++j) {
                    next[j * n + i] = matrix[i * n + j] - 2 / squares * u[i] * product[j];
                }
            }
            matrix = next;
        }
    }
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            matrix[i * n + j] = matrix[j * n + i] = (matrix[i * n + j] + matrix[j * n + i]) / 2;
        }
    }
    return matrix;
}

void check_eigenpair(const std::vector<double>& values, unsigned seed, Method method) {
    const auto n = static_cast<std::int64_t>(values.size());
    const Matrix matrix = with_spectrum(values, seed);
    Matrix work = matrix;
    // Only the lower triangle may be read.
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = i + 1; j < n; ++j) work[static_cast<std::size_t>(i * n + j)] = 1e300;
    }
    std::vector<double> vector(values.size(), std::numeric_limits<double>::quiet_NaN());
    const LeadingEigenvalues result = method(work.data(), n, vector.data());
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const double unit = static_cast<double>(n) * 2.3e-16 * (frobenius(matrix) + 1e-300);
    double squares = 0;
    for (const double value : vector) squares += value * value;
    CHECK(std::abs(squares - 1) <= 1e-14);
    CHECK(residual(matrix, n, vector, result.first) <= 10 * unit);
    CHECK(std::abs(result.first - sorted[0]) <= 30 * unit);
    if (n > 1) CHECK(std::abs(result.second - sorted[1]) <= 30 * unit);
}

std::vector<double> random_spectrum(std::int64_t n, unsigned seed) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<double> uniform(0, 1);
    std::vector<double> values(static_cast<std::size_t>(n));
    for (double& value : values) value = uniform(generator);
    return values;
}

}  // namespace

TEST_CASE("leading_eigenpair: known spectra, both methods and every size") {
    const std::vector<Method> methods = {jacobi, epibias::leading_eigenpair_tridiagonal,
                                         epibias::leading_eigenpair};
    for (const Method method : methods) {
        for (const std::int64_t n : kSizes) {
            CAPTURE(n);
            const auto seed = static_cast<unsigned>(n);
            check_eigenpair(random_spectrum(n, seed), seed, method);
            std::vector<double> values = random_spectrum(n, seed + 1);
            for (double& value : values) value *= 1e-9;  // a leading pair far above the rest
            values[0] = 1;
            check_eigenpair(values, seed + 2, method);
            if (n > 1) values[1] = 1;  // equal leading eigenvalues
            check_eigenpair(values, seed + 3, method);
            if (n > 1) values[1] = 1 - 1e-15;  // a cluster within rounding
            check_eigenpair(values, seed + 4, method);
            std::fill(values.begin(), values.end(), 1.0);  // the identity
            check_eigenpair(values, seed + 5, method);
            for (double& value : values) value *= 1e-30;
            check_eigenpair(values, seed + 6, method);
        }
    }
}

TEST_CASE("leading_eigenpair: matrices that are already diagonal, tridiagonal, or rank one") {
    for (const Method method : {jacobi, epibias::leading_eigenpair_tridiagonal}) {
        const std::int64_t n = 30;
        for (int kind = 0; kind < 3; ++kind) {
            CAPTURE(kind);
            Matrix matrix(n * n, 0.0);
            for (std::int64_t i = 0; i < n; ++i) {
                for (std::int64_t j = 0; j < n; ++j) {
                    double& element = matrix[static_cast<std::size_t>(i * n + j)];
                    if (kind == 0 && i == j) element = static_cast<double>(i % 7);
                    if (kind == 1) element = i == j ? 2.0 : std::abs(i - j) == 1 ? -1.0 : 0.0;
                    if (kind == 2) element = static_cast<double>((i + 1) * (j + 1));
                }
            }
            Matrix work = matrix;
            std::vector<double> vector(n);
            const LeadingEigenvalues result = method(work.data(), n, vector.data());
            CHECK(residual(matrix, n, vector, result.first) <= 1e-13 * frobenius(matrix));
            constexpr double kPi = std::numbers::pi;
            if (kind == 0) CHECK(result.first == doctest::Approx(6).epsilon(1e-14));
            if (kind == 0) CHECK(result.second == doctest::Approx(6).epsilon(1e-14));
            if (kind == 1) {
                CHECK(result.first == doctest::Approx(2 - 2 * std::cos(n * kPi / (n + 1))));
            }
            if (kind == 2) CHECK(std::abs(result.second) <= 1e-12 * result.first);
        }
    }
}

TEST_CASE("leading_eigenpair: the same bits on every level") {
    for (const std::int64_t n : {2, 3, 8, 9, 16, 17, 31, 40, 97}) {
        CAPTURE(n);
        const Matrix matrix = with_spectrum(random_spectrum(n, 5), 6);
        for (const Method method : {jacobi, epibias::leading_eigenpair_tridiagonal}) {
            std::vector<double> expected;
            epibias::test::at_every_level([&](const std::string& level) {
                CAPTURE(level);
                Matrix work = matrix;
                std::vector<double> found(static_cast<std::size_t>(n));
                const LeadingEigenvalues values = method(work.data(), n, found.data());
                found.push_back(values.first);
                found.push_back(values.second);
                if (expected.empty()) expected = found;
                CHECK(found == expected);
            });
        }
    }
}

TEST_CASE("jacobi by lanes: what a lane holds does not depend on the others") {
    constexpr std::int64_t kLanes = epibias::kernels::kEigenLanes;
    for (const std::int64_t n : {1, 2, 7, 8, 16}) {
        CAPTURE(n);
        const auto size = static_cast<std::size_t>(n);
        std::vector<double> matrices(size * size * kLanes), rotations, vectors(size * kLanes);
        rotations.resize(static_cast<std::size_t>(epibias::kernels::rotation_values(n)));
        std::vector<Matrix> alone;
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            // Some take no sweep at all, some all that is needed.
            Matrix matrix(size * size, 0.0);
            if (lane % 3 == 0) {
                matrix = with_spectrum(random_spectrum(n, static_cast<unsigned>(lane)), 7);
            } else if (lane % 3 == 1) {
                for (std::size_t i = 0; i < size; ++i)
                    matrix[i * size + i] = static_cast<double>(i * lane % 5);
            }
            for (std::size_t i = 0; i < matrix.size(); ++i) matrices[i * kLanes + lane] = matrix[i];
            alone.push_back(matrix);
        }
        double values[2 * kLanes];
        epibias::kernels::symmetric_eigen_kernels().jacobi(matrices.data(), n, rotations.data(),
                                                           vectors.data(), values);
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            CAPTURE(lane);
            std::vector<double> vector(size);
            const LeadingEigenvalues result =
                epibias::leading_eigenpair_jacobi(alone[lane].data(), n, vector.data());
            CHECK(values[lane] == result.first);
            CHECK(values[kLanes + lane] == result.second);
            for (std::size_t i = 0; i < size; ++i) {
                CHECK(vectors[i * kLanes + lane] == vector[i]);
                CHECK(std::signbit(vectors[i * kLanes + lane]) == std::signbit(vector[i]));
            }
        }
    }
}

TEST_CASE("leading_eigenpairs_tridiagonal: several vectors, orthonormal in clusters too") {
    for (const std::int64_t n : {3, 12, 40, 97}) {
        for (const double second : {0.5, 1.0 - 1e-9, 1.0}) {
            CAPTURE(n);
            CAPTURE(second);
            std::vector<double> values = random_spectrum(n, 3);
            for (double& value : values) value *= 0.4;
            values[0] = 1;
            values[1] = second;
            values[2] = 0.45;
            const Matrix matrix = with_spectrum(values, 4);
            Matrix work = matrix;
            double found[3];
            std::vector<double> vectors(static_cast<std::size_t>(2 * n));
            epibias::leading_eigenpairs_tridiagonal(work.data(), n, 3, 2, found, vectors.data());
            const double unit = static_cast<double>(n) * 2.3e-16 * frobenius(matrix);
            double product = 0;
            for (std::int64_t i = 0; i < n; ++i) {
                product +=
                    vectors[static_cast<std::size_t>(i)] * vectors[static_cast<std::size_t>(n + i)];
            }
            CHECK(std::abs(product) <= 1e-12);
            for (int rank = 0; rank < 3; ++rank) {
                CHECK(std::abs(found[rank] - values[static_cast<std::size_t>(rank)]) <= 30 * unit);
            }
            for (int rank = 0; rank < 2; ++rank) {
                const std::vector<double> vector(vectors.begin() + rank * n,
                                                 vectors.begin() + (rank + 1) * n);
                CHECK(residual(matrix, n, vector, found[rank]) <= 10 * unit);
            }
        }
    }
}

TEST_CASE("leading_eigenpair: zero, one by one, and non-finite matrices") {
    for (const std::int64_t n : {std::int64_t{3}, std::int64_t{30}}) {
        Matrix zero(static_cast<std::size_t>(n * n), 0.0);
        std::vector<double> vector(static_cast<std::size_t>(n));
        const LeadingEigenvalues result = epibias::leading_eigenpair(zero.data(), n, vector.data());
        CHECK(result.first == 0);
        CHECK(result.second == 0);
        double squares = 0;
        for (const double value : vector) squares += value * value;
        CHECK(squares == doctest::Approx(1));
        Matrix bad(static_cast<std::size_t>(n * n), 1.0);
        bad[static_cast<std::size_t>(n)] = std::numeric_limits<double>::quiet_NaN();
        CHECK_THROWS_AS(static_cast<void>(epibias::leading_eigenpair(bad.data(), n, vector.data())),
                        std::runtime_error);
    }
    double matrix = -4;
    double vector = 0;
    const LeadingEigenvalues result = epibias::leading_eigenpair(&matrix, 1, &vector);
    CHECK(result.first == -4);
    CHECK(std::abs(vector) == 1);
}
