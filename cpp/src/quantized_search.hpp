// What: the search of one block of queries over the codes: a sample of the tiles, from which a
// threshold is guessed; all other tiles; and at the end the canonical scores.
//
// A query whose guess was too high is reported as failed, with what has been proven of it. Codes of
// 8 bits of all columns fail for no other reason; with 4 bits, or principal axes, a query of which
// too many rows remain possible is given up. A row that the leading axes leave possible is settled
// by the codes of the others before anything else is done with it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "epibias/matrix_view.hpp"
#include "epibias/parallel.hpp"
#include "epibias/quantized_scan.hpp"
#include "epibias/ranking.hpp"
#include "kernels/quantized_scan_kernels.hpp"
#include "principal_queries.hpp"
#include "quantized_bounds.hpp"
#include "quantized_candidates.hpp"
#include "quantized_corpus.hpp"
#include "quantized_queries.hpp"
#include "quantized_rescore.hpp"
#include "quantized_scanner.hpp"
#include "topk_candidates.hpp"

namespace epibias {

class QuantizedSearch {
  public:
    // `proven`: lower bounds of the k-th similarities, one a query. `principal`: what settles rows,
    // where the codes are those of leading axes.
    QuantizedSearch(const kernels::QuantizedScanKernels& kernels, const QuantizedQueries& queries,
                    const QuantizedCorpus& corpus, std::int64_t k, std::span<const float> proven,
                    const QuantizedScanOptions& options,
                    const PrincipalQueries* principal = nullptr)
        : kernels_(kernels),
          queries_(queries),
          corpus_(corpus),
          principal_(principal),
          k_(k),
          may_give_up_(corpus.codes.bits() < 8 || principal != nullptr),
          score_early_(corpus.codes.bits() < 8 || (principal != nullptr && k <= kMostScoredEarly)),
          most_(options.capacity > 0 ? options.capacity : most_candidates()),
          stride_(options.sample_stride),
          bounds_(queries, proven) {
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

    // Calls use(number, best) for each query that has an answer, on all threads: its number and the
    // passages that may be among its k best, in no order; fewer than k only where all others lie
    // below what was proven before.
    template <typename Use>
    void run(const Use& use) {
        const std::int64_t n_tiles = corpus_.codes.n_tiles();
        if (stride_ > 1) {
            scan((n_tiles + stride_ - 1) / stride_, [&](std::int64_t i) { return i * stride_; });
            for_each_query([&](std::int64_t query) { guess(query); });
            rank_ = k_;
            scan(n_tiles - (n_tiles + stride_ - 1) / stride_,
                 [&](std::int64_t i) { return i + i / (stride_ - 1) + 1; });
        } else {
            scan(n_tiles, [](std::int64_t i) { return i; });
        }
        finish(use);
        for (const auto& one : scanners_) n_rescored_ += one ? one->n_rescored : 0;
    }

    [[nodiscard]] std::int64_t n_rescored() const { return n_rescored_; }

    // Queries whose guess was too high or that were given up, and what is proven of them.
    [[nodiscard]] QuantizedBounds::Failed failed() const { return bounds_.failed(); }

  private:
    static constexpr std::int64_t kTasksPerThread = 8;
    static constexpr std::int64_t kLongestTask = 256;  // tiles
    static constexpr std::int64_t kSampleStride = 16;
    static constexpr std::int64_t kFewestTilesToSample = 64;
    static constexpr std::int64_t kFewCandidates = 256;
    // Each row that passes costs a second look at it: with principal axes thresholds rise sooner.
    static constexpr std::int64_t kFewPrincipalCandidates = 64;
    static constexpr std::int64_t kMostPending = 32;  // their codes have reached the cache by then
    // One row in so many may be looked at twice.
    static constexpr std::int64_t kSettleShare = 2;
    static constexpr std::int64_t kFewestSettled = 4096;
    static constexpr std::int64_t kMostScoredEarly = 100;
    static constexpr std::int64_t kMostCandidates = 1024;
    // One row in so many may remain possible before 4 bits give up: to score them costs about a
    // third of a scan of 8 bits.
    static constexpr std::int64_t kGiveUpShare = 64;

    static std::size_t at(std::int64_t number) { return static_cast<std::size_t>(number); }

    [[nodiscard]] std::int64_t most_candidates() const {
        const std::int64_t few = std::max(kMostCandidates, 8 * k_);
        return may_give_up_ ? std::max(few, corpus_.rows.n_rows / kGiveUpShare) : few;
    }

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
        parallel_for(queries_.count(), [&](std::int64_t query, int) { use(query); }, n_threads_);
    }

