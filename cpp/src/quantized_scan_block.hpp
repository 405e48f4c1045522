// What: the search of one block of queries over the codes: a sample of the tiles, from which a
// threshold is guessed; all other tiles; and at the end, query by query, the canonical scores.
//
// A threshold is either proven (so many passages have a similarity of at least that) or a guess.
// Rows are dropped only where their upper bound lies below it, so at the end the answer is right
// if the k-th similarity found reaches the guess; otherwise the query is reported as failed, with
// what has been proven. Comparisons with a threshold are never strict, or a tie with a lower index
// would be lost.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "atomic_bounds.hpp"
#include "epibias/matrix_view.hpp"
#include "epibias/numeric.hpp"
#include "epibias/parallel.hpp"
#include "epibias/quantized_scan.hpp"
#include "epibias/ranking.hpp"
#include "kernels/cosine_topk_kernels.hpp"
#include "kernels/quantized_scan_kernels.hpp"
#include "quantized_candidates.hpp"
#include "quantized_passages.hpp"
#include "quantized_queries.hpp"
#include "refuse.hpp"
#include "topk_candidates.hpp"

namespace epibias {

inline double checked_inverse_norm(std::span<const double> inverse_norms, std::int64_t row) {
    const double inverse = inverse_norms[static_cast<std::size_t>(row)];
    if (inverse > 0 && inverse <= std::numeric_limits<double>::max()) return inverse;
    refuse("inverse_norms", "positive finite numbers",
           number_text(inverse) + " in row " + std::to_string(row));
}

struct QuantizedCorpus {
    MatrixView<const float> rows;
    std::span<const double> inverse_norms;
    QuantizedPassages codes;
};

class QuantizedSearch {
  public:
    // `proven`: lower bounds of the k-th similarities, one a query.
    QuantizedSearch(const kernels::QuantizedScanKernels& kernels, const QuantizedQueries& queries,
                    const QuantizedCorpus& corpus, std::int64_t k, std::span<const float> proven,
                    const QuantizedScanOptions& options)
        : kernels_(kernels),
          queries_(queries),
          corpus_(corpus),
          k_(k),
          most_(options.capacity > 0 ? options.capacity : std::max(kMostCandidates, 8 * k)),
          stride_(options.sample_stride),
          thresholds_(static_cast<std::size_t>(queries.count())),
          guesses_(thresholds_.size(), kNoThreshold),
          failed_proven_(thresholds_.size(), kNoThreshold),
          failed_(thresholds_.size(), 0) {
        for (std::size_t query = 0; query < thresholds_.size(); ++query) {
            thresholds_[query].store(proven[query]);
        }
        const std::int64_t n_tiles = corpus.codes.n_tiles();
        if (stride_ == 0) stride_ = n_tiles >= kFewestTilesToSample ? kSampleStride : 1;
        rank_ = stride_ > 1 ? sample_rank() : k;
        const double operations = static_cast<double>(queries.count()) *
                                  static_cast<double>(corpus.rows.n_rows) *
                                  static_cast<double>(corpus.rows.n_columns);
        // Four of these cost as much as one multiply-add of float32.
        n_threads_ =
            options.n_threads > 0 ? options.n_threads : threads_worth_waking(operations / 4);
        scanners_.resize(static_cast<std::size_t>(n_threads_));
    }

    void run(MatrixView<std::int64_t> indices, MatrixView<float> similarities) {
        const std::int64_t n_tiles = corpus_.codes.n_tiles();
        if (stride_ > 1) {
            scan((n_tiles + stride_ - 1) / stride_, [&](std::int64_t i) { return i * stride_; });
            for_each_query([&](std::int64_t query, Scratch& own) { guess(query, own); });
            rank_ = k_;
            scan(n_tiles - (n_tiles + stride_ - 1) / stride_,
                 [&](std::int64_t i) { return i + i / (stride_ - 1) + 1; });
        } else {
            scan(n_tiles, [](std::int64_t i) { return i; });
        }
        for_each_query([&](std::int64_t query, Scratch& own) {
            const std::int64_t number = queries_.number(query);
            finish(query, own, indices.row(number), similarities.row(number));
        });
        for (const auto& one : scanners_) n_rescored_ += one ? one->scratch.n_rescored : 0;
    }

    [[nodiscard]] std::int64_t n_rescored() const { return n_rescored_.load(); }

