#include "warp_exchange.hpp"

#include <bit>

#include "raw_memory.hpp"
#include "thread.hpp"
#include "tsan.hpp"

namespace epibias::cuda::emulation {
namespace {

struct Warp {
    Collective collectives[kWarpLanes];  // a lane is in one at most
    unsigned in_use = 0;                 // one bit each
};

Warp warps[kMaxWarps];

constexpr unsigned lane_bit(unsigned lane) {
    return 1U << lane;
}

// The operations that every lane must reach as one instruction ("aligned" in PTX).
bool is_aligned_operation(WarpOperation operation) {
    return operation == WarpOperation::kMatrixBf16 || operation == WarpOperation::kMatrixS8 ||
           operation == WarpOperation::kMatrixTf32;
}

void check_mask(unsigned mask, const Place& place) {
    if ((mask & lane_bit(current->lane())) == 0) {
        fail(place, "lane %u is not in its own mask %08x", current->lane(), mask);
    }
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(rest));
        const unsigned number = current->warp() * kWarpLanes + lane;
        if (number >= current_block.n_threads) {
            fail(place, "mask %08x names lane %u, which the block does not have", mask, lane);
        }
        if (threads[number].exited) {
            fail(place, "mask %08x names lane %u, which has exited", mask, lane);
        }
    }
}

unsigned index_of(const Warp& warp, const Collective* collective) {
    return static_cast<unsigned>(collective - warp.collectives);
}

// The collective that is gathering lanes under this mask, or a new one.
Collective& find_collective(Warp& warp, WarpOperation operation, unsigned mask, std::size_t bytes,
                            const Place& place) {
    for (unsigned rest = warp.in_use; rest != 0; rest &= rest - 1) {
        Collective& open = warp.collectives[std::countr_zero(rest)];
        if (open.mask == mask && open.arrived != mask) return open;
    }
    // One is free: the calling lane is in none, and there are as many as lanes.
    const int free = std::countr_one(warp.in_use) % static_cast<int>(kWarpLanes);
    Collective& fresh = warp.collectives[free];
    warp.in_use |= lane_bit(static_cast<unsigned>(free));
    fresh.operation = operation;
    fresh.mask = mask;
    fresh.arrived = 0;
    fresh.has_read = 0;
    fresh.bytes = bytes;
    fresh.place = place;
    if (mask != ~0U) fill_raw(fresh.slots, kPoison, sizeof(fresh.slots));
    return fresh;
}

}  // namespace

Slots warp_exchange(WarpOperation operation, unsigned mask, const void* value, std::size_t bytes,
                    const Place& place) {
    check_mask(mask, place);
    Thread& thread = *current;
    Warp& warp = warps[thread.warp()];
    Collective& collective = find_collective(warp, operation, mask, bytes, place);
    const bool same_place =
        collective.place.line() == place.line() && collective.place.column() == place.column();
    if (collective.operation != operation || collective.bytes != bytes ||
        (is_aligned_operation(operation) && !same_place)) {
        fail(place, "%s meets %s at %s:%u", operation_name(operation),
             operation_name(collective.operation), file_name(collective.place),
             static_cast<unsigned>(collective.place.line()));
    }
    void* order = nullptr;
    if (operation == WarpOperation::kSyncwarp) {
        const unsigned number = thread.warp() * kWarpLanes + index_of(warp, &collective);
        order = synchronisation_address(kFirstWarpSynchronisation + number);
        tsan::release(order);
    }
    copy_raw(collective.slots[thread.lane()], value, bytes);
    collective.arrived |= lane_bit(thread.lane());
    thread.collective = &collective;
    if (collective.arrived != mask) wait_for(Waiting::kInWarpOperation, place);
    if (order != nullptr) tsan::acquire(order);
    return collective.slots;
}

void leave_warp_exchange() {
    Collective& collective = *current->collective;
    current->collective = nullptr;
    collective.has_read |= lane_bit(current->lane());
    if (collective.has_read != collective.mask) return;
    Warp& warp = warps[current->warp()];
    warp.in_use &= ~lane_bit(index_of(warp, &collective));
}

const char* operation_name(WarpOperation operation) {
    switch (operation) {
        case WarpOperation::kSyncwarp:
            return "__syncwarp";
        case WarpOperation::kShuffle:
            return "__shfl_sync";
        case WarpOperation::kShuffleUp:
            return "__shfl_up_sync";
        case WarpOperation::kShuffleDown:
            return "__shfl_down_sync";
        case WarpOperation::kShuffleXor:
            return "__shfl_xor_sync";
        case WarpOperation::kBallot:
            return "__ballot_sync";
        case WarpOperation::kAny:
            return "__any_sync";
        case WarpOperation::kAll:
            return "__all_sync";
        case WarpOperation::kMatchAny:
            return "__match_any_sync";
        case WarpOperation::kReduce:
            return "__reduce_sync";
        case WarpOperation::kMatrixBf16:
            return "mma_bf16_m16n8k16";
        case WarpOperation::kMatrixS8:
            return "mma_s8_m16n8k32";
        case WarpOperation::kMatrixTf32:
            return "mma_tf32_m16n8k8";
        case WarpOperation::kNone:
            break;
    }
    return "no operation";
}

void begin_warp_exchanges(unsigned n_warps) {
    for (unsigned i = 0; i < n_warps; ++i) warps[i].in_use = 0;
}

}  // namespace epibias::cuda::emulation
