// What: from a round's survivors to the k best so far: canonical scores, the merge with what was
// best before, the next threshold, and at the end the answer.
//
// Survivors are row numbers until rescore_survivors replaces them by keys (topk_key.hpp). A query
// that had more of them than its buffer holds is merged directly: its block scores every row of the
// round. Keys are unique and totally ordered, so no result depends on the order of the survivors.
#pragma once

#include "cosine_topk_state.cuh"

namespace epibias::cuda {

// Where the candidates of a round come from.
struct RoundSource {
    RowRange rows;   // of the round; of the sample where `sampled`
    bool sampled;    // the candidates are these rows themselves, whatever survived
    bool keep_list;  // false: the threshold alone is raised (a sample is scanned again)
};

__device__ inline std::int64_t n_candidates(const SearchState& state, const RoundSource& source,
                                            std::int64_t query) {
    return source.sampled ? source.rows.n_rows : static_cast<std::int64_t>(state.counts[query]);
}

// Owner: one warp a (query, candidate) pair. Block (x, y): slice y of query x.
__global__ void __launch_bounds__(128, 8)
    rescore_survivors(SearchState state, PassageState passages, RoundSource source) {
    const std::int64_t query = blockIdx.x;
    const std::int64_t n = n_candidates(state, source, query);
    if (n > state.capacity) return;  // merged directly
    if (blockIdx.y == 0 && threadIdx.x == 0) {
        atomicAdd(state.n_rescored, static_cast<unsigned long long>(n));
    }
    TopkKey* survivors = state.survivors + query * state.capacity;
    const std::int64_t n_warps = blockDim.x / 32;
    const std::int64_t step = n_warps * gridDim.y;
    for (std::int64_t i = blockIdx.y * n_warps + threadIdx.x / 32; i < n; i += step) {
        const std::int64_t row = source.sampled ? source.rows.first + i * source.rows.stride
                                                : static_cast<std::int64_t>(survivors[i]);
        const TopkKey key = canonical_key(state, passages, query, row);
        __syncwarp();  // every lane has read the row
        if (threadIdx.x % 32 == 0) survivors[i] = key;
    }
}

// Keys of `count` rows of the round from number `first` on, into shared memory that belongs to the
// calling warp; kNoKey beyond n.
__device__ inline void score_rows(const SearchState& state, const PassageState& passages,
                                  const RoundSource& source, std::int64_t query, std::int64_t first,
                                  std::int64_t n, int count, TopkKey* keys) {
    for (int i = 0; i < count; ++i) {
        const std::int64_t row = source.rows.first + (first + i) * source.rows.stride;
        const TopkKey key = first + i < n ? canonical_key(state, passages, query, row) : kNoKey;
        if (threadIdx.x % 32 == 0) keys[i] = key;
    }
    __syncwarp();
}

__device__ inline void raise_limit(const SearchState& state, std::int64_t query, TopkKey kth) {
    if (kth == kNoKey) return;  // fewer than k passages so far
    QueryFilter& filter = state.filters[query];
    const double threshold = static_cast<double>(ranked_of(kth).similarity);
    // What only equals the threshold still passes: it may have the lower index.
    const float limit = round_down(threshold - filter.own);
    if (limit > filter.limit) filter.limit = limit;
}

__device__ inline TopkKey greater(TopkKey left, TopkKey right) {
    return left > right ? left : right;
}
__device__ inline TopkKey lesser(TopkKey left, TopkKey right) {
    return left > right ? right : left;
}

// ---- k up to 256: a warp holds 32 * kPer keys, element 32 * r + lane in register r ------------

// One step of a bitonic network: partners lie `stride` apart; descending where element & direction
// is zero.
template <int kPer>
__device__ inline void bitonic_step(TopkKey (&keys)[kPer], int stride, int direction) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (stride >= 32) {
#pragma unroll
        for (int r = 0; r < kPer; ++r) {
            const int other = r ^ (stride / 32);
            if (other > r && other < kPer) {
                const bool descending = ((32 * r + lane) & direction) == 0;
                const TopkKey high = greater(keys[r], keys[other]);
                const TopkKey low = lesser(keys[r], keys[other]);
                keys[r] = descending ? high : low;
                keys[other] = descending ? low : high;
            }
        }
        return;
    }
#pragma unroll
    for (int r = 0; r < kPer; ++r) {
        const TopkKey other = __shfl_xor_sync(kAllLanes, keys[r], stride);
        const bool descending = ((32 * r + lane) & direction) == 0;
        const bool first = (lane & stride) == 0;
        keys[r] = descending == first ? greater(keys[r], other) : lesser(keys[r], other);
    }
}

