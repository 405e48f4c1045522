// What: the search of one block of queries: every thread scans tiles of passages, keeps candidates,
// and at the end the threads' candidates are joined query by query.
//
// Thresholds are shared: the k-th best similarity of any set of passages is a lower bound of the
// k-th best of all, so every thread may use what any other has proven. Comparisons with a threshold
// are never strict, or a tie with a lower index would be lost.
#pragma once

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "atomic_bounds.hpp"
#include "cosine_topk_queries.hpp"
#include "epibias/cosine_topk.hpp"
#include "epibias/numeric.hpp"
#include "epibias/parallel.hpp"
#include "epibias/ranking.hpp"
#include "kernels/cosine_topk_kernels.hpp"
#include "topk_candidates.hpp"

namespace epibias {

using kernels::CosineTopkKernels;
using kernels::Hit;
using kernels::Tile;

// Outside this range float32 products could overflow (1e15 squared is still 1e30) or vanish.
inline constexpr double kLargestInverseNorm = 1e15;
inline constexpr double kSmallestInverseNorm = 1e-15;
inline constexpr std::int64_t kTasksPerThread = 8;  // even ends without fine-grained handing out

// What a thread needs to score candidates canonically.
struct Rescorer {
    explicit Rescorer(MatrixView<const float> passages) : reader(passages) {}
    RowReader<float> reader;
    std::int64_t n_rescored = 0;
};

// The state of one thread for one block of queries.
struct Scanner {
    Scanner(MatrixView<const float> passages, std::int64_t tile_rows, const QueryBlock& queries,
            std::int64_t k)
        : tile_reader(passages),
          rescorer(passages),
          scales(static_cast<std::size_t>(tile_rows)),
          inverse(static_cast<std::size_t>(tile_rows)),
          hits(static_cast<std::size_t>(tile_rows * queries.panel_width())),
          thresholds(static_cast<std::size_t>(queries.n_padded()),
                     std::numeric_limits<float>::infinity()),
          exact(static_cast<std::size_t>(queries.n_queries()), ExactTopk(k)),
          pending(static_cast<std::size_t>(queries.n_queries()), PendingHits(k)) {}

    RowReader<float> tile_reader;
    Rescorer rescorer;
    std::vector<float> scales;    // of the tile's rows, for the scan
    std::vector<double> inverse;  // of the tile's rows, for re-scoring
    std::vector<Hit> hits;
    std::vector<float> thresholds;  // by query, minus the bound; infinite for padding
    std::vector<ExactTopk> exact;
    std::vector<PendingHits> pending;
};

class BlockSearch {
  public:
    BlockSearch(const QueryBlock& queries, MatrixView<const float> passages, std::int64_t k,
                std::span<const double> inverse_norms, std::span<double> keep_norms,
                std::int64_t tile_rows, int n_threads)
        : kernels_(kernels::cosine_topk_kernels()),
          queries_(queries),
          passages_(passages),
          k_(k),
          inverse_norms_(inverse_norms),
          keep_norms_(keep_norms),
          tile_rows_(tile_rows),
          n_threads_(n_threads),
          bound_(scan_error_bound(passages.n_columns)),
          thresholds_(static_cast<std::size_t>(queries.n_queries())),
          scanners_(static_cast<std::size_t>(n_threads)) {
        for (auto& threshold : thresholds_) threshold.store(kNoThreshold);
    }

    std::int64_t run(MatrixView<std::int64_t> indices, MatrixView<float> similarities,
                     std::int64_t first_query) {
        scan();
        const std::int64_t bad_row = bad_row_.load();
        if (bad_row < passages_.n_rows) refuse_passage(bad_row);
        std::vector<Rescorer> rescorers(static_cast<std::size_t>(n_threads_), Rescorer(passages_));
        parallel_for(
            queries_.n_queries(),
            [&](std::int64_t query, int thread) {
                finish(query, rescorers[static_cast<std::size_t>(thread)],
                       indices.row(first_query + query), similarities.row(first_query + query));
            },
            n_threads_);
        std::int64_t n_rescored = 0;
        for (const auto& one : scanners_) n_rescored += one ? one->rescorer.n_rescored : 0;
        for (const auto& one : rescorers) n_rescored += one.n_rescored;
        return n_rescored;
    }

