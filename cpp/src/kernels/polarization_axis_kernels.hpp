// What: the inner loops of the polarization axis, one table per SIMD level.
//
// `rows` are float32 anchors [n_rows, dim] at any address that is aligned for float. Centred row i
// is scales[i] * rows[i] - mean. float64 rows have a stride that is a multiple of kRowBlock, with
// zeros behind the last column. Buffers belong to the caller. Every level gives the same bits
// (lanes.hpp).
#pragma once

#include <cstdint>

namespace epibias::kernels {

inline constexpr std::int64_t kRowBlock = 8;
inline constexpr std::int64_t kVectorBlock = 4;   // vectors that go through the rows together
inline constexpr std::int64_t kPanelTerms = 128;  // terms of a panel: 8 KiB for eight sums
inline constexpr std::int64_t kSmallGramRows = 16;

// A panel holds values for products[p][q] = sum over its terms of value(term, p) * value(term, q):
// blocks of eight consecutive p, each [kPanelTerms, 8].
[[nodiscard]] constexpr std::int64_t panel_values(std::int64_t n_padded) {
    return n_padded * kPanelTerms;
}

// Scratch of small_gram: centred columns and eight partial sums a product.
[[nodiscard]] constexpr std::int64_t small_gram_values(std::int64_t n_rows) {
    return n_rows * kPanelTerms + n_rows * (n_rows + 1) / 2 * kRowBlock;
}

struct PolarizationAxisKernels {
    // canonical_dot(row, row) to the bit, with half the conversions: they are what costs.
    double (*squared_norm)(const float* row, std::int64_t dim);

    // sum += scales[i] * rows[i], in ascending i. sum [stride].
    void (*add_rows)(const float* rows, const double* scales, std::int64_t n_rows, std::int64_t dim,
                     double* sum, std::int64_t stride);

    // centred [n_rows, stride] from a mean [stride].
    void (*centre)(const float* rows, const double* scales, std::int64_t n_rows, std::int64_t dim,
                   const double* mean, double* centred, std::int64_t stride);

    // mean [stride], and the lower triangle of products[i * n_rows + j] = centred[i] . centred[j],
    // n_rows <= kSmallGramRows.
    void (*small_gram)(const float* rows, const double* scales, std::int64_t n_rows,
                       std::int64_t dim, double* mean, double* scratch, double* products);

    // A panel of n_terms <= kPanelTerms centred columns from `first` on, terms; p counts rows.
    void (*panel_of_columns)(const float* rows, const double* scales, std::int64_t n_rows,
                             std::int64_t dim, std::int64_t first, std::int64_t n_terms,
                             const double* mean, double* panel);

    // A panel of n_rows <= kPanelTerms centred rows, terms; p counts columns.
    void (*panel_of_rows)(const float* rows, const double* scales, std::int64_t n_rows,
                          std::int64_t dim, const double* mean, double* panel);

    // products[p * stride + q] += panel's sums, for p in [first, end) (multiples of kRowBlock) and
    // q < p rounded up to a multiple of kRowBlock.
    void (*add_products)(const double* panel, std::int64_t n_terms, std::int64_t first,
                         std::int64_t end, double* products, std::int64_t stride);

    // combination = sum over i of weights[i] * centred row i. combination [stride].
    void (*combine)(const float* rows, const double* scales, const double* mean,
                    const double* weights, std::int64_t n_rows, std::int64_t dim,
                    double* combination, std::int64_t stride);

    // results[i] = centred row i . axis.
    void (*project)(const float* rows, const double* scales, const double* mean,
                    std::int64_t n_rows, std::int64_t dim, const double* axis, double* results);

    double (*dot)(const double* left, const double* right, std::int64_t stride);

    // results[i * kVectorBlock + v] = rows[i] . vectors[v]; float64 rows [n_rows, stride], vectors
    // [kVectorBlock, stride].
    void (*dots_with_vectors)(const double* rows, std::int64_t n_rows, std::int64_t stride,
                              const double* vectors, double* results);

    // vectors[v] += weights[i * kVectorBlock + v] * rows[i], in ascending i.
    void (*add_to_vectors)(const double* rows, std::int64_t n_rows, std::int64_t stride,
                           const double* weights, double* vectors);

    // result = float32 of values / divisor, both [dim]. values has a stride of whole blocks.
    void (*narrow)(const double* values, double divisor, std::int64_t dim, float* result);
};

namespace scalar {
extern const PolarizationAxisKernels kPolarizationAxis;
}
namespace avx2 {
extern const PolarizationAxisKernels kPolarizationAxis;
}
namespace avx512 {
extern const PolarizationAxisKernels kPolarizationAxis;
}

}  // namespace epibias::kernels
