// What: a block of queries, scaled to unit norm and laid out as the scan kernels want them.
//
// Full panels are packed [dim, panel_width]; what is left over is a panel padded with zero queries,
// or, when it is few, plain rows. Memory: about 8 * n_queries * dim bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "epibias/matrix_view.hpp"
#include "kernels/cosine_topk_kernels.hpp"

namespace epibias {

class QueryBlock {
  public:
    struct Panel {
        const float* data;
        std::int64_t first_query;  // within the block
        int n_queries;
        bool packed;  // for scan_panel; otherwise rows for scan_few
    };

    // Queries first … first + count - 1; `inverse_norms` of all queries.
    QueryBlock(MatrixView<const float> queries, std::int64_t first, std::int64_t count,
               std::span<const double> inverse_norms, const kernels::CosineTopkKernels& kernels)
        : count_(count),
          dim_(queries.n_columns),
          width_(kernels.panel_width),
          inverse_norms_(inverse_norms.subspan(static_cast<std::size_t>(first),
                                               static_cast<std::size_t>(count))) {
        RowReader<float> reader(queries);
        const float* rows = reader.rows(first, count);
        rows_.assign(rows, rows + count * dim_);
        const std::int64_t rest = count % width_;
        const bool rest_as_rows = rest <= kernels.few_queries;
        const std::int64_t n_packed = rest_as_rows ? count - rest : count;
        n_padded_ = rest_as_rows ? count : count - rest + width_;
        scaled_.resize(static_cast<std::size_t>(n_padded_ * dim_ / kLineFloats + 1));
        for (std::int64_t query = 0; query < n_packed; query += width_) {
            pack(query, std::min(query + width_, count));
        }
        if (n_packed < count) keep_rows(n_packed);
    }

    [[nodiscard]] std::int64_t n_queries() const { return count_; }
    [[nodiscard]] std::int64_t n_padded() const { return n_padded_; }
    [[nodiscard]] int panel_width() const { return width_; }
    [[nodiscard]] std::span<const Panel> panels() const { return panels_; }

    // The query as the caller gave it, for the canonical score.
    [[nodiscard]] const float* row(std::int64_t query) const { return rows_.data() + query * dim_; }
    [[nodiscard]] double inverse_norm(std::int64_t query) const {
        return inverse_norms_[static_cast<std::size_t>(query)];
    }

  private:
    static constexpr std::int64_t kLineFloats = 16;
    struct alignas(64) Line {
        float values[kLineFloats];
    };

    [[nodiscard]] float* scaled(std::int64_t offset) {
        return reinterpret_cast<float*>(scaled_.data()) + offset;
    }

    [[nodiscard]] float unit(std::int64_t query, std::int64_t i) const {
        // In float64: a float32 norm could overflow or vanish.
        return static_cast<float>(static_cast<double>(row(query)[i]) * inverse_norm(query));
    }

    void pack(std::int64_t first, std::int64_t end) {
        float* panel = scaled(first * dim_);
        for (std::int64_t query = first; query < end; ++query) {
            for (std::int64_t i = 0; i < dim_; ++i) {
                panel[i * width_ + (query - first)] = unit(query, i);
            }
        }
        panels_.push_back({panel, first, static_cast<int>(end - first), true});
    }

    void keep_rows(std::int64_t first) {
        float* rows = scaled(first * dim_);
        for (std::int64_t query = first; query < count_; ++query) {
            for (std::int64_t i = 0; i < dim_; ++i) {
                rows[(query - first) * dim_ + i] = unit(query, i);
            }
        }
        panels_.push_back({rows, first, static_cast<int>(count_ - first), false});
    }

    std::int64_t count_;
    std::int64_t dim_;
    int width_;
    std::int64_t n_padded_ = 0;
    std::span<const double> inverse_norms_;
    std::vector<float> rows_;
    std::vector<Line> scaled_;  // zero where padded
    std::vector<Panel> panels_;
};

}  // namespace epibias
