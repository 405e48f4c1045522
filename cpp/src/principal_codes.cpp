#include "epibias/principal_codes.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "epibias/numeric.hpp"
#include "epibias/parallel.hpp"
#include "epibias/quantized_scan.hpp"
#include "quantized_corpus.hpp"
#include "quantized_passages.hpp"
#include "quantized_principal.hpp"
#include "refuse.hpp"

namespace epibias {

namespace {

void check_orthonormal(const MatrixView<const float>& axes) {
    RowReader<float> left(axes);
    RowReader<float> right(axes);
    double squared = 0;
    for (std::int64_t i = 0; i < axes.n_rows; ++i) {
        for (std::int64_t j = 0; j <= i; ++j) {
            const double off = canonical_dot(left.row(i), right.row(j), axes.n_columns) -
                               static_cast<double>(i == j);
            squared += off * off * (i == j ? 1 : 2);
        }
    }
    if (std::sqrt(squared) <= kLargestAxesError) return;
    refuse("axes", "orthonormal rows",
           "rows whose products differ from that by " + number_text(std::sqrt(squared)));
}

// Writes the records of one tile.
class TileWriter {
  public:
    TileWriter(const kernels::QuantizedScanKernels& kernels, MatrixView<const float> passages,
               std::span<const double> inverse_norms, const PrincipalAxes& axes)
        : kernels_(kernels),
          reader_(passages),
          inverse_norms_(inverse_norms),
          axes_(axes),
          n_rows_(passages.n_rows),
          error_(projection_error(axes, kernels.error_lanes)),
          units_(size(kernels::kTileRows * passages.n_columns)),
          along_(size(kernels::kTileRows * axes.rows.n_rows)) {}

    void write(std::int64_t tile, const QuantizedPassages& leading, std::uint8_t* leading_out,
               const PrincipalRest& rest, std::uint8_t* rest_out) {
        const std::int64_t first = tile * kernels::kTileRows;
        const std::int64_t count = std::min(kernels::kTileRows, n_rows_ - first);
        const std::int64_t n_axes = axes_.rows.n_rows;
        project(first, count);
        codes_.resize(size(kernels::kGroupRows * leading.n_words() * 4 + rest.bytes() + kSpill));
        for (std::int64_t row = 0; row < kernels::kTileRows; ++row) {
            const std::int64_t in_group = row % kernels::kGroupRows;
            std::int8_t* own = codes_.data() + in_group * 4 * leading.n_words();
            std::fill_n(own, 4 * leading.n_words(), std::int8_t{0});
            scales_[in_group] = remainders_[in_group] = 0;
            // A row that is not there: no comparison with NaN holds, so it never passes.
            residuals_[in_group] = std::numeric_limits<float>::quiet_NaN();
            if (row < count) {
                const std::span<const float> y(along_.data() + row * n_axes, size(n_axes));
                const double residual =
                    write_leading(y.first(size(axes_.n_leading)), in_group, own);
                write_rest(y, residual, rest, rest_out + row * rest.bytes());
            }
            if (in_group + 1 < kernels::kGroupRows) continue;
            leading.write_group(codes_.data(), {scales_, residuals_, remainders_}, leading_out);
            leading_out += leading.group_bytes();
        }
    }

  private:
    static constexpr std::int64_t kSpill = 16;  // what a vector writes beyond a row

    static std::size_t size(std::int64_t number) { return static_cast<std::size_t>(number); }

    void project(std::int64_t first, std::int64_t count) {
        const std::int64_t dim = axes_.rows.n_columns;
        for (std::int64_t row = 0; row < count; ++row) {
            const double inverse = checked_inverse_norm(inverse_norms_, first + row);
            const float* values = reader_.row(first + row);
            float* unit = units_.data() + row * dim;
            for (std::int64_t i = 0; i < dim; ++i) {
                unit[i] = static_cast<float>(static_cast<double>(values[i]) * inverse);
            }
        }
        kernels_.project(units_.data(), count, axes_.rows.data, axes_.rows.n_rows, dim,
                         along_.data());
    }

    // Returns the residual of the codes, without the error of the projection.
    double write_leading(std::span<const float> part, std::int64_t in_group, std::int8_t* codes) {
        const UnitCodes unit = quantize_part(kernels_, part, kernels_.code_limit, codes);
        const auto residual = static_cast<double>(unit.residual);
        scales_[in_group] = unit.scale;
        residuals_[in_group] = at_least(residual + error_);
        remainders_[in_group] = at_least(remainder_beyond(squared_norm(part), error_));
        return residual;
    }

