// What: the anchors of one topic as centred rows c_i = scale_i a_i - mean, which nobody stores:
// their products, and their covariance times a few vectors.
//
// Sums over rows are made in tasks of a size that depends on the number of rows alone, and the
// tasks' sums are added in ascending order: bits do not depend on threads. The operations run their
// tasks in parallel, unless a task of a batch of topics calls them.
// Memory besides the buffers handed in: 16 centred rows a thread. partial_sums grows to the number
// of tasks (at most 64) times 4 dim, panels to 128 padded(size), four times that with threads.
#pragma once

#include <cstdint>
#include <vector>

#include "aligned_buffer.hpp"
#include "kernels/polarization_axis_kernels.hpp"

namespace epibias {

[[nodiscard]] constexpr std::int64_t padded(std::int64_t n_columns) {
    return (n_columns + kernels::kRowBlock - 1) / kernels::kRowBlock * kernels::kRowBlock;
}

struct AnchorRows {
    const kernels::PolarizationAxisKernels* table = nullptr;
    const float* rows = nullptr;  // [n_anchors, dim]
    std::int64_t topic = 0;       // its number in messages
    std::int64_t n_anchors = 0;
    std::int64_t dim = 0;
    std::int64_t stride = 0;         // padded(dim)
    const double* scales = nullptr;  // [n_anchors]
    double* mean = nullptr;          // [stride], zeros behind dim
    double sum_of_squares = 0;       // of the scaled rows, before centring
};

// Fills scales (1 / norm, or 1) and sum_of_squares. Throws std::invalid_argument for a row that is
// not finite, or zero where it is to be normalised; the lowest one is named.
void scale_anchors(AnchorRows& anchors, bool normalize, double* scales, int n_threads);

// Fills the mean.
void centre_anchors(AnchorRows& anchors, AlignedBuffer& partial_sums, int n_threads);

// Lower triangle of the Gram matrix [n_anchors, n_anchors] of the centred rows (by_gram), or of
// sum c_i c_i^T [dim, dim]; rows adjacent, in a buffer of padded(size) * padded(size). The mean is
// filled before.
double* anchor_products(const AnchorRows& anchors, bool by_gram, AlignedBuffer& products,
                        AlignedBuffer& panels, int n_threads);

// A number that changes with every bit of the anchors, for starts that nobody can have prepared the
// anchors for by accident or without knowing this function. No cryptographic hash. The same for
// every SIMD level, thread count and byte order.
std::uint64_t fingerprint(const AnchorRows& anchors, int n_threads);

// sum |c_i|^2.
double total_variance(const AnchorRows& anchors, AlignedBuffer& partial_sums, int n_threads);

// results[v] = sum c_i (c_i . vectors[v]), both [kVectorBlock, stride].
void covariance_times(const AnchorRows& anchors, const double* vectors, double* results,
                      AlignedBuffer& partial_sums, int n_threads);

}  // namespace epibias
