// What: the leading eigenpair and second eigenvalue of a large symmetric matrix that is only ever
// multiplied by four vectors at a time, or the news that they were not found.
//
// Method: block Lanczos with full reorthogonalisation, four vectors: a leading eigenvalue of up to
// fourfold multiplicity is seen as often as it occurs, so that a tie shows up as a gap of 0, which
// a single vector would miss. Rayleigh-Ritz on the whole basis; two Ritz pairs are watched.
// Stops when, with theta the Ritz values and r_i the residual norms,
//   r_1 <= max(1e-8 (theta_1 - theta_2), 1e-14 theta_1): the angle of the axis, r_1 / gap, and
//   r_2^2 <= 1e-11 theta_1 max(theta_2 - theta_3, r_2): the error of the second eigenvalue;
// then multiplies once more and holds the true residuals against the same bounds plus 1e-13 theta_1
// for rounding. Fails when they are larger, when the basis has `most_vectors` before that, or, if
// it may give up early, when the residuals fall too slowly for that.
// What this proves: there are eigenvalues that near to the two, with such vectors. That they are
// the largest holds with probability 1 over a random start: only a start block orthogonal to a
// larger one's vector, to about the accuracy asked for, hides it. No residual can show that, and
// the trace does only where theta_3 and all that is outside the basis together are below theta_1,
// which few spectra allow. So the start block, pseudo-random from `seed`, must not be known to
// whoever made the matrix: callers take the seed from the data. float64; the same bits for every
// SIMD level. Complexity: b multiplications and O(b^2 n) with b blocks; memory (4 b + 12) n + 3 (4
// b)^2 float64. References: Golub, Underwood 1977; Saad, Numerical Methods for Large Eigenvalue
// Problems, 2011; Kuczynski, Wozniakowski 1992, doi 10.1137/0613066, for random starts.
#pragma once

#include <cstdint>
#include <functional>

#include "epibias/symmetric_eigen.hpp"
#include "kernels/polarization_axis_kernels.hpp"

namespace epibias {

// results = A vectors, both [kVectorBlock, stride]; zeros behind the last column stay zeros.
using BlockMultiply = std::function<void(const double* vectors, double* results)>;

// The matrix is positive semidefinite, [n, n] with stride the padded n. vector [stride], unit.
// False: nothing was found, `vector` is scratch.
[[nodiscard]] bool leading_eigenpair_lanczos(const kernels::PolarizationAxisKernels& table,
                                             const BlockMultiply& multiply, std::int64_t n,
                                             std::int64_t stride, std::int64_t most_vectors,
                                             bool give_up_early, std::uint64_t seed, double* vector,
                                             LeadingEigenvalues& eigenvalues);

}  // namespace epibias
