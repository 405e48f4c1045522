#include "epibias/echo_shares.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "epibias/parallel.hpp"
#include "epibias/simd_level.hpp"
#include "kernels/echo_shares_kernels.hpp"
#include "ragged.hpp"
#include "refuse.hpp"

namespace epibias {

namespace {

constexpr std::uint32_t kBase = 260;
constexpr double kDiscount = 12;  // each doubling costs a twelfth of the question
constexpr std::size_t kNarrowest = 2;
// A letter against a multiply-add of `threads_worth_waking`.
constexpr double kOperationsPerLetter = 40;
constexpr std::int64_t kMostLetters = std::int64_t{1} << 31;  // places are counted in 32 bits

const kernels::EchoKernels& chosen_kernels() {
#if defined(EPIBIAS_X86_LEVELS)
    switch (active_simd_level()) {
        case SimdLevel::kAvx512:
            return kernels::avx512::kEcho;
        case SimdLevel::kAvx2:
            return kernels::avx2::kEcho;
        case SimdLevel::kScalar:
            break;
    }
#endif
    return kernels::scalar::kEcho;
}

// ---- texts to codes ------------------------------------------------------------------------

// Codes of one text, a space before and behind. One a task: the buffer grows to the longest.
class Codes {
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
        return ((first[0] * kBase + first[1]) * kBase + first[2]) >> 16U;
    }
    // As many triples as letters and inner spaces.
    [[nodiscard]] std::size_t n_triples() const { return length_; }

  private:
    std::vector<std::uint32_t> codes_ = {0};
    std::size_t length_ = 0;
};

// ---- one question --------------------------------------------------------------------------

constexpr std::size_t kSlots = std::size_t{65536} >> kernels::kFilterShift;

// Which numbers are the question's, and how its different ones are counted from 0.
class Question {
  public:
    void read(const Codes& codes) {
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
        while (place < different_.size() && different_[place] < number) ++place;
        return place < different_.size() && different_[place] == number ? place : different_.size();
    }
    [[nodiscard]] std::size_t n_asked() const { return n_asked_; }
    [[nodiscard]] std::size_t n_different() const { return different_.size(); }

  private:
    static std::size_t slot_of(std::uint32_t number) { return number >> kernels::kFilterShift; }

    std::vector<std::uint8_t> filter_ = std::vector<std::uint8_t>(kSlots);
    std::vector<std::uint32_t> first_ = std::vector<std::uint32_t>(kSlots);
    std::vector<std::uint32_t> different_;  // ascending
    std::size_t n_asked_ = 0;
};

// Where a passage has the question's triples, and how many stand near each other.
class Hits {
  public:
    double share(const kernels::EchoKernels& level, const Codes& codes, const Question& question,
                 double limit) {
        const std::size_t n_triples = codes.n_triples();
        if (places_.size() < n_triples + 1) {
            places_.resize(n_triples + 1);
            which_.resize(n_triples + 1);
        }
        const std::size_t n_sifted =
            level.sift(codes.data(), n_triples, question.filter(), places_.data());
        n_hits_ = 0;
        // Without a branch: which triples come again is not to be guessed. The last place is that
        // of what is not the question's.
        inside_.assign(question.n_different() + 1, 0U);
        inside_.back() = 1;
        std::size_t all = 0;
        for (std::size_t i = 0; i < n_sifted; ++i) {
            const std::size_t which = question.which(codes.number(places_[i]));
            places_[n_hits_] = places_[i];
            which_[n_hits_] = static_cast<std::uint32_t>(which);
            n_hits_ += which < question.n_different() ? 1U : 0U;
            all += 1U - inside_[which];
            inside_[which] = 1;
        }
        const auto share_of = [&](std::size_t most, std::size_t doublings) {
            return static_cast<double>(most) / static_cast<double>(question.n_different()) -
                   static_cast<double>(doublings) / kDiscount;
        };
        double best = 0;
        std::size_t width = kNarrowest * question.n_asked();
        for (std::size_t doublings = 0;; ++doublings, width *= 2) {
            // No wider window holds more than all. A limit that is NaN stops nothing.
            if (best > limit || share_of(all, doublings) <= std::max(best, limit)) return best;
            const bool whole = width >= n_triples;
            best = std::max(best, share_of(whole ? all : most_within(width), doublings));
            if (whole) return best;
        }
    }

  private:
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
    std::size_t n_hits_ = 0;
};

struct Scratch {
    Codes codes;
    Question question;
    Hits hits;
};

void check_letters(const TextView& text) {
    if (text.n_units < kMostLetters) return;
    refuse("texts", "fewer than 2147483648 letters each", std::to_string(text.n_units));
}

double letters_of(const EchoInput& given, std::size_t query) {
    double n_letters = 0;
    for (std::int64_t row = given.offsets[query]; row < given.offsets[query + 1]; ++row) {
        const TextView& passage = given.passages[static_cast<std::size_t>(row)];
        check_letters(passage);
        n_letters += static_cast<double>(passage.n_units);
    }
    return n_letters;
}

}  // namespace

void echo_shares(const EchoInput& given, std::span<double> shares, int n_threads) {
    const auto n_queries = std::ssize(given.questions);
    check_offsets(given.offsets, n_queries, std::ssize(given.passages));
    if (shares.size() != given.passages.size()) {
        refuse("shares", std::to_string(given.passages.size()) + " values, as many as passages",
               std::to_string(shares.size()));
    }
    if (!given.limits.empty() && given.limits.size() != given.questions.size()) {
        refuse("limits", std::to_string(n_queries) + " values, as many as questions",
               std::to_string(given.limits.size()));
    }
    double n_letters = 0;
    for (const std::int64_t query : given.queries) {
        if (query < 0 || query >= n_queries) {
            refuse("queries", "0 to " + std::to_string(n_queries - 1), std::to_string(query));
        }
        check_letters(given.questions[static_cast<std::size_t>(query)]);
        n_letters += letters_of(given, static_cast<std::size_t>(query));
    }
    const int threads =
        n_threads > 0 ? n_threads : threads_worth_waking(kOperationsPerLetter * n_letters);
    const kernels::EchoKernels& level = chosen_kernels();
    std::vector<Scratch> scratch(static_cast<std::size_t>(threads));
    const auto run = [&](std::int64_t task, int thread) {
        Scratch& own = scratch[static_cast<std::size_t>(thread)];
        const auto query = static_cast<std::size_t>(given.queries[static_cast<std::size_t>(task)]);
        const double limit =
            given.limits.empty() ? std::numeric_limits<double>::quiet_NaN() : given.limits[query];
        own.codes.read(level, given.questions[query]);
        own.question.read(own.codes);
        for (std::int64_t row = given.offsets[query]; row < given.offsets[query + 1]; ++row) {
            const auto passage = static_cast<std::size_t>(row);
            shares[passage] = 0;
            if (own.question.n_different() == 0) continue;
            own.codes.read(level, given.passages[passage]);
            shares[passage] = own.hits.share(level, own.codes, own.question, limit);
        }
    };
    parallel_for(std::ssize(given.queries), run, threads);
}

}  // namespace epibias