  private:
    void scan() {
        const std::int64_t n_tiles = (passages_.n_rows + tile_rows_ - 1) / tile_rows_;
        const std::int64_t task_tiles =
            std::clamp<std::int64_t>(n_tiles / (kTasksPerThread * n_threads_), 1, 64);
        const std::int64_t n_tasks = (n_tiles + task_tiles - 1) / task_tiles;
        parallel_for(
            n_tasks,
            [&](std::int64_t task, int thread) {
                Scanner& own = scanner(thread);
                const std::int64_t end = std::min(n_tiles, (task + 1) * task_tiles);
                for (std::int64_t tile = task * task_tiles; tile < end; ++tile) {
                    scan_tile(own, tile * tile_rows_);
                }
            },
            n_threads_);
    }

    // Made by the thread that uses it, so that its memory is near and only threads that work pay.
    Scanner& scanner(int thread) {
        auto& own = scanners_[static_cast<std::size_t>(thread)];
        if (!own) own = std::make_unique<Scanner>(passages_, tile_rows_, queries_, k_);
        return *own;
    }

    void scan_tile(Scanner& own, std::int64_t first_row) {
        if (first_row > bad_row_.load(std::memory_order_relaxed)) return;
        const std::int64_t n_rows = std::min(tile_rows_, passages_.n_rows - first_row);
        Tile tile{.rows = own.tile_reader.rows(first_row, n_rows),
                  .scales = own.scales.data(),
                  .n_rows = n_rows,
                  .dim = passages_.n_columns,
                  .next_rows = nullptr,
                  .n_next_floats = 0};
        if (!prepare_norms(own, tile, first_row)) return;
        for (std::int64_t query = 0; query < queries_.n_queries(); ++query) {
            refresh_threshold(own, query);
        }
        const std::int64_t next_row = first_row + n_rows;
        if (next_row < passages_.n_rows && is_aligned(passages_.data)) {
            tile.next_rows = passages_.row(next_row);
            tile.n_next_floats = std::min(tile_rows_, passages_.n_rows - next_row) * tile.dim /
                                 std::ssize(queries_.panels());
        }
        for (const QueryBlock::Panel& panel : queries_.panels()) {
            const float* limits = own.thresholds.data() + panel.first_query;
            const std::int64_t n_hits =
                panel.packed
                    ? kernels_.scan_panel(tile, panel.data, limits, own.hits.data())
                    : kernels_.scan_few(tile, panel.data, panel.n_queries, limits, own.hits.data());
            if (tile.next_rows != nullptr) tile.next_rows += tile.n_next_floats;
            take_hits(own, first_row, panel.first_query, n_hits);
        }
    }

    // Scales of the tile's rows; wild rows are scored here and kept out of the scan. False when a
    // row is not valid.
    bool prepare_norms(Scanner& own, const Tile& tile, std::int64_t first_row) {
        for (std::int64_t row = 0; row < tile.n_rows; ++row) {
            const float* passage = tile.rows + row * tile.dim;
            const auto number = static_cast<std::size_t>(first_row + row);
            const double inverse =
                inverse_norms_.empty()
                    ? 1.0 / std::sqrt(kernels_.canonical_dot(passage, passage, tile.dim))
                    : inverse_norms_[number];
            // Zero rows give infinity, Inf gives 0, NaN fails every comparison.
            const bool valid = inverse > 0 && inverse <= std::numeric_limits<double>::max();
            if (!valid) {
                lower(bad_row_, first_row + row);
                return false;
            }
            if (!keep_norms_.empty()) keep_norms_[number] = inverse;
            const bool wild = inverse < kSmallestInverseNorm || inverse > kLargestInverseNorm;
            own.inverse[static_cast<std::size_t>(row)] = inverse;
            own.scales[static_cast<std::size_t>(row)] =
                wild ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(inverse);
            if (wild) score_wild_row(own, passage, first_row + row, inverse);
        }
        return true;
    }

    void score_wild_row(Scanner& own, const float* passage, std::int64_t index, double inverse) {
        for (std::int64_t query = 0; query < queries_.n_queries(); ++query) {
            const float similarity = canonical_similarity(query, passage, inverse);
            own.exact[static_cast<std::size_t>(query)].offer({similarity, index});
        }
        own.rescorer.n_rescored += queries_.n_queries();
    }

