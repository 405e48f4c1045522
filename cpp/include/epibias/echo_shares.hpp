// What: how much of its question each passage says in one place; in one call for a batch.
//
// Formula: a text is its letter triples. Letters are a-z (A-Z as these) and 0-9, codes 1 to 36, and
//   any point p above 127, code 37 + p mod 223; runs of all else are one space, code 0, as is each
//   end of the text. The number of a triple of codes a, b, c is the upper 16 bits of
//   ((260 a + b) 260 + c) 2654435769 mod 2^32; a text has as many triples as letters and inner
//   spaces. Windows of w = 2 q 2^d triples, q being those of the question and d = 0, 1, …, go over
//   the passage, up to the first that holds it whole:
//   share = max over windows of (different numbers of the question inside) / (different numbers of
//   the question) - d / 12, and at least 0.
// Shapes: ragged. Query i owns offsets[i] to offsets[i + 1] of passages and shares.
// Code points in -> integers -> float64, rounded as written.
// Determinism: the same for every SIMD level, thread count and batch.
// Complexity: letters + hits * widths a passage. Memory per thread: 40 KB, and 12 bytes a letter of
//   the longest text. Nothing of a text is kept.
// Reference: docs/tilt_bound.md; tests/reference_tilt.py.
#pragma once

#include <cstdint>
#include <span>

namespace epibias {

// Code points of a text, lower case but for ASCII capitals, without what nobody sees (a soft hyphen
// between letters is a letter here); of punctuation and symbols, that of Latin-1 and General
// Punctuation counts as a space, the rest comes as one. One, two or four bytes each.
struct TextView {
    const void* units = nullptr;
    std::int64_t n_units = 0;
    int unit_bytes = 1;
};

struct EchoInput {
    std::span<const TextView> questions;    // [n_queries]
    std::span<const TextView> passages;     // [n_passages]
    std::span<const std::int64_t> offsets;  // [n_queries + 1]
    std::span<const std::int64_t> queries;  // those to look at, each once; empty: none
    // [n_queries]; empty, or NaN: every share is exact. Else only whether a share is above its
    // question's limit is: what is, or cannot be, is not measured further.
    std::span<const double> limits;
};

// Fills `shares`, [n_passages], where the passages are those of `queries`; leaves the others.
// Throws std::invalid_argument for shapes that do not fit, queries out of range and texts of 2^31
// letters.
void echo_shares(const EchoInput& given, std::span<double> shares, int n_threads = 0);

}  // namespace epibias
