#include "epibias/bounded_selection.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "echo_judge.hpp"
#include "epibias/parallel.hpp"
#include "pairwise_sum.hpp"
#include "ragged.hpp"
#include "refuse.hpp"

namespace epibias {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// An exchange looked at, against a multiply-add of `threads_worth_waking`.
constexpr double kOperationsPerExchange = 64;
constexpr std::int64_t kQueriesPerTask = 64;
constexpr std::int64_t kQueriesPerReading = 8;  // where reading texts takes most of the time
// A text that is read has some 800 letters of 40 operations, and a query two selections of them.
constexpr double kOperationsPerText = 800 * 40;
constexpr double kSelectionsRead = 2;
// So many candidates are sought and struck off one by one; then the query's others are all read.
constexpr int kMostStruckOff = 8;

// ---- checks --------------------------------------------------------------------------------

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
    if (given.echo != nullptr) {
        check_count("limits", "queries", given.echo->limits.size(), n_queries);
        check_count("limits_of_two", "queries", given.echo->limits_of_two.size(), n_queries);
        check_count("judged", "similarities", result.judged.size(), n_candidates);
        if (!given.echo->tested.empty()) {
            check_count("tested", "similarities", given.echo->tested.size(), n_candidates);
        }
        if (!given.echo->by_others.empty()) {
            check_count("by_others", "queries", given.echo->by_others.size(), n_queries);
        }
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

// ---- one query -----------------------------------------------------------------------------

class Exchanges {
  public:
    // Views of one query's candidates. `selected` is the scratch of the task.
    Exchanges(std::span<const float> similarities, std::span<const float> scores,
              std::span<const std::uint8_t> allowed, EchoJudge judge,
              std::span<std::uint8_t> chosen, std::vector<std::size_t>& selected)
        : similarities_(similarities),
          scores_(scores),
          allowed_(allowed),
          judge_(judge),
          chosen_(chosen),
          selected_(selected) {}

    // Returns the drift of the first k allowed, having marked them.
    double start(double centre, std::int64_t k) {
        selected_.clear();
        judge_.begin(k, allowed_);
        for (std::size_t i = 0; i < chosen_.size(); ++i) {
            const bool taken = std::ssize(selected_) < k && may(i) && judge_.may(i);
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
            if (!make([&] { return towards(limit); })) break;
        }
        if (std::abs(drift_) <= limit) {
            while (make([&] { return gain_within(limit); })) {
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
    // Unless its text says otherwise, where that was not read.
    [[nodiscard]] bool may(std::size_t i) const {
        return (allowed_.empty() || allowed_[i] != 0) && judge_.may_so_far(i);
    }
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

    // Makes the best exchange; returns whether there was one to make.
    template <typename Best>
    bool make(const Best& best) {
        Exchange one = best();
        while (std::isfinite(one.value) && !judge_.may(one.entering)) {
            if (++n_struck_off_ == kMostStruckOff) read_others();
            one = best();
        }
        if (!std::isfinite(one.value)) return false;
        chosen_[selected_[one.leaving]] = 0;
        chosen_[one.entering] = 1;
        selected_.erase(selected_.begin() + static_cast<std::ptrdiff_t>(one.leaving));
        selected_.insert(std::ranges::upper_bound(selected_, one.entering), one.entering);
        drift_ = one.moved;
        return true;
    }

    void read_others() {
        for (std::size_t i = 0; i < chosen_.size(); ++i) {
            if (may(i)) static_cast<void>(judge_.may(i));
        }
    }

    std::span<const float> similarities_, scores_;
    std::span<const std::uint8_t> allowed_;
    EchoJudge judge_;
    std::span<std::uint8_t> chosen_;
    std::vector<std::size_t>& selected_;
    double drift_ = 0;
    int n_struck_off_ = 0;
};

double operations_of(const BoundedSelectionInput& given, std::int64_t k) {
    const auto places = static_cast<double>(k);
    double operations =
        kOperationsPerExchange * places * static_cast<double>(given.similarities.size());
    if (given.echo != nullptr) {
        const auto n_read = std::ranges::count_if(given.echo->limits,
                                                  [](double limit) { return !std::isnan(limit); });
        const double n_texts = given.echo->every_candidate
                                   ? static_cast<double>(given.similarities.size())
                                   : kSelectionsRead * places * static_cast<double>(n_read);
        operations += kOperationsPerText * n_texts;
    }
    return operations;
}

}  // namespace

void bounded_selection(const BoundedSelectionInput& given, const BoundedSelectionResult& result,
                       const BoundedSelectionOptions& options) {
    check(given, result, options);
    const auto n_queries = std::ssize(result.before);
    const int threads = options.n_threads > 0
                            ? options.n_threads
                            : threads_worth_waking(operations_of(given, options.k));
    if (given.echo != nullptr) std::ranges::fill(result.judged, kNotJudged);
    // Made by the thread that first needs it.
    std::vector<std::optional<EchoReader>> readers(static_cast<std::size_t>(threads));
    const auto select = [&](std::size_t query, EchoReader* reader,
                            std::vector<std::size_t>& selected) {
        const auto first = static_cast<std::size_t>(given.offsets[query]);
        const auto n = static_cast<std::size_t>(given.offsets[query + 1]) - first;
        const auto part = [&](auto values) {
            return values.empty() ? values : values.subspan(first, n);
        };
        const EchoJudge judge(given.echo, reader, query, given.offsets[query], part(result.judged));
        Exchanges one(part(given.similarities), part(given.scores), part(given.allowed), judge,
                      part(result.chosen), selected);
        result.before[query] = one.start(given.centres[query], options.k);
        result.after[query] = one.exchange(given.widths[query]);
    };
    const std::int64_t per_task = given.echo == nullptr ? kQueriesPerTask : kQueriesPerReading;
    const auto run = [&](std::int64_t task, int thread) {
        auto& reader = readers[static_cast<std::size_t>(thread)];
        std::vector<std::size_t> selected;
        const std::int64_t last = std::min(n_queries, (task + 1) * per_task);
        for (std::int64_t query = task * per_task; query < last; ++query) {
            const auto place = static_cast<std::size_t>(query);
            const bool reads = given.echo != nullptr && !std::isnan(given.echo->limits[place]);
            if (reads && !reader) reader.emplace();
            select(place, reader ? &*reader : nullptr, selected);
        }
    };
    parallel_for((n_queries + per_task - 1) / per_task, run, threads);
}

}  // namespace epibias
