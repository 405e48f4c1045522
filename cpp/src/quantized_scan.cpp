#include "epibias/quantized_scan.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "epibias/numeric.hpp"
#include "epibias/ranking.hpp"
#include "principal_queries.hpp"
#include "quantized_corpus.hpp"
#include "quantized_passages.hpp"
#include "quantized_queries.hpp"
#include "quantized_search.hpp"
#include "refuse.hpp"
#include "topk_candidates.hpp"

namespace epibias {

namespace {

constexpr std::int64_t kLargestBlock = 256;           // queries scanned together
constexpr std::int64_t kLargestCandidates = 1 << 19;  // block * k: bounds the memory of a thread
constexpr std::int64_t kChunkBytes = 4 << 20;  // codes made and scanned at once: a share of L3

void check_codes(const char* argument, std::span<const std::uint8_t> codes,
                 MatrixView<const float> passages, int bits) {
    const std::int64_t size = quantized_size(passages.n_rows, passages.n_columns, bits);
    if (std::ssize(codes) == size) return;
    refuse(argument, std::to_string(size) + " bytes, as quantize_passages gave",
           std::to_string(codes.size()));
}

void check_principal(const PrincipalCodes& codes, MatrixView<const float> passages) {
    const PrincipalSizes sizes =
        principal_sizes(passages.n_rows, codes.axes.rows.n_rows, codes.axes.n_leading);
    if (codes.axes.rows.n_columns != passages.n_columns) {
        refuse("axes", "rows of dim " + std::to_string(passages.n_columns),
               "dim " + std::to_string(codes.axes.rows.n_columns));
    }
    if (std::ssize(codes.leading) != sizes.leading || std::ssize(codes.rest) != sizes.rest) {
        refuse("principal codes",
               std::to_string(sizes.leading) + " and " + std::to_string(sizes.rest) +
                   " bytes, as quantize_principal gave",
               std::to_string(codes.leading.size()) + " and " + std::to_string(codes.rest.size()));
    }
}

void check_search(MatrixView<const float> queries, MatrixView<const float> passages, std::int64_t k,
                  std::span<const double> inverse_norms, const QuantizedScanOptions& options) {
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
    if (options.sample_stride < 0 || options.capacity < 0) {
        refuse(options.capacity < 0 ? "capacity" : "sample_stride", "0 (automatic) or more",
               std::to_string(std::min(options.capacity, options.sample_stride)));
    }
}

// All codes that there are of some passages, the narrowest last.
struct CodeStages {
    MatrixView<const float> rows;
    std::span<const double> inverse_norms;
    const std::uint8_t* eight_bits;
    const std::uint8_t* four_bits = nullptr;    // or none
    const PrincipalCodes* principal = nullptr;  // or none
};

// Searches the queries first … first + count - 1, of which `proven` is known. First through the
// narrowest codes. A query that these gave up, or whose guess was too high, comes again with 8 bits
// of all columns and what is proven of it; a second time with those without a guess.
template <typename Use>
void search_block(MatrixView<const float> queries, std::span<const double> query_norms,
                  std::int64_t first, std::vector<float> proven, const CodeStages& codes,
                  std::int64_t k, QuantizedScanOptions options, QuantizedScanCounts& counts,
                  const Use& use) {
    QuantizedBounds::Failed open{std::vector<std::int64_t>(proven.size()), std::move(proven)};
    std::iota(open.numbers.begin(), open.numbers.end(), first);
    const auto run = [&](const QuantizedPassages& layout, PrincipalQueries* principal) {
        const auto& kernels = kernels::quantized_scan_kernels(layout.bits(), options.vnni);
        const QuantizedCorpus corpus{codes.rows, codes.inverse_norms, layout};
        const QuantizedQueries wanted(queries, open.numbers, query_norms, layout.n_words(), kernels,
                                      principal);
        QuantizedSearch search(kernels, wanted, corpus, k, open.proven, options, principal);
        search.run(use);
        counts.n_rescored += search.n_rescored();
        open = search.failed();
        counts.n_repeated += std::ssize(open.numbers);
    };
    const std::int64_t n_rows = codes.rows.n_rows;
    if (codes.principal != nullptr) {
        PrincipalQueries principal(queries, open.numbers, query_norms, *codes.principal,
                                   kernels::quantized_scan_kernels(8, options.vnni));
        run({codes.principal->leading.data(), n_rows, codes.principal->axes.n_leading, 8, true},
            &principal);
    } else if (codes.four_bits != nullptr) {
        run({codes.four_bits, n_rows, codes.rows.n_columns, 4}, nullptr);
    }
    for (; !open.numbers.empty(); options.sample_stride = 1) {
        run({codes.eight_bits, n_rows, codes.rows.n_columns, 8}, nullptr);
    }
}

std::int64_t queries_of_a_block(std::int64_t k) {
    return std::clamp<std::int64_t>(kLargestCandidates / k, 1, kLargestBlock);
}

void write_ranked(std::vector<Ranked>& best, std::int64_t* indices, float* similarities) {
    std::sort(best.begin(), best.end(), ranks_before);
    for (std::size_t place = 0; place < best.size(); ++place) {
        indices[place] = best[place].index;
        similarities[place] = best[place].similarity;
    }
}

}  // namespace

QuantizedScanCounts quantized_scan(MatrixView<const float> queries,
                                   MatrixView<const float> passages, std::int64_t k,
                                   std::span<const double> inverse_norms,
                                   const QuantizedCodes& codes, MatrixView<std::int64_t> indices,
                                   MatrixView<float> similarities,
                                   const QuantizedScanOptions& options) {
    const DefaultFloatEnvironment environment;
    check_search(queries, passages, k, inverse_norms, options);
    check_codes("codes", codes.eight_bits, passages, 8);
    if (!codes.four_bits.empty()) check_codes("four_bits", codes.four_bits, passages, 4);
    const bool principal = codes.principal.axes.n_leading != 0;
    if (principal) check_principal(codes.principal, passages);
    std::vector<double> query_norms(static_cast<std::size_t>(queries.n_rows));
    epibias::inverse_norms(queries, "queries", query_norms);
    QuantizedScanCounts counts;
    if (queries.n_rows == 0 || k == 0) return counts;
    const CodeStages stages{.rows = passages,
                            .inverse_norms = inverse_norms,
                            .eight_bits = codes.eight_bits.data(),
                            .four_bits = codes.four_bits.empty() ? nullptr : codes.four_bits.data(),
                            .principal = principal ? &codes.principal : nullptr};
    const std::int64_t block = queries_of_a_block(k);
    for (std::int64_t first = 0; first < queries.n_rows; first += block) {
        const auto count = static_cast<std::size_t>(std::min(block, queries.n_rows - first));
        search_block(queries, query_norms, first, std::vector<float>(count, kNoThreshold), stages,
                     k, options, counts, [&](std::int64_t query, std::vector<Ranked>& best) {
                         if (std::ssize(best) < k) {
                             refuse("codes", "those of these passages",
                                    "codes that leave " + std::to_string(best.size()) + " of " +
                                        std::to_string(k) + " passages");
                         }
                         write_ranked(best, indices.row(query), similarities.row(query));
                     });
    }
    return counts;
}

QuantizedScanCounts quantized_scan_once(MatrixView<const float> queries,
                                        MatrixView<const float> passages, std::int64_t k,
                                        std::span<const double> inverse_norms,
                                        MatrixView<std::int64_t> indices,
                                        MatrixView<float> similarities,
                                        const QuantizedScanOptions& options) {
    const DefaultFloatEnvironment environment;
    check_search(queries, passages, k, inverse_norms, options);
    std::vector<double> query_norms(static_cast<std::size_t>(queries.n_rows));
    epibias::inverse_norms(queries, "queries", query_norms);
    QuantizedScanCounts counts;
    if (queries.n_rows == 0 || k == 0) return counts;
    const std::int64_t tile_bytes =
        quantized_size(kernels::kTileRows, passages.n_columns, 8);  // refuses too many columns
    const std::int64_t chunk =
        std::max<std::int64_t>(1, kChunkBytes / tile_bytes) * kernels::kTileRows;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(
        quantized_size(std::min(chunk, passages.n_rows), passages.n_columns, 8)));
    const auto n_queries = static_cast<std::size_t>(queries.n_rows);
    std::vector<ExactTopk> found(n_queries, ExactTopk(k));
    const std::int64_t block = queries_of_a_block(k);
    for (std::int64_t start = 0; start < passages.n_rows; start += chunk) {
        const std::int64_t n_rows = std::min(chunk, passages.n_rows - start);
        const MatrixView<const float> rows{passages.row(start), n_rows, passages.n_columns};
        const auto norms = inverse_norms.subspan(static_cast<std::size_t>(start),
                                                 static_cast<std::size_t>(n_rows));
        const auto size = static_cast<std::size_t>(quantized_size(n_rows, rows.n_columns, 8));
        quantize_passages(rows, norms, 8, std::span(codes).first(size));
        const CodeStages stages{.rows = rows, .inverse_norms = norms, .eight_bits = codes.data()};
        QuantizedScanOptions own = options;
        // What the first chunk proved is a better threshold than a guess from a sample.
        if (start > 0 && own.sample_stride == 0) own.sample_stride = 1;
        for (std::int64_t first = 0; first < queries.n_rows; first += block) {
            const std::int64_t end = std::min(first + block, queries.n_rows);
            std::vector<float> proven;
            for (std::int64_t query = first; query < end; ++query) {
                proven.push_back(found[static_cast<std::size_t>(query)].threshold());
            }
            search_block(queries, query_norms, first, std::move(proven), stages,
                         std::min(k, n_rows), own, counts,
                         [&](std::int64_t query, const std::vector<Ranked>& best) {
                             ExactTopk& total = found[static_cast<std::size_t>(query)];
                             for (const Ranked& one : best) {
                                 total.offer({one.similarity, one.index + start});
                             }
                             total.trim();
                         });
        }
    }
    for (std::int64_t query = 0; query < queries.n_rows; ++query) {
        write_ranked(found[static_cast<std::size_t>(query)].kept(), indices.row(query),
                     similarities.row(query));
    }
    return counts;
}

}  // namespace epibias
