// What: the divergences of all wanted splits of one query, for one arrangement of its scores.
//
// Who owns what: lane l of every warp owns point l of the current slab of the grid. Two warps walk
//   over the rows and leave the sums before and behind each chunk of kChunk splits; then each warp
//   takes whole chunks. The order of every sum is the CPU's (threshold_sweep_body.hpp): rows from
//   the left for S_L, from the right for S_R, and for a divergence eight sums, of the points with
//   the same number modulo 8, folded by halving. So are the bits.
// Kernel rows are read from the cache where it holds the slab; otherwise every lane makes those it
//   needs, once for the marks and once for the chunk: half as many again of operations, and no
//   n x 256 bytes that would keep other blocks from the multiprocessor.
#pragma once

#include <cstdint>

#include "device_code.hpp"
#include "sweep_memory.hpp"
#include "sweep_scalars.hpp"
#include "sweep_teams.cuh"

namespace epibias::cuda::sweep {

using epibias::sweep::ScoreGrid;

enum class SweepRule { kKullbackLeibler, kMutualInformation, kPrinted };

// Bits of `wanted`, by the number on the left.
inline constexpr int kEvaluated = 1, kAdmissible = 2;

// What all threads of a block need to know of their query. No initialisers: it lies in shared
// memory, where it costs no registers.
struct SplitTask {
    ScoreGrid grid;
    const float* scores;         // [n] by ascending similarity
    const std::uint8_t* wanted;  // [n]
    const double* weights;       // [n, 2]
    double* cache;               // [cache_slabs, n, kSlab]
    double parameter;            // kappa, or the floor of kPrinted
    int n;
    int first, last;  // splits, by the number on the left
    int which;        // the bit of `wanted` that counts
    int cache_slabs;
    int cache_filled;  // 1: with all slabs of the grid

    __device__ int n_splits() const { return last - first + 1; }
    __device__ int n_slabs() const { return static_cast<int>((grid.n_grid + kSlab - 1) / kSlab); }
    __device__ bool holds_all_slabs() const { return cache_slabs >= n_slabs(); }
    __device__ bool wants(int m) const { return (wanted[m] & which) != 0; }
    __device__ int chunk_start(int chunk) const { return first + chunk * kChunk; }
    __device__ int chunk_end(int chunk) const {
        const int end = first + (chunk + 1) * kChunk;
        return end <= last ? end : last + 1;
    }
};

// A team's own memory (team_bytes), and the calling warp's.
struct TeamMemory {
    double* start;
    int n;
    double* warp;  // terms [kChunk, kTermStride], then values [kChunk, kSlab]

    __device__ double* total() const { return start; }
    __device__ double* right_mark(int chunk) const { return start + kSlab * (1 + chunk); }
    __device__ double* left_mark(int chunk) const { return right_mark(chunks_of(n) + chunk); }
    __device__ double* sums() const { return left_mark(chunks_of(n)); }
    __device__ std::int32_t* order() const {
        return reinterpret_cast<std::int32_t*>(sums() + n * kLanes);
    }
    __device__ std::int32_t* draws() const { return order() + n; }
    __device__ double* term(int k) const { return warp + k * kTermStride; }
    __device__ double* value(int k) const { return warp + kChunk * kTermStride + k * kSlab; }
};

// The kernel of one candidate at this lane's point: from the cache, or made.
struct Rows {
    const float* scores;
    const std::int32_t* order;  // null: as they are sorted
    const double* cached;       // null: none
    double point, scale;
    int lane;