    QuantizedScanner& scanner(int thread) {
        auto& own = scanners_[at(thread)];
        if (!own) {
            own = std::make_unique<QuantizedScanner>(queries_, corpus_, k_,
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
                         QuantizedScanner& own = scanner(thread);
                         const std::int64_t end = std::min(n, (task + 1) * task_tiles);
                         for (std::int64_t query = 0; query < queries_.count(); ++query) {
                             own.filters[at(query)] = bounds_.filter(query);
                             if (own.limits[at(query)] == 0) own.limits[at(query)] = few();
                         }
                         for (std::int64_t i = task * task_tiles; i < end; ++i) {
                             scan_tile(own, tile_of(i), tile_of(std::min(i + 1, n - 1)));
                         }
                         if (principal_ == nullptr) return;
                         for (std::int64_t query = 0; query < queries_.count(); ++query) {
                             settle(own, query);
                         }
                     },
                     n_threads_);
    }

    void scan_tile(QuantizedScanner& own, std::int64_t number, std::int64_t next) {
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
            const kernels::QueryFilter* filters = &own.filters[at(group.first_query)];
            unsigned passed = kernels_.passing(tile, own.sums.data(), filters, group.n_queries);
            for (; passed != 0; passed &= passed - 1) {
                const int i = std::countr_zero(passed);
                const std::int64_t query = group.first_query + i;
                QuantizedCandidates& candidates = own.candidates[at(query)];
                const std::int64_t before = candidates.count();
                candidates.reserve();
                candidates.added(kernels_.collect(tile, own.sums.data() + i * kernels::kTileRows,
                                                  own.filters[at(query)], first_row,
                                                  candidates.end()));
                // Codes come from files too: damaged ones may be wrong, but lead nowhere outside.
                if (number + 1 == corpus_.codes.n_tiles()) {
                    candidates.keep_rows_below(corpus_.rows.n_rows);
                }
                if (principal_ != nullptr) look_ahead(own, query, before);
                if (candidates.count() >= own.limits[at(query)]) tidy(own, query);
            }
        }
    }

    [[nodiscard]] std::int64_t few() const {
        const std::int64_t least = principal_ == nullptr ? kFewCandidates : kFewPrincipalCandidates;
        return std::min(most_, std::max(least, 4 * rank_));
    }

    // Fetches what will settle the candidates from `first` on, and settles them when there are
    // many.
    void look_ahead(QuantizedScanner& own, std::int64_t query, std::int64_t first) {
        const QuantizedCandidates& candidates = own.candidates[at(query)];
        for (std::int64_t i = first; i < candidates.count(); ++i) {
            principal_->fetch(std::int64_t{candidates.row(i)});
        }
        if (candidates.n_pending() >= kMostPending) settle(own, query);
    }

    void settle(QuantizedScanner& own, std::int64_t query) {
        QuantizedCandidates& candidates = own.candidates[at(query)];
        own.n_settled[at(query)] += candidates.n_pending();
        bounds_.settle(query, candidates, [&](std::int64_t row, float& value) {
            return principal_->refine(query, row, value);
        });
        if (own.n_settled[at(query)] >
            std::max(kFewestSettled, corpus_.rows.n_rows / kSettleShare)) {
            give_up(own, query);
        }
    }

    void give_up(QuantizedScanner& own, std::int64_t query) {
        bounds_.give_up(query);
        own.candidates[at(query)].clear();
        own.filters[at(query)] = bounds_.filter(query);
    }

    void tidy(QuantizedScanner& own, std::int64_t query) {
        QuantizedCandidates& candidates = own.candidates[at(query)];
        if (principal_ != nullptr) {
            settle(own, query);
            if (candidates.count() < own.limits[at(query)]) return;
        }
        if (rank_ < k_) {
            bounds_.raise_to_value(query, candidates, rank_, own.values);
        } else if (!score_early_) {
            bounds_.raise_to_lower_bound(query, candidates, k_, own.values);
        } else if (candidates.count() >= k_) {
            // The lower bounds that few bits give are of little use: the similarities themselves of
            // the best by value are worth reading their rows.
            score_if(own, query, candidates.nth_value(k_, own.values));
        }
        bounds_.drop_hopeless(query, candidates);
        if (2 * candidates.count() > most_ && !may_give_up_) {
            score_if(own, query,
                     candidates.nth_value(std::min(k_, candidates.count()), own.values));
            bounds_.drop_hopeless(query, candidates);
        }
        if (2 * candidates.count() > most_) {
            if (may_give_up_) {
                give_up(own, query);
            } else {
                score_if(own, query, kNoThreshold);  // which leaves at most k
            }
        }
        own.limits[at(query)] = std::max(few(), std::min(most_, 2 * candidates.count()));
        own.filters[at(query)] = bounds_.filter(query);
    }

