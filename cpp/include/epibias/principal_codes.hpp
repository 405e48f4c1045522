// What: codes of passages along the principal axes of their corpus, for quantized_scan: few numbers
// tell most of a row where the corpus has few directions of weight, as embedded text has.
//
// Formula: A [n_axes, dim] has orthonormal rows, P = A'A. For unit rows q and x, and y = A x, z = A
// q
//   kept as codes y', z':
//     <q, x> = <z, y> + <q - P q, x - P x>,  so by Cauchy and Schwarz
//     |<q, x> - <z', y'>| <= |z - z'| (1 + |y - y'|) + |z| |y - y'| + |q - P q| |x - P x| + e.
//   The bound holds for any orthonormal rows; it is narrow where they are the leading eigenvectors
//   of sum x x' (or of a sample's), because then |x - P x| is small.
//   Residual |y - y'| and remainder |x - P x| are measured and rounded up; e covers float32 and how
//   far A A' is from 1, which is at most kLargestAxesError (Frobenius).
// Two stages: the codes of the first n_leading axes are scanned. Of each row that remains possible
//   the codes of the other axes are read, and the sum of both leaves hardly more rows than codes of
//   all columns do. Measured on rows as of text, 768 columns, 160 and 336 axes, k = 20, 200,000
//   rows: 3,100 rows a query are read again, 170 are scored; 4 bits of all columns: 990 scored.
// Shapes: passages [n_passages, dim]; axes [n_axes, dim], 1 <= n_leading <= n_axes <= dim.
// Layout: `leading`: the tiles of quantized_scan.hpp with 8 bits and n_leading columns, and behind
//   the residuals of a group [16] remainders (float32). `rest`: a record a row, whole cache lines:
//   codes + 128 of the other axes, filled up with 128; in its last 16 bytes scale, residual (of all
//   axes), remainder (beyond all axes), 0 (float32). The codes of passages 64 a ... 64 b are a
//   part.
// float32 in -> float32 products with bounded error -> codes of 8 bits.
// Complexity: n_passages * n_axes * dim multiply-adds, on all threads. Memory: n_leading + 12 bytes
//   a passage and a record; per thread 64 (dim + n_axes) numbers.
// Determinism: the codes depend on the SIMD level by a rounding, the answers of a scan do not.
// Reference: Jolliffe, Principal Component Analysis, 2nd ed., section 3.2, doi:10.1007/b98835.
#pragma once

#include <cstdint>
#include <span>

#include "epibias/matrix_view.hpp"

namespace epibias {

inline constexpr double kLargestAxesError = 0x1p-16;

struct PrincipalAxes {
    MatrixView<const float> rows;  // [n_axes, dim], orthonormal
    std::int64_t n_leading = 0;
};

struct PrincipalSizes {
    std::int64_t leading = 0;  // bytes
    std::int64_t rest = 0;
};

// Throws std::invalid_argument unless 1 <= n_leading <= n_axes <= kLargestQuantizedDim.
[[nodiscard]] PrincipalSizes principal_sizes(std::int64_t n_passages, std::int64_t n_axes,
                                             std::int64_t n_leading);

// Fills `leading` and `rest`, of principal_sizes bytes. `inverse_norms` is what inverse_norms()
// gave for the passages. Throws std::invalid_argument where the axes are not orthonormal.
void quantize_principal(MatrixView<const float> passages, std::span<const double> inverse_norms,
                        const PrincipalAxes& axes, std::span<std::uint8_t> leading,
                        std::span<std::uint8_t> rest);

struct PrincipalCodes {
    PrincipalAxes axes;
    std::span<const std::uint8_t> leading;
    std::span<const std::uint8_t> rest;
};

}  // namespace epibias
