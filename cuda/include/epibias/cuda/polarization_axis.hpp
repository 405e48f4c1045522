// What: polarization_axis on the device: the leading principal axis of each topic's anchors.
//
// Formula, shapes, orientation, units: epibias/polarization_axis.hpp; the same arguments, plus a
//   workspace, a fault record and a stream. All pointers are device memory.
// float32 in -> centred before any product and summed in float64, eigenpair in float64 -> axis
//   float32, ratios float64.
// Method: n_anchors <= kFewAnchors: one warp a topic makes the Gram matrix [n_anchors, n_anchors]
//   from panels of 32 centred columns and turns it by Jacobi's method, disjoint pairs at a time.
//   More anchors: products [m, m] of the fewer m of anchors and dimensions by tiles of 64 x 64,
//   then one block a topic: Householder's tridiagonal form, the two eigenvalues by multisection of
//   Sturm counts, inverse iteration with a residual check, back-transformation. Nothing is left to
//   chance; the CPU's block Lanczos is not needed.
// Error: angle <= about 2e-16 n_anchors / relative_gap + 6e-8 rad, the last from rounding to
//   float32; explained_variance_ratio and relative_gap to about n_anchors eps.
// Faults (the CPU's refusals; lowest topic first, in it stances before anchors, rows ascending,
//   anchors that are equal): outputs of the topic are NaN, `fault` keeps the lowest. Its row is
//   topic * axis_fault_places(n_anchors) + place, its column an AxisFault; place i < n_anchors is
//   stance i, n_anchors all stances, n_anchors + 1 + i anchor i, the last all anchors.
// Determinism: the same bits from run to run, for every batch, order of blocks and device. Not the
//   CPU's bits: sums have another order. No floating-point atomics.
// Complexity a topic: few anchors n_anchors dim 32 and 12 sweeps of n_anchors^3 at most; else
//   n_anchors dim m / 2 + 4/3 m^3, the cube on one multiprocessor.
// Memory: workspace of polarization_axis_workspace_bytes(): none for few anchors; else m^2 + 16 m +
//   2 n_anchors + 2 dim float64 a topic, for as many topics at once as fit kMostWorkspaceBytes (one
//   at least). Never n_anchors^2 beyond m^2. No allocation, no synchronisation.
// Times on a device: pending; only the emulation has run it.
// References: arXiv 2512.00804, section IV; Golub, Van Loan, 4th ed., sections 8.3 to 8.5.
#pragma once

#include <cstddef>
#include <cstdint>

#include "epibias/cuda/fault.hpp"
#include "epibias/cuda/stream.hpp"
#include "epibias/matrix_view.hpp"
#include "epibias/polarization_axis.hpp"

namespace epibias::cuda {

inline constexpr std::int64_t kFewAnchors = 32;
inline constexpr std::size_t kMostWorkspaceBytes = std::size_t{256} << 20;

enum class AxisFault : std::uint8_t {
    kStanceNan,
    kStanceInfinite,
    kStanceMinusInfinite,
    kNoneNegative,
    kNonePositive,
    kZerosOnly,
    kAnchorNotFinite,
    kAnchorZero,
    kEqualAnchors,
    kNoEigenvector,  // no vector passed the residual check; not known to happen
};
inline constexpr int kAxisFaultArgument = 0;

EPIBIAS_HOST_DEVICE constexpr std::int64_t axis_fault_places(std::int64_t n_anchors) {
    return 2 * n_anchors + 2;
}

[[nodiscard]] std::size_t polarization_axis_workspace_bytes(std::int64_t n_topics,
                                                            std::int64_t n_anchors,
                                                            std::int64_t dim);

// anchors [n_topics * n_anchors, dim]; stances [n_topics, n_anchors] or null. result's pointers are
// device memory. `workspace` is aligned to 8 bytes. Throws std::invalid_argument for fewer than 2
// anchors, no dimension, stances of another shape, a workspace too small for one topic; a small one
// means that fewer topics are fitted at once.
void polarization_axis(MatrixView<const float> anchors, std::int64_t n_anchors,
                       MatrixView<const double> stances, const PolarizationAxisResult& result,
                       bool normalize, void* workspace, std::size_t workspace_bytes, Fault* fault,
                       Stream stream);

}  // namespace epibias::cuda