    // Scores canonically, and takes from the candidates, those with a value of at least `least`.
    void score_if(QuantizedScanner& own, std::int64_t query, float least) {
        ExactTopk& exact = own.exact[at(query)];
        own.rows.clear();
        own.candidates[at(query)].take_from(least, own.rows);
        const auto count = std::ssize(own.rows);
        for (std::int64_t i = 0; i < count; ++i) {
            if (i + CanonicalScorer::kAhead < count) {
                own.score.fetch(own.rows[at(i + CanonicalScorer::kAhead)]);
            }
            const std::int64_t row = own.rows[at(i)];
            exact.offer({own.score(query, row), row});
        }
        own.n_rescored += count;
        exact.trim();
        bounds_.raise(query, exact.threshold());
    }

    // After the sample: the threshold that all of it gives.
    void guess(std::int64_t query) {
        QuantizedCandidates joined;
        std::vector<float> values;
        for (const auto& one : scanners_) {
            if (one) joined.append(one->candidates[at(query)]);
        }
        if (rank_ < k_) {
            bounds_.raise_to_value(query, joined, rank_, values);
            bounds_.guess(query);
        } else {
            bounds_.raise_to_lower_bound(query, joined, k_, values);
        }
        for (const auto& one : scanners_) {
            if (!one) continue;
            bounds_.drop_hopeless(query, one->candidates[at(query)]);
            one->limits[at(query)] = 0;
        }
    }

    // Joins what the threads have, scores in two waves what may belong to the answers, and ranks.
    template <typename Use>
    void finish(const Use& use) {
        std::vector<QuantizedLeftover> left(at(queries_.count()), QuantizedLeftover(k_));
        std::vector<WantedRows> wanted(left.size());
        // The k best by value give nearly the final threshold; few of the others reach it.
        for_each_query([&](std::int64_t query) {
            QuantizedLeftover& own = left[at(query)];
            join(query, own);
            float least = kNoThreshold;
            std::vector<float> values;
            if (own.candidates.count() > k_) least = own.candidates.nth_value(k_, values);
            want(own, least, wanted[at(query)]);
        });
        n_rescored_ += score_in_row_order(queries_, corpus_, wanted, n_threads_);
        for_each_query([&](std::int64_t query) {
            QuantizedLeftover& own = left[at(query)];
            take(own, wanted[at(query)]);
            bounds_.raise(query, own.exact.threshold());
            bounds_.drop_hopeless(query, own.candidates);
            want(own, kNoThreshold, wanted[at(query)]);
        });
        n_rescored_ += score_in_row_order(queries_, corpus_, wanted, n_threads_);
        for_each_query([&](std::int64_t query) {
            take(left[at(query)], wanted[at(query)]);
            ExactTopk& exact = left[at(query)].exact;
            if (may_give_up_ && std::ssize(exact.kept()) < k_) bounds_.give_up(query);  // damaged
            if (bounds_.settle(query, exact)) use(queries_.number(query), exact.kept());
        });
    }

    void join(std::int64_t query, QuantizedLeftover& own) {
        bool first = true;
        for (const auto& one : scanners_) {
            if (!one) continue;
            if (std::exchange(first, false)) {
                own.candidates = std::move(one->candidates[at(query)]);
            } else {
                own.candidates.append(one->candidates[at(query)]);
            }
            for (const Ranked& ranked : one->exact[at(query)].kept()) own.exact.offer(ranked);
        }
        if (bounds_.given_up(query)) own.candidates.clear();
        own.exact.trim();
        bounds_.raise(query, own.exact.threshold());
        bounds_.drop_hopeless(query, own.candidates);
    }

    // Moves to `wanted` the candidates with a value of at least `least`.
    static void want(QuantizedLeftover& own, float least, WantedRows& wanted) {
        wanted.rows.clear();
        own.candidates.take_from(least, wanted.rows);
    }

    static void take(QuantizedLeftover& own, const WantedRows& scored) {
        for (std::size_t i = 0; i < scored.rows.size(); ++i) {
            own.exact.offer({scored.similarities[i], scored.rows[i]});
        }
        own.exact.trim();
    }

    const kernels::QuantizedScanKernels& kernels_;
    const QuantizedQueries& queries_;
    const QuantizedCorpus& corpus_;
    const PrincipalQueries* principal_;
    std::int64_t k_;
    bool may_give_up_;
    bool score_early_;       // the best candidates, to raise the threshold
    std::int64_t rank_ = 0;  // candidates of this rank raise the threshold; below k it is a guess
    std::int64_t most_;      // candidates of a query on a thread
    std::int64_t stride_;    // of the sampled tiles
    int n_threads_ = 1;
    QuantizedBounds bounds_;
    std::int64_t n_rescored_ = 0;
    std::vector<std::unique_ptr<QuantizedScanner>> scanners_;
};

}  // namespace epibias