template <int kPer>
__device__ inline void sort_descending(TopkKey (&keys)[kPer]) {
#pragma unroll
    for (int length = 2; length <= 32 * kPer; length *= 2) {
#pragma unroll
        for (int stride = length / 2; stride > 0; stride /= 2) {
            bitonic_step(keys, stride, length == 32 * kPer ? 0 : length);
        }
    }
}

// best becomes the greatest of both; both are sorted.
template <int kPer>
__device__ inline void merge_sorted(TopkKey (&best)[kPer], const TopkKey (&other)[kPer]) {
    TopkKey reversed[kPer];
#pragma unroll
    for (int r = 0; r < kPer; ++r) {
        reversed[r] = __shfl_xor_sync(kAllLanes, other[kPer - 1 - r], 31);
    }
#pragma unroll
    for (int r = 0; r < kPer; ++r) best[r] = greater(best[r], reversed[r]);
#pragma unroll
    for (int stride = 16 * kPer; stride > 0; stride /= 2) bitonic_step(best, stride, 0);
}

inline constexpr int kMergeWarps = 4;
inline constexpr int kMostInRegisters = 256;

// Owner: one block a query; every warp merges its share, then the warps are merged pairwise.
// Queries of which too many rows survived are left to merge_in_shared.
// Shared: 4 * 32 * kPer keys, at most 8 KiB.
template <int kPer>
__global__ void __launch_bounds__(kMergeWarps * 32)
    merge_in_registers(SearchState state, RoundSource source) {
    constexpr int kKept = 32 * kPer;
    EPIBIAS_SHARED(TopkKey, shared, kMergeWarps * kKept);
    const std::int64_t query = blockIdx.x;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    TopkKey* list = state.best + query * state.n_kept;
    const TopkKey* survivors = state.survivors + query * state.capacity;
    const std::int64_t n = n_candidates(state, source, query);
    if (n > state.capacity) return;  // merged directly, in shared memory
    const TopkKey floor = list[state.k - 1];

    TopkKey best[kPer];
#pragma unroll
    for (int r = 0; r < kPer; ++r) best[r] = warp == 0 ? list[32 * r + lane] : kNoKey;
    for (std::int64_t first = warp * kKept; first < n; first += kMergeWarps * kKept) {
        TopkKey keys[kPer];
        bool better = false;
#pragma unroll
        for (int r = 0; r < kPer; ++r) {
            const std::int64_t i = first + 32 * r + lane;
            keys[r] = i < n ? survivors[i] : kNoKey;
            better = better || keys[r] > floor;
        }
        if (EPIBIAS_PLANT("cosine_topk.divergent_vote") && lane >= 16) continue;
        if (!__any_sync(kAllLanes, better)) continue;
        sort_descending(keys);
        merge_sorted(best, keys);
    }

#pragma unroll
    for (int r = 0; r < kPer; ++r) shared[warp * kKept + 32 * r + lane] = best[r];
    for (int width = kMergeWarps / 2; width > 0; width /= 2) {
        if (!EPIBIAS_PLANT("cosine_topk.merge_race")) __syncthreads();
        if (warp < width) {
            TopkKey other[kPer];
#pragma unroll
            for (int r = 0; r < kPer; ++r)
                other[r] = shared[(warp + width) * kKept + 32 * r + lane];
            merge_sorted(best, other);
#pragma unroll
            for (int r = 0; r < kPer; ++r) shared[warp * kKept + 32 * r + lane] = best[r];
        }
    }
    __syncthreads();
    if (source.keep_list) {
        for (int i = static_cast<int>(threadIdx.x); i < kKept; i += kMergeWarps * 32) {
            list[i] = shared[i];
        }
    }
    if (threadIdx.x == 0) {
        raise_limit(state, query, shared[state.k - 1]);
        state.counts[query] = 0;
    }
}

// ---- k up to 4096: the list and a chunk of candidates lie in shared memory --------------------

inline constexpr int kSharedMergeThreads = 256;

