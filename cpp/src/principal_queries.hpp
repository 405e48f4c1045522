// What: the codes of queries along principal axes, and the second look at rows that a scan of the
// leading axes left (principal_codes.hpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "epibias/matrix_view.hpp"
#include "epibias/principal_codes.hpp"
#include "kernels/quantized_scan_kernels.hpp"
#include "quantized_principal.hpp"
#include "quantized_unit.hpp"

namespace epibias {

class PrincipalQueries {
  public:
    // The queries with the given numbers, in that order; `inverse_norms` of all queries.
    PrincipalQueries(MatrixView<const float> queries, std::span<const std::int64_t> numbers,
                     std::span<const double> inverse_norms, const PrincipalCodes& codes,
                     const kernels::QuantizedScanKernels& kernels)
        : kernels_(kernels),
          n_axes_(codes.axes.rows.n_rows),
          n_leading_(codes.axes.n_leading),
          rest_(codes.rest.data(), n_axes_ - n_leading_),
          error_(projection_error(codes.axes, kernels.error_lanes)),
          along_(numbers.size() * at(n_axes_)),
          rest_codes_(numbers.size() * at(rest_.bytes()) + kSpill),
          rest_bounds_(numbers.size()),
          starts_(numbers.size()) {
        const std::int64_t dim = queries.n_columns;
        std::vector<float> units(numbers.size() * at(dim));
        RowReader<float> reader(queries);
        for (std::size_t query = 0; query < numbers.size(); ++query) {
            const float* row = reader.row(numbers[query]);
            const double inverse = inverse_norms[at(numbers[query])];
            for (std::size_t i = 0; i < at(dim); ++i) {
                units[query * at(dim) + i] =
                    static_cast<float>(static_cast<double>(row[i]) * inverse);
            }
        }
        kernels.project(units.data(), std::ssize(numbers), codes.axes.rows.data, n_axes_, dim,
                        along_.data());
    }

    // Writes the codes of the leading axes of a query, and keeps those of the others. What the
    // codes of either lose counts from the start: the margin of a candidate has one place for it.
    QueryBound first(std::int64_t query, std::int8_t* codes) {
        const std::span<const float> all(along_.data() + query * n_axes_, at(n_axes_));
        const auto leading = all.first(at(n_leading_));
        std::int8_t* rest = rest_codes_.data() + query * rest_.bytes();
        const auto n_rest = at(n_axes_ - n_leading_);
        const int limit = kernels_.query_limit;
        const UnitCodes one = quantize_part(kernels_, leading, limit, codes);
        const UnitCodes other = quantize_part(kernels_, all.last(n_rest), limit, rest);
        std::fill_n(rest + n_rest, at(rest_.bytes()) - n_rest, std::int8_t{0});
        std::int32_t sum = 0;
        for (std::size_t i = 0; i < n_rest; ++i) sum += rest[i];
        starts_[at(query)] = -kernels_.code_offset * sum;
        const double residual =
            std::hypot(static_cast<double>(one.residual), static_cast<double>(other.residual)) +
            error_;
        rest_bounds_[at(query)] = bound(all, other.scale, residual);
        return bound(leading, one.scale, residual);
    }

    void fetch(std::int64_t row) const { rest_.fetch(row); }

    // Adds to the value of a candidate what the other axes say, and gives its new margin.
    float refine(std::int64_t query, std::int64_t row, float& value) const {
        const QueryBound& own = rest_bounds_[at(query)];
        const PrincipalRest::Numbers numbers = rest_.numbers(row);
        const std::int32_t sum =
            kernels_.row_product(rest_.record(row), rest_codes_.data() + query * rest_.bytes(),
                                 rest_.n_lines(), starts_[at(query)]);
        value += static_cast<float>(sum) * numbers.scale * own.scale;
        return own.residual_weight * numbers.residual + own.remainder_weight * numbers.remainder;
    }

  private:
    static constexpr std::size_t kSpill = 16;  // what a vector writes beyond the last codes
    static std::size_t at(std::int64_t number) { return static_cast<std::size_t>(number); }

    // |<q, x> - <z', y'>| <= (|z| + |z - z'|) |y - y'| + |q - P q| |x - P x| +
    //   |z - z'| |A x| + |A A' - 1| |A q| |A x|; |A x| is 1 but for the last, which the factors are
    //   for.
    [[nodiscard]] QueryBound bound(std::span<const float> part, float scale,
                                   double residual) const {
        const double squared = squared_norm(part);
        return {.scale = scale,
                .residual_weight = at_least(std::sqrt(squared) + error_ + residual),
                .remainder_weight = at_least(remainder_beyond(squared, error_)),
                .own_error =
                    residual * (1 + kLargestAxesError) + 1.01 * kLargestAxesError + kFloatSlack};
    }

    const kernels::QuantizedScanKernels& kernels_;
    std::int64_t n_axes_;
    std::int64_t n_leading_;
    PrincipalRest rest_;
    double error_;
    std::vector<float> along_;
    std::vector<std::int8_t> rest_codes_;
    std::vector<QueryBound> rest_bounds_;
    std::vector<std::int32_t> starts_;
};

}  // namespace epibias
