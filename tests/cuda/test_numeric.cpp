// inverse_norms on the emulated device: the CPU's bits, and the CPU's faults.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "epibias/cuda/numeric.hpp"
#include "epibias/numeric.hpp"
#include "support.hpp"

namespace epibias::cuda {
namespace {

struct Result {
    std::vector<double> norms;
    Fault fault{.word = kNoFault, .value = 0};
};

Result run(MatrixView<const float> rows) {
    Result result;
    result.norms.assign(static_cast<std::size_t>(rows.n_rows), -7.0);
    inverse_norms(rows, 3, result.norms.data(), &result.fault, Stream{});
    return result;
}

// For calls that are refused before anything is read or written.
void run_nowhere(MatrixView<const float> rows) {
    Fault fault{.word = kNoFault, .value = 0};
    inverse_norms(rows, 0, nullptr, &fault, Stream{});
}

TEST_SUITE("numeric") {
    TEST_CASE("inverse norms have the CPU's bits for every dim") {
        for (const std::int64_t dim : {1, 2, 7, 31, 32, 33, 64, 97, 384}) {
            CAPTURE(dim);
            const test::Matrix rows = test::random_matrix(19, dim, 5);
            std::vector<double> expected(19);
            epibias::inverse_norms(rows.view(), "rows", expected);
            const Result result = run(rows.view());
            CHECK(result.norms == expected);
            CHECK(result.fault.word == kNoFault);
        }
    }

    TEST_CASE("the lowest faulty row is recorded with its value, and its result is NaN") {
        test::Matrix rows = test::random_matrix(20, 40, 6);
        rows.set(17, 3, std::numeric_limits<float>::quiet_NaN());
        rows.set(5, 39, std::numeric_limits<float>::infinity());
        const Result result = run(rows.view());
        CHECK(fault_argument(result.fault.word) == 3);
        CHECK(fault_row(result.fault.word) == 5);
        CHECK(fault_column(result.fault.word) == 39);
        CHECK(result.fault.value == std::numeric_limits<double>::infinity());
        for (std::size_t row = 0; row < 20; ++row) {
            CHECK(std::isnan(result.norms[row]) == (row == 5 || row == 17));
        }
    }

    TEST_CASE("a zero row is recorded with the value 0") {
        test::Matrix rows = test::random_matrix(3, 33, 7);
        for (std::int64_t column = 0; column < 33; ++column) rows.set(2, column, 0.0F);
        const Result result = run(rows.view());
        CHECK(result.fault.word == fault_word(3, 2, 0));
        CHECK(result.fault.value == 0.0);
        CHECK(std::isnan(result.norms[2]));
    }

    TEST_CASE("what a fault record or a grid cannot count is refused") {
        const auto refusal = [](std::int64_t n_rows, std::int64_t n_columns) -> std::string {
            try {
                run_nowhere({nullptr, n_rows, n_columns});
            } catch (const std::invalid_argument& error) {
                return error.what();
            }
            return "";
        };
        CHECK(refusal(2, kMaxFaultColumns + 1) ==
              "rows: expected at most 68719476736 rows of 1048576 columns, got shape (2, 1048577)");
        CHECK(refusal(kMaxFaultRows + 1, 2) ==
              "rows: expected at most 68719476736 rows of 1048576 columns, got shape "
              "(68719476737, 2)");
        CHECK(refusal(kMaxFaultRows, 2) ==
              "rows: expected at most 17179869176 rows, got 68719476736");
    }

    TEST_CASE("no rows, no launch") {
        CHECK(run({nullptr, 0, 8}).norms.empty());
    }
}

}  // namespace
}  // namespace epibias::cuda
