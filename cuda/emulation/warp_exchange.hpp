// What: the meeting of a warp's lanes that all warp operations are made of: each lane of the mask
// brings a few bytes, waits for the others, and sees what all brought.
//
// Refused with both places: lanes that meet with one mask for different operations; a mask without
// the calling lane, or with a lane that has exited or does not exist. Lanes that never come are a
// deadlock, reported by the scheduler. Shuffles and votes order no memory, __syncwarp does.
#pragma once

#include <cstddef>

#include "limits.hpp"
#include "place.hpp"

namespace epibias::cuda::emulation {

enum class WarpOperation {
    kNone,
    kSyncwarp,
    kShuffle,
    kShuffleUp,
    kShuffleDown,
    kShuffleXor,
    kBallot,
    kAny,
    kAll,
    kMatchAny,
    kReduce,
    kMatrixBf16,
    kMatrixS8,
    kMatrixTf32,
};

inline constexpr std::size_t kSlotBytes = 64;
using Slots = const unsigned char (*)[kSlotBytes];

struct Collective {
    WarpOperation operation = WarpOperation::kNone;
    unsigned mask = 0;
    unsigned arrived = 0;
    unsigned has_read = 0;
    std::size_t bytes = 0;
    Place place;
    unsigned char slots[kWarpLanes][kSlotBytes];
};

// Returns every lane's bytes; lanes outside the mask show poison. Call leave_warp_exchange() when
// they have been read.
Slots warp_exchange(WarpOperation operation, unsigned mask, const void* value, std::size_t bytes,
                    const Place& place);
void leave_warp_exchange();

const char* operation_name(WarpOperation operation);
void begin_warp_exchanges(unsigned n_warps);

}  // namespace epibias::cuda::emulation
