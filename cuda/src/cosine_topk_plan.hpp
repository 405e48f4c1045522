// What: the numbers of a cosine search on the device, and where its state lies in the workspace.
// Host only.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "cosine_topk_bounds.hpp"
#include "cosine_topk_state.cuh"

namespace epibias::cuda {

struct CosinePolicy {
    // Enough that the k-th of the sample lets few rows of the first round pass; its float64 scores
    // cost 1024 x 768 multiply-adds a query, a thousandth of a scan of a million rows.
    static constexpr std::int64_t kSampleRows = 1024;
    // Survivors that a query can hold. 8 k leaves room where codes of 8 bits let eight times as
    // many pass as belong to the answer (iid rows of dim 768, residual 0.009 a side).
    static constexpr std::int64_t kCapacity = 4096;
    static constexpr std::int64_t kCapacityPerK = 8;
    // Of the capacity, what rows in random order are expected to fill in a round.
    static constexpr std::int64_t kFillFloat = 4;
    static constexpr std::int64_t kFillInt8 = 16;
    // Blocks of 4 warps that re-score, for few queries: 132 SMs, some blocks each; a warp has up to
    // 8 rows, so that its start is not all it does.
    static constexpr std::int64_t kRescoreBlocks = 1024;
    static constexpr std::int64_t kMostRescoreSlices = 64;
    static constexpr std::int64_t kRowsPerSlice = 4 * 8;
};

struct CosinePlan {
    std::int64_t sample_rows;
    std::int64_t capacity;
    std::int64_t growth;
    std::int64_t n_kept;
    std::int64_t n_padded;     // queries
    std::int64_t query_words;  // a multiple of 4
    std::size_t bytes = 0;
};

// Queries are padded to whole tiles of what launch_scan chooses: 8, 64 or 128 wide.
[[nodiscard]] inline std::int64_t padded_queries(std::int64_t n_queries) {
    const std::int64_t width = n_queries <= 8 ? 8 : n_queries <= 64 ? 64 : 128;
    return (n_queries + width - 1) / width * width;
}

[[nodiscard]] inline std::int64_t words_of(std::int64_t dim, CosineStorage storage) {
    const std::int64_t bytes = storage == CosineStorage::kFloat32 ? 4 * dim
                               : storage == CosineStorage::kBf16  ? 2 * dim
                                                                  : dim;
    return (bytes + 15) / 16 * 4;
}

[[nodiscard]] inline CosinePlan cosine_plan(std::int64_t n_queries, std::int64_t dim,
                                            std::int64_t k, CosineStorage storage,
                                            const CosineTopkOptions& options) {
    using Policy = CosinePolicy;
    CosinePlan plan{};
    plan.capacity = options.capacity > 0 ? options.capacity
                                         : std::max(Policy::kCapacity, Policy::kCapacityPerK * k);
    plan.sample_rows =
        options.sample_rows > 0 ? options.sample_rows : std::max(Policy::kSampleRows, 2 * k);
    plan.sample_rows = std::min(plan.sample_rows, plan.capacity);
    const std::int64_t fill =
        storage == CosineStorage::kInt8 ? Policy::kFillInt8 : Policy::kFillFloat;
    plan.growth =
        options.round_growth > 0
            ? options.round_growth
            : std::max<std::int64_t>(1, plan.capacity / (fill * std::max<std::int64_t>(k, 1)));
    plan.n_kept = static_cast<std::int64_t>(
        std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(k, 32))));
    plan.n_padded = padded_queries(n_queries);
    plan.query_words = words_of(dim, storage);
    return plan;
}

// Hands out the parts of a workspace, 256 bytes aligned; with a null base it only counts.
class WorkspaceParts {
  public:
    explicit WorkspaceParts(void* base) : base_(static_cast<unsigned char*>(base)) {}

    template <typename Value>
    Value* take(std::int64_t count) {
        auto* part = base_ == nullptr ? nullptr : reinterpret_cast<Value*>(base_ + offset_);
        offset_ += (static_cast<std::size_t>(count) * sizeof(Value) + 255) / 256 * 256;
        return part;
    }
    [[nodiscard]] std::size_t bytes() const { return offset_; }

  private:
    unsigned char* base_;
    std::size_t offset_ = 0;
};

// The state of a search, its pointers into the workspace; `bytes` is what the parts take.
[[nodiscard]] inline SearchState cosine_state(const CosineTopkSearch& search,
                                              const CosinePlan& plan,
                                              std::size_t* bytes = nullptr) {
    const std::int64_t n_queries = search.queries.n_rows;
    WorkspaceParts parts(search.workspace);
    SearchState state{};
    state.queries = search.queries.data;
    state.n_queries = n_queries;
    state.dim = search.queries.n_columns;
    state.k = static_cast<int>(search.k);
    state.n_kept = static_cast<int>(plan.n_kept);
    state.capacity = static_cast<int>(plan.capacity);
    state.query_words = static_cast<int>(plan.query_words);
    state.codes = parts.take<unsigned>(plan.n_padded * plan.query_words);
    state.inverse_norms = parts.take<double>(n_queries);
    state.filters = parts.take<QueryFilter>(plan.n_padded);
    state.counts = parts.take<unsigned>(n_queries);
    state.survivors = parts.take<TopkKey>(n_queries * plan.capacity);
    state.best = parts.take<TopkKey>(n_queries * plan.n_kept);
    state.bad_passage = parts.take<unsigned>(1);
    state.n_rescored = parts.take<unsigned long long>(1);
    state.fault = search.fault;
    if (bytes != nullptr) *bytes = parts.bytes();
    return state;
}

[[nodiscard]] inline ScanPath scan_path(CosineStorage storage, bool tensor_cores) {
    switch (storage) {
        case CosineStorage::kFloat32:
            return tensor_cores ? ScanPath::kTf32 : ScanPath::kFloat32;
        case CosineStorage::kBf16:
            return tensor_cores ? ScanPath::kBf16 : ScanPath::kBf16Portable;
        case CosineStorage::kInt8:
            break;
    }
    return tensor_cores ? ScanPath::kInt8 : ScanPath::kInt8Portable;
}

// Throws, in the CPU's words, where there are not k passages (cosine_topk.cu).
void check_cosine_k(std::int64_t k, std::int64_t n_passages);

// Enqueues the inverse norms of passages whose rows are a tile of the corpus (cosine_topk.cu).
void launch_norms_of_tile(const CosinePassages& passages, double* norms, Fault* fault,
                          Stream stream);

// Enqueues the scan of a range for all queries (cosine_topk_scan.cu).
void launch_scan(ScanPath path, const SearchState& state, const PassageState& passages,
                 const RowRange& range, Stream stream);

}  // namespace epibias::cuda