    void take_hits(Scanner& own, std::int64_t first_row, std::int64_t first_query,
                   std::int64_t n_hits) {
        const auto width = static_cast<std::uint32_t>(queries_.panel_width());
        for (std::int64_t number = 0; number < n_hits; ++number) {
            const Hit hit = own.hits[static_cast<std::size_t>(number)];
            const auto query = static_cast<std::size_t>(first_query + hit.position % width);
            const std::size_t row = hit.position / width;
            // A flush since the scan may have raised the threshold.
            if (!(hit.value >= own.thresholds[query])) continue;
            const auto index = first_row + static_cast<std::int64_t>(row);
            if (!own.pending[query].add({index, own.inverse[row], hit.value})) continue;
            flush(own.rescorer, own.pending[query], own.exact[query],
                  static_cast<std::int64_t>(query));
            refresh_threshold(own, static_cast<std::int64_t>(query));
        }
    }

    // Re-scores what may still belong to the answer and publishes the new threshold.
    void flush(Rescorer& own, PendingHits& pending, ExactTopk& exact, std::int64_t query) {
        auto& shared = thresholds_[static_cast<std::size_t>(query)];
        const auto score = [&](const Pending& hit) {
            return canonical_similarity(query, own.reader.row(hit.index), hit.inverse_norm);
        };
        const auto fetch = [&](const Pending& hit) { fetch_row(hit.index); };
        const Rescored result =
            rescore(pending, exact, shared.load(std::memory_order_relaxed), bound_, score, fetch);
        own.n_rescored += result.count;
        raise(shared, result.threshold);
    }

    void fetch_row(std::int64_t index) const {
        const auto* line = reinterpret_cast<const char*>(passages_.row(index));
        const auto* end = line + passages_.n_columns * static_cast<std::int64_t>(sizeof(float));
        for (; line < end; line += 64) __builtin_prefetch(line, 0, 3);
    }

    [[nodiscard]] float canonical_similarity(std::int64_t query, const float* passage,
                                             double inverse) const {
        const double dot =
            kernels_.canonical_dot(queries_.row(query), passage, passages_.n_columns);
        return static_cast<float>(dot * queries_.inverse_norm(query) * inverse);
    }

    void refresh_threshold(Scanner& own, std::int64_t query) const {
        const auto number = static_cast<std::size_t>(query);
        const float threshold = thresholds_[number].load(std::memory_order_relaxed);
        own.thresholds[number] = round_down(static_cast<double>(threshold) - bound_);
    }

    // Joins what the threads have for one query; `own` is the finishing thread's.
    void finish(std::int64_t query, Rescorer& own, std::int64_t* indices, float* similarities) {
        const auto number = static_cast<std::size_t>(query);
        ExactTopk joined(k_);
        for (const auto& one : scanners_) {
            if (!one) continue;
            for (const Ranked& candidate : one->exact[number].kept()) joined.offer(candidate);
        }
        joined.trim();
        for (const auto& one : scanners_) {
            if (one) flush(own, one->pending[number], joined, query);
        }
        auto& kept = joined.kept();
        assert(std::ssize(kept) == k_);
        std::sort(kept.begin(), kept.end(), ranks_before);
        for (std::size_t rank = 0; rank < kept.size(); ++rank) {
            indices[rank] = kept[rank].index;
            similarities[rank] = kept[rank].similarity;
        }
    }

    [[noreturn]] void refuse_passage(std::int64_t row) const {
        if (!inverse_norms_.empty()) {
            throw std::invalid_argument(
                "inverse_norms: expected positive finite numbers, got " +
                std::to_string(inverse_norms_[static_cast<std::size_t>(row)]) + " in row " +
                std::to_string(row));
        }
        RowReader<float> reader(passages_);
        refuse_row("passages", reader.row(row), passages_.n_columns, row);
    }

    const CosineTopkKernels& kernels_;
    const QueryBlock& queries_;
    MatrixView<const float> passages_;
    std::int64_t k_;
    std::span<const double> inverse_norms_;
    std::span<double> keep_norms_;
    std::int64_t tile_rows_;
    int n_threads_;
    double bound_;
    std::vector<std::atomic<float>> thresholds_;  // proven lower bounds of the k-th similarities
    std::atomic<std::int64_t> bad_row_{std::numeric_limits<std::int64_t>::max()};
    std::vector<std::unique_ptr<Scanner>> scanners_;
};

}  // namespace epibias