    // Numbers of the queries whose guess was too high, and what is proven of them.
    [[nodiscard]] std::vector<std::int64_t> failed() const {
        std::vector<std::int64_t> numbers;
        for (std::int64_t query = 0; query < queries_.count(); ++query) {
            if (failed_[at(query)] != 0) numbers.push_back(queries_.number(query));
        }
        return numbers;
    }
    [[nodiscard]] std::vector<float> failed_proven() const {
        std::vector<float> proven;
        for (std::size_t query = 0; query < failed_.size(); ++query) {
            if (failed_[query] != 0) proven.push_back(failed_proven_[query]);
        }
        return proven;
    }

  private:
    static constexpr std::int64_t kTasksPerThread = 8;
    static constexpr std::int64_t kLongestTask = 256;  // tiles
    static constexpr std::int64_t kSampleStride = 16;
    static constexpr std::int64_t kFewestTilesToSample = 64;
    static constexpr std::int64_t kFewCandidates = 256;
    static constexpr std::int64_t kMostCandidates = 1024;
    static constexpr std::int64_t kAhead = 4;  // rows fetched ahead: they left the cache long ago

    struct Scratch {
        explicit Scratch(MatrixView<const float> passages) : reader(passages) {}
        RowReader<float> reader;
        std::vector<float> values;
        std::vector<std::uint32_t> rows;
        QuantizedCandidates joined;
        std::int64_t n_rescored = 0;
    };

    // The state of one thread. Made by the thread that uses it, so that its memory is near.
    struct Scanner {
        Scanner(MatrixView<const float> rows, std::size_t n_queries, std::int64_t k,
                std::size_t n_sums)
            : scratch(rows),
              candidates(n_queries),
              limits(n_queries, 0),
              exact(n_queries, ExactTopk(k)),
              filters(n_queries),
              sums(n_sums) {}
        Scratch scratch;
        std::vector<QuantizedCandidates> candidates;
        std::vector<std::int64_t> limits;  // of the number of candidates, before they are tidied
        std::vector<ExactTopk> exact;
        std::vector<kernels::QueryFilter> filters;
        std::vector<std::int32_t> sums;
    };

    static std::size_t at(std::int64_t number) { return static_cast<std::size_t>(number); }

    // Which of the sample's values becomes the guess: enough above the share of the sample in the
    // best k that the k-th of all is not below it but once in 10^4 queries, were the rows in random
    // order.
    [[nodiscard]] std::int64_t sample_rank() const {
        const double share = static_cast<double>(k_) / static_cast<double>(stride_);
        const auto rank = static_cast<std::int64_t>(share + 4 * std::sqrt(share) + 4);
        return std::min(rank, k_);
    }

    template <typename Use>
    void for_each_query(Use use) {
        std::vector<std::unique_ptr<Scratch>> scratch(at(n_threads_));
        parallel_for(
            queries_.count(),
            [&](std::int64_t query, int thread) {
                auto& own = scratch[at(thread)];
                if (!own) own = std::make_unique<Scratch>(corpus_.rows);
                use(query, *own);
            },
            n_threads_);
    }

    Scanner& scanner(int thread) {
        auto& own = scanners_[at(thread)];
        if (!own) {
            own = std::make_unique<Scanner>(corpus_.rows, at(queries_.count()), k_,
                                            at(kernels_.n_queries * kernels::kTileRows));
        }
        return *own;
    }

    // Scans tiles tile_of(0) … tile_of(n - 1).
    template <typename TileOf>
    void scan(std::int64_t n, TileOf tile_of) {
        const std::int64_t task_tiles =
            std::clamp<std::int64_t>(n / (kTasksPerThread * n_threads_), 1, kLongestTask);
        parallel_for((n + task_tiles - 1) / task_tiles,
                     [&](std::int64_t task, int thread) {
                         Scanner& own = scanner(thread);
                         const std::int64_t end = std::min(n, (task + 1) * task_tiles);
                         for (std::int64_t query = 0; query < queries_.count(); ++query) {
                             refresh(own, query);
                             if (own.limits[at(query)] == 0) own.limits[at(query)] = few();
                         }
                         for (std::int64_t i = task * task_tiles; i < end; ++i) {
                             scan_tile(own, tile_of(i), tile_of(std::min(i + 1, n - 1)));
                         }
                     },
                     n_threads_);
    }

