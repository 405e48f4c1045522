// What: what is known of the k-th similarity of each query of a block, while all threads scan.
//
// A threshold is either proven (k passages have a similarity of at least that) or a guess. Rows are
// dropped only where their upper bound lies below it, so at the end the answer is right if the k-th
// similarity found reaches the guess. Comparisons with a threshold are never strict, or a tie with
// a lower index would be lost.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "atomic_bounds.hpp"
#include "kernels/quantized_scan_kernels.hpp"
#include "quantized_candidates.hpp"
#include "quantized_queries.hpp"
#include "topk_candidates.hpp"

namespace epibias {

class QuantizedBounds {
  public:
    // `proven`: lower bounds of the k-th similarities, one a query.
    QuantizedBounds(const QuantizedQueries& queries, std::span<const float> proven)
        : queries_(queries),
          proven_(proven.begin(), proven.end()),
          guesses_(proven.size(), kNoThreshold),
          failed_(proven.size(), 0),
          thresholds_(proven.size()),
          given_up_(proven.size()) {
        for (std::size_t query = 0; query < proven.size(); ++query) {
            thresholds_[query].store(proven[query]);
        }
    }

    void raise(std::int64_t query, float threshold) {
        epibias::raise(thresholds_[at(query)], threshold);
    }

    // By the rank-th largest value of the candidates, which is no bound.
    void raise_to_value(std::int64_t query, const QuantizedCandidates& candidates,
                        std::int64_t rank, std::vector<float>& values) {
        if (candidates.count() >= rank) raise(query, candidates.nth_value(rank, values));
    }

    // By the k-th largest lower bound of the candidates.
    void raise_to_lower_bound(std::int64_t query, const QuantizedCandidates& candidates,
                              std::int64_t k, std::vector<float>& values) {
        if (candidates.count() < k) return;
        values.clear();
        for (std::int64_t i = 0; i < candidates.count(); ++i) {
            const float bound = round_down(static_cast<double>(candidates.value(i)) -
                                           margin(query, candidates.margin(i)));
            values.push_back(std::isnan(bound) ? kNoThreshold : bound);  // infinite: damaged codes
        }
        raise(query, nth_largest(values, k));
    }

    // From here on the threshold of the moment counts as a guess.
    void guess(std::int64_t query) { guesses_[at(query)] = threshold(query); }

    void give_up(std::int64_t query) {
        given_up_[at(query)].store(true, std::memory_order_relaxed);
    }
    [[nodiscard]] bool given_up(std::int64_t query) const {
        return given_up_[at(query)].load(std::memory_order_relaxed);
    }

    // What a row must reach at the moment; nothing reaches it for a query that was given up.
    [[nodiscard]] kernels::QueryFilter filter(std::int64_t query) const {
        const float limit =
            given_up(query)
                ? std::numeric_limits<float>::infinity()
                : round_down(static_cast<double>(threshold(query)) - queries_.own_error(query));
        return {.scale = queries_.scale(query),
                .residual_weight = queries_.residual_weight(query),
                .limit = limit,
                .remainder_weight = queries_.remainder_weight(query)};
    }

    void drop_hopeless(std::int64_t query, QuantizedCandidates& candidates) const {
        const auto least = static_cast<double>(threshold(query));
        candidates.keep_if([&](float value, float own) {
            return static_cast<double>(value) + margin(query, own) >= least;
        });
    }

    // The same for candidates that are pending: refine(row, value) gives their margin.
    template <typename Refine>
    void settle(std::int64_t query, QuantizedCandidates& candidates, Refine refine) const {
        const auto least = static_cast<double>(threshold(query));
        candidates.settle([&](std::int64_t row, float& value, float& own) {
            own = refine(row, value);
            return static_cast<double>(value) + margin(query, own) >= least;
        });
    }

    // True where the best that were scored are the answer: no row was dropped for a guess that did
    // not come true. Otherwise the query has failed, and what the scores prove is kept.
    bool settle(std::int64_t query, const ExactTopk& exact) {
        const float last = exact.threshold();  // none before k were scored
        const float sure = std::max(last, proven_[at(query)]);
        if (!given_up(query) && sure >= guesses_[at(query)]) return true;
        failed_[at(query)] = 1;
        proven_[at(query)] = sure;
        return false;
    }

    struct Failed {
        std::vector<std::int64_t> numbers;
        std::vector<float> proven;
    };
    [[nodiscard]] Failed failed() const {
        Failed all;
        for (std::size_t query = 0; query < failed_.size(); ++query) {
            if (failed_[query] == 0) continue;
            all.numbers.push_back(queries_.number(static_cast<std::int64_t>(query)));
            all.proven.push_back(proven_[query]);
        }
        return all;
    }

  private:
    static std::size_t at(std::int64_t query) { return static_cast<std::size_t>(query); }

    [[nodiscard]] float threshold(std::int64_t query) const {
        return thresholds_[at(query)].load(std::memory_order_relaxed);
    }

    // |similarity - value| is at most this.
    [[nodiscard]] double margin(std::int64_t query, float own) const {
        return static_cast<double>(own) + queries_.own_error(query);
    }

    const QuantizedQueries& queries_;
    std::vector<float> proven_;
    std::vector<float> guesses_;
    std::vector<char> failed_;
    std::vector<std::atomic<float>> thresholds_;
    std::vector<std::atomic<bool>> given_up_;
};

}  // namespace epibias
