// What: one question, and how much of it one passage after another says in one place; what
// echo_shares and bounded_selection read texts with.
//
// Formula, numbers: epibias/echo_shares.hpp. Owned by one thread at a time. Memory: 40 KB, and 12
// bytes a letter of the longest text; of a text it holds what its triples are until the next one is
// read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "epibias/echo_shares.hpp"
#include "kernels/echo_shares_kernels.hpp"

namespace epibias {

inline constexpr std::uint32_t kEchoBase = 260;
inline constexpr double kEchoDiscount = 12;  // each doubling costs a twelfth of the question
inline constexpr std::size_t kEchoNarrowest = 2;

// ---- texts to codes ------------------------------------------------------------------------

// Codes of one text, a space before and behind. One a thread: the buffer grows to the longest.
class TextCodes {
  public:
    void read(const kernels::EchoKernels& level, const TextView& text) {
        const auto n = static_cast<std::size_t>(text.n_units);
        if (codes_.size() < n + 2 + kernels::kEchoSlack) codes_.resize(n + 2 + kernels::kEchoSlack);
        std::uint32_t* inner = codes_.data() + 1;
        if (text.unit_bytes == 1) {
            length_ = level.collapse8(static_cast<const std::uint8_t*>(text.units), n, inner);
        } else if (text.unit_bytes == 2) {
            length_ = level.collapse16(static_cast<const std::uint16_t*>(text.units), n, inner);
        } else {
            length_ = level.collapse32(static_cast<const std::uint32_t*>(text.units), n, inner);
        }
        if (length_ > 0 && inner[length_ - 1] == 0) --length_;
        inner[length_] = 0;
    }

    [[nodiscard]] const std::uint32_t* data() const { return codes_.data(); }
    [[nodiscard]] std::uint32_t number(std::size_t triple) const {
        const std::uint32_t* first = codes_.data() + triple;
        return ((first[0] * kEchoBase + first[1]) * kEchoBase + first[2]) >> 16U;
    }
    // As many triples as letters and inner spaces.
    [[nodiscard]] std::size_t n_triples() const { return length_; }

  private:
    std::vector<std::uint32_t> codes_ = {0};
    std::size_t length_ = 0;
};

// ---- one question --------------------------------------------------------------------------

inline constexpr std::size_t kEchoSlots = std::size_t{65536} >> kernels::kFilterShift;

// Which numbers are the question's, and how its different ones are counted from 0.
class AskedTriples {
  public:
    void read(const TextCodes& codes) {
        for (const std::uint32_t number : different_) filter_[slot_of(number)] = 0;
        n_asked_ = codes.n_triples();
        different_.resize(n_asked_);
        for (std::size_t i = 0; i < n_asked_; ++i) different_[i] = codes.number(i);
        std::ranges::sort(different_);
        different_.erase(std::unique(different_.begin(), different_.end()), different_.end());
        for (std::size_t i = different_.size(); i-- > 0;) {
            filter_[slot_of(different_[i])] = 1;
            first_[slot_of(different_[i])] = static_cast<std::uint32_t>(i);
        }
    }

    [[nodiscard]] const std::uint8_t* filter() const { return filter_.data(); }
    // Of a number that the filter knows; n_different() where it is not the question's.
    [[nodiscard]] std::size_t which(std::uint32_t number) const {
        std::size_t place = first_[slot_of(number)];
        if (different_[place] == number) return place;
        while (place < different_.size() && different_[place] < number) ++place;
        return place < different_.size() && different_[place] == number ? place : different_.size();
    }
    [[nodiscard]] std::size_t n_asked() const { return n_asked_; }
    [[nodiscard]] std::size_t n_different() const { return different_.size(); }

  private:
    static std::size_t slot_of(std::uint32_t number) { return number >> kernels::kFilterShift; }