// One step of a bitonic network over `size` keys in shared memory, and its barrier.
__device__ inline void shared_bitonic_step(TopkKey* keys, int size, int stride, int direction) {
    for (int pair = static_cast<int>(threadIdx.x); pair < size / 2; pair += kSharedMergeThreads) {
        const int first = pair / stride * 2 * stride + pair % stride;
        const TopkKey high = greater(keys[first], keys[first + stride]);
        const TopkKey low = lesser(keys[first], keys[first + stride]);
        const bool descending = (first & direction) == 0;
        keys[first] = descending ? high : low;
        keys[first + stride] = descending ? low : high;
    }
    __syncthreads();
}

// Owner: one block a query. Shared: kKept + min(kKept, 1024) keys, at most 40 KiB.
// Merges all queries where k is above 256, otherwise those of which too many rows survived.
template <int kKept>
__global__ void __launch_bounds__(kSharedMergeThreads)
    merge_in_shared(SearchState state, PassageState passages, RoundSource source) {
    constexpr int kChunk = kKept < 1024 ? kKept : 1024;
    EPIBIAS_SHARED(TopkKey, keys, kKept + kChunk);
    TopkKey* chunk = keys + kKept;
    const std::int64_t query = blockIdx.x;
    const int thread = static_cast<int>(threadIdx.x);
    TopkKey* list = state.best + query * state.n_kept;
    const TopkKey* survivors = state.survivors + query * state.capacity;
    const std::int64_t n_found = n_candidates(state, source, query);
    const bool direct = n_found > state.capacity;
    if (state.n_kept <= kMostInRegisters && !direct) return;
    const std::int64_t n = direct ? source.rows.n_rows : n_found;
    for (int i = thread; i < kKept; i += kSharedMergeThreads) {
        keys[i] = i < state.n_kept ? list[i] : kNoKey;
    }
    for (std::int64_t first = 0; first < n; first += kChunk) {
        for (int i = thread; i < kChunk; i += kSharedMergeThreads) {  // whole warps
            if (direct) {
                const int group = i / 32 * 32;
                score_rows(state, passages, source, query, first + group, n, 32, chunk + group);
            } else {
                chunk[i] = first + i < n ? survivors[first + i] : kNoKey;
            }
        }
        if (!EPIBIAS_PLANT("cosine_topk.chunk_race")) __syncthreads();
        for (int length = 2; length <= kChunk; length *= 2) {
            for (int stride = length / 2; stride > 0; stride /= 2) {
                shared_bitonic_step(chunk, kChunk, stride, length == kChunk ? 0 : length);
            }
        }
        // The greatest kKept of two sorted lists, a bitonic sequence.
        for (int i = thread; i < kChunk; i += kSharedMergeThreads) {
            keys[kKept - 1 - i] = greater(keys[kKept - 1 - i], chunk[i]);
        }
        __syncthreads();
        for (int stride = kKept / 2; stride > 0; stride /= 2) {
            shared_bitonic_step(keys, kKept, stride, 0);
        }
    }
    __syncthreads();
    if (source.keep_list) {
        for (int i = thread; i < state.n_kept; i += kSharedMergeThreads) list[i] = keys[i];
    }
    if (thread == 0) {
        raise_limit(state, query, keys[state.k - 1]);
        if (direct) atomicAdd(state.n_rescored, static_cast<unsigned long long>(n));
        state.counts[query] = 0;
    }
}

// ---- the answer -------------------------------------------------------------------------------

// Owner: one block a query. A faulty passage could stand anywhere in any answer: all are poisoned.
__global__ void __launch_bounds__(128)
    write_answers(SearchState state, std::int64_t* indices, float* similarities,
                  std::int64_t* n_rescored) {
    const std::int64_t query = blockIdx.x;
    if (query == 0 && threadIdx.x == 0 && n_rescored != nullptr) {
        *n_rescored = static_cast<std::int64_t>(*state.n_rescored);
    }
    const TopkKey* list = state.best + query * state.n_kept;
    const bool poisoned =
        *state.bad_passage != 0 || !is_valid_inverse_norm(state.inverse_norms[query]);
    const int n = state.k + (EPIBIAS_PLANT("cosine_topk.write_out_of_bounds") ? 1 : 0);
    for (int rank = static_cast<int>(threadIdx.x); rank < n; rank += 128) {
        const TopkKey key = list[rank];
        const bool none = poisoned || key == kNoKey;
        const Ranked ranked = ranked_of(key);
        indices[query * state.k + rank] = none ? -1 : ranked.index;
        similarities[query * state.k + rank] = none ? NAN : ranked.similarity;
    }
}

}  // namespace epibias::cuda
