#include "epibias/echo_shares.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "epibias/parallel.hpp"
#include "ragged.hpp"
#include "refuse.hpp"

namespace epibias {

namespace {

constexpr std::uint32_t kMixer = 2'654'435'769U;  // 2^32 over the golden ratio
constexpr std::uint32_t kClasses = 223, kFirstClass = 37;
constexpr double kDiscount = 12;  // each doubling costs a twelfth of the question
constexpr std::size_t kNarrowest = 2;
// A letter against a multiply-add of `threads_worth_waking`.
constexpr double kOperationsPerLetter = 48;

// ---- texts to triples ----------------------------------------------------------------------

constexpr std::uint32_t code_of(std::uint32_t point) {
    if (point >= 'a' && point <= 'z') return point - 'a' + 1;
    if (point >= 'A' && point <= 'Z') return point - 'A' + 1;
    if (point >= '0' && point <= '9') return point - '0' + 27;
    return point > 127 ? kFirstClass + point % kClasses : 0;
}

// Codes are kept times the mixer, mod 2^32, for the number of a triple is linear in them; the mixer
// is odd, so that only a space is 0.
constexpr std::array<std::uint32_t, 256> kMixedCodes = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t point = 0; point < 256; ++point) table[point] = code_of(point) * kMixer;
    return table;
}();

template <typename Unit>
std::uint32_t mixed_code(Unit unit) {
    if constexpr (sizeof(Unit) == 1) return kMixedCodes[unit];
    const auto point = static_cast<std::uint32_t>(unit);
    return point < 256 ? kMixedCodes[point] : code_of(point) * kMixer;
}

// Writes the codes with runs of spaces as one and none at the ends; returns how many. No branch a
// letter: where spaces stand is not to be guessed.
template <typename Unit>
std::size_t collapse(const Unit* units, std::size_t n, std::uint32_t* codes) {
    std::size_t length = 0;
    std::uint32_t previous = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t code = mixed_code(units[i]);
        codes[length] = code;
        length += (code | previous) != 0 ? 1U : 0U;
        previous = code;
    }
    return length > 0 && previous == 0 ? length - 1 : length;
}

constexpr std::uint32_t times_base(std::uint32_t code) {
    return (code << 8U) + (code << 2U);  // 260: vectors of the baseline have no 32-bit product
}

// The numbers of a text's triples, in order, in `numbers`. One a task: buffers grow to the longest.
class Triples {
  public:
    void read(const TextView& text) {
        const auto n = static_cast<std::size_t>(text.n_units);
        if (codes_.size() < n + 2) codes_.resize(n + 2);
        codes_[0] = 0;
        std::uint32_t* inner = codes_.data() + 1;
        length_ = text.unit_bytes == 1
                      ? collapse(static_cast<const std::uint8_t*>(text.units), n, inner)
                  : text.unit_bytes == 2
                      ? collapse(static_cast<const std::uint16_t*>(text.units), n, inner)
                      : collapse(static_cast<const std::uint32_t*>(text.units), n, inner);
        inner[length_] = 0;
        if (numbers_.size() < length_) numbers_.resize(length_);
        const std::uint32_t* codes = codes_.data();
        std::uint16_t* numbers = numbers_.data();
        for (std::size_t i = 0; i < length_; ++i) {
            const std::uint32_t mixed =
                times_base(times_base(codes[i]) + codes[i + 1]) + codes[i + 2];
            numbers[i] = static_cast<std::uint16_t>(mixed >> 16U);
        }
    }

    [[nodiscard]] std::span<const std::uint16_t> numbers() const {
        return std::span(numbers_).first(length_);
    }

  private:
    std::vector<std::uint32_t> codes_;
    std::vector<std::uint16_t> numbers_;
    std::size_t length_ = 0;
};

// ---- one question --------------------------------------------------------------------------

// Which numbers are the question's, and how its different ones are counted from 0.
class Question {
  public:
    void read(std::span<const std::uint16_t> numbers) {
        for (const std::uint16_t number : different_) members_[number / kBits] = 0;
        different_.assign(numbers.begin(), numbers.end());
        std::ranges::sort(different_);
        different_.erase(std::unique(different_.begin(), different_.end()), different_.end());
        for (const std::uint16_t number : different_) {
            members_[number / kBits] |= std::uint64_t{1} << (number % kBits);
        }
        n_asked_ = numbers.size();
    }

