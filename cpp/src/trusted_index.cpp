#include "epibias/trusted_index.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "epibias/simd_level.hpp"
#include "kernels/trusted_index_kernels.hpp"
#include "pairwise_sum.hpp"
#include "ragged.hpp"
#include "refuse.hpp"

namespace epibias {

namespace {

// ---- fingerprints ----------------------------------------------------------------------------

constexpr double kLeastSquare = 1e-20, kMostSquare = 1e30;  // of lengths that float32 can sum

const kernels::TrustedKernels& chosen_kernels() {
#if defined(EPIBIAS_X86_LEVELS)
    switch (active_simd_level()) {
        case SimdLevel::kAvx512:
            return kernels::avx512::kTrusted;
        case SimdLevel::kAvx2:
            return kernels::avx2::kTrusted;
        case SimdLevel::kScalar:
            break;
    }
#endif
    return kernels::scalar::kTrusted;
}

// The sketch of a row whose squares float32 cannot sum, and its length.
double far_sketch(const float* values, std::span<const float> signs,
                  double (&sums)[kFingerprintNumbers]) {
    double squared = 0;
    for (std::size_t column = 0; column < signs.size(); ++column) {
        const auto value = static_cast<double>(values[column]);
        sums[column % kFingerprintNumbers] += value * static_cast<double>(signs[column]);
        squared += value * value;
    }
    return std::sqrt(squared);
}

template <typename Sum>
void write(const Sum (&sums)[kFingerprintNumbers], double length, float* numbers,
           std::int64_t n_numbers) {
    const double scale = 1 / length;
    for (std::int64_t number = 0; number < n_numbers; ++number) {
        numbers[number] = static_cast<float>(static_cast<double>(sums[number]) * scale);
    }
}

// ---- who is trusted --------------------------------------------------------------------------

void check_table(const TrustedTable& table) {
    const std::int64_t n_numbers = table.fingerprints.n_columns;
    if (n_numbers < 2) refuse("trusted", "at least 2 numbers", std::to_string(n_numbers));
    check_count("columns", "the grid's sides", table.columns.size(), 2);
    check_count("low", "the grid's sides", table.low.size(), 2);
    check_count("step", "the grid's sides", table.step.size(), 2);
    for (std::size_t side = 0; side < 2; ++side) {
        const std::int64_t column = table.columns[side];
        if (column < 0 || column >= n_numbers) {
            refuse("columns", "numbers from 0 to " + std::to_string(n_numbers - 1),
                   std::to_string(column));
        }
        const double low = table.low[side];
        if (!std::isfinite(low)) refuse("low", "finite values", number_text(low));
        const double step = table.step[side];
        const bool is_step = step > 0 && std::isfinite(step);
        if (!is_step) refuse("step", "finite values above 0", number_text(step));
    }
    const bool is_tolerance = table.tolerance >= 0 && std::isfinite(table.tolerance);
    if (!is_tolerance) {
        refuse("tolerance", "a finite number of at least 0", number_text(table.tolerance));
    }
    if (table.n_cells < 1 || table.n_cells > kMostCells) {
        refuse("n_cells", "an integer from 1 to " + std::to_string(kMostCells),
               std::to_string(table.n_cells));
    }
    // One look at each start would take longer than a query does: ends are cut where they are used.
    const auto n_starts = static_cast<std::size_t>(table.n_cells * table.n_cells + 1);
    check_count("starts", "cells, and one", table.starts.size(), n_starts);
}

class TrustedGrid {
  public:
    explicit TrustedGrid(const TrustedTable& table) : table_(table) { check_table(table); }

    // Row of the nearest passage that is near enough and not `taken`; -1 for none.
    [[nodiscard]] std::int64_t nearest(const float* candidate,
                                       std::span<const std::int64_t> taken) const {
        std::int64_t found = -1;
        float least = std::numeric_limits<float>::infinity();
        const Cells across = cells(candidate, 0);
        const Cells along = cells(candidate, 1);
        for (std::int64_t a = across.first; a <= across.last; ++a) {
            const auto cell = static_cast<std::size_t>(a * table_.n_cells + along.first);
            const auto after = static_cast<std::size_t>(a * table_.n_cells + along.last + 1);
            const std::int64_t end = std::min(table_.starts[after], table_.fingerprints.n_rows);
            for (std::int64_t row = std::max<std::int64_t>(table_.starts[cell], 0); row < end;
                 ++row) {
                const float way = way_to(candidate, table_.fingerprints.row(row));
                if (way < least && std::ranges::find(taken, row) == taken.end()) {
                    least = way;
                    found = row;
                }
            }
        }
        return found;
    }

  private:
    struct Cells {
        std::int64_t first, last;
    };
    // Those that a number within the tolerance may lie in.
    [[nodiscard]] Cells cells(const float* candidate, std::size_t side) const {
        const auto value = static_cast<double>(candidate[table_.columns[side]]);
        return {cell(value - reach_, side), cell(value + reach_, side)};
    }
    [[nodiscard]] std::int64_t cell(double value, std::size_t side) const {
        const double place = (value - table_.low[side]) / table_.step[side];
        if (!(place > 0)) return 0;  // also where it is no number: that is near nothing
        return static_cast<std::int64_t>(std::min(place, static_cast<double>(table_.n_cells - 1)));
    }
    // Largest difference of two fingerprints; infinite beyond the tolerance, or where one is no
    // number.
    [[nodiscard]] float way_to(const float* one, const float* other) const {
        constexpr float kFar = std::numeric_limits<float>::infinity();
        const auto way = [&](std::int64_t number) { return std::abs(one[number] - other[number]); };
        // The two of the grid first: most that share a cell differ there.
        if (!(way(table_.columns[0]) <= tolerance_)) return kFar;
        if (!(way(table_.columns[1]) <= tolerance_)) return kFar;
        float most = 0;
        bool near = true;
        for (std::int64_t number = 0; number < table_.fingerprints.n_columns; ++number) {
            near &= way(number) <= tolerance_;
            most = std::max(most, way(number));
        }
        return near ? most : kFar;
    }

