#include "epibias/cosine_topk.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "cosine_topk_block.hpp"
#include "cosine_topk_queries.hpp"
#include "epibias/numeric.hpp"
#include "epibias/parallel.hpp"
#include "kernels/cosine_topk_kernels.hpp"

namespace epibias {

namespace {

constexpr std::int64_t kLargestBlock = 256;           // queries scanned together
constexpr std::int64_t kLargestCandidates = 1 << 20;  // block * k: bounds the memory of a thread
constexpr std::int64_t kTileFloats =
    std::int64_t{192} * 384;                 // 288 KiB: a share of L2 beside the queries
constexpr std::int64_t kLargestTile = 4096;  // bounds the buffer of hits

std::int64_t checked_k(std::int64_t k, std::int64_t n_passages) {
    if (k == 0 && n_passages == 0) return k;
    if (k >= 1 && k <= n_passages) return k;
    const std::string allowed =
        n_passages == 0 ? "0, as there are no passages"
                        : "1 to " + std::to_string(n_passages) + " (the number of passages)";
    throw std::invalid_argument("k: expected " + allowed + ", got " + std::to_string(k));
}

void check(MatrixView<const float> queries, MatrixView<const float> passages,
           std::span<const double> inverse_norms, const CosineTopkOptions& options) {
    if (queries.n_columns != passages.n_columns || queries.n_columns < 1) {
        throw std::invalid_argument(
            "queries: expected rows of dim " + std::to_string(passages.n_columns) +
            ", as the passages have, and at least 1, got dim " + std::to_string(queries.n_columns));
    }
    if (!inverse_norms.empty() && std::ssize(inverse_norms) != passages.n_rows) {
        throw std::invalid_argument("inverse_norms: expected " + std::to_string(passages.n_rows) +
                                    " numbers, one per passage, got " +
                                    std::to_string(inverse_norms.size()));
    }
    if (options.tile_rows < 0) {
        throw std::invalid_argument("tile_rows: expected 0 (automatic) or more, got " +
                                    std::to_string(options.tile_rows));
    }
}

std::int64_t choose_tile_rows(std::int64_t wanted, std::int64_t dim, int group_rows) {
    if (wanted > 0) return std::min(wanted, kLargestTile);
    const std::int64_t n_groups = std::min(kTileFloats / dim, kLargestTile) / group_rows;
    return std::max<std::int64_t>(1, n_groups) * group_rows;
}

}  // namespace

double scan_error_bound(std::int64_t dim) {
    // u = 2^-24. Summing dim products in any order loses dim * u / (1 - dim * u) of the product of
    // the norms; scaling the query, rounding the scale, multiplying by it and rounding the
    // similarity to float32 lose u each. One part in a thousand more covers what is of second
    // order: (1 + u) factors, the rounding of the canonical score (dim * 2^-53) and underflow of
    // single products (2^-126 beside norms of at least 1e-15).
    constexpr double kUnit = 0x1p-24;
    const double relative = (static_cast<double>(dim) + 4) * kUnit;
    if (relative >= 0.5) return std::numeric_limits<double>::infinity();  // re-scores everything
    return 1.001 * relative / (1 - relative);
}

std::int64_t cosine_topk(MatrixView<const float> queries, MatrixView<const float> passages,
                         std::int64_t k, std::span<const double> inverse_norms,
                         MatrixView<std::int64_t> indices, MatrixView<float> similarities,
                         const CosineTopkOptions& options) {
    const DefaultFloatEnvironment environment;
    checked_k(k, passages.n_rows);
    check(queries, passages, inverse_norms, options);
    const auto n_queries = static_cast<std::size_t>(queries.n_rows);
    std::vector<double> query_norms(n_queries);
    epibias::inverse_norms(queries, "queries", query_norms);
    std::vector<double> kept_norms;
    if (queries.n_rows == 0) {
        // Bad passages are refused whatever the number of queries.
        kept_norms.resize(static_cast<std::size_t>(inverse_norms.empty() ? passages.n_rows : 0));
        epibias::inverse_norms({passages.data, std::ssize(kept_norms), passages.n_columns},
                               "passages", kept_norms);
    }
    if (queries.n_rows == 0 || k == 0) return 0;

    const auto& table = kernels::cosine_topk_kernels();
    const std::int64_t tile_rows =
        choose_tile_rows(options.tile_rows, passages.n_columns, table.group_rows);
    const std::int64_t block = std::clamp<std::int64_t>(kLargestCandidates / k, 1, kLargestBlock);
    if (inverse_norms.empty() && queries.n_rows > block) {
        kept_norms.resize(static_cast<std::size_t>(passages.n_rows));
    }
    std::int64_t n_rescored = 0;
    for (std::int64_t first = 0; first < queries.n_rows; first += block) {
        const std::int64_t count = std::min(block, queries.n_rows - first);
        const QueryBlock block_queries(queries, first, count, query_norms, table);
        const double operations = static_cast<double>(count) *
                                  static_cast<double>(passages.n_rows) *
                                  static_cast<double>(passages.n_columns);
        const int threads =
            options.n_threads > 0 ? options.n_threads : threads_worth_waking(operations);
        // The first block computes the norms tile by tile, while each is in cache.
        const bool keep = first == 0 && !kept_norms.empty();
        const std::span<const double> known = first == 0 ? inverse_norms : kept_norms;
        BlockSearch search(block_queries, passages, k, known.empty() ? inverse_norms : known,
                           keep ? kept_norms : std::span<double>{}, tile_rows, threads);
        n_rescored += search.run(indices, similarities, first);
    }
    return n_rescored;
}

}  // namespace epibias