    std::vector<std::uint8_t> filter_ = std::vector<std::uint8_t>(kEchoSlots);
    std::vector<std::uint32_t> first_ = std::vector<std::uint32_t>(kEchoSlots);
    std::vector<std::uint32_t> different_;  // ascending
    std::size_t n_asked_ = 0;
};

// Where a passage has the question's triples, and how many stand near each other.
class EchoHits {
  public:
    void find(const kernels::EchoKernels& level, const TextCodes& codes,
              const AskedTriples& question) {
        n_triples_ = codes.n_triples();
        if (places_.size() < n_triples_ + 1) {
            places_.resize(n_triples_ + 1);
            which_.resize(n_triples_ + 1);
        }
        const std::size_t n_sifted =
            level.sift(codes.data(), n_triples_, question.filter(), places_.data());
        n_hits_ = 0;
        // Without a branch: which triples come again is not to be guessed. The last place is that
        // of what is not the question's.
        inside_.assign(question.n_different() + 1, 0U);
        inside_.back() = 1;
        n_different_ = 0;
        for (std::size_t i = 0; i < n_sifted; ++i) {
            const std::size_t which = question.which(codes.number(places_[i]));
            places_[n_hits_] = places_[i];
            which_[n_hits_] = static_cast<std::uint32_t>(which);
            n_hits_ += which < question.n_different() ? 1U : 0U;
            n_different_ += 1U - inside_[which];
            inside_[which] = 1;
        }
    }

    // Exact where `limit` is NaN; else only whether it is above it is.
    double share(const AskedTriples& question, double limit) {
        const auto share_of = [&](std::size_t most, std::size_t doublings) {
            return static_cast<double>(most) / static_cast<double>(question.n_different()) -
                   static_cast<double>(doublings) / kEchoDiscount;
        };
        double best = 0;
        std::size_t width = kEchoNarrowest * question.n_asked(), needed = 1;
        for (std::size_t doublings = 0;; ++doublings, width *= 2) {
            // What lies below decides nothing. A limit that is NaN stops nothing.
            const double bar = std::max(best, limit);
            // No wider window holds more than all.
            if (best > limit || share_of(n_different_, doublings) <= bar) return best;
            if (width >= n_triples_) return std::max(best, share_of(n_different_, doublings));
            while (share_of(needed, doublings) <= bar) ++needed;
            if (!stand_within(width, needed)) continue;
            best = std::max(best, share_of(most_within(width), doublings));
        }
    }

  private:
    // Whether so many hits, different or not, stand in `width` places that follow each other.
    [[nodiscard]] bool stand_within(std::size_t width, std::size_t n_wanted) const {
        const std::uint32_t* const first = places_.data();
        const std::size_t n_windows = n_hits_ < n_wanted ? 0 : n_hits_ - n_wanted + 1;
        const auto way = static_cast<std::uint32_t>(width);
        std::uint32_t found = 0;
        for (std::size_t i = 0; i < n_windows; ++i) {
            found |= first[i + n_wanted - 1] - first[i] < way ? 1U : 0U;
        }
        return found != 0;
    }

    // Most different triples of the question in `width` places that follow each other.
    std::size_t most_within(std::size_t width) {
        std::ranges::fill(inside_, 0U);
        std::size_t most = 0, now = 0, first = 0;
        for (std::size_t hit = 0; hit < n_hits_; ++hit) {
            now += inside_[which_[hit]]++ == 0 ? 1U : 0U;
            for (; places_[first] + width <= places_[hit]; ++first) {
                now -= --inside_[which_[first]] == 0 ? 1U : 0U;
            }
            most = std::max(most, now);
        }
        return most;
    }

    std::vector<std::uint32_t> places_, which_, inside_;
    std::size_t n_triples_ = 0, n_hits_ = 0, n_different_ = 0;
};

// Asked one question, tells the shares of passages.
class EchoReader {
  public:
    EchoReader();

    // Throws std::invalid_argument for a text of 2^31 letters, as `read` does.
    void ask(const TextView& question);
    void read(const TextView& passage);
    // Of the passage that was read last. Exact where `limit` is NaN; else only whether it is above
    // it is.
    [[nodiscard]] double share(double limit);

  private:
    const kernels::EchoKernels& level_;
    TextCodes codes_;
    AskedTriples asked_;
    EchoHits hits_;
};

}  // namespace epibias
