#include "epibias/bounded_selection.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "epibias/parallel.hpp"
#include "ragged.hpp"
#include "refuse.hpp"

namespace epibias {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// An exchange looked at, against a multiply-add of `threads_worth_waking`.
constexpr double kOperationsPerExchange = 64;
constexpr std::int64_t kQueriesPerTask = 64;

// ---- checks --------------------------------------------------------------------------------

void check_count(const char* argument, const char* other, std::size_t got, std::size_t expected) {
    if (got == expected) return;
    refuse(argument, std::to_string(expected) + " values, as many as " + other,
           std::to_string(got));
}

std::string at_query(double value, std::size_t query) {
    return number_text(value) + " (query " + std::to_string(query) + ")";
}

void check(const BoundedSelectionInput& given, const BoundedSelectionResult& result,
           const BoundedSelectionOptions& options) {
    const std::size_t n_queries = result.before.size();
    const std::size_t n_candidates = given.similarities.size();
    check_at_least("k", options.k, 1);
    check_count("scores", "similarities", given.scores.size(), n_candidates);
    check_offsets(given.offsets, std::ssize(result.before), std::ssize(given.similarities));
    check_count("centres", "queries", given.centres.size(), n_queries);
    check_count("widths", "queries", given.widths.size(), n_queries);
    if (!given.allowed.empty()) {
        check_count("allowed", "similarities", given.allowed.size(), n_candidates);
    }
    check_finite("similarities", given.offsets, given.similarities);
    check_finite("scores", given.offsets, given.scores);
    for (std::size_t query = 0; query < n_queries; ++query) {
        const double centre = given.centres[query];
        const double width = given.widths[query];
        if (!std::isfinite(centre)) refuse("centres", "finite values", at_query(centre, query));
        const bool is_width = width >= 0;
        if (!is_width) refuse("widths", "numbers of at least 0", at_query(width, query));
    }
}

// ---- sums ----------------------------------------------------------------------------------

// Sum of value(0) to value(n - 1) in numpy's order.
template <typename Value>
double pairwise_sum(const Value& value, std::size_t first, std::size_t n) {
    constexpr std::size_t kLanes = 8;
    constexpr std::size_t kBlock = 128;
    double sum = 0;
    std::size_t i = 0;
    if (n > kBlock) {
        const std::size_t half = n / 2 - (n / 2) % kLanes;
        return pairwise_sum(value, first, half) + pairwise_sum(value, first + half, n - half);
    }
    if (n >= kLanes) {
        double lanes[kLanes];
        for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = value(first + lane);
        for (i = kLanes; i + kLanes <= n; i += kLanes) {
            for (std::size_t lane = 0; lane < kLanes; ++lane)
                lanes[lane] += value(first + i + lane);
        }
        sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
              ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    }
    for (; i < n; ++i) sum += value(first + i);
    return sum;
}

// ---- one query -----------------------------------------------------------------------------

class Exchanges {
  public:
    // Views of one query's candidates. `selected` is the scratch of the task.
    Exchanges(std::span<const float> similarities, std::span<const float> scores,
              std::span<const std::uint8_t> allowed, std::span<std::uint8_t> chosen,
              std::vector<std::size_t>& selected)
        : similarities_(similarities),
          scores_(scores),
          allowed_(allowed),
          chosen_(chosen),
          selected_(selected) {}

    // Returns the drift of the first k allowed, having marked them.
    double start(double centre, std::int64_t k) {
        selected_.clear();
        for (std::size_t i = 0; i < chosen_.size(); ++i) {
            const bool taken = may(i) && std::ssize(selected_) < k;
            chosen_[i] = taken ? 1 : 0;
            if (taken) selected_.push_back(i);
        }
        drift_ = 0;
        if (selected_.empty()) return drift_;
        const auto value = [&](std::size_t i) { return chosen_[i] != 0 ? y(i) - centre : 0.0; };
        drift_ = pairwise_sum(value, 0, chosen_.size()) / n_selected();
        return drift_;
    }

    // Returns the drift after the exchanges.
    double exchange(double width) {
        const double limit = width * (1 + kSelectionRounding);
        if (!(std::abs(drift_) > limit)) return drift_;
        while (std::abs(drift_) > limit) {
            if (!make(towards(limit))) break;
        }
        if (std::abs(drift_) <= limit) {
            while (make(gain_within(limit))) {
            }
        }
        return drift_;
    }

  private:
    // Place of `selected_` that leaves, candidate that enters, and the drift then.
    struct Exchange {
        double value = kInfinity;
        double moved = 0;
        std::size_t leaving = 0;
        std::size_t entering = 0;
        void take_if_less(const Exchange& other) {
            if (other.value < value) *this = other;
        }
    };

