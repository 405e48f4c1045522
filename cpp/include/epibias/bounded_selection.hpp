// What: exchanges of TiltBound: from each query's first k candidates to those whose mean score lies
// near a centre, nearest in similarity second; in one call for a batch.
//
// Formula: drift(S) = mean over S of (score - centre). S starts as the first k allowed candidates.
//   While |drift| > width, one of S is exchanged for an allowed one outside of it: of the exchanges
//   that end with |drift| <= width the one of least loss of similarity; where none does, of those
//   that end nearer the centre the one of least loss / (|drift before| - |drift after|). Then,
//   where the width is reached, exchanges within it that gain more than kSelectionRounding
//   similarity are made, best first. A query that starts within its width is left alone. The width
//   is read as width * (1 + kSelectionRounding); an infinite one asks for nothing.
//   With an EchoTest what says its question again is not allowed either. A text is read where its
//   candidate is about to be selected, so that a selection is the one that reading all of them
//   gives: of the exchanges between those that are no echo, or not read, the best one is the best
//   of those without echoes unless it lets one in; then that one is struck off, and the best is
//   sought again.
// Shapes: ragged. Query i owns offsets[i] to offsets[i + 1] of similarities, scores, allowed,
// chosen. float32 in -> float64 -> marks, and the drifts as float64. The mean of the start is
// summed as
//   numpy sums a row (eight lanes, halves above 128), those left out being zeros; an exchange adds
//   (score in - score out) / |S|.
// Ties: the candidate of S that stands lower leaves, the other that stands higher enters.
// Determinism: the same for every thread count and batch.
// Complexity: exchanges (few more than k, and one for each echo struck off, at most 8) * k n a
// query. Memory per task: 8 k bytes, and a reader of texts (epibias/echo_shares.hpp). Reference:
// docs/tilt_bound.md; tests/reference_tilt.py.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "epibias/echo_shares.hpp"

namespace epibias {

// Of a width, and of a similarity: differences below decide nothing.
inline constexpr double kSelectionRounding = 1e-12;

// What is known of a candidate's text.
inline constexpr std::uint8_t kNotJudged = 0, kNoEcho = 1, kEcho = 2;

// Which candidates say their question again: those whose share is above the limit. That is
// limits_of_two where two of the query's first k exceed it, else limits; of a query with
// `by_others` both are at least the largest share of its first k candidates that are allowed and
// not tested.
struct EchoTest {
    // Views that live as long as the call; asked by any of its threads.
    std::function<TextView(std::int64_t query)> question;
    std::function<TextView(std::int64_t row)> passage;
    std::span<const double> limits;         // [n_queries], NaN: nothing of this query is read
    std::span<const double> limits_of_two;  // [n_queries], NaN: there is none
    bool every_candidate = false;           // judged, whether a selection hangs on it or not
    // [n_candidates], 0: no echo whatever it says, and not read; empty: all may be one.
    std::span<const std::uint8_t> tested;
    std::span<const std::uint8_t> by_others;  // [n_queries]; empty: none
};

struct BoundedSelectionInput {
    std::span<const float> similarities;    // [n_candidates]
    std::span<const float> scores;          // [n_candidates]
    std::span<const std::int64_t> offsets;  // [n_queries + 1]
    std::span<const double> centres;        // [n_queries], finite
    std::span<const double> widths;         // [n_queries], at least 0, may be infinite
    std::span<const std::uint8_t>
        allowed;  // [n_candidates], 0: may not be selected; empty: all may
    const EchoTest* echo = nullptr;
};

struct BoundedSelectionResult {
    std::span<std::uint8_t> chosen;   // [n_candidates], 1: selected
    std::span<double> before, after;  // [n_queries], drift; 0 where nothing is allowed
    std::span<std::uint8_t> judged;   // [n_candidates] with an EchoTest, else empty
};

struct BoundedSelectionOptions {
    std::int64_t k = 5;
    int n_threads = 0;  // 0 chooses
};

// Throws std::invalid_argument for k below 1, shapes that do not fit, similarities, scores or
// centres that are not finite (query and column named), widths that are NaN or negative.
void bounded_selection(const BoundedSelectionInput& given, const BoundedSelectionResult& result,
                       const BoundedSelectionOptions& options = {});

}  // namespace epibias
