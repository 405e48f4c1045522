// What: barriers, shuffles, votes and reductions under CUDA's names.
//
// __activemask is left out on purpose: what it returns is not defined well enough to write a
// correct kernel with.
#pragma once

#include <bit>
#include <cstring>
#include <source_location>

#include "thread.hpp"
#include "warp_exchange.hpp"

namespace epibias::cuda::emulation {

template <typename Value>
Value value_of_lane(Slots slots, unsigned lane) {
    Value value;
    std::memcpy(&value, slots[lane], sizeof(value));
    return value;
}

// A source outside the section of `width` lanes leaves the lane its own value.
template <typename Value>
Value shuffle(WarpOperation operation, unsigned mask, const Value& value, int source, bool valid,
              const Place& place) {
    static_assert(sizeof(Value) <= 8, "CUDA shuffles 4 or 8 bytes");
    const Slots slots = warp_exchange(operation, mask, &value, sizeof(value), place);
    const unsigned lane = valid ? static_cast<unsigned>(source) : current->lane();
    const auto result = value_of_lane<Value>(slots, lane);
    leave_warp_exchange();
    return result;
}

inline unsigned vote(WarpOperation operation, unsigned mask, int predicate, const Place& place) {
    const unsigned char mine = predicate != 0;
    const Slots slots = warp_exchange(operation, mask, &mine, 1, place);
    unsigned votes = 0;
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(rest));
        votes |= static_cast<unsigned>(slots[lane][0]) << lane;
    }
    leave_warp_exchange();
    return votes;
}

template <typename Value, typename Combine>
Value reduce(unsigned mask, const Value& value, Combine combine, const Place& place) {
    const Slots slots = warp_exchange(WarpOperation::kReduce, mask, &value, sizeof(value), place);
    auto lane = static_cast<unsigned>(std::countr_zero(mask));
    auto result = value_of_lane<Value>(slots, lane);
    for (unsigned rest = mask & (mask - 1); rest != 0; rest &= rest - 1) {
        lane = static_cast<unsigned>(std::countr_zero(rest));
        result = combine(result, value_of_lane<Value>(slots, lane));
    }
    leave_warp_exchange();
    return result;
}

}  // namespace epibias::cuda::emulation

#define EPIBIAS_HERE ::epibias::cuda::emulation::Place place = std::source_location::current()

inline void __syncthreads(EPIBIAS_HERE) {
    epibias::cuda::emulation::block_barrier(place);
}

inline void __syncwarp(unsigned mask = ~0U, EPIBIAS_HERE) {
    namespace emulation = epibias::cuda::emulation;
    emulation::warp_exchange(emulation::WarpOperation::kSyncwarp, mask, nullptr, 0, place);
    emulation::leave_warp_exchange();
}

template <typename Value>
Value __shfl_sync(unsigned mask, Value value, int source, int width = 32, EPIBIAS_HERE) {
    namespace emulation = epibias::cuda::emulation;
    const int first = static_cast<int>(emulation::current->lane()) & ~(width - 1);
    return emulation::shuffle(emulation::WarpOperation::kShuffle, mask, value,
                              first + (source & (width - 1)), true, place);
}

template <typename Value>
Value __shfl_xor_sync(unsigned mask, Value value, int lanes, int width = 32, EPIBIAS_HERE) {
    namespace emulation = epibias::cuda::emulation;
    const int lane = static_cast<int>(emulation::current->lane());
    const int source = lane ^ lanes;
    return emulation::shuffle(emulation::WarpOperation::kShuffleXor, mask, value, source,
                              source <= (lane | (width - 1)), place);
}

template <typename Value>
Value __shfl_down_sync(unsigned mask, Value value, unsigned delta, int width = 32, EPIBIAS_HERE) {
    namespace emulation = epibias::cuda::emulation;
    const int lane = static_cast<int>(emulation::current->lane());
    const int source = lane + static_cast<int>(delta);
    return emulation::shuffle(emulation::WarpOperation::kShuffleDown, mask, value, source,
                              source <= (lane | (width - 1)), place);
}

template <typename Value>
Value __shfl_up_sync(unsigned mask, Value value, unsigned delta, int width = 32, EPIBIAS_HERE) {
    namespace emulation = epibias::cuda::emulation;
    const int lane = static_cast<int>(emulation::current->lane());
    const int source = lane - static_cast<int>(delta);
    return emulation::shuffle(emulation::WarpOperation::kShuffleUp, mask, value, source,
                              source >= (lane & ~(width - 1)), place);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, EPIBIAS_HERE) {
    namespace emulation = epibias::cuda::emulation;
    return emulation::vote(emulation::WarpOperation::kBallot, mask, predicate, place);
}

inline int __any_sync(unsigned mask, int predicate, EPIBIAS_HERE) {
    namespace emulation = epibias::cuda::emulation;
    return emulation::vote(emulation::WarpOperation::kAny, mask, predicate, place) != 0 ? 1 : 0;
}

inline int __all_sync(unsigned mask, int predicate, EPIBIAS_HERE) {
    namespace emulation = epibias::cuda::emulation;
    return emulation::vote(emulation::WarpOperation::kAll, mask, predicate, place) == mask ? 1 : 0;
}

template <typename Value>
unsigned __match_any_sync(unsigned mask, Value value, EPIBIAS_HERE) {
    namespace emulation = epibias::cuda::emulation;
    const emulation::Slots slots = emulation::warp_exchange(emulation::WarpOperation::kMatchAny,
                                                            mask, &value, sizeof(value), place);
    unsigned equal = 0;
    for (unsigned lane = 0; lane < emulation::kWarpLanes; ++lane) {
        if ((mask >> lane & 1U) == 0) continue;
        const auto other = emulation::value_of_lane<Value>(slots, lane);
        equal |= static_cast<unsigned>(std::memcmp(&other, &value, sizeof(value)) == 0) << lane;
    }
    emulation::leave_warp_exchange();
    return equal;
}

// One instruction on sm_80 and later, for 32-bit integers.
template <typename Value>
Value __reduce_add_sync(unsigned mask, Value value, EPIBIAS_HERE) {
    const auto add = [](unsigned left, unsigned right) { return left + right; };
    return static_cast<Value>(
        epibias::cuda::emulation::reduce(mask, static_cast<unsigned>(value), add, place));
}

template <typename Value>
Value __reduce_min_sync(unsigned mask, Value value, EPIBIAS_HERE) {
    const auto lower = [](Value left, Value right) { return right < left ? right : left; };
    return epibias::cuda::emulation::reduce(mask, value, lower, place);
}

template <typename Value>
Value __reduce_max_sync(unsigned mask, Value value, EPIBIAS_HERE) {
    const auto higher = [](Value left, Value right) { return left < right ? right : left; };
    return epibias::cuda::emulation::reduce(mask, value, higher, place);
}

inline unsigned __reduce_or_sync(unsigned mask, unsigned value, EPIBIAS_HERE) {
    const auto join = [](unsigned left, unsigned right) { return left | right; };
    return epibias::cuda::emulation::reduce(mask, value, join, place);
}

inline unsigned __reduce_and_sync(unsigned mask, unsigned value, EPIBIAS_HERE) {
    const auto common = [](unsigned left, unsigned right) { return left & right; };
    return epibias::cuda::emulation::reduce(mask, value, common, place);
}

#undef EPIBIAS_HERE
