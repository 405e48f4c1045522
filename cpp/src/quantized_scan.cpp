#include "epibias/quantized_scan.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "epibias/numeric.hpp"
#include "epibias/parallel.hpp"
#include "epibias/simd_level.hpp"
#include "quantized_passages.hpp"
#include "quantized_queries.hpp"
#include "quantized_scan_block.hpp"
#include "refuse.hpp"

namespace epibias {

const kernels::QuantizedScanKernels& kernels::quantized_scan_kernels(bool vnni) {
#if defined(EPIBIAS_X86_LEVELS)
    switch (active_simd_level()) {
        case SimdLevel::kAvx512:
            return vnni && __builtin_cpu_supports("avx512vnni") ? avx512_vnni::kQuantizedScan
                                                                : avx512::kQuantizedScan;
        case SimdLevel::kAvx2:
            return avx2::kQuantizedScan;
        case SimdLevel::kScalar:
            break;
    }
#else
    static_cast<void>(vnni);
#endif
    return scalar::kQuantizedScan;
}

namespace {

constexpr std::int64_t kLargestBlock = 256;           // queries scanned together
constexpr std::int64_t kLargestCandidates = 1 << 19;  // block * k: bounds the memory of a thread
constexpr std::int64_t kLargestRows = std::int64_t{1} << 32;

void check_size(std::int64_t n_passages, std::int64_t dim) {
    if (dim < 1 || dim > kLargestQuantizedDim) {
        refuse("passages",
               "1 to " + std::to_string(kLargestQuantizedDim) + " columns for a scan of 8 bits",
               std::to_string(dim));
    }
    if (n_passages >= kLargestRows) {
        refuse("passages", "fewer than 2^32 rows for a scan of 8 bits", std::to_string(n_passages));
    }
}

void check_number_of_norms(MatrixView<const float> passages,
                           std::span<const double> inverse_norms) {
    if (std::ssize(inverse_norms) == passages.n_rows) return;
    refuse("inverse_norms", std::to_string(passages.n_rows) + " numbers, one per passage",
           std::to_string(inverse_norms.size()));
}

void check_search(MatrixView<const float> queries, MatrixView<const float> passages, std::int64_t k,
                  std::span<const double> inverse_norms, std::span<const std::uint8_t> codes,
                  const QuantizedScanOptions& options) {
    if (queries.n_columns != passages.n_columns) {
        refuse("queries",
               "rows of dim " + std::to_string(passages.n_columns) + ", as the passages have",
               "dim " + std::to_string(queries.n_columns));
    }
    const bool right_k = k == 0 ? passages.n_rows == 0 : k > 0 && k <= passages.n_rows;
    if (!right_k) {
        refuse("k",
               passages.n_rows == 0
                   ? "0, as there are no passages"
                   : "1 to " + std::to_string(passages.n_rows) + " (the number of passages)",
               std::to_string(k));
    }
    check_number_of_norms(passages, inverse_norms);
    const std::int64_t size = quantized_size(passages.n_rows, passages.n_columns);
    if (std::ssize(codes) != size) {
        refuse("codes", std::to_string(size) + " bytes, as quantize_passages gave",
               std::to_string(codes.size()));
    }
    if (options.sample_stride < 0 || options.capacity < 0) {
        refuse(options.capacity < 0 ? "capacity" : "sample_stride", "0 (automatic) or more",
               std::to_string(std::min(options.capacity, options.sample_stride)));
    }
}

// Writes the records of one tile; `codes` has room for the codes of a group.
void write_tile(const kernels::QuantizedScanKernels& kernels, RowReader<float>& reader,
                std::span<const double> inverse_norms, std::int64_t dim,
                const QuantizedPassages& passages, std::int64_t tile,
                std::vector<std::int8_t>& codes, std::uint8_t* out) {
    const auto n_rows = std::ssize(inverse_norms);
    const std::int64_t n_steps = passages.n_steps();
    for (int group = 0; group < kernels::kTileGroups; ++group, out += passages.group_bytes()) {
        float scales[kernels::kGroupRows] = {};
        float residuals[kernels::kGroupRows];
        const std::int64_t first = tile * kernels::kTileRows + group * kernels::kGroupRows;
        for (std::int64_t row = 0; row < kernels::kGroupRows; ++row) {
            std::int8_t* own = codes.data() + row * 4 * n_steps;
            std::fill_n(own, 4 * n_steps, std::int8_t{0});
            // A row that is not there: no comparison with NaN holds, so it never passes.
            residuals[row] = std::numeric_limits<float>::quiet_NaN();
            if (first + row >= n_rows) continue;
            const double inverse = checked_inverse_norm(inverse_norms, first + row);
            const UnitCodes unit =
                quantize_unit_row(kernels, reader.row(first + row), dim, inverse, 127, own);
            scales[row] = unit.scale;
            residuals[row] = unit.residual;
            // What the last vector wrote beyond the row's own columns belongs to the next row,
            // which is written after it.
        }
        for (std::int64_t step = 0; step < n_steps; ++step) {
            for (std::int64_t row = 0; row < kernels::kGroupRows; ++row) {
                std::uint32_t word = 0;
                std::memcpy(&word, codes.data() + (row * n_steps + step) * 4, sizeof word);
                word ^= 0x80808080U;  // code + 128
                std::memcpy(out + step * kernels::kStepBytes + row * 4, &word, sizeof word);
            }
        }
        std::memcpy(out + n_steps * kernels::kStepBytes, scales, sizeof scales);
        std::memcpy(out + n_steps * kernels::kStepBytes + kernels::kScaleBytes, residuals,
                    sizeof residuals);
    }
}

}  // namespace

std::int64_t quantized_size(std::int64_t n_passages, std::int64_t dim) {
    check_size(n_passages, dim);
    return QuantizedPassages(nullptr, n_passages, dim).size();
}

void quantize_passages(MatrixView<const float> passages, std::span<const double> inverse_norms,
                       std::span<std::uint8_t> codes) {
    const DefaultFloatEnvironment environment;
    const std::int64_t size = quantized_size(passages.n_rows, passages.n_columns);
    check_number_of_norms(passages, inverse_norms);
    if (std::ssize(codes) != size) {
        refuse("codes", std::to_string(size) + " bytes", std::to_string(codes.size()));
    }
    const auto& kernels = kernels::quantized_scan_kernels(true);
    const std::int64_t dim = passages.n_columns;
    const QuantizedPassages layout(codes.data(), passages.n_rows, dim);
    constexpr std::int64_t kTaskBytes = 1 << 18;
    const std::int64_t task_tiles = std::max<std::int64_t>(1, kTaskBytes / layout.tile_bytes());
    const std::int64_t n_tasks = (layout.n_tiles() + task_tiles - 1) / task_tiles;
    const auto run = [&](std::int64_t task, int) {
        RowReader<float> reader(passages);
        std::vector<std::int8_t> group(
            static_cast<std::size_t>(kernels::kGroupRows * 4 * layout.n_steps() + 16));
        const std::int64_t end = std::min(layout.n_tiles(), (task + 1) * task_tiles);
        for (std::int64_t tile = task * task_tiles; tile < end; ++tile) {
            write_tile(kernels, reader, inverse_norms, dim, layout, tile, group,
                       codes.data() + tile * layout.tile_bytes());
        }
    };
    const auto work = static_cast<double>(passages.n_rows) * static_cast<double>(dim) * 8;
    parallel_for(n_tasks, run, threads_worth_waking(work));
}

QuantizedScanCounts quantized_scan(MatrixView<const float> queries,
                                   MatrixView<const float> passages, std::int64_t k,
                                   std::span<const double> inverse_norms,
                                   std::span<const std::uint8_t> codes,
                                   MatrixView<std::int64_t> indices, MatrixView<float> similarities,
                                   const QuantizedScanOptions& options) {
    const DefaultFloatEnvironment environment;
    check_search(queries, passages, k, inverse_norms, codes, options);
    std::vector<double> query_norms(static_cast<std::size_t>(queries.n_rows));
    epibias::inverse_norms(queries, "queries", query_norms);
    QuantizedScanCounts counts;
    if (queries.n_rows == 0 || k == 0) return counts;

    const auto& kernels = kernels::quantized_scan_kernels(options.vnni);
    const QuantizedPassages layout(codes.data(), passages.n_rows, passages.n_columns);
    const QuantizedCorpus corpus{passages, inverse_norms, layout};
    const std::int64_t block = std::clamp<std::int64_t>(kLargestCandidates / k, 1, kLargestBlock);
    for (std::int64_t first = 0; first < queries.n_rows; first += block) {
        std::vector<std::int64_t> numbers(
            static_cast<std::size_t>(std::min(block, queries.n_rows - first)));
        std::iota(numbers.begin(), numbers.end(), first);
        std::vector<float> proven(numbers.size(), kNoThreshold);
        QuantizedScanOptions round = options;
        // A query whose guess was too high comes a second time, with what its first scan proved
        // and without another guess.
        while (!numbers.empty()) {
            const QuantizedQueries wanted(queries, numbers, query_norms, layout.n_steps(), kernels);
            QuantizedSearch search(kernels, wanted, corpus, k, proven, round);
            search.run(indices, similarities);
            counts.n_rescored += search.n_rescored();
            numbers = search.failed();
            proven = search.failed_proven();
            counts.n_repeated += std::ssize(numbers);
            round.sample_stride = 1;
        }
    }
    return counts;
}

}  // namespace epibias
