// What: queries as the quantized scan wants them: codes packed for the register tiles, and what
// their bounds are made of. Memory: about 5 * dim bytes a query.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "epibias/matrix_view.hpp"
#include "kernels/quantized_scan_kernels.hpp"
#include "principal_queries.hpp"
#include "quantized_unit.hpp"

namespace epibias {

class QuantizedQueries {
  public:
    struct Group {
        std::int64_t first_query;
        int n_queries;
        const std::int32_t* words;   // [n_words, n_queries]
        const std::int32_t* starts;  // [n_queries]
    };

    // The queries with the given numbers, in that order; `inverse_norms` of all queries.
    // `principal`: their codes are those of the leading axes.
    QuantizedQueries(MatrixView<const float> queries, std::span<const std::int64_t> numbers,
                     std::span<const double> inverse_norms, std::int64_t n_words,
                     const kernels::QuantizedScanKernels& kernels,
                     PrincipalQueries* principal = nullptr)
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
                bounds_.push_back(
                    principal != nullptr
                        ? principal->first(static_cast<std::int64_t>(query), codes.data())
                        : QueryBound::of(quantize_unit_row(kernels, row, dim_, inverse_.back(),
                                                           kernels.query_limit, codes.data())));
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
    [[nodiscard]] float scale(std::int64_t query) const { return bounds_[at(query)].scale; }
    [[nodiscard]] float residual_weight(std::int64_t query) const {
        return bounds_[at(query)].residual_weight;
    }
    [[nodiscard]] float remainder_weight(std::int64_t query) const {
        return bounds_[at(query)].remainder_weight;
    }
    [[nodiscard]] double own_error(std::int64_t query) const {
        return bounds_[at(query)].own_error;
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
    std::vector<QueryBound> bounds_;
    std::vector<Group> groups_;
};

}  // namespace epibias
