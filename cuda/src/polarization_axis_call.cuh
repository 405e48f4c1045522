// What: one call of polarization_axis as its kernels see it, and how they report a topic at fault.
#pragma once

#include <cstdint>

#include "epibias/cuda/fault.hpp"
#include "epibias/cuda/polarization_axis.hpp"
#include "fault.cuh"
#include "reductions.cuh"

namespace epibias::cuda {

// Below this mean PS the anchors say nothing about the sign.
inline constexpr double kMeanTolerance = 1e-6;
// Components this near to the largest count as equal to it, so that rounding does not choose.
inline constexpr double kLargestTolerance = 1e-6;
// Anchors whose squared spread is below this share of their squared norms are equal.
inline constexpr double kEqualAnchors = 1e-14;

struct AxisCall {
    const float* anchors;   // [n_topics, n_anchors, dim]
    const double* stances;  // [n_topics, n_anchors] or null
    std::int64_t n_topics, n_anchors, dim;
    float* axes;        // [n_topics, dim]
    double* explained;  // [n_topics]
    double* gap;        // [n_topics]
    Fault* fault;
    bool normalize;

    __device__ const float* rows(std::int64_t topic) const {
        return anchors + topic * n_anchors * dim;
    }
};

// Places within a topic, in the order in which the CPU looks: stances, their signs, anchors, all of
// them together.
__device__ inline void report(const AxisCall& call, std::int64_t topic, AxisFault what,
                              std::int64_t place) {
    const std::int64_t row = topic * axis_fault_places(call.n_anchors) + place;
    report_fault(call.fault, kAxisFaultArgument, row, static_cast<int>(what));
}

__device__ inline AxisFault stance_fault(double stance) {
    if (stance > 0) return AxisFault::kStanceInfinite;
    return stance < 0 ? AxisFault::kStanceMinusInfinite : AxisFault::kStanceNan;
}

__device__ inline AxisFault sign_fault(bool supporting, bool opposing) {
    if (supporting) return AxisFault::kNoneNegative;
    return opposing ? AxisFault::kNonePositive : AxisFault::kZerosOnly;
}

// 1 / norm, or 1; NaN for a row that has no direction, after reporting it. One thread reports.
__device__ inline double anchor_scale(const AxisCall& call, std::int64_t topic, std::int64_t anchor,
                                      double squared, bool reports) {
    const bool finite = is_finite(squared);
    if (finite && !(call.normalize && squared == 0)) {
        return call.normalize ? 1 / sqrt(squared) : 1;
    }
    const AxisFault what = finite ? AxisFault::kAnchorZero : AxisFault::kAnchorNotFinite;
    if (reports) report(call, topic, what, call.n_anchors + 1 + anchor);
    return not_a_number();
}

// The numbers of a topic without an axis. All threads of its group call.
__device__ inline void poison(const AxisCall& call, std::int64_t topic, int thread, int n_threads) {
    const auto nan = static_cast<float>(not_a_number());
    for (std::int64_t i = thread; i < call.dim; i += n_threads) {
        call.axes[topic * call.dim + i] = nan;
    }
    if (thread != 0) return;
    call.explained[topic] = not_a_number();
    call.gap[topic] = not_a_number();
}

__device__ inline void write_spectrum(const AxisCall& call, std::int64_t topic, double first,
                                      double second, double trace) {
    call.explained[topic] = first / trace;
    // The second eigenvalue is not negative; rounding may make it so.
    call.gap[topic] = (first - (second > 0 ? second : 0)) / first;
}

}  // namespace epibias::cuda
