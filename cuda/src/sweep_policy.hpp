// What: how many threads and how much shared memory a block of the sweep gets; host code, for
// threshold_sweep.cu and biasdef_select.cu.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sweep_memory.hpp"

namespace epibias::cuda::sweep {

struct BlockPolicy {
    int capacity = 0;  // candidates of a query that shared memory holds
    int n_threads = 0;
    int n_teams = 1;  // that shuffle side by side: 1 (the block) or one a warp
    std::size_t cache_bytes = 0;
    std::size_t shared_bytes = 0;
};

struct SweepPolicy {
    // What a block of every device aimed at may have (sm_80: 163 KiB), and a kibibyte is its own.
    static constexpr std::size_t kMostShared = std::size_t{160} << 10;
    // Kernel rows of a query: beyond, the cache would keep more than half of the blocks away that
    // hide each other's waiting, and costs more than the second evaluation it saves.
    static constexpr std::size_t kMostCached = std::size_t{48} << 10;
    static constexpr int kTypicalSlabs = 4;  // 128 points: all but one in a hundred queries
    static constexpr int kMostThreads = 256;
    // Two blocks for each multiprocessor of the largest device, where each query needs workspace.
    static constexpr std::int64_t kWorkspaceBlocks = 264;
};

// For queries of at most `n` candidates; larger ones go to the workspace.
inline BlockPolicy block_policy(std::int64_t n, bool has_shuffles) {
    using Policy = SweepPolicy;
    BlockPolicy policy;
    // A warp has 8 splits at a time: more warps than chunks would wait. Shuffles keep 4 busy.
    policy.n_threads = n <= 32 ? (has_shuffles ? 128 : 64) : n <= 128 ? 128 : Policy::kMostThreads;
    const int n_warps = policy.n_threads / 32;
    const std::size_t terms = static_cast<std::size_t>(n_warps) * kTermBytes;
    const auto shared_bytes = [&](int size, int n_teams, std::size_t cache) {
        return terms + query_layout(size, n_teams, cache).bytes;
    };
    // Large queries, or none of a known size, leave the largest capacity there is.
    constexpr std::int64_t kBeyond = Policy::kMostShared / 160;
    policy.capacity = static_cast<int>(std::min(n, kBeyond));
    while (shared_bytes(policy.capacity, 1, 0) > Policy::kMostShared) --policy.capacity;
    if (n > policy.capacity) policy.capacity = 0;
    const std::size_t a_slab = static_cast<std::size_t>(policy.capacity) * kSlab * sizeof(double);
    for (const int n_slabs : {Policy::kTypicalSlabs, 1}) {
        const std::size_t cache = static_cast<std::size_t>(n_slabs) * a_slab;
        if (cache > Policy::kMostCached) continue;
        if (shared_bytes(policy.capacity, 1, cache) > Policy::kMostShared) continue;
        policy.cache_bytes = cache;
        break;
    }
    const bool teams_fit =
        shared_bytes(policy.capacity, n_warps, policy.cache_bytes) <= Policy::kMostShared;
    if (has_shuffles && teams_fit && policy.capacity > 0) policy.n_teams = n_warps;
    policy.shared_bytes = shared_bytes(policy.capacity, policy.n_teams, policy.cache_bytes);
    return policy;
}

}  // namespace epibias::cuda::sweep
