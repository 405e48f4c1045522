#include <algorithm>
#include <string>

#include "epibias/cuda/polarization_axis.hpp"
#include "polarization_axis_few.cuh"
#include "polarization_axis_many.cuh"
#include "refuse.hpp"

namespace epibias::cuda {

namespace {

// Warps that share a block are as many as keep 8 blocks on a multiprocessor of 228 KiB.
template <int kMost>
struct FewPolicy {
    static constexpr int kWarps = kMost == 8 ? 4 : kMost == 16 ? 2 : 1;
};

constexpr std::int64_t kMostBlocks = 65'535;  // of a grid's second axis; plenty for the first

std::size_t slot_bytes(std::int64_t n_anchors, std::int64_t dim) {
    return static_cast<std::size_t>(ManyCall::slot_values(n_anchors, dim)) * sizeof(double);
}

// Topics whose parts of the workspace fit into so many bytes.
std::int64_t slots_in(std::size_t n_bytes, std::int64_t n_topics, std::int64_t n_anchors,
                      std::int64_t dim) {
    const auto fitting = static_cast<std::int64_t>(n_bytes / slot_bytes(n_anchors, dim));
    return std::min({n_topics, fitting, kMostBlocks});
}

template <int kMost>
void fit_few(const AxisCall& call, Stream stream) {
    constexpr int kWarps = FewPolicy<kMost>::kWarps;
    const std::int64_t n_blocks = std::min((call.n_topics + kWarps - 1) / kWarps, kMostBlocks);
    EPIBIAS_LAUNCH((fit_few_anchors<kMost, kWarps>), dim3(static_cast<unsigned>(n_blocks)),
                   dim3(kWarps * kWarp), 0, stream, call);
    check_launch("fit_few_anchors");
}

void fit_many(const ManyCall& many, Stream stream) {
    using Policy = ManyPolicy;
    const AxisCall& call = many.call;
    const auto slots = static_cast<unsigned>(many.n_slots);
    const std::int64_t row_blocks =
        (many.n_slots * call.n_anchors + Policy::kRowWarps - 1) / Policy::kRowWarps;
    const std::int64_t m = ManyCall::size(call.n_anchors, call.dim);
    const std::int64_t tiles = (m + Policy::kTile - 1) / Policy::kTile;
    const int pair_threads =
        m <= Policy::kFewPairRows ? Policy::kFewPairThreads : Policy::kMostPairThreads;
    EPIBIAS_LAUNCH(scale_rows, dim3(static_cast<unsigned>(std::min(row_blocks, kMostBlocks))),
                   dim3(Policy::kRowWarps * kWarp), 0, stream, many);
    check_launch("scale_rows");
    EPIBIAS_LAUNCH(mean_of_columns,
                   dim3(static_cast<unsigned>((call.dim + kWarp - 1) / kWarp), slots),
                   dim3(Policy::kMeanWarps * kWarp), 0, stream, many);
    check_launch("mean_of_columns");
    EPIBIAS_LAUNCH(centred_products, dim3(static_cast<unsigned>(tiles * (tiles + 1) / 2), slots),
                   dim3(Policy::kTileThreads), 0, stream, many);
    check_launch("centred_products");
    EPIBIAS_LAUNCH(fit_many_anchors, dim3(slots), dim3(static_cast<unsigned>(pair_threads)), 0,
                   stream, many);
    check_launch("fit_many_anchors");
}

void require(MatrixView<const float> anchors, std::int64_t n_anchors,
             MatrixView<const double> stances, std::size_t workspace_bytes) {
    if (n_anchors < 2) refuse("anchors", "at least 2 anchors a topic", std::to_string(n_anchors));
    const std::int64_t dim = anchors.n_columns;
    if (dim < 1) refuse("anchors", "at least 1 dimension", std::to_string(dim));
    const std::int64_t n_topics = anchors.n_rows / n_anchors;
    if (stances.data != nullptr && (stances.n_rows != n_topics || stances.n_columns != n_anchors)) {
        refuse("stances", "shape " + shape_text(n_topics, n_anchors),
               "shape " + shape_text(stances.n_rows, stances.n_columns));
    }
    if (n_topics * axis_fault_places(n_anchors) > kMaxFaultRows) {
        refuse("anchors", "fewer than 2^35 rows", std::to_string(anchors.n_rows));
    }
    if (n_topics == 0 || n_anchors <= kFewAnchors) return;
    const std::size_t needed = slot_bytes(n_anchors, dim);
    if (workspace_bytes < needed) {
        refuse("workspace", "at least " + std::to_string(needed) + " bytes",
               std::to_string(workspace_bytes));
    }
}

}  // namespace

std::size_t polarization_axis_workspace_bytes(std::int64_t n_topics, std::int64_t n_anchors,
                                              std::int64_t dim) {
    if (n_anchors <= kFewAnchors || n_topics == 0 || dim < 1) return 0;
    const std::int64_t fitting = slots_in(kMostWorkspaceBytes, n_topics, n_anchors, dim);
    return static_cast<std::size_t>(std::max<std::int64_t>(fitting, 1)) *
           slot_bytes(n_anchors, dim);
}

void polarization_axis(MatrixView<const float> anchors, std::int64_t n_anchors,
                       MatrixView<const double> stances, const PolarizationAxisResult& result,
                       bool normalize, void* workspace, std::size_t workspace_bytes, Fault* fault,
                       Stream stream) {
    require(anchors, n_anchors, stances, workspace_bytes);
    const AxisCall call{.anchors = anchors.data,
                        .stances = stances.data,
                        .n_topics = anchors.n_rows / n_anchors,
                        .n_anchors = n_anchors,
                        .dim = anchors.n_columns,
                        .axes = result.axes.data,
                        .explained = result.explained_variance_ratio.data(),
                        .gap = result.relative_gap.data(),
                        .fault = fault,
                        .normalize = normalize};
    if (call.n_topics == 0) return;
    if (n_anchors <= 8) return fit_few<8>(call, stream);
    if (n_anchors <= 16) return fit_few<16>(call, stream);
    if (n_anchors <= kFewAnchors) return fit_few<32>(call, stream);
    const std::int64_t at_once = slots_in(workspace_bytes, call.n_topics, n_anchors, call.dim);
    // One chunk after another on one stream: they share the workspace.
    for (std::int64_t first = 0; first < call.n_topics; first += at_once) {
        fit_many({.call = call,
                  .workspace = static_cast<double*>(workspace),
                  .first_topic = first,
                  .n_slots = std::min(at_once, call.n_topics - first)},
                 stream);
    }
}

}  // namespace epibias::cuda