    void scan_tile(Scanner& own, std::int64_t number, std::int64_t next) {
        kernels::QuantizedTile tile = corpus_.codes.tile(number, next);
        const auto n_groups = std::ssize(queries_.groups());
        const std::int64_t n_lines = corpus_.codes.tile_bytes() / kernels::kStepBytes;
        const auto first_row = static_cast<std::uint32_t>(number * kernels::kTileRows);
        std::int64_t group_number = 0;
        for (const QuantizedQueries::Group& group : queries_.groups()) {
            const std::int64_t first_line = n_lines * group_number / n_groups;
            ++group_number;
            tile.n_next_lines = n_lines * group_number / n_groups - first_line;
            kernels_.sum_tile(tile, group.words, group.starts, group.n_queries, own.sums.data());
            tile.next += tile.n_next_lines * kernels::kStepBytes;
            for (int i = 0; i < group.n_queries; ++i) {
                const std::int64_t query = group.first_query + i;
                QuantizedCandidates& candidates = own.candidates[at(query)];
                candidates.reserve();
                const int count =
                    kernels_.collect(tile, own.sums.data() + i * kernels::kTileRows,
                                     own.filters[at(query)], first_row, candidates.end());
                if (count == 0) continue;
                candidates.added(count);
                if (candidates.count() >= own.limits[at(query)]) tidy(own, query);
            }
        }
    }

    [[nodiscard]] std::int64_t few() const {
        return std::min(most_, std::max(kFewCandidates, 4 * rank_));
    }

    // |similarity - value| is at most this.
    [[nodiscard]] double margin(std::int64_t query, float residual) const {
        return static_cast<double>(queries_.residual_weight(query)) *
                   static_cast<double>(residual) +
               queries_.own_error(query);
    }

    void refresh(Scanner& own, std::int64_t query) const {
        const float threshold = thresholds_[at(query)].load(std::memory_order_relaxed);
        own.filters[at(query)] = {
            queries_.scale(query), queries_.residual_weight(query),
            round_down(static_cast<double>(threshold) - queries_.own_error(query))};
    }

    // Raises the threshold by what the candidates tell, and drops those that cannot reach it. What
    // remains too many is scored canonically, which leaves at most k.
    void tidy(Scanner& own, std::int64_t query) {
        QuantizedCandidates& candidates = own.candidates[at(query)];
        raise_threshold(query, candidates, own.scratch.values);
        drop_hopeless(query, candidates);
        if (2 * candidates.count() > most_) {
            ExactTopk& exact = own.exact[at(query)];
            score_all(query, candidates, own.scratch, exact);
            candidates.clear();
            exact.trim();
            raise(thresholds_[at(query)], exact.threshold());
        }
        own.limits[at(query)] = std::max(few(), std::min(most_, 2 * candidates.count()));
        refresh(own, query);
    }

    void raise_threshold(std::int64_t query, const QuantizedCandidates& candidates,
                         std::vector<float>& values) {
        if (candidates.count() < rank_) return;
        values.clear();
        const bool guessing = rank_ < k_;
        for (std::int64_t number = 0; number < candidates.count(); ++number) {
            const float value = candidates.value(number);
            values.push_back(guessing ? value
                                      : round_down(static_cast<double>(value) -
                                                   margin(query, candidates.residual(number))));
        }
        raise(thresholds_[at(query)], nth_largest(values, rank_));
    }

    void drop_hopeless(std::int64_t query, QuantizedCandidates& candidates) const {
        const auto threshold =
            static_cast<double>(thresholds_[at(query)].load(std::memory_order_relaxed));
        candidates.keep_if([&](float value, float residual) {
            return static_cast<double>(value) + margin(query, residual) >= threshold;
        });
    }

    // After the sample: the threshold that all of it gives.
    void guess(std::int64_t query, Scratch& own) {
        own.joined.clear();
        for (const auto& one : scanners_) {
            if (one) own.joined.append(one->candidates[at(query)]);
        }
        raise_threshold(query, own.joined, own.values);
        if (rank_ < k_) guesses_[at(query)] = thresholds_[at(query)].load();
        for (const auto& one : scanners_) {
            if (!one) continue;
            drop_hopeless(query, one->candidates[at(query)]);
            one->limits[at(query)] = 0;
        }
    }

