#include "sweep_batch.hpp"

#include <limits>

#include "refuse.hpp"

namespace epibias::sweep {

namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kMaxCandidates = std::numeric_limits<std::int32_t>::max();

}  // namespace

void check_number(const char* argument, double value, double above, double at_most) {
    if (value > above && value <= at_most) return;
    refuse(argument, "a number > " + number_text(above) + " and at most " + number_text(at_most),
           number_text(value));
}

void check_shapes(MatrixView<const float> similarities, MatrixView<const float> scores) {
    const bool same =
        scores.n_rows == similarities.n_rows && scores.n_columns == similarities.n_columns;
    if (!same) {
        refuse("scores",
               "shape " + shape_text(similarities.n_rows, similarities.n_columns) +
                   ", as similarities",
               "shape " + shape_text(scores.n_rows, scores.n_columns));
    }
    if (similarities.n_columns > kMaxCandidates) {
        refuse("similarities", "at most " + std::to_string(kMaxCandidates) + " candidates a query",
               std::to_string(similarities.n_columns));
    }
}

void keep_all(std::int64_t row, std::int64_t n, const SweepResult& result) {
    const auto place = static_cast<std::size_t>(row);
    result.thresholds[place] = std::numeric_limits<float>::infinity();
    result.n_kept[place] = n;
    result.divergences[place] = 0;
    if (!result.p_values.empty()) result.p_values[place] = 1;
    if (!result.n_undecided.empty()) result.n_undecided[place] = 0;
    if (result.curve.data != nullptr) {
        std::fill_n(result.curve.row(row), result.curve.n_columns, kNotANumber);
    }
}

}  // namespace epibias::sweep
