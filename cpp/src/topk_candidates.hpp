// What: the candidates of one query on one thread, on their way from the float32 scan to the exact
// answer.
//
// ExactTopk holds re-scored candidates and forgets all but the k best; PendingHits holds candidates
// whose similarity is only known to lie within `bound` of the value that the scan gave.
// Memory: O(k), whatever the order or the number of candidates.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "epibias/ranking.hpp"

namespace epibias {

inline constexpr float kNoThreshold = -std::numeric_limits<float>::infinity();

// Largest float32 that is not above `value`: thresholds may only err towards letting more through.
inline float round_down(double value) {
    const auto nearest = static_cast<float>(value);
    return static_cast<double>(nearest) > value ? std::nextafter(nearest, kNoThreshold) : nearest;
}

class ExactTopk {
  public:
    explicit ExactTopk(std::int64_t k) : k_(static_cast<std::size_t>(k)) {}

    void offer(const Ranked& candidate) {
        if (full_ && !ranks_before(candidate, last_)) return;
        kept_.push_back(candidate);
        // Twice k: trimming costs O(k) and happens once in k offers.
        if (kept_.size() >= 2 * k_ + kSlack) trim();
    }

    // Drops all but the k best, in no particular order.
    void trim() {
        if (kept_.size() < k_) return;
        const auto last = kept_.begin() + static_cast<std::ptrdiff_t>(k_) - 1;
        std::nth_element(kept_.begin(), last, kept_.end(), ranks_before);
        last_ = *last;
        full_ = true;
        kept_.resize(k_);
    }

    // k-th similarity as of the last trim: no passage of the answer has a lower one.
    [[nodiscard]] float threshold() const { return full_ ? last_.similarity : kNoThreshold; }

    [[nodiscard]] std::vector<Ranked>& kept() { return kept_; }

  private:
    static constexpr std::size_t kSlack = 32;
    std::size_t k_;
    std::vector<Ranked> kept_;
    Ranked last_{};
    bool full_ = false;
};

struct Pending {
    std::int64_t index;
    double inverse_norm;
    float value;
};

class PendingHits {
  public:
    explicit PendingHits(std::int64_t k)
        : k_(static_cast<std::size_t>(k)), capacity_(std::max(k_, kFewest)) {}

    // True when it is time to flush.
    bool add(const Pending& hit) {
        hits_.push_back(hit);
        return hits_.size() >= capacity_;
    }

    // A lower bound of the k-th similarity: k of these have at least their value minus the bound.
    [[nodiscard]] float threshold(double bound) {
        if (hits_.size() < k_) return kNoThreshold;
        const auto last = hits_.begin() + static_cast<std::ptrdiff_t>(k_) - 1;
        std::nth_element(
            hits_.begin(), last, hits_.end(),
            [](const Pending& left, const Pending& right) { return left.value > right.value; });
        return round_down(static_cast<double>(last->value) - bound);
    }

    // Drops what cannot reach the threshold.
    void keep_possible(float threshold, double bound) {
        const double least = static_cast<double>(threshold) - bound;
        std::erase_if(
            hits_, [least](const Pending& hit) { return static_cast<double>(hit.value) < least; });
    }

    [[nodiscard]] const std::vector<Pending>& hits() const { return hits_; }
    void clear() { hits_.clear(); }

  private:
    static constexpr std::size_t kFewest = 128;
    std::size_t k_;
    std::size_t capacity_;
    std::vector<Pending> hits_;
};

struct Rescored {
    float threshold;  // a lower bound of the k-th similarity, at least the one given
    std::int64_t count;
};

// Moves from `pending` to `exact` what may still belong to the answer; `proven` is a lower bound of
// the k-th similarity of all passages, `score(hit)` the similarity, `fetch(hit)` brings its row
// near. What only equals the threshold stays: it may have the lower index.
template <typename Score, typename Fetch>
Rescored rescore(PendingHits& pending, ExactTopk& exact, float proven, double bound, Score score,
                 Fetch fetch) {
    constexpr std::size_t kAhead = 4;  // rows fetched ahead: they left the cache long ago
    const float threshold = std::max({proven, pending.threshold(bound), exact.threshold()});
    pending.keep_possible(threshold, bound);
    const auto& hits = pending.hits();
    for (std::size_t number = 0; number < hits.size(); ++number) {
        if (number + kAhead < hits.size()) fetch(hits[number + kAhead]);
        const float similarity = score(hits[number]);
        if (similarity >= threshold) exact.offer({similarity, hits[number].index});
    }
    const auto count = static_cast<std::int64_t>(hits.size());
    pending.clear();
    exact.trim();
    return {std::max(threshold, exact.threshold()), count};
}

}  // namespace epibias