    // Joins what the threads have of one query, and ranks it.
    void finish(std::int64_t query, Scratch& own, std::int64_t* indices, float* similarities) {
        QuantizedCandidates& joined = own.joined;
        ExactTopk exact(k_);
        joined.clear();
        for (const auto& one : scanners_) {
            if (!one) continue;
            joined.append(one->candidates[at(query)]);
            for (const Ranked& candidate : one->exact[at(query)].kept()) exact.offer(candidate);
        }
        exact.trim();
        raise(thresholds_[at(query)], exact.threshold());
        drop_hopeless(query, joined);
        if (joined.count() > k_) {
            // The k best by value give nearly the final threshold; few of the others reach it.
            own.values.clear();
            for (std::int64_t i = 0; i < joined.count(); ++i) own.values.push_back(joined.value(i));
            const float cut = nth_largest(own.values, k_);
            score_if(query, joined, own, exact, [cut](float value) { return value >= cut; });
            exact.trim();
            raise(thresholds_[at(query)], exact.threshold());
            joined.keep_if([cut](float value, float) { return value < cut; });
            drop_hopeless(query, joined);
        }
        score_all(query, joined, own, exact);
        exact.trim();
        n_rescored_.fetch_add(std::exchange(own.n_rescored, 0), std::memory_order_relaxed);
        auto& kept = exact.kept();
        const float last = exact.threshold();
        if (std::ssize(kept) < k_ || last < guesses_[at(query)]) {
            failed_[at(query)] = 1;
            failed_proven_[at(query)] = last;
            return;
        }
        std::sort(kept.begin(), kept.end(), ranks_before);
        for (std::size_t rank = 0; rank < kept.size(); ++rank) {
            indices[rank] = kept[rank].index;
            similarities[rank] = kept[rank].similarity;
        }
    }

    void score_all(std::int64_t query, const QuantizedCandidates& candidates, Scratch& own,
                   ExactTopk& exact) const {
        score_if(query, candidates, own, exact, [](float) { return true; });
    }

    template <typename Chosen>
    void score_if(std::int64_t query, const QuantizedCandidates& candidates, Scratch& own,
                  ExactTopk& exact, Chosen chosen) const {
        own.rows.clear();
        for (std::int64_t i = 0; i < candidates.count(); ++i) {
            if (chosen(candidates.value(i))) own.rows.push_back(candidates.row(i));
        }
        const auto count = std::ssize(own.rows);
        for (std::int64_t i = 0; i < count; ++i) {
            if (i + kAhead < count) fetch_row(own.rows[at(i + kAhead)]);
            const std::int64_t row = own.rows[at(i)];
            exact.offer({canonical_similarity(query, own.reader.row(row), row), row});
        }
        own.n_rescored += count;
    }

    void fetch_row(std::int64_t row) const {
        const auto* line = reinterpret_cast<const char*>(corpus_.rows.row(row));
        const auto* end = line + corpus_.rows.n_columns * static_cast<std::int64_t>(sizeof(float));
        for (; line < end; line += 64) __builtin_prefetch(line, 0, 3);
        __builtin_prefetch(&corpus_.inverse_norms[at(row)], 0, 3);
    }

    [[nodiscard]] float canonical_similarity(std::int64_t query, const float* passage,
                                             std::int64_t row) const {
        const double dot = canonical_dot_(queries_.row(query), passage, corpus_.rows.n_columns);
        return static_cast<float>(dot * queries_.inverse_norm(query) *
                                  checked_inverse_norm(corpus_.inverse_norms, row));
    }

    const kernels::QuantizedScanKernels& kernels_;
    double (*canonical_dot_)(const float*, const float*,
                             std::int64_t) = kernels::cosine_topk_kernels().canonical_dot;
    const QuantizedQueries& queries_;
    const QuantizedCorpus& corpus_;
    std::int64_t k_;
    std::int64_t rank_ = 0;  // candidates of this rank raise the threshold; below k it is a guess
    std::int64_t most_;      // candidates of a query on a thread
    std::int64_t stride_;    // of the sampled tiles
    int n_threads_ = 1;
    std::vector<std::atomic<float>> thresholds_;
    std::vector<float> guesses_;
    std::vector<float> failed_proven_;
    std::vector<char> failed_;
    std::atomic<std::int64_t> n_rescored_{0};
    std::vector<std::unique_ptr<Scanner>> scanners_;
};

}  // namespace epibias
