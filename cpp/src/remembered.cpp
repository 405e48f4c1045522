#include "epibias/remembered.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <ranges>
#include <string>
#include <unordered_map>
#include <vector>

#include "pairwise_sum.hpp"
#include "ragged.hpp"
#include "refuse.hpp"

namespace epibias {

namespace {

// ---- who is remembered -----------------------------------------------------------------------

class RememberedLine {
  public:
    // The pairs of one query, which are checked here.
    void hold(const RememberedCandidates& one) {
        pairs_ = one.pairs;
        const std::string where = " (query " + std::to_string(one.query) + ")";
        if (pairs_.empty() || pairs_.size() % 2 != 0) {
            refuse("remembered", "pairs, at least one" + where,
                   std::to_string(pairs_.size()) + " numbers");
        }
        for (const double value : pairs_) {
            if (!std::isfinite(value)) {
                refuse("remembered", "finite values" + where, number_text(value));
            }
        }
        for (std::size_t place = 1; place < size(); ++place) {
            if (similarity(place - 1) <= similarity(place)) continue;
            refuse("remembered", "similarities that ascend" + where,
                   number_text(similarity(place)) + " after " + number_text(similarity(place - 1)));
        }
        is_taken_.assign(size(), 0);
    }

    [[nodiscard]] double lowest() const { return similarity(0); }

    // Whether a candidate, asked about in the pool's order, is one of them: it takes the nearest
    // that nobody has taken.
    [[nodiscard]] bool has(double similarity_of_it, double score_of_it) {
        std::size_t nearest = size();
        double least = std::numeric_limits<double>::infinity();
        for (std::size_t place = first_from(similarity_of_it - kSameCandidate);
             place < size() && similarity(place) < similarity_of_it + kSameCandidate; ++place) {
            const double apart = std::abs(pairs_[2 * place + 1] - score_of_it);
            if (!(apart <= kSameCandidate) || is_taken_[place] != 0) continue;
            const double way = std::max(apart, std::abs(similarity(place) - similarity_of_it));
            if (way >= least) continue;
            least = way;
            nearest = place;
        }
        if (nearest == size()) return false;
        is_taken_[nearest] = 1;
        return true;
    }

  private:
    [[nodiscard]] std::size_t size() const { return pairs_.size() / 2; }
    [[nodiscard]] double similarity(std::size_t place) const { return pairs_[2 * place]; }
    [[nodiscard]] std::size_t first_from(double value) const {
        const auto places = std::views::iota(std::size_t{0}, size());
        const auto of = [this](std::size_t place) { return similarity(place); };
        return static_cast<std::size_t>(std::ranges::lower_bound(places, value, {}, of) -
                                        places.begin());
    }

    std::span<const double> pairs_;
    std::vector<std::uint8_t> is_taken_;
};

}  // namespace

void mark_unchanged(const PoolToRecognize& pool, std::int64_t k,
                    std::span<const double> similarities, std::span<const double> scores,
                    std::span<std::uint8_t> unchanged) {
    check_at_least("k", k, 1);
    check_count("scores", "similarities", pool.scores.size(), pool.similarities.size());
    check_offsets(pool.offsets, std::ssize(unchanged), std::ssize(pool.similarities));
    check_count("mean_similarities", "queries", similarities.size(), unchanged.size());
    check_count("mean_scores", "queries", scores.size(), unchanged.size());
    for (std::size_t query = 0; query < unchanged.size(); ++query) {
        const auto first = static_cast<std::size_t>(pool.offsets[query]);
        const auto n =
            static_cast<std::size_t>(std::min(k, pool.offsets[query + 1] - pool.offsets[query]));
        const auto is_near = [&](std::span<const float> values, double remembered) {
            const auto value = [&](std::size_t i) { return static_cast<double>(values[i]); };
            const double mean = pairwise_sum(value, first, n) / static_cast<double>(n);
            return std::abs(mean - remembered) <= kSameCandidate;
        };
        unchanged[query] = n > 0 && is_near(pool.similarities, similarities[query]) &&
                                   is_near(pool.scores, scores[query])
                               ? 1
                               : 0;
    }
}

void mark_unremembered(const PoolToRecognize& pool,
                       std::span<const RememberedCandidates> remembered, bool sparing,
                       std::span<std::uint8_t> unremembered) {
    check_count("scores", "similarities", pool.scores.size(), pool.similarities.size());
    check_count("unremembered", "similarities", unremembered.size(), pool.similarities.size());
    const std::int64_t n_queries = std::max<std::int64_t>(std::ssize(pool.offsets) - 1, 0);
    check_offsets(pool.offsets, n_queries, std::ssize(pool.similarities));
    RememberedLine line;
    for (const RememberedCandidates& one : remembered) {
        if (one.query < 0 || one.query >= n_queries) {
            refuse("remembered", "queries from 0 to " + std::to_string(n_queries - 1),
                   std::to_string(one.query));
        }
        line.hold(one);
        const auto query = static_cast<std::size_t>(one.query);
        const auto end = static_cast<std::size_t>(pool.offsets[query + 1]);
        for (auto row = static_cast<std::size_t>(pool.offsets[query]); row < end; ++row) {
            const auto similarity = static_cast<double>(pool.similarities[row]);
            const bool known = line.has(similarity, static_cast<double>(pool.scores[row]));
            const bool in_sight = similarity > line.lowest() + kSameCandidate;
            unremembered[row] = !known && (in_sight || !sparing) ? 1 : 0;
        }
    }
}

void refuse_newcomers(const NewcomersInput& given, std::span<std::uint8_t> refused,
                      std::span<std::int64_t> n_refused) {
    const std::size_t n_candidates = given.is_new.size();
    check_offsets(given.offsets, std::ssize(n_refused), std::ssize(given.is_new));
    check_count("most_in_pool", "queries", given.most_in_pool.size(), n_refused.size());
    check_count("refused", "is_new", refused.size(), n_candidates);
    if (!given.sources.empty()) {
        check_count("sources", "is_new", given.sources.size(), n_candidates);
    }
    std::unordered_map<std::int64_t, std::int64_t> n_of_source;
    for (std::size_t query = 0; query < n_refused.size(); ++query) {
        const auto first = static_cast<std::size_t>(given.offsets[query]);
        const auto end = static_cast<std::size_t>(given.offsets[query + 1]);
        const std::int64_t n_new = std::ranges::count_if(
            given.is_new.subspan(first, end - first), [](std::uint8_t mark) { return mark != 0; });
        const bool is_wave = n_new > given.most_in_pool[query];
        std::int64_t n_passed = 0;
        n_of_source.clear();
        for (std::size_t row = first; row < end; ++row) {
            bool passes = given.is_new[row] != 0 && !is_wave;
            if (passes && !given.sources.empty()) {
                passes = n_of_source[given.sources[row]]++ < given.most_of_source;
            }
            passes = passes && n_passed < given.most_in_selection;
            n_passed += passes ? 1 : 0;
            refused[row] = given.is_new[row] != 0 && !passes ? 1 : 0;
        }
        n_refused[query] = n_new - n_passed;
    }
}

}  // namespace epibias