    void write_rest(std::span<const float> y, double leading_residual, const PrincipalRest& rest,
                    std::uint8_t* out) {
        const auto part = y.subspan(size(axes_.n_leading));
        std::int8_t* codes = codes_.data() + std::ssize(codes_) - rest.bytes() - kSpill;
        const UnitCodes unit = quantize_part(kernels_, part, kernels_.code_limit, codes);
        const PrincipalRest::Numbers numbers{
            .scale = unit.scale,
            .residual =
                at_least(std::hypot(leading_residual, static_cast<double>(unit.residual)) + error_),
            .remainder = at_least(remainder_beyond(squared_norm(y), error_)),
            .unused = 0};
        std::memset(out, 128, size(rest.bytes()));
        for (std::size_t i = 0; i < part.size(); ++i) {
            out[i] = static_cast<std::uint8_t>(codes[i] + 128);
        }
        std::memcpy(out + rest.bytes() - static_cast<std::int64_t>(sizeof numbers), &numbers,
                    sizeof numbers);
    }

    const kernels::QuantizedScanKernels& kernels_;
    RowReader<float> reader_;
    std::span<const double> inverse_norms_;
    const PrincipalAxes& axes_;
    std::int64_t n_rows_;
    double error_;
    std::vector<float> units_;
    std::vector<float> along_;
    std::vector<std::int8_t> codes_;
    float scales_[kernels::kGroupRows];
    float residuals_[kernels::kGroupRows];
    float remainders_[kernels::kGroupRows];
};

}  // namespace

PrincipalSizes principal_sizes(std::int64_t n_passages, std::int64_t n_axes,
                               std::int64_t n_leading) {
    if (n_axes < 1 || n_axes > kLargestQuantizedDim) {
        refuse("axes", "1 to " + std::to_string(kLargestQuantizedDim) + " rows",
               std::to_string(n_axes));
    }
    if (n_leading < 1 || n_leading > n_axes) {
        refuse("n_leading", "1 to " + std::to_string(n_axes) + " (the number of axes)",
               std::to_string(n_leading));
    }
    // Also refuses too many passages.
    static_cast<void>(quantized_size(n_passages, n_leading, 8));
    const QuantizedPassages leading(nullptr, n_passages, n_leading, 8, true);
    const PrincipalRest rest(nullptr, n_axes - n_leading);
    return {leading.size(), n_passages * rest.bytes()};
}

void quantize_principal(MatrixView<const float> passages, std::span<const double> inverse_norms,
                        const PrincipalAxes& axes, std::span<std::uint8_t> leading,
                        std::span<std::uint8_t> rest) {
    const DefaultFloatEnvironment environment;
    const PrincipalSizes sizes = principal_sizes(passages.n_rows, axes.rows.n_rows, axes.n_leading);
    if (axes.rows.n_columns != passages.n_columns) {
        refuse("axes", "rows of dim " + std::to_string(passages.n_columns),
               "dim " + std::to_string(axes.rows.n_columns));
    }
    check_number_of_norms(passages, inverse_norms);
    if (std::ssize(leading) != sizes.leading || std::ssize(rest) != sizes.rest) {
        refuse("codes",
               std::to_string(sizes.leading) + " and " + std::to_string(sizes.rest) + " bytes",
               std::to_string(leading.size()) + " and " + std::to_string(rest.size()));
    }
    check_orthonormal(axes.rows);
    const auto& kernels = kernels::quantized_scan_kernels(8, true);
    const QuantizedPassages layout(leading.data(), passages.n_rows, axes.n_leading, 8, true);
    const PrincipalRest records(rest.data(), axes.rows.n_rows - axes.n_leading);
    constexpr std::int64_t kTaskTiles = 8;
    const std::int64_t n_tasks = (layout.n_tiles() + kTaskTiles - 1) / kTaskTiles;
    const auto run = [&](std::int64_t task, int) {
        TileWriter writer(kernels, passages, inverse_norms, axes);
        const std::int64_t end = std::min(layout.n_tiles(), (task + 1) * kTaskTiles);
        for (std::int64_t tile = task * kTaskTiles; tile < end; ++tile) {
            writer.write(tile, layout, leading.data() + tile * layout.tile_bytes(), records,
                         rest.data() + tile * kernels::kTileRows * records.bytes());
        }
    };
    const auto work = static_cast<double>(passages.n_rows) *
                      static_cast<double>(passages.n_columns) *
                      static_cast<double>(axes.rows.n_rows);
    parallel_for(n_tasks, run, threads_worth_waking(work));
}

}  // namespace epibias
