// The codes of passages: quantized_size and quantize_passages of quantized_scan.hpp.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "epibias/parallel.hpp"
#include "epibias/quantized_scan.hpp"
#include "epibias/simd_level.hpp"
#include "quantized_corpus.hpp"
#include "quantized_passages.hpp"
#include "quantized_unit.hpp"
#include "refuse.hpp"

namespace epibias {

const kernels::QuantizedScanKernels& kernels::quantized_scan_kernels(int bits, bool vnni) {
    const bool eight = bits == 8;
#if defined(EPIBIAS_X86_LEVELS)
    switch (active_simd_level()) {
        case SimdLevel::kAvx512:
            if (vnni && __builtin_cpu_supports("avx512vnni")) {
                return eight ? avx512_vnni::kQuantizedScan : avx512_vnni::kQuantizedScanFourBits;
            }
            return eight ? avx512::kQuantizedScan : avx512::kQuantizedScanFourBits;
        case SimdLevel::kAvx2:
            if (vnni && __builtin_cpu_supports("avxvnni")) {
                return eight ? avx2_vnni::kQuantizedScan : avx2_vnni::kQuantizedScanFourBits;
            }
            return eight ? avx2::kQuantizedScan : avx2::kQuantizedScanFourBits;
        case SimdLevel::kScalar:
            break;
    }
#else
    static_cast<void>(vnni);
#endif
    return eight ? scalar::kQuantizedScan : scalar::kQuantizedScanFourBits;
}

namespace {

constexpr std::int64_t kLargestRows = std::int64_t{1} << 32;

void check_size(std::int64_t n_passages, std::int64_t dim, int bits) {
    if (bits != 8 && bits != 4) refuse("bits", "8 or 4", std::to_string(bits));
    if (dim < 1 || dim > kLargestQuantizedDim) {
        refuse("passages",
               "1 to " + std::to_string(kLargestQuantizedDim) + " columns for a scan of codes",
               std::to_string(dim));
    }
    if (n_passages >= kLargestRows) {
        refuse("passages", "fewer than 2^32 rows for a scan of codes", std::to_string(n_passages));
    }
}

// Writes the records of one tile; `codes` has room for the codes of a group.
void write_tile(const kernels::QuantizedScanKernels& kernels, RowReader<float>& reader,
                std::span<const double> inverse_norms, std::int64_t dim,
                const QuantizedPassages& passages, std::int64_t tile,
                std::vector<std::int8_t>& codes, std::uint8_t* out) {
    const auto n_rows = std::ssize(inverse_norms);
    const std::int64_t n_words = passages.n_words();
    for (int group = 0; group < kernels::kTileGroups; ++group, out += passages.group_bytes()) {
        float scales[kernels::kGroupRows] = {};
        float residuals[kernels::kGroupRows];
        const std::int64_t first = tile * kernels::kTileRows + group * kernels::kGroupRows;
        for (std::int64_t row = 0; row < kernels::kGroupRows; ++row) {
            std::int8_t* own = codes.data() + row * 4 * n_words;
            std::fill_n(own, 4 * n_words, std::int8_t{0});
            // A row that is not there: no comparison with NaN holds, so it never passes.
            residuals[row] = std::numeric_limits<float>::quiet_NaN();
            if (first + row >= n_rows) continue;
            const double inverse = checked_inverse_norm(inverse_norms, first + row);
            const UnitCodes unit = quantize_unit_row(kernels, reader.row(first + row), dim, inverse,
                                                     kernels.code_limit, own);
            scales[row] = unit.scale;
            residuals[row] = unit.residual;
            // What the last vector wrote beyond the row's own columns belongs to the next row,
            // which is written after it.
        }
        passages.write_group(codes.data(), {scales, residuals}, out);
    }
}

}  // namespace

std::int64_t quantized_size(std::int64_t n_passages, std::int64_t dim, int bits) {
    check_size(n_passages, dim, bits);
    return QuantizedPassages(nullptr, n_passages, dim, bits).size();
}

void quantize_passages(MatrixView<const float> passages, std::span<const double> inverse_norms,
                       int bits, std::span<std::uint8_t> codes) {
    const DefaultFloatEnvironment environment;
    const std::int64_t size = quantized_size(passages.n_rows, passages.n_columns, bits);
    check_number_of_norms(passages, inverse_norms);
    if (std::ssize(codes) != size) {
        refuse("codes", std::to_string(size) + " bytes", std::to_string(codes.size()));
    }
    const auto& kernels = kernels::quantized_scan_kernels(bits, true);
    const std::int64_t dim = passages.n_columns;
    const QuantizedPassages layout(codes.data(), passages.n_rows, dim, bits);
    constexpr std::int64_t kTaskBytes = 1 << 18;
    const std::int64_t task_tiles = std::max<std::int64_t>(1, kTaskBytes / layout.tile_bytes());
    const std::int64_t n_tasks = (layout.n_tiles() + task_tiles - 1) / task_tiles;
    const auto run = [&](std::int64_t task, int) {
        RowReader<float> reader(passages);
        std::vector<std::int8_t> group(
            static_cast<std::size_t>(kernels::kGroupRows * 4 * layout.n_words() + 16));
        const std::int64_t end = std::min(layout.n_tiles(), (task + 1) * task_tiles);
        for (std::int64_t tile = task * task_tiles; tile < end; ++tile) {
            write_tile(kernels, reader, inverse_norms, dim, layout, tile, group,
                       codes.data() + tile * layout.tile_bytes());
        }
    };
    const auto work = static_cast<double>(passages.n_rows) * static_cast<double>(dim) * 8;
    parallel_for(n_tasks, run, threads_worth_waking(work));
}

}  // namespace epibias
