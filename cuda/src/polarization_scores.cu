#include <algorithm>
#include <string>

#include "epibias/cuda/polarization_scores.hpp"
#include "polarization_scores.cuh"
#include "refuse.hpp"

namespace epibias::cuda {

namespace {

constexpr std::int64_t kMostBlocks = 65'535;  // each goes on where the grid ends
constexpr unsigned kThreads = ScorePolicy::kWarps * kWarp;

dim3 blocks_of(std::int64_t n_items, std::int64_t items_a_block) {
    const std::int64_t n_blocks = (n_items + items_a_block - 1) / items_a_block;
    return dim3(static_cast<unsigned>(std::clamp<std::int64_t>(n_blocks, 1, kMostBlocks)));
}

ScoreCall checked_call(const std::string& argument, MatrixView<const float> rows,
                       MatrixView<const float> axes, bool normalize, Fault* fault) {
    if (axes.n_columns != rows.n_columns) {
        refuse("axes", "dim " + std::to_string(rows.n_columns) + ", as " + argument,
               "dim " + std::to_string(axes.n_columns));
    }
    if (rows.n_rows > kMaxFaultRows) refuse(argument, "fewer than 2^36 rows", "more");
    return {rows.data, axes.data, rows.n_rows, axes.n_rows, rows.n_columns, fault, normalize};
}

void launch_check_axes(const ScoreCall& call, Stream stream) {
    if (call.n_topics == 0) return;
    EPIBIAS_LAUNCH(check_axes, blocks_of(call.n_topics, ScorePolicy::kWarps), dim3(kThreads), 0,
                   stream, call);
    check_launch("check_axes");
}

}  // namespace

void anchor_scores(MatrixView<const float> anchors, MatrixView<const float> axes,
                   MatrixView<double> scores, bool normalize, Fault* fault, Stream stream) {
    const ScoreCall call = checked_call("anchors", anchors, axes, normalize, fault);
    if (axes.n_rows != scores.n_rows) {
        refuse("axes", std::to_string(scores.n_rows) + " axes, one a topic",
               std::to_string(axes.n_rows));
    }
    launch_check_axes(call, stream);
    if (call.n_rows == 0) return;
    EPIBIAS_LAUNCH(score_anchors, blocks_of(call.n_rows, ScorePolicy::kWarps), dim3(kThreads), 0,
                   stream, call, scores.n_columns, scores.data);
    check_launch("score_anchors");
}

void polarization_scores(MatrixView<const float> rows, MatrixView<const float> axes,
                         MatrixView<float> scores, bool normalize, Fault* fault, Stream stream) {
    const ScoreCall call = checked_call("rows", rows, axes, normalize, fault);
    launch_check_axes(call, stream);
    if (call.n_rows == 0) return;
    EPIBIAS_LAUNCH(score_rows, blocks_of(call.n_rows, ScorePolicy::kWarps), dim3(kThreads), 0,
                   stream, call, scores.data);
    check_launch("score_rows");
}

void gathered_polarization_scores(MatrixView<const float> rows, MatrixView<const float> axes,
                                  MatrixView<const std::int64_t> indices,
                                  const std::int64_t* axis_of_query, MatrixView<float> scores,
                                  bool normalize, Fault* fault, Stream stream) {
    const ScoreCall call = checked_call("rows", rows, axes, normalize, fault);
    const std::int64_t n_queries = indices.n_rows;
    if (axis_of_query == nullptr && axes.n_rows != 1 && axes.n_rows != n_queries) {
        refuse("axis_of_query",
               "the axis of every query, as there are " + std::to_string(axes.n_rows) +
                   " axes and " + std::to_string(n_queries) + " rows of indices",
               "none");
    }
    if (n_queries * (indices.n_columns + 1) > kMaxFaultRows) {
        refuse("indices", "fewer than 2^36 elements", "more");
    }
    const Gathered gathered{indices.data, axis_of_query, n_queries, indices.n_columns, scores.data};
    launch_check_axes(call, stream);
    if (n_queries == 0) return;
    if (axis_of_query != nullptr) {
        EPIBIAS_LAUNCH(check_axes_of_queries,
                       dim3(static_cast<unsigned>((n_queries + kThreads - 1) / kThreads)),
                       dim3(kThreads), 0, stream, call, gathered);
        check_launch("check_axes_of_queries");
    }
    if (indices.n_columns != 0) {
        EPIBIAS_LAUNCH(score_gathered,
                       blocks_of(n_queries * indices.n_columns, ScorePolicy::kWarps),
                       dim3(kThreads), 0, stream, call, gathered);
        check_launch("score_gathered");
    }
    EPIBIAS_LAUNCH(note_index, dim3(1), dim3(1), 0, stream, fault, gathered);
    check_launch("note_index");
}

}  // namespace epibias::cuda
