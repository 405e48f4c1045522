#include "sweep_batch.hpp"

#include <limits>

namespace epibias::sweep {

namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

}  // namespace

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
