// What: which of one query's candidates say the question again, asked where a selection hangs on
// it.
//
// Formula: a candidate is an echo whose share (epibias/echo_shares.hpp) is above the query's limit;
// that is `limit_of_two` where two of the first k exceed it, else `limit`. For that the first k are
// read, and of the others those that somebody asks about: once each, but for those that fell
// between two limits. A limit by others is that of the first k that are allowed and not tested; of
// these as many are read as it takes to find one that says as much.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "echo_reader.hpp"
#include "epibias/bounded_selection.hpp"

namespace epibias {

class EchoJudge {
  public:
    // Of the query whose candidates begin at `first_row`; `judged` are its marks, 0 so far. Without
    // a test, or a limit, everybody may.
    EchoJudge(const EchoTest* test, EchoReader* reader, std::size_t query, std::int64_t first_row,
              std::span<std::uint8_t> judged)
        : test_(test), reader_(reader), query_(query), first_row_(first_row), judged_(judged) {
        if (test == nullptr || std::isnan(test->limits[query])) test_ = nullptr;
    }

    // Reads the question and the first k, or all that are `allowed` (empty: all).
    void begin(std::int64_t k, std::span<const std::uint8_t> allowed) {
        if (test_ == nullptr) return;
        for (std::size_t i = 0; i < judged_.size(); ++i) {
            if (!is_tested(i)) mark(i, false);
        }
        allowed_ = allowed;
        n_others_left_ =
            !test_->by_others.empty() && test_->by_others[query_] != 0 ? k : std::int64_t{0};
        reader_->ask(test_->question(static_cast<std::int64_t>(query_)));
        limit_ = test_->limits[query_];
        const double of_two = test_->limits_of_two[query_];
        if (!std::isnan(of_two)) find_limit(of_two, k);
        if (!test_->every_candidate) return;
        for (std::size_t i = 0; i < judged_.size(); ++i) {
            if (is_allowed(i)) static_cast<void>(may(i));
        }
    }

    // False for an echo; reads the candidate where it was not read yet.
    [[nodiscard]] bool may(std::size_t i) {
        if (test_ == nullptr) return true;
        if (judged_[i] == kNotJudged) {
            read(i);
            mark(i, is_above(limit_));
        }
        return judged_[i] == kNoEcho;
    }
    // The same, but for those that were not read: these may.
    [[nodiscard]] bool may_so_far(std::size_t i) const {
        return test_ == nullptr || judged_[i] != kEcho;
    }

  private:
    [[nodiscard]] bool is_tested(std::size_t i) const {
        return test_->tested.empty() ||
               test_->tested[static_cast<std::size_t>(first_row_) + i] != 0;
    }
    [[nodiscard]] bool is_allowed(std::size_t i) const {
        return allowed_.empty() || allowed_[i] != 0;
    }
    void read(std::size_t i) {
        reader_->read(test_->passage(first_row_ + static_cast<std::int64_t>(i)));
        share_ = kUnknown;
    }
    // Whether the text that was read last, a tested one, says more than the limit; and, of a query
    // whose limits are at least those of others, more than they do.
    [[nodiscard]] bool is_above(double limit) {
        if (share_ != kUnknown) return share_ > limit && share_ > most_of_others_;
        if (!(reader_->share(limit) > limit)) return false;
        if (n_others_left_ == 0 && most_of_others_ == 0) return true;
        const double share = reader_->share(std::numeric_limits<double>::quiet_NaN());
        while (share > most_of_others_ && n_others_left_ > 0) read_another();
        share_ = share;
        return share > most_of_others_;
    }
    // Reads the next of the first k that are allowed and not tested.
    void read_another() {
        while (next_other_ < judged_.size() && (is_tested(next_other_) || !is_allowed(next_other_)))
            ++next_other_;
        if (next_other_ == judged_.size()) {
            n_others_left_ = 0;
            return;
        }
        read(next_other_++);
        --n_others_left_;
        if (reader_->share(most_of_others_) > most_of_others_) {
            most_of_others_ = reader_->share(std::numeric_limits<double>::quiet_NaN());
        }
    }
    void mark(std::size_t i, bool is_echo) { judged_[i] = is_echo ? kEcho : kNoEcho; }

    // Reads the first k until two of them exceed `of_two`.
    void find_limit(double of_two, std::int64_t k) {
        const std::size_t n_first = std::min(judged_.size(), static_cast<std::size_t>(k));
        std::size_t first_above = n_first;
        for (std::size_t i = 0; i < n_first; ++i) {
            if (!is_tested(i)) continue;
            read(i);
            const bool above = is_above(of_two);
            if (above && first_above < n_first) {
                limit_ = of_two;
                for (std::size_t other = 0; other < i; ++other) mark(other, other == first_above);
                mark(i, true);
                return;
            }
            if (above) first_above = i;
            // What is below the lower limit is below the other.
            mark(i, (above || limit_ < of_two) && is_above(limit_));
        }
    }

    static constexpr double kUnknown = -1;

    const EchoTest* test_;
    EchoReader* reader_;
    std::size_t query_;
    std::int64_t first_row_;
    std::span<std::uint8_t> judged_;
    std::span<const std::uint8_t> allowed_;
    double limit_ = 0;
    double share_ = kUnknown;  // of the text that was judged last, where others were read since
    double most_of_others_ = 0;
    std::int64_t n_others_left_ = 0;
    std::size_t next_other_ = 0;
};

}  // namespace epibias