    [[nodiscard]] std::uint64_t holds(std::uint16_t number) const {
        return (members_[number / kBits] >> (number % kBits)) & 1U;
    }
    [[nodiscard]] std::size_t place_of(std::uint16_t number) const {
        return static_cast<std::size_t>(std::ranges::lower_bound(different_, number) -
                                        different_.begin());
    }
    [[nodiscard]] std::size_t n_asked() const { return n_asked_; }
    [[nodiscard]] std::size_t n_different() const { return different_.size(); }

  private:
    static constexpr std::size_t kBits = 64;
    std::array<std::uint64_t, 65536 / kBits> members_{};
    std::vector<std::uint16_t> different_;
    std::size_t n_asked_ = 0;
};

// Where a passage has the question's triples, and how many stand near each other.
class Hits {
  public:
    double share(std::span<const std::uint16_t> numbers, const Question& question) {
        find(numbers, question);
        const auto share_of = [&](std::size_t most, std::size_t doublings) {
            return static_cast<double>(most) / static_cast<double>(question.n_different()) -
                   static_cast<double>(doublings) / kDiscount;
        };
        const std::size_t all = most_within(numbers.size());
        double best = 0;
        std::size_t width = kNarrowest * question.n_asked();
        for (std::size_t doublings = 0;; ++doublings, width *= 2) {
            // No wider window holds more than all.
            if (share_of(all, doublings) <= best) return best;
            const bool whole = width >= numbers.size();
            best = std::max(best, share_of(whole ? all : most_within(width), doublings));
            if (whole) return best;
        }
    }

  private:
    void find(std::span<const std::uint16_t> numbers, const Question& question) {
        if (places_.size() < numbers.size()) places_.resize(numbers.size());
        std::size_t n_hits = 0;
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            places_[n_hits] = i;
            n_hits += question.holds(numbers[i]);
        }
        n_hits_ = n_hits;
        if (which_.size() < n_hits) which_.resize(n_hits);
        for (std::size_t hit = 0; hit < n_hits; ++hit) {
            which_[hit] = question.place_of(numbers[places_[hit]]);
        }
        inside_.resize(question.n_different());
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

    std::vector<std::size_t> places_, which_;
    std::vector<std::uint32_t> inside_;
    std::size_t n_hits_ = 0;
};

struct Scratch {
    Triples triples;
    Question question;
    Hits hits;
};

double letters_of(const EchoInput& given, std::size_t query) {
    double n_letters = 0;
    for (std::int64_t row = given.offsets[query]; row < given.offsets[query + 1]; ++row) {
        n_letters += static_cast<double>(given.passages[static_cast<std::size_t>(row)].n_units);
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
    double n_letters = 0;
    for (const std::int64_t query : given.queries) {
        if (query < 0 || query >= n_queries) {
            refuse("queries", "0 to " + std::to_string(n_queries - 1), std::to_string(query));
        }
        n_letters += letters_of(given, static_cast<std::size_t>(query));
    }
    const int threads =
        n_threads > 0 ? n_threads : threads_worth_waking(kOperationsPerLetter * n_letters);
    std::vector<Scratch> scratch(static_cast<std::size_t>(threads));
    const auto run = [&](std::int64_t task, int thread) {
        Scratch& own = scratch[static_cast<std::size_t>(thread)];
        const auto query = static_cast<std::size_t>(given.queries[static_cast<std::size_t>(task)]);
        own.triples.read(given.questions[query]);
        own.question.read(own.triples.numbers());
        for (std::int64_t row = given.offsets[query]; row < given.offsets[query + 1]; ++row) {
            const auto passage = static_cast<std::size_t>(row);
            shares[passage] = 0;
            if (own.question.n_different() == 0) continue;
            own.triples.read(given.passages[passage]);
            shares[passage] = own.hits.share(own.triples.numbers(), own.question);
        }
    };
    parallel_for(std::ssize(given.queries), run, threads);
}

}  // namespace epibias