    [[nodiscard]] double x(std::size_t i) const { return static_cast<double>(similarities_[i]); }
    [[nodiscard]] double y(std::size_t i) const { return static_cast<double>(scores_[i]); }
    [[nodiscard]] bool may(std::size_t i) const { return allowed_.empty() || allowed_[i] != 0; }
    [[nodiscard]] double n_selected() const { return static_cast<double>(selected_.size()); }

    // Calls `look(loss, exchange)` for every exchange, the last selected first: so the first of
    // equal values is the one that the tie rule names.
    template <typename Look>
    void each(const Look& look) const {
        for (std::size_t place = selected_.size(); place-- > 0;) {
            const std::size_t leaving = selected_[place];
            for (std::size_t i = 0; i < chosen_.size(); ++i) {
                if (chosen_[i] != 0 || !may(i)) continue;
                const double moved = drift_ + (y(i) - y(leaving)) / n_selected();
                look(x(leaving) - x(i), Exchange{0, moved, place, i});
            }
        }
    }

    // The exchange that reaches the limit at least loss, or else the cheapest way nearer.
    [[nodiscard]] Exchange towards(double limit) const {
        Exchange reaching, nearer;
        each([&](double loss, Exchange one) {
            const double way = std::abs(drift_) - std::abs(one.moved);
            if (std::abs(one.moved) <= limit) {
                one.value = loss;
                reaching.take_if_less(one);
            } else if (way > 0) {
                one.value = loss / way;
                nearer.take_if_less(one);
            }
        });
        return reaching.value < kInfinity ? reaching : nearer;
    }

    [[nodiscard]] Exchange gain_within(double limit) const {
        Exchange best;
        each([&](double loss, Exchange one) {
            if (std::abs(one.moved) > limit || !(loss < -kSelectionRounding)) return;
            one.value = loss;
            best.take_if_less(one);
        });
        return best;
    }

    // Returns whether there was an exchange to make.
    bool make(const Exchange& one) {
        if (!std::isfinite(one.value)) return false;
        chosen_[selected_[one.leaving]] = 0;
        chosen_[one.entering] = 1;
        selected_.erase(selected_.begin() + static_cast<std::ptrdiff_t>(one.leaving));
        selected_.insert(std::ranges::upper_bound(selected_, one.entering), one.entering);
        drift_ = one.moved;
        return true;
    }

    std::span<const float> similarities_, scores_;
    std::span<const std::uint8_t> allowed_;
    std::span<std::uint8_t> chosen_;
    std::vector<std::size_t>& selected_;
    double drift_ = 0;
};

}  // namespace

void bounded_selection(const BoundedSelectionInput& given, const BoundedSelectionResult& result,
                       const BoundedSelectionOptions& options) {
    check(given, result, options);
    const auto n_queries = std::ssize(result.before);
    const auto select = [&](std::size_t query, std::vector<std::size_t>& selected) {
        const auto first = static_cast<std::size_t>(given.offsets[query]);
        const auto n = static_cast<std::size_t>(given.offsets[query + 1]) - first;
        const auto allowed =
            given.allowed.empty() ? given.allowed : given.allowed.subspan(first, n);
        Exchanges one(given.similarities.subspan(first, n), given.scores.subspan(first, n), allowed,
                      result.chosen.subspan(first, n), selected);
        result.before[query] = one.start(given.centres[query], options.k);
        result.after[query] = one.exchange(given.widths[query]);
    };
    const auto run = [&](std::int64_t task, int) {
        std::vector<std::size_t> selected;
        const std::int64_t last = std::min(n_queries, (task + 1) * kQueriesPerTask);
        for (std::int64_t query = task * kQueriesPerTask; query < last; ++query) {
            select(static_cast<std::size_t>(query), selected);
        }
    };
    const double operations = kOperationsPerExchange * static_cast<double>(options.k) *
                              static_cast<double>(given.similarities.size());
    const int threads =
        options.n_threads > 0 ? options.n_threads : threads_worth_waking(operations);
    parallel_for((n_queries + kQueriesPerTask - 1) / kQueriesPerTask, run, threads);
}

void leading_means(std::span<const float> values, std::span<const std::int64_t> offsets,
                   std::int64_t k, std::span<double> means) {
    check_at_least("k", k, 1);
    check_offsets(offsets, std::ssize(means), std::ssize(values));
    const auto value = [&](std::size_t i) { return static_cast<double>(values[i]); };
    for (std::size_t query = 0; query < means.size(); ++query) {
        const std::int64_t n = std::min(k, offsets[query + 1] - offsets[query]);
        const auto first = static_cast<std::size_t>(offsets[query]);
        means[query] =
            n > 0 ? pairwise_sum(value, first, static_cast<std::size_t>(n)) / static_cast<double>(n)
                  : std::numeric_limits<double>::quiet_NaN();
    }
}

}  // namespace epibias
