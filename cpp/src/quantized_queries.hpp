// What: queries as the quantized scan wants them: codes packed for the register tiles, and what
// their bounds are made of. Memory: about 5 * dim bytes a query.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "epibias/matrix_view.hpp"
#include "kernels/quantized_scan_kernels.hpp"
#include "topk_candidates.hpp"

namespace epibias {

// Norms whose squares, and the squares of whose residuals, float32 holds.
inline constexpr double kLargestPlainInverseNorm = 1e10;
inline constexpr double kSmallestPlainInverseNorm = 1e-10;

// What float32 may lose between exact sums and a value or bound: conversion of the sum, three
// products and one addition, of numbers below 10 (the residual of a row is below 1.1, that of a
// query of 7 bits below 2.1), and the rounding of the similarity itself. Beside residuals of 0.01
// its size does not matter.
inline constexpr double kFloatSlack = 64 * 0x1p-24;

struct UnitCodes {
    float scale;     // unit row is about scale * codes
    float residual;  // at least the length of the difference
};

// Codes of a row scaled to unit norm. `codes` has room for 16 more than dim; `limit` at most 127.
// Where it is small, large elements may be clipped.
inline UnitCodes quantize_unit_row(const kernels::QuantizedScanKernels& kernels, const float* row,
                                   std::int64_t dim, double inverse_norm, int limit,
                                   std::int8_t* codes) {
    constexpr int kFewCodes = 16;
    double step = 0;     // of the unit row
    double squared = 0;  // of the difference
    if (inverse_norm >= kSmallestPlainInverseNorm && inverse_norm <= kLargestPlainInverseNorm) {
        const kernels::QuantizedRow quantized =
            limit < kFewCodes ? kernels.quantize_clipped(row, dim, limit, codes)
                              : kernels.quantize(row, dim, limit, codes);
        step = static_cast<double>(quantized.step) * inverse_norm;
        const std::int64_t lanes = kernels.error_lanes;
        const std::int64_t parts = dim / lanes + 2 + 2 * lanes;
        squared = static_cast<double>(quantized.squared_error) * inverse_norm * inverse_norm *
                  (1 + static_cast<double>(parts) * 0x1p-23);
    } else {
        double largest = 0;
        for (std::int64_t i = 0; i < dim; ++i) {
            largest = std::max(largest, std::abs(static_cast<double>(row[i]) * inverse_norm));
        }
        step = largest / limit;
        for (std::int64_t i = 0; i < dim; ++i) {
            const double value = static_cast<double>(row[i]) * inverse_norm;
            const double code = std::nearbyint(value / step);
            codes[i] = static_cast<std::int8_t>(code);
            squared += (value - code * step) * (value - code * step);
        }
    }
    // `step` in float32 moves scale * codes, whose length is below 4, by 2^-24 of it; the
    // kernel's products and differences in float32 lose as much each.
    constexpr double kRounding = 16 * 0x1p-24;
    const double residual = std::sqrt(squared) * (1 + 0x1p-20) + kRounding;
    return {static_cast<float>(step), -round_down(-residual)};
}

class QuantizedQueries {
  public:
    struct Group {
        std::int64_t first_query;
        int n_queries;
        const std::int32_t* words;   // [n_words, n_queries]
        const std::int32_t* starts;  // [n_queries]
    };

    // The queries with the given numbers, in that order; `inverse_norms` of all queries.
    QuantizedQueries(MatrixView<const float> queries, std::span<const std::int64_t> numbers,
                     std::span<const double> inverse_norms, std::int64_t n_words,
                     const kernels::QuantizedScanKernels& kernels)
        : dim_(queries.n_columns), n_words_(n_words), numbers_(numbers.begin(), numbers.end()) {
        const std::size_t count = numbers.size();
        rows_.resize(count * static_cast<std::size_t>(dim_));
        words_.resize(count * static_cast<std::size_t>(n_words));
        starts_.resize(count);
        RowReader<float> reader(queries);
        const auto most = static_cast<std::size_t>(kernels.n_queries);
        const std::size_t n_groups = (count + most - 1) / most;
        std::vector<std::int8_t> codes(static_cast<std::size_t>(4 * n_words + 16));
        for (std::size_t group = 0; group < n_groups; ++group) {
            // Even sizes: a last group of one query would cost as much as one of several.
            const std::size_t first = count * group / n_groups;
            const std::size_t end = count * (group + 1) / n_groups;
            std::int32_t* words = words_.data() + first * static_cast<std::size_t>(n_words);
            for (std::size_t query = first; query < end; ++query) {
                const std::int64_t number = numbers[query];
                inverse_.push_back(inverse_norms[static_cast<std::size_t>(number)]);
                const float* row = reader.row(number);
                std::copy_n(row, dim_, rows_.data() + query * static_cast<std::size_t>(dim_));
                std::fill(codes.begin(), codes.end(), std::int8_t{0});
                units_.push_back(quantize_unit_row(kernels, row, dim_, inverse_.back(),
                                                   kernels.query_limit, codes.data()));
                pack(codes.data(), words + (query - first), static_cast<std::int64_t>(end - first));
                std::int32_t sum = 0;
                for (const std::int8_t code : codes) sum += code;
                starts_[query] = -kernels.code_offset * sum;
            }
            groups_.push_back({static_cast<std::int64_t>(first), static_cast<int>(end - first),
                               words, starts_.data() + first});
        }
    }

    [[nodiscard]] std::int64_t count() const { return std::ssize(numbers_); }
    [[nodiscard]] std::int64_t number(std::int64_t query) const { return numbers_[at(query)]; }
    [[nodiscard]] std::span<const Group> groups() const { return groups_; }
    [[nodiscard]] float scale(std::int64_t query) const { return units_[at(query)].scale; }

    // |similarity - value| is at most residual_weight * residual of the row + own_error.
    [[nodiscard]] float residual_weight(std::int64_t query) const {
        return -round_down(-(1 + static_cast<double>(units_[at(query)].residual)));
    }
    [[nodiscard]] double own_error(std::int64_t query) const {
        return static_cast<double>(units_[at(query)].residual) + kFloatSlack;
    }

    // The query as the caller gave it, for the canonical score.
    [[nodiscard]] const float* row(std::int64_t query) const { return rows_.data() + query * dim_; }
    [[nodiscard]] double inverse_norm(std::int64_t query) const { return inverse_[at(query)]; }

  private:
    static std::size_t at(std::int64_t query) { return static_cast<std::size_t>(query); }

    void pack(const std::int8_t* codes, std::int32_t* words, std::int64_t stride) const {
        for (std::int64_t word = 0; word < n_words_; ++word) {
            std::memcpy(words + word * stride, codes + 4 * word, sizeof(std::int32_t));
        }
    }

    std::int64_t dim_;
    std::int64_t n_words_;
    std::vector<std::int64_t> numbers_;
    std::vector<float> rows_;
    std::vector<std::int32_t> words_;
    std::vector<std::int32_t> starts_;
    std::vector<double> inverse_;
    std::vector<UnitCodes> units_;
    std::vector<Group> groups_;
};

}  // namespace epibias
