// Launchers of epibias/cuda/cosine_topk.hpp: require, plan, launch, check.
#include <string>

#include "cosine_topk_merge.cuh"
#include "cosine_topk_plan.hpp"
#include "cosine_topk_prepare.cuh"
#include "epibias/cuda/cosine_topk.hpp"
#include "epibias/quantized_scan.hpp"
#include "refuse.hpp"

namespace epibias::cuda {

namespace {

void check_dim(std::int64_t dim, CosineStorage storage) {
    // int8: sums of products stay below 2^31; others: columns of a Fault.
    const std::int64_t most =
        storage == CosineStorage::kInt8 ? kLargestQuantizedDim : kMaxFaultColumns - 1;
    if (dim >= 1 && dim <= most) return;
    refuse("passages", "1 to " + std::to_string(most) + " columns for this storage on a device",
           std::to_string(dim));
}

void check_search(const CosineTopkSearch& search) {
    if (search.k < 0 || search.k > kLargestCosineK) {
        refuse("k", "at most " + std::to_string(kLargestCosineK) + " on a device",
               std::to_string(search.k));
    }
    check_dim(search.queries.n_columns, search.storage);
    if (search.queries.n_rows >= std::int64_t{1} << 31) {
        refuse("queries", "fewer than 2^31 rows on a device",
               std::to_string(search.queries.n_rows));
    }
}

void check_passages(const CosineTopkSearch& search, const CosinePassages& passages) {
    const std::int64_t dim = search.queries.n_columns;
    if (passages.rows.n_columns != dim) {
        refuse("queries",
               "rows of dim " + std::to_string(passages.rows.n_columns) +
                   ", as the passages have, and at least 1",
               "dim " + std::to_string(dim));
    }
    const std::int64_t end = passages.first_index + passages.rows.n_rows;
    if (end > kMostPassages) {
        refuse("passages", "fewer than 2^32 rows on a device", std::to_string(end));
    }
}

PassageState passage_state(const CosinePassages& passages) {
    PassageState state{};
    state.rows = passages.rows.data;
    state.dim = passages.rows.n_columns;
    state.inverse_norms = passages.inverse_norms;
    state.first_index = passages.first_index;
    if (passages.storage == CosineStorage::kFloat32) {
        state.words = reinterpret_cast<const unsigned*>(passages.rows.data);
        state.row_words = static_cast<int>(passages.rows.n_columns);
        state.aligned = passages.rows.n_columns % 4 == 0 &&
                        reinterpret_cast<std::uintptr_t>(passages.rows.data) % 16 == 0;
    } else {
        state.words = reinterpret_cast<const unsigned*>(passages.codes);
        state.row_words = static_cast<int>(words_of(passages.rows.n_columns, passages.storage));
        state.aligned = true;
        state.scales = passages.scales;
        state.residuals = passages.residuals;
    }
    return state;
}

WordKind word_kind(ScanPath path) {
    if (path == ScanPath::kFloat32) return WordKind::kFloat32;
    if (path == ScanPath::kTf32) return WordKind::kTf32;
    const bool bf16 = path == ScanPath::kBf16 || path == ScanPath::kBf16Portable;
    return bf16 ? WordKind::kBf16 : WordKind::kInt8;
}

dim3 warps_grid(std::int64_t n_rows) {
    return dim3(static_cast<unsigned>((n_rows + 3) / 4));
}

template <int kPer>
void launch_register_merge(const SearchState& state, const RoundSource& source, Stream stream) {
    EPIBIAS_LAUNCH((merge_in_registers<kPer>), dim3(static_cast<unsigned>(state.n_queries)),
                   dim3(kMergeWarps * 32), 0, stream, state, source);
    check_launch("merge_in_registers");
}

template <int kKept>
void launch_shared_merge(const SearchState& state, const PassageState& passages,
                         const RoundSource& source, Stream stream) {
    EPIBIAS_LAUNCH((merge_in_shared<kKept>), dim3(static_cast<unsigned>(state.n_queries)),
                   dim3(kSharedMergeThreads), 0, stream, state, passages, source);
    check_launch("merge_in_shared");
}

void launch_merge(const SearchState& state, const PassageState& passages, const RoundSource& source,
                  Stream stream) {
    if (state.n_kept == 32) launch_register_merge<1>(state, source, stream);
    if (state.n_kept == 64) launch_register_merge<2>(state, source, stream);
    if (state.n_kept == 128) launch_register_merge<4>(state, source, stream);
    if (state.n_kept == 256) launch_register_merge<8>(state, source, stream);
    // Too many rows for the buffer can only survive of a round that has more.
    const bool fits = source.rows.n_rows <= state.capacity;
    if (fits && state.n_kept <= kMostInRegisters) return;
    if (state.n_kept <= 1024) return launch_shared_merge<1024>(state, passages, source, stream);
    launch_shared_merge<4096>(state, passages, source, stream);
}

// Canonical scores of the candidates, and the merge with what was best before.
void finish_round(const SearchState& state, const PassageState& passages, const RoundSource& source,
                  Stream stream) {
    using Policy = CosinePolicy;
    const std::int64_t most = std::min<std::int64_t>(state.capacity, source.rows.n_rows);
    const std::int64_t slices = std::clamp<std::int64_t>(
        Policy::kRescoreBlocks / state.n_queries, 1,
        std::min(Policy::kMostRescoreSlices, most / Policy::kRowsPerSlice + 1));
    EPIBIAS_LAUNCH(rescore_survivors,
                   dim3(static_cast<unsigned>(state.n_queries), static_cast<unsigned>(slices)),
                   dim3(128), 0, stream, state, passages, source);
    check_launch("rescore_survivors");
    launch_merge(state, passages, source, stream);
}

// Once a range: a faulty inverse norm passes every filter, so the re-score has met it.
void describe_fault_of(const SearchState& state, const PassageState& passages, std::int64_t n_rows,
                       Stream stream) {
    EPIBIAS_LAUNCH(describe_fault_of_tile<double>, 1, 1, 0, stream, state.fault,
                   CosineArgument::kInverseNorms, passages.inverse_norms, std::int64_t{1},
                   passages.first_index, n_rows);
    check_launch("describe_fault_of_tile");
}

}  // namespace

void check_cosine_k(std::int64_t k, std::int64_t n_passages) {
    if (k == 0 && n_passages == 0) return;
    if (k >= 1 && k <= n_passages) return;
    const std::string allowed =
        n_passages == 0 ? "0, as there are no passages"
                        : "1 to " + std::to_string(n_passages) + " (the number of passages)";
    refuse("k", allowed, std::to_string(k));
}

void launch_norms_of_tile(const CosinePassages& passages, double* norms, Fault* fault,
                          Stream stream) {
    const PassageState state = passage_state(passages);
    const MatrixView<const float> rows = passages.rows;
    EPIBIAS_LAUNCH(norms_of_tile, warps_grid(rows.n_rows), dim3(128), 0, stream, state, rows.n_rows,
                   norms, fault);
    check_launch("norms_of_tile");
    EPIBIAS_LAUNCH(describe_fault_of_tile<float>, 1, 1, 0, stream, fault, CosineArgument::kPassages,
                   rows.data, rows.n_columns, passages.first_index, rows.n_rows);
    check_launch("describe_fault_of_tile");
}

std::int64_t code_row_bytes(std::int64_t dim, CosineStorage storage) {
    if (storage == CosineStorage::kFloat32) refuse("storage", "bf16 or int8", "float32");
    check_dim(dim, storage);
    return 4 * words_of(dim, storage);
}

void prepare_passages(MatrixView<const float> rows, const double* inverse_norms,
                      CosineStorage storage, std::uint8_t* codes, float* scales, float* residuals,
                      Stream stream) {
    const std::int64_t row_bytes = code_row_bytes(rows.n_columns, storage);
    if (rows.n_rows == 0) return;
    PassageState state{};
    state.rows = rows.data;
    state.dim = rows.n_columns;
    state.inverse_norms = inverse_norms;
    state.row_words = static_cast<int>(row_bytes / 4);
    const WordKind kind = storage == CosineStorage::kBf16 ? WordKind::kBf16 : WordKind::kInt8;
    EPIBIAS_LAUNCH(prepare_unit_rows, warps_grid(rows.n_rows), dim3(128), 0, stream, state,
                   rows.n_rows, kind, reinterpret_cast<unsigned*>(codes), scales, residuals);
    check_launch("prepare_unit_rows");
}

std::size_t cosine_topk_workspace_bytes(std::int64_t n_queries, std::int64_t dim, std::int64_t k,
                                        CosineStorage storage, const CosineTopkOptions& options) {
    CosineTopkSearch search{{nullptr, n_queries, dim}, k, storage, nullptr, nullptr, {}, options};
    check_search(search);
    std::size_t bytes = 0;
    static_cast<void>(
        cosine_state(search, cosine_plan(n_queries, dim, k, storage, options), &bytes));
    return bytes;
}

void cosine_topk_begin(CosineTopkSearch& search) {
    check_search(search);
    const std::int64_t dim = search.queries.n_columns;
    const CosinePlan plan =
        cosine_plan(search.queries.n_rows, dim, search.k, search.storage, search.options);
    const ScanPath path = scan_path(search.storage, search.options.tensor_cores);
    search.rows_seen = 0;
    if (search.queries.n_rows == 0) return;
    EPIBIAS_LAUNCH(prepare_queries, warps_grid(plan.n_padded), dim3(128), 0, search.stream,
                   cosine_state(search, plan), plan.n_padded, word_kind(path),
                   scan_error(path, dim));
    check_launch("prepare_queries");
    EPIBIAS_LAUNCH(describe_fault<float>, 1, 1, 0, search.stream, search.fault,
                   static_cast<int>(CosineArgument::kQueries), search.queries.data, dim);
    check_launch("describe_fault");
}

void cosine_topk_range(CosineTopkSearch& search, const CosinePassages& passages,
                       std::int64_t first_row, std::int64_t n_rows) {
    check_passages(search, passages);
    const std::int64_t n_queries = search.queries.n_rows;
    if (n_queries == 0 || n_rows == 0) return;
    const CosinePlan plan =
        cosine_plan(n_queries, search.queries.n_columns, search.k, search.storage, search.options);
    const SearchState state = cosine_state(search, plan);
    const PassageState own = passage_state(passages);
    const ScanPath path = scan_path(search.storage, search.options.tensor_cores);
    // What the rows of a round are a multiple of: rows whose k-th similarity is known.
    std::int64_t basis = search.rows_seen;
    if (basis == 0) {
        const bool all = n_rows <= plan.sample_rows;
        basis = all ? n_rows : plan.sample_rows;
        const RowRange sample{first_row, basis, n_rows / basis};
        finish_round(state, own, {sample, true, all}, search.stream);
        if (all) {
            search.rows_seen = n_rows;
            return describe_fault_of(state, own, passages.rows.n_rows, search.stream);
        }
    }
    for (std::int64_t done = 0; done < n_rows;) {
        const RowRange rows{first_row + done, std::min(n_rows - done, basis * plan.growth), 1};
        launch_scan(path, state, own, rows, search.stream);
        finish_round(state, own, {rows, false, true}, search.stream);
        done += rows.n_rows;
        basis = std::max(basis, search.rows_seen + done);
    }
    search.rows_seen += n_rows;
    describe_fault_of(state, own, passages.rows.n_rows, search.stream);
}

void cosine_topk_finish(const CosineTopkSearch& search, MatrixView<std::int64_t> indices,
                        MatrixView<float> similarities, std::int64_t* n_rescored) {
    if (search.queries.n_rows > 0) check_cosine_k(search.k, search.rows_seen);
    if (search.queries.n_rows == 0) {
        if (n_rescored != nullptr) fill_async(n_rescored, 0, sizeof *n_rescored, search.stream);
        return;
    }
    const CosinePlan plan = cosine_plan(search.queries.n_rows, search.queries.n_columns, search.k,
                                        search.storage, search.options);
    EPIBIAS_LAUNCH(write_answers, dim3(static_cast<unsigned>(search.queries.n_rows)), dim3(128), 0,
                   search.stream, cosine_state(search, plan), indices.data, similarities.data,
                   n_rescored);
    check_launch("write_answers");
}

void cosine_topk(MatrixView<const float> queries, const CosinePassages& passages, std::int64_t k,
                 MatrixView<std::int64_t> indices, MatrixView<float> similarities,
                 std::int64_t* n_rescored, void* workspace, Fault* fault, Stream stream,
                 const CosineTopkOptions& options) {
    const std::int64_t n_passages = passages.rows.n_rows;
    check_cosine_k(k, n_passages);
    CosineTopkSearch search{queries, k, passages.storage, workspace, fault, stream, options};
    cosine_topk_begin(search);
    cosine_topk_range(search, passages, 0, n_passages);
    cosine_topk_finish(search, indices, similarities, n_rescored);
}

}  // namespace epibias::cuda
