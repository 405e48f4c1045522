#include <algorithm>
#include <string>

#include "epibias/cuda/rerank.hpp"
#include "refuse.hpp"
#include "rerank.cuh"

namespace epibias::cuda {

namespace {

std::size_t block_bytes(std::int64_t n) {
    return static_cast<std::size_t>(MmrSpace::n_values(n)) * sizeof(double);
}

void require(MatrixView<const float> similarities, MatrixView<const float> embeddings,
             std::int64_t k, double relevance_weight, std::size_t workspace_bytes) {
    const std::int64_t n = similarities.n_columns;
    if (k < 0 || k > n) {
        refuse("k", "0 to " + std::to_string(n) + " (the number of candidates)", std::to_string(k));
    }
    const bool weight_inside = relevance_weight >= 0 && relevance_weight <= 1;
    if (!weight_inside) {
        refuse("relevance_weight", "a number from 0 to 1", number_text(relevance_weight));
    }
    if (embeddings.n_rows != similarities.n_rows * n) {
        refuse("embeddings",
               std::to_string(similarities.n_rows) + " x " + std::to_string(n) +
                   " rows, as similarities",
               std::to_string(embeddings.n_rows));
    }
    if (similarities.n_rows * 2 * n > kMaxFaultRows) {
        refuse("similarities", "fewer than 2^35 values", "more");
    }
    if (similarities.n_rows == 0 || workspace_bytes >= block_bytes(n)) return;
    refuse("workspace", "at least " + std::to_string(block_bytes(n)) + " bytes",
           std::to_string(workspace_bytes));
}

}  // namespace

std::size_t mmr_workspace_bytes(std::int64_t n_queries, std::int64_t n) {
    return static_cast<std::size_t>(std::min(n_queries, kMostMmrBlocks)) * block_bytes(n);
}

void mmr(MatrixView<const float> similarities, MatrixView<const float> embeddings, std::int64_t k,
         MatrixView<std::int64_t> indices, double relevance_weight, void* workspace,
         std::size_t workspace_bytes, Fault* fault, Stream stream) {
    require(similarities, embeddings, k, relevance_weight, workspace_bytes);
    const MmrCall call{.similarities = similarities.data,
                       .embeddings = embeddings.data,
                       .n_queries = similarities.n_rows,
                       .n = similarities.n_columns,
                       .dim = embeddings.n_columns,
                       .k = k,
                       .relevance_weight = relevance_weight,
                       .indices = indices.data,
                       .workspace = static_cast<double*>(workspace),
                       .fault = fault};
    if (call.n_queries == 0 || call.n == 0) return;
    const auto fitting = static_cast<std::int64_t>(workspace_bytes / block_bytes(call.n));
    const std::int64_t n_blocks = std::min({call.n_queries, fitting, kMostMmrBlocks});
    EPIBIAS_LAUNCH(select_by_mmr, dim3(static_cast<unsigned>(n_blocks)), dim3(MmrPolicy::kThreads),
                   0, stream, call);
    check_launch("select_by_mmr");
}

}  // namespace epibias::cuda