    __device__ double made(int row) const {
        const double u = (point - static_cast<double>(scores[row])) * scale;
        return epibias::sweep::exp2_of_negative(0.0 - u * u);
    }
    __device__ double operator()(int place) const {
        const int row = order == nullptr ? place : order[place];
        return cached == nullptr ? made(row) : cached[row * kSlab + lane];
    }
};

template <SweepRule kRule>
__device__ __forceinline__ double split_term(double left, double right, double all,
                                             const double* weights, double parameter) {
    if constexpr (kRule == SweepRule::kKullbackLeibler) {
        return epibias::sweep::floored_kl_term(left, right, all, weights[0], parameter);
    } else if constexpr (kRule == SweepRule::kMutualInformation) {
        return epibias::sweep::mutual_information_term(left, right, all, weights[0], weights[1]);
    } else {
        return epibias::sweep::printed_kl_term(left, right, weights[0], weights[1], parameter);
    }
}

// Sums of the rows behind each chunk, from the right, and of all rows.
__device__ inline void mark_right(const SplitTask& task, const Rows& rows,
                                  const TeamMemory& memory) {
    double sum = 0;
    int chunk = chunks_of(task.n_splits()) - 1;
#pragma unroll 1
    for (int place = task.n;; --place) {  // sum is of the rows from `place` on
        if (chunk >= 0 && place == task.chunk_end(chunk)) {
            memory.right_mark(chunk)[rows.lane] = sum;
            --chunk;
        }
        if (place == 0) break;
        sum += rows(place - 1);
    }
    memory.total()[rows.lane] = sum;
}

// Sums of the rows before each chunk, from the left.
__device__ inline void mark_left(const SplitTask& task, const Rows& rows,
                                 const TeamMemory& memory) {
    double sum = 0;
    int place = 0;
    const int n_chunks = chunks_of(task.n_splits());
    for (int chunk = 0; chunk < n_chunks; ++chunk) {
#pragma unroll 1
        for (; place < task.chunk_start(chunk); ++place) sum += rows(place);
        memory.left_mark(chunk)[rows.lane] = sum;
    }
}

// The terms of one chunk at this lane's point. Each lane reads only what it has written itself.
template <SweepRule kRule>
__device__ __forceinline__ void make_terms(const SplitTask& task, const Rows& rows, int chunk,
                                           const TeamMemory& memory) {
    const int start = task.chunk_start(chunk);
    const int count = task.chunk_end(chunk) - start;
    const double all = memory.total()[rows.lane];
    double right = memory.right_mark(chunk)[rows.lane];
#pragma unroll 1
    for (int k = count - 1; k >= 0; --k) {
        const double value = rows(start + k);
        right += value;
        memory.value(k)[rows.lane] = value;
        memory.term(k)[rows.lane] = right;
    }
    double left = memory.left_mark(chunk)[rows.lane];
#pragma unroll 1
    for (int k = 0; k < count; ++k) {
        if (task.wants(start + k)) {
            double* term = memory.term(k) + rows.lane;
            *term =
                split_term<kRule>(left, *term, all, task.weights + 2 * (start + k), task.parameter);
        }
        left += memory.value(k)[rows.lane];
    }
}

// Adds a chunk's terms to the sums of its splits, block of eight points after block.
__device__ __forceinline__ void add_terms(const SplitTask& task, int chunk, int slab, int lane,
                                          const TeamMemory& memory) {
    const int start = task.chunk_start(chunk);
    const int count = task.chunk_end(chunk) - start;
    const int rest = static_cast<int>(task.grid.n_grid) - slab * kSlab;
    const int n_blocks = (rest < kSlab ? rest : kSlab) / kLanes;
    for (int pair = lane; pair < count * kLanes; pair += 32) {
        const int k = pair / kLanes, part = pair % kLanes;
        if (!task.wants(start + k)) continue;
        double* sum = memory.sums() + (start - task.first + k) * kLanes + part;
        double value = slab == 0 && !EPIBIAS_PLANT("threshold_sweep.sums_not_cleared") ? 0.0 : *sum;
        for (int block = 0; block < n_blocks; ++block) {
            value += memory.term(k)[block * kLanes + part];
        }
        *sum = value;
    }
}

template <typename Team>
__device__ inline void fill_cache(const SplitTask& task, const Rows& rows, double* cached,
                                  const Team& team) {
#pragma unroll 1
    for (int row = team.warp(); row < task.n; row += team.n_warps()) {
        cached[row * kSlab + rows.lane] = rows.made(row);
    }
}

// memory.sums: eight sums a split. `order` is null for the scores as they are sorted.
template <SweepRule kRule, typename Team>
__device__ void sum_terms(const SplitTask& task, const std::int32_t* order,
                          const TeamMemory& memory, const Team& team) {
    const int n_slabs = task.n_slabs();
    const int n_chunks = chunks_of(task.n_splits());
    const bool all_cached = task.holds_all_slabs();
    for (int slab = 0; slab < n_slabs; ++slab) {
        const int number = slab * kSlab + team.lane();
        Rows rows{task.scores,     order,
                  nullptr,         epibias::sweep::grid_point(task.grid, number),
                  task.grid.scale, team.lane()};
        if (all_cached || (Team::kIsBlock && task.cache_slabs > 0)) {
            double* cached = task.cache + (all_cached ? slab * task.n * kSlab : 0);
            if (Team::kIsBlock && !(all_cached && task.cache_filled != 0)) {
                fill_cache(task, rows, cached, team);
                if (!EPIBIAS_PLANT("threshold_sweep.cache_barrier_missing")) team.synchronise();
            }
            rows.cached = cached;
        }
        if (team.warp() == team.n_warps() - 1) mark_right(task, rows, memory);
        if (team.warp() == 0) mark_left(task, rows, memory);
        if (!EPIBIAS_PLANT("threshold_sweep.marks_barrier_missing")) team.synchronise();
        for (int chunk = team.warp(); chunk < n_chunks; chunk += team.n_warps()) {
            make_terms<kRule>(task, rows, chunk, memory);
            if (!EPIBIAS_PLANT("threshold_sweep.terms_warp_barrier_missing")) __syncwarp();
            add_terms(task, chunk, slab, team.lane(), memory);
            __syncwarp();
        }
        team.synchronise();  // the next slab writes marks and cache again
    }
}

// Sum of eight lanes by halving: 8, 4, 2, 1.
__device__ __forceinline__ double folded(const double* sums) {
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) +
           ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

template <SweepRule kRule>
__device__ __forceinline__ double split_scale(const SplitTask& task, int m) {
    if constexpr (kRule == SweepRule::kPrinted) {
        return task.grid.grid_step;
    } else {
        constexpr bool kFloored = kRule == SweepRule::kKullbackLeibler;
        return epibias::sweep::split_weights(kFloored, task.n, m, task.parameter, task.grid.share)
            .scale;
    }
}

// Leaves each evaluated split's divergence in sums[kLanes (m - first)]; returns the largest of the
// admissible ones, minus infinity where there is none.
template <SweepRule kRule, typename Team>
__device__ double evaluate_splits(const SplitTask& task, const std::int32_t* order,
                                  const TeamMemory& memory, const Team& team) {
    sum_terms<kRule>(task, order, memory, team);
    double largest = -1.7976931348623157e308;
    for (int split = team.thread(); split < task.n_splits(); split += team.n_threads()) {
        const int m = task.first + split;
        if (!task.wants(m)) continue;
        double* sums = memory.sums() + split * kLanes;
        const double divergence = folded(sums) * split_scale<kRule>(task, m);
        sums[0] = divergence;
        if ((task.wanted[m] & kAdmissible) != 0)
            largest = epibias::sweep::larger(largest, divergence);
    }
    largest = team.largest(largest);
    team.synchronise();
    return largest;
}

}  // namespace epibias::cuda::sweep
