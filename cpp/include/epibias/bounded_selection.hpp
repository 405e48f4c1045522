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
// Shapes: ragged. Query i owns offsets[i] to offsets[i + 1] of similarities, scores, allowed,
// chosen. float32 in -> float64 -> marks, and the drifts as float64. The mean of the start is
// summed as
//   numpy sums a row (eight lanes, halves above 128), those left out being zeros; an exchange adds
//   (score in - score out) / |S|.
// Ties: the candidate of S that stands lower leaves, the other that stands higher enters.
// Determinism: the same for every thread count and batch.
// Complexity: exchanges (few more than k) * k n a query. Memory per task: 8 k bytes.
// Reference: docs/tilt_bound.md; tests/reference_tilt.py.
#pragma once

#include <cstdint>
#include <span>

namespace epibias {

// Of a width, and of a similarity: differences below decide nothing.
inline constexpr double kSelectionRounding = 1e-12;

struct BoundedSelectionInput {
    std::span<const float> similarities;    // [n_candidates]
    std::span<const float> scores;          // [n_candidates]
    std::span<const std::int64_t> offsets;  // [n_queries + 1]
    std::span<const double> centres;        // [n_queries], finite
    std::span<const double> widths;         // [n_queries], at least 0, may be infinite
    std::span<const std::uint8_t>
        allowed;  // [n_candidates], 0: may not be selected; empty: all may
};

struct BoundedSelectionResult {
    std::span<std::uint8_t> chosen;   // [n_candidates], 1: selected
    std::span<double> before, after;  // [n_queries], drift; 0 where nothing is allowed
};

struct BoundedSelectionOptions {
    std::int64_t k = 5;
    int n_threads = 0;  // 0 chooses
};

// Throws std::invalid_argument for k below 1, shapes that do not fit, similarities, scores or
// centres that are not finite (query and column named), widths that are NaN or negative.
void bounded_selection(const BoundedSelectionInput& given, const BoundedSelectionResult& result,
                       const BoundedSelectionOptions& options = {});

// Mean of each query's first k values (of all where it has fewer, NaN where it has none), summed as
// above. Throws std::invalid_argument for k below 1 and shapes that do not fit.
void leading_means(std::span<const float> values, std::span<const std::int64_t> offsets,
                   std::int64_t k, std::span<double> means);

}  // namespace epibias