    const TrustedTable& table_;
    float tolerance_ = static_cast<float>(table_.tolerance);
    double reach_ = table_.tolerance * (1 + 1e-3);  // beyond what rounding to float32 may add
};

}  // namespace

void fingerprints(MatrixView<const float> rows, std::span<const float> signs,
                  MatrixView<float> numbers) {
    const std::int64_t n_numbers = std::min(kFingerprintNumbers, rows.n_columns);
    check_count("signs", "columns", signs.size(), static_cast<std::size_t>(rows.n_columns));
    if (numbers.n_rows != rows.n_rows || numbers.n_columns != n_numbers) {
        refuse("numbers", "shape " + shape_text(rows.n_rows, n_numbers),
               shape_text(numbers.n_rows, numbers.n_columns));
    }
    const kernels::TrustedKernels& level = chosen_kernels();
    RowReader<float> reader(rows);
    for (std::int64_t row = 0; row < rows.n_rows; ++row) {
        const float* const values = reader.row(row);
        float sums[kFingerprintNumbers];
        const double squared = level.sketch(values, signs.data(), rows.n_columns, sums);
        if (squared > kLeastSquare && squared < kMostSquare) {
            write(sums, std::sqrt(squared), numbers.row(row), n_numbers);
            continue;
        }
        double far_sums[kFingerprintNumbers] = {};
        const double length = far_sketch(values, signs, far_sums);
        const bool is_row = length > 0 && std::isfinite(length);
        if (!is_row) {
            refuse("rows", "finite rows other than 0",
                   "a length of " + number_text(length) + " (row " + std::to_string(row) + ")");
        }
        write(far_sums, length, numbers.row(row), n_numbers);
    }
}

void mark_untrusted(const TrustedTable& table, MatrixView<const float> fingerprints,
                    std::span<const std::int64_t> offsets, std::span<std::uint8_t> untrusted) {
    const TrustedGrid grid(table);
    if (fingerprints.n_columns != table.fingerprints.n_columns) {
        refuse("fingerprints", std::to_string(table.fingerprints.n_columns) + " columns",
               std::to_string(fingerprints.n_columns));
    }
    check_count("untrusted", "fingerprints", untrusted.size(),
                static_cast<std::size_t>(fingerprints.n_rows));
    const std::int64_t n_queries = std::max<std::int64_t>(std::ssize(offsets) - 1, 0);
    check_offsets(offsets, n_queries, fingerprints.n_rows);
    std::vector<std::int64_t> taken;
    for (std::size_t query = 0; query + 1 < offsets.size(); ++query) {
        taken.clear();
        for (std::int64_t row = offsets[query]; row < offsets[query + 1]; ++row) {
            const std::int64_t nearest = grid.nearest(fingerprints.row(row), taken);
            untrusted[static_cast<std::size_t>(row)] = nearest < 0 ? 1 : 0;
            if (nearest >= 0) taken.push_back(nearest);
        }
    }
}

void trusted_records(std::span<const float> scores, std::span<const std::int64_t> offsets,
                     std::span<const std::uint8_t> is_new, std::int64_t k,
                     MatrixView<double> records) {
    check_at_least("k", k, 1);
    check_count("is_new", "scores", is_new.size(), scores.size());
    if (records.n_rows != 2) refuse("records", "2 rows", std::to_string(records.n_rows));
    check_offsets(offsets, records.n_columns, std::ssize(scores));
    std::vector<double> trusted;
    for (std::int64_t query = 0; query < records.n_columns; ++query) {
        trusted.clear();
        const auto place = static_cast<std::size_t>(query);
        const auto end = static_cast<std::size_t>(offsets[place + 1]);
        for (auto row = static_cast<std::size_t>(offsets[place]); row < end; ++row) {
            if (is_new[row] == 0) trusted.push_back(static_cast<double>(scores[row]));
        }
        double& centre = records.row(0)[query];
        double& spread = records.row(1)[query];
        centre = spread = std::numeric_limits<double>::quiet_NaN();
        const std::size_t n = trusted.size();
        if (std::ssize(trusted) < std::max<std::int64_t>(k, 2)) continue;
        const auto score = [&](std::size_t i) { return trusted[i]; };
        const double mean = pairwise_sum(score, 0, n) / static_cast<double>(n);
        const auto square = [&](std::size_t i) {
            return (trusted[i] - mean) * (trusted[i] - mean);
        };
        centre = pairwise_sum(score, 0, static_cast<std::size_t>(k)) / static_cast<double>(k);
        spread = std::sqrt(pairwise_sum(square, 0, n) / static_cast<double>(n - 1));
    }
}

}  // namespace epibias
