// What: the axis of a topic of at most 32 anchors, by one warp.
//
// Who owns what: a warp owns a topic; lane c of a panel reads, scales and centres column c of all
//   anchors; then lane `row` + kMost * group sums row `row` of the Gram matrix over every
//   (32 / kMost)-th column. Jacobi's pairs, and all work of a rotation, are dealt out to the lanes.
// Shared bytes: sizeof(FewAnchors<kMost>) a warp: 3.9, 9.1 and 25.6 KiB for kMost 8, 16 and 32.
// Valid: 2 <= n_anchors <= kMost, kMost a power of two up to 32.
#pragma once

#include <cstdint>

#include "polarization_axis_call.cuh"

namespace epibias::cuda {

inline constexpr int kMostSweeps = 12;  // 5 to 8 are usual

template <int kMost>
struct FewAnchors {
    // One column a row: centred values of the anchors, then the mean. An odd stride keeps lanes on
    // different banks.
    double panel[kWarp][kMost + 1];
    double matrix[kMost][kMost + 1];
    double vectors[kMost][kMost + 1];
    double scales[kMost];
    double share;                    // 1 / n_anchors
    double rotations[kMost / 2][2];  // cosine, sine
};

// What a lane knows of the Gram matrix after the panels: row `lane % kMost` of it.
template <int kMost>
struct GramRow {
    double products[kMost];
    double with_mean;  // centred anchor . mean
};

// Centred values of one column and their mean; zeros where there is no such anchor.
template <int kMost>
__device__ inline void centre_column(const AxisCall& call, const float* rows,
                                     const FewAnchors<kMost>& own, std::int64_t column,
                                     double (&values)[kMost], double& mean) {
    const int n = static_cast<int>(call.n_anchors);
    double sum = 0;
#pragma unroll
    for (int anchor = 0; anchor < kMost; ++anchor) {
        values[anchor] = 0;
        if (anchor >= n) continue;
        values[anchor] = static_cast<double>(rows[anchor * call.dim + column]) * own.scales[anchor];
        sum += values[anchor];
    }
    mean = sum * own.share;  // a division by n would cost more than all else here
#pragma unroll
    for (int anchor = 0; anchor < kMost; ++anchor) {
        if (anchor < n) values[anchor] -= mean;
    }
}

// Element `column` of the anchors' combination with the leading eigenvector's weights.
template <int kMost>
__device__ inline double combined(const AxisCall& call, const float* rows,
                                  const FewAnchors<kMost>& own, std::int64_t column, int leading) {
    double values[kMost];
    double mean = 0;
    centre_column(call, rows, own, column, values, mean);
    double sum = 0;
#pragma unroll
    for (int anchor = 0; anchor < kMost; ++anchor) {
        if (anchor < call.n_anchors) sum += own.vectors[anchor][leading] * values[anchor];
    }
    return sum;
}

// Whether both signs are there and all stances finite; reports what is not.
__device__ inline bool stances_are_good(const AxisCall& call, std::int64_t topic, int lane) {
    if (call.stances == nullptr) return true;
    const bool has_one = lane < call.n_anchors;
    const double stance = has_one ? call.stances[topic * call.n_anchors + lane] : 0;
    const unsigned faulty = __ballot_sync(kAllLanes, !is_finite(stance));
    const bool supporting = __any_sync(kAllLanes, stance > 0) != 0;
    const bool opposing = __any_sync(kAllLanes, stance < 0) != 0;
    if (faulty != 0) {
        if (lane == __ffs(static_cast<int>(faulty)) - 1) {
            report(call, topic, stance_fault(stance), lane);
        }
        return false;
    }
    if (supporting && opposing) return true;
    if (lane == 0) report(call, topic, sign_fault(supporting, opposing), call.n_anchors);
    return false;
}

// Scales of all anchors; NaN, which the trace will show, for those that have none. Returns the sum
// of the scaled rows' squares.
template <int kMost>
__device__ inline double scale_anchors(const AxisCall& call, std::int64_t topic,
                                       FewAnchors<kMost>& own, int lane) {
    const float* rows = call.rows(topic);
    double squares[kMost] = {};
    for (std::int64_t column = lane; column < call.dim; column += kWarp) {
#pragma unroll
        for (int anchor = 0; anchor < kMost; ++anchor) {
            if (anchor >= call.n_anchors) continue;
            const auto value = static_cast<double>(rows[anchor * call.dim + column]);
            squares[anchor] += value * value;
        }
    }
    if (lane == 0) own.share = 1.0 / static_cast<double>(call.n_anchors);
    double total = 0;
#pragma unroll
    for (int anchor = 0; anchor < kMost; ++anchor) {
        if (anchor >= call.n_anchors) continue;
        const double squared = over_warp(squares[anchor], Add{});
        const double scale = anchor_scale(call, topic, anchor, squared, lane == 0);
        if (lane == 0) own.scales[anchor] = scale;
        total += call.normalize ? 1 : squared;
    }
    if (!EPIBIAS_PLANT("polarization_axis.uninitialised_scales")) __syncwarp();
    return total;
}

template <int kMost>
__device__ inline GramRow<kMost> gram_row(const AxisCall& call, std::int64_t topic,
                                          FewAnchors<kMost>& own, int lane) {
    constexpr int kGroups = kWarp / kMost;
    const float* rows = call.rows(topic);
    const int row = lane % kMost;
    GramRow<kMost> sums{};
    for (std::int64_t start = 0; start < call.dim; start += kWarp) {
        double values[kMost] = {};
        double mean = 0;
        if (start + lane < call.dim) centre_column(call, rows, own, start + lane, values, mean);
#pragma unroll
        for (int anchor = 0; anchor < kMost; ++anchor) own.panel[lane][anchor] = values[anchor];
        own.panel[lane][kMost] = mean;
        __syncwarp();
        for (int column = lane / kMost; column < kWarp; column += kGroups) {
            const double value = own.panel[column][row];
#pragma unroll
            for (int other = 0; other < kMost; ++other) {
                sums.products[other] += value * own.panel[column][other];
            }
            sums.with_mean += value * own.panel[column][kMost];
        }
        // The panel is written again.
        if (!EPIBIAS_PLANT("polarization_axis.write_after_read")) __syncwarp();
    }
#pragma unroll
    for (int offset = kMost; offset < kWarp; offset *= 2) {
#pragma unroll
        for (int other = 0; other < kMost; ++other) {
            sums.products[other] += __shfl_xor_sync(kAllLanes, sums.products[other], offset);
        }
        sums.with_mean += __shfl_xor_sync(kAllLanes, sums.with_mean, offset);
    }
    return sums;
}

struct IndexPair {
    int low, high;
};

// Match `number` of a round among `n_players` (even): the last player stays, the others move on.
__device__ inline IndexPair match(int n_players, int round, int number) {
    const int moving = n_players - 1;
    int one = number == 0 ? moving : round + number;
    int other = number == 0 ? round : round - number + moving;
    if (number != 0 && one >= moving) one -= moving;
    if (other >= moving) other -= moving;
    return one < other ? IndexPair{one, other} : IndexPair{other, one};
}

// The rotation of p and q that makes their common element zero, by the smaller angle; p and q among
// themselves are turned. False, and no rotation, where the element is nothing.
template <int kMost>
__device__ inline bool make_rotation(FewAnchors<kMost>& own, IndexPair pair, double nothing,
                                     double (&rotation)[2]) {
    rotation[0] = 1;
    rotation[1] = 0;
    double& element = own.matrix[pair.high][pair.low];
    if (!(element * element > nothing)) return false;
    double& p_value = own.matrix[pair.low][pair.low];
    double& q_value = own.matrix[pair.high][pair.high];
    const double difference = q_value - p_value;
    const double twice = element + element;
    const double root = sqrt(difference * difference + twice * twice);
    const double tangent = twice / (difference < 0 ? difference - root : difference + root);
    const double cosine = 1 / sqrt(tangent * tangent + 1);
    rotation[0] = cosine;
    rotation[1] = tangent * cosine;
    p_value -= tangent * element;
    q_value += tangent * element;
    element = 0;
    own.matrix[pair.low][pair.high] = 0;
    return true;
}

__device__ inline void turn(double& p_value, double& q_value, const double (&rotation)[2]) {
    const double p = rotation[0] * p_value - rotation[1] * q_value;
    q_value = rotation[1] * p_value + rotation[0] * q_value;
    p_value = p;
}

// Turns the matrix until it is diagonal, and the vectors with it. `nothing`: the square of what is
// a thousandth of the rounding error of the norm.
template <int kMost>
__device__ inline void jacobi(FewAnchors<kMost>& own, int n, double nothing, int lane) {
    const int n_players = n + n % 2;  // the last of an even number may not exist
    const int n_matches = n_players / 2;
    bool turned = true;
    for (int sweep = 0; turned && sweep < kMostSweeps; ++sweep) {
        turned = false;
        for (int round = 0; round + 1 < n_players; ++round) {
            if (lane < n_matches) {
                const IndexPair pair = match(n_players, round, lane);
                const bool exists = pair.high < n;
                if (exists) turned |= make_rotation(own, pair, nothing, own.rotations[lane]);
            }
            if (!EPIBIAS_PLANT("polarization_axis.missing_syncwarp")) __syncwarp();
            for (int work = lane; work < n_matches * n; work += kWarp) {
                const IndexPair pair = match(n_players, round, work / n);
                const int i = work % n;
                if (pair.high >= n || i == pair.low || i == pair.high) continue;
                turn(own.matrix[pair.low][i], own.matrix[pair.high][i], own.rotations[work / n]);
            }
            __syncwarp();
            for (int work = lane; work < n_matches * n; work += kWarp) {
                const IndexPair pair = match(n_players, round, work / n);
                const int i = work % n;
                if (pair.high >= n) continue;
                const double (&rotation)[2] = own.rotations[work / n];
                turn(own.vectors[i][pair.low], own.vectors[i][pair.high], rotation);
                if (i == pair.low || i == pair.high) continue;
                turn(own.matrix[i][pair.low], own.matrix[i][pair.high], rotation);
            }
            __syncwarp();
        }
        // One lane of the warp alone must not leave: the others would wait for it.
        if (!EPIBIAS_PLANT("polarization_axis.diverged_lanes")) {
            turned = __any_sync(kAllLanes, turned) != 0;
        }
    }
}

struct LeadingPair {
    int place;
    double first, second;
};

// Largest diagonal element, the lowest index of equal ones, and the next.
template <int kMost>
__device__ inline LeadingPair choose_leading(const FewAnchors<kMost>& own, int n) {
    LeadingPair found{0, own.matrix[0][0], 0};
    for (int i = 1; i < n; ++i) {
        if (own.matrix[i][i] > found.first) found = {i, own.matrix[i][i], 0};
    }
    for (int i = 0; i < n; ++i) {
        if (i != found.place && own.matrix[i][i] > found.second) found.second = own.matrix[i][i];
    }
    return found;
}

// Whether the component of largest magnitude (the lowest index near to it) is negative.
template <int kMost>
__device__ inline bool largest_is_negative(const AxisCall& call, std::int64_t topic,
                                           const FewAnchors<kMost>& own, int leading, int lane) {
    const float* rows = call.rows(topic);
    double largest = 0;
    for (std::int64_t column = lane; column < call.dim; column += kWarp) {
        largest = Larger{}(largest, fabs(combined(call, rows, own, column, leading)));
    }
    largest = over_warp(largest, Larger{});
    auto deciding = static_cast<double>(call.dim);
    for (std::int64_t column = lane; column < call.dim; column += kWarp) {
        const double value = fabs(combined(call, rows, own, column, leading));
        if (value < (1 - kLargestTolerance) * largest) continue;
        deciding = static_cast<double>(column);
        break;
    }
    deciding = over_warp(deciding, Smaller{});
    return combined(call, rows, own, static_cast<std::int64_t>(deciding), leading) < 0;
}

// Whether the axis has to be turned round. `norm` is that of the combination.
template <int kMost>
__device__ inline bool points_backwards(const AxisCall& call, std::int64_t topic,
                                        const FewAnchors<kMost>& own, const GramRow<kMost>& sums,
                                        const LeadingPair& pair, double norm, int lane) {
    const int n = static_cast<int>(call.n_anchors);
    const bool is_anchor = lane < n;
    if (call.stances != nullptr) {
        // PS of a centred anchor, but for the norm: its row of the Gram matrix times the vector.
        double score = 0;
#pragma unroll
        for (int other = 0; other < kMost; ++other) {
            if (other < n) score += sums.products[other] * own.vectors[other][pair.place];
        }
        const double stance = is_anchor ? call.stances[topic * n + lane] : 0;
        const double supporting = over_warp(stance > 0 ? score : 0, Add{});
        const double opposing = over_warp(stance < 0 ? score : 0, Add{});
        const int n_supporting = __popc(__ballot_sync(kAllLanes, stance > 0));
        const int n_opposing = __popc(__ballot_sync(kAllLanes, stance < 0));
        const double difference = supporting / n_supporting - opposing / n_opposing;
        // A difference of exactly 0 decides nothing: the anchors' own sign stays.
        if (difference != 0) return difference < 0;
    }
    const double weight = is_anchor ? own.vectors[lane][pair.place] : 0;
    const double mean_score = over_warp(weight * sums.with_mean, Add{}) / norm;
    if (fabs(mean_score) > kMeanTolerance) return mean_score < 0;
    return largest_is_negative(call, topic, own, pair.place, lane);
}

template <int kMost>
__device__ inline void fit_topic(const AxisCall& call, std::int64_t topic, FewAnchors<kMost>& own,
                                 int lane) {
    const int n = static_cast<int>(call.n_anchors);
    if (!stances_are_good(call, topic, lane)) return poison(call, topic, lane, kWarp);
    const double sum_of_squares = scale_anchors(call, topic, own, lane);
    const GramRow<kMost> sums = gram_row(call, topic, own, lane);
    if (lane < n) {
#pragma unroll
        for (int other = 0; other < kMost; ++other) {
            if (other >= n) continue;
            own.matrix[lane][other] = sums.products[other];
            own.vectors[lane][other] = lane == other ? 1 : 0;
        }
    }
    double squares = 0;
#pragma unroll
    for (int other = 0; other < kMost; ++other) {
        squares += sums.products[other] * sums.products[other];
    }
    squares = over_warp(lane < n ? squares : 0, Add{});
    __syncwarp();
    double trace = 0;
    for (int i = 0; i < n; ++i) trace += own.matrix[i][i];
    // The first rotations write where this was read.
    if (!EPIBIAS_PLANT("polarization_axis.trace_race")) __syncwarp();
    if (!(trace > kEqualAnchors * sum_of_squares)) {
        // NaN: a row at fault, which has been reported.
        if (lane == 0 && is_finite(trace)) {
            report(call, topic, AxisFault::kEqualAnchors, axis_fault_places(n) - 1);
        }
        return poison(call, topic, lane, kWarp);
    }
    jacobi(own, n, 1e-38 * squares, lane);
    const LeadingPair pair = choose_leading(own, n);
    const double norm = sqrt(pair.first);  // |C^T v|^2 = v . C C^T v
    const bool flip = points_backwards(call, topic, own, sums, pair, norm, lane);
    const double scale = 1 / (flip ? -norm : norm);
    const float* rows = call.rows(topic);
    for (std::int64_t column = lane; column < call.dim; column += kWarp) {
        const double value = combined(call, rows, own, column, pair.place);
        call.axes[topic * call.dim + column] = static_cast<float>(value * scale);
    }
    if (lane == 0) write_spectrum(call, topic, pair.first, pair.second, trace);
    __syncwarp();  // the next topic of this warp writes over what was read here
}

// At least 4 blocks a multiprocessor: without saying so ptxas stops at 80 registers for sm_80, and
// spills.
template <int kMost, int kWarps>
__global__ void __launch_bounds__(kWarps* kWarp, 4) fit_few_anchors(AxisCall call) {
    EPIBIAS_SHARED(FewAnchors<kMost>, scratch, kWarps);
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kWarps;
    for (std::int64_t topic = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp;
         topic < call.n_topics + (EPIBIAS_PLANT("polarization_axis.topic_too_many") ? 1 : 0);
         topic += stride) {
        fit_topic(call, topic, scratch[warp], lane);
    }
}

}  // namespace epibias::cuda
