#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "epibias/trusted_index.hpp"
#include "refusal.hpp"

namespace {

using epibias::test::message_of;
using Marks = std::vector<std::uint8_t>;
using Offsets = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("mark_untrusted: within the tolerance in each number, copies one for one") {
    // Four cells, of 0.5: the first three passages in (0, 0), the last in (1, 1).
    const std::vector<float> trusted = {0.1F, 0.1F, 0.4F, 0.4F, 0.45F, 0.2F, 0.9F, 0.9F};
    const std::vector<std::int64_t> starts = {0, 3, 3, 3, 4};
    const std::vector<double> low = {0, 0};
    const std::vector<double> step = {0.5, 0.5};
    const std::vector<std::int64_t> columns = {0, 1};
    epibias::TrustedTable table{{trusted.data(), 4, 2}, starts, columns, low, step, 2, 0.1};
    const std::vector<float> own = {0.1F,  0.15F, 0.1F,  0.1F, 0.52F, 0.25F,
                                    0.25F, 0.25F, 1.95F, 0.9F, 0.95F, 0.95F};
    const Offsets offsets = {0, 2, 6};
    Marks marks(6);
    epibias::mark_untrusted(table, {own.data(), 6, 2}, offsets, marks);
    // The second is a copy; the third lies beyond its passage's cell; the fifth beyond the grid.
    CHECK(marks == Marks{0, 1, 0, 1, 1, 0});
    const std::vector<float> broken = {std::numeric_limits<float>::quiet_NaN(), 0.1F};
    Marks one(1);
    epibias::mark_untrusted(table, {broken.data(), 1, 2}, Offsets{0, 1}, one);
    CHECK(one == Marks{1});
    table.n_cells = 3;
    CHECK(message_of([&] { epibias::mark_untrusted(table, {own.data(), 6, 2}, offsets, marks); }) ==
          "starts: expected 10 values, as many as cells, and one, got 5");
    table.n_cells = 2;
    CHECK(message_of([&] {
              epibias::mark_untrusted(table, {own.data(), 4, 3}, Offsets{0, 4}, marks);
          }) == "fingerprints: expected 2 columns, got 3");
}

TEST_CASE("mark_untrusted: a table that is none is refused") {
    const std::vector<float> trusted = {0.1F, 0.1F};
    const std::vector<std::int64_t> starts = {0, 1};
    const std::vector<std::int64_t> columns = {0, 1};
    const std::vector<double> low = {0, 0};
    const std::vector<double> step = {1, 1};
    const epibias::TrustedTable good{{trusted.data(), 1, 2}, starts, columns, low, step, 1, 0.1};
    Marks marks(1);
    const auto message = [&](const epibias::TrustedTable& table) {
        return message_of(
            [&] { epibias::mark_untrusted(table, {trusted.data(), 1, 2}, Offsets{0, 1}, marks); });
    };
    epibias::mark_untrusted(good, {trusted.data(), 1, 2}, Offsets{0, 1}, marks);
    CHECK(marks == Marks{0});
    epibias::TrustedTable table = good;
    table.n_cells = std::int64_t{1} << 32;  // its square is no int64
    CHECK(message(table) == "n_cells: expected an integer from 1 to 16384, got 4294967296");
    table = good;
    const std::vector<double> none = {1, 0};
    table.step = none;
    CHECK(message(table) == "step: expected finite values above 0, got 0");
    table = good;
    const std::vector<double> broken = {std::numeric_limits<double>::quiet_NaN(), 0};
    table.low = broken;
    CHECK(message(table) == "low: expected finite values, got nan");
    table = good;
    table.tolerance = std::numeric_limits<double>::quiet_NaN();
    CHECK(message(table) == "tolerance: expected a finite number of at least 0, got nan");
    table = good;
    const std::vector<std::int64_t> beyond = {0, 2};
    table.columns = beyond;
    CHECK(message(table) == "columns: expected numbers from 0 to 1, got 2");
}

TEST_CASE("fingerprints: signed sums of every eighth column, over the length; far values, too") {
    std::vector<float> rows(2 * 9, 0.0F);
    rows[0] = 3;
    rows[8] = 4;
    rows[9 + 1] = -1;
    const std::vector<float> signs = {1, -1, 1, 1, 1, 1, 1, 1, -1};
    std::vector<float> numbers(16);
    const auto run = [&] {
        epibias::fingerprints({rows.data(), 2, 9}, signs, {numbers.data(), 2, 8});
    };
    const std::vector<float> expected = {-0.2F, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0};
    run();
    CHECK(numbers == expected);
    for (const float scale : {1e30F, 1e-30F}) {
        std::vector<float> far = rows;
        for (float& value : far) value *= scale;
        epibias::fingerprints({far.data(), 2, 9}, signs, {numbers.data(), 2, 8});
        for (std::size_t i = 0; i < 16; ++i) CHECK(numbers[i] == doctest::Approx(expected[i]));
    }
    rows[9 + 1] = 0;
    CHECK(message_of(run) == "rows: expected finite rows other than 0, got a length of 0 (row 1)");
    rows[9 + 1] = std::numeric_limits<float>::infinity();
    CHECK(message_of(run) ==
          "rows: expected finite rows other than 0, got a length of inf (row 1)");
    CHECK(message_of([&] {
              epibias::fingerprints({rows.data(), 2, 9}, signs, {numbers.data(), 2, 7});
          }) == "numbers: expected shape (2, 8), got (2, 7)");
    CHECK(message_of([&] {
              epibias::fingerprints({rows.data(), 2, 8}, signs, {numbers.data(), 2, 8});
          }) == "signs: expected 8 values, as many as columns, got 9");
}

TEST_CASE("trusted_records: of what is not new; NaN where that is too little") {
    const std::vector<float> scores = {9, 0, 2, 4, 1};
    const Offsets offsets = {0, 4, 5};
    std::vector<double> records(4);
    epibias::trusted_records(scores, offsets, Marks{1, 0, 0, 0, 0}, 2, {records.data(), 2, 2});
    CHECK(records[0] == 1.0);
    CHECK(records[2] == 2.0);
    for (const std::size_t value : {1U, 3U}) CHECK(std::isnan(records[value]));
    CHECK(message_of([&] {
              epibias::trusted_records(scores, offsets, Marks(5), 0, {records.data(), 2, 2});
          }) == "k: expected an integer of at least 1, got 0");
}
