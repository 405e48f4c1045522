#include <algorithm>

#include "epibias/cuda/rank_candidates.hpp"
#include "rank_candidates.cuh"
#include "rank_checks.hpp"
#include "require.hpp"

namespace epibias::cuda {

namespace {

using ranking::RankArrays;
using ranking::RankPolicy;
using ranking::RankResults;

void check_result(const RankedCandidates& result, std::int64_t n_candidates) {
    epibias::ranking::check_rows("rows", "candidate_embeddings", std::ssize(result.rows),
                                 n_candidates);
}

void poison(const RankedCandidates& result, Stream stream) {
    fill_async(result.rows.data(), 0xFF, result.rows.size_bytes(), stream);
    fill_async(result.indices.data(), 0xFF, result.indices.size_bytes(), stream);
    fill_async(result.similarities.data(), 0xFF, result.similarities.size_bytes(), stream);
    fill_async(result.scores.data(), 0xFF, result.scores.size_bytes(), stream);
}

}  // namespace

std::size_t rank_candidates_workspace_bytes(std::int64_t /*n_queries*/, std::int64_t n_candidates) {
    if (n_candidates <= RankPolicy::kCapacity) return 0;
    return static_cast<std::size_t>(n_candidates * RankPolicy::kBytesPerCandidate);
}

void rank_candidates(const CandidateRows& given, const RankedCandidates& result, void* workspace,
                     Fault* fault, Stream stream) {
    const std::int64_t n_queries = given.queries.n_rows, n_candidates = given.candidates.n_rows;
    epibias::ranking::check_rows("offsets", "queries and one more", std::ssize(given.offsets),
                                 n_queries + 1);
    epibias::ranking::check_row_shapes(given);
    epibias::ranking::check_axis_choice(given);
    check_result(result, n_candidates);
    require_fault_places("query_embeddings", 8 * n_queries, 1);
    if (n_queries == 0 && n_candidates > 0) {
        refuse("offsets",
               "offsets that rise from 0 to " + std::to_string(n_candidates) +
                   " (the number of candidates)",
               "others");
    }
    poison(result, stream);
    if (n_queries == 0) return;
    const RankArrays arrays{given.queries.data,
                            given.candidates.data,
                            given.ps_rows.data,
                            given.axes.data,
                            given.offsets.data(),
                            given.indices.data(),
                            given.axis_of_query.data(),
                            given.score_offsets.data(),
                            n_queries,
                            n_candidates,
                            given.queries.n_columns,
                            given.axes.n_rows,
                            given.axes.n_columns,
                            given.normalize};
    const RankResults results{result.rows.data(), result.indices.data(), result.similarities.data(),
                              result.scores.data()};
    if (!given.score_offsets.empty()) {
        EPIBIAS_LAUNCH(ranking::check_score_offsets_kernel,
                       grid_size("score_offsets", given.axes.n_rows, 128), 128, 0, stream,
                       given.score_offsets.data(), given.axes.n_rows, fault);
        check_launch("check_score_offsets");
    }
    const std::int64_t capacity = std::min(n_candidates, RankPolicy::kCapacity);
    const auto shared = static_cast<std::size_t>(capacity * RankPolicy::kBytesPerCandidate);
    EPIBIAS_LAUNCH(ranking::rank_candidates_kernel, grid_size("query_embeddings", n_queries, 1),
                   RankPolicy::kThreads, shared, stream, arrays, results, capacity,
                   static_cast<unsigned char*>(workspace), fault);
    check_launch("rank_candidates");
    EPIBIAS_LAUNCH(ranking::describe_rank_fault, 1, 32, 0, stream, fault, arrays);
    check_launch("describe_rank_fault");
}

}  // namespace epibias::cuda
