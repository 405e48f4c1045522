// polarization_axis (few and many anchors), both kinds of scores, and mmr.
#include <cmath>

#include "checks.hpp"
#include "epibias/cuda/polarization_axis.hpp"
#include "epibias/cuda/polarization_scores.hpp"
#include "epibias/cuda/rerank.hpp"
#include "epibias/polarization_axis.hpp"
#include "epibias/rerank.hpp"

namespace epibias::cuda::check {
namespace {

constexpr double kAngle = 1e-5;  // of axes: their sums have another order than the CPU's

// Axes of the CPU, after those of the device were found to be near them.
std::vector<float> check_axis(std::int64_t n_topics, std::int64_t n_anchors, std::int64_t dim) {
    const auto anchors = random_values(n_topics * n_anchors * dim, 3);
    const auto n_axes = static_cast<std::size_t>(n_topics * dim);
    const auto n = static_cast<std::size_t>(n_topics);
    std::vector<float> expected(n_axes);
    std::vector<double> explained(n);
    std::vector<double> gap(n);
    const MatrixView<const float> rows{anchors.data(), n_topics * n_anchors, dim};
    epibias::polarization_axis(rows, n_anchors, {},
                               {{expected.data(), n_topics, dim}, explained, gap});

    const DeviceArray<float> device_anchors{std::span<const float>(anchors)};
    const DeviceArray<float> axes(n_axes);
    const DeviceArray<double> device_explained(n);
    const DeviceArray<double> device_gap(n);
    const std::size_t n_bytes = polarization_axis_workspace_bytes(n_topics, n_anchors, dim);
    const DeviceArray<unsigned char> workspace(n_bytes);
    const FaultRecord fault;
    polarization_axis(device_anchors.view(n_topics * n_anchors, dim), n_anchors, {},
                      {axes.matrix(n_topics, dim), device_explained.span(), device_gap.span()},
                      true, workspace.data(), n_bytes, fault.data(), {});
    const std::string name = "polarization_axis, " + std::to_string(n_anchors) + " anchors";
    expect_no_fault(name, fault);
    const auto found = axes.values();
    for (std::size_t topic = 0; topic < n; ++topic) {
        double squares = 0;
        for (std::int64_t i = 0; i < dim; ++i) {
            const std::size_t at =
                topic * static_cast<std::size_t>(dim) + static_cast<std::size_t>(i);
            squares += std::pow(static_cast<double>(found[at]) - expected[at], 2);
        }
        if (!(std::sqrt(squares) <= kAngle)) throw std::runtime_error(name + ": another axis");
    }
    return expected;
}

void check_scores(const std::vector<float>& axes, std::int64_t n_axes, std::int64_t dim) {
    constexpr std::int64_t kRows = 70;
    constexpr std::int64_t kGathered = 9;
    const auto rows = random_values(kRows * dim, 4);
    std::vector<std::int64_t> indices(static_cast<std::size_t>(n_axes * kGathered));
    for (std::size_t i = 0; i < indices.size(); ++i) {
        indices[i] = static_cast<std::int64_t>(i) * 7 % kRows;
    }
    std::vector<float> expected(static_cast<std::size_t>(n_axes * kRows));
    std::vector<float> gathered(static_cast<std::size_t>(n_axes * kGathered));
    const MatrixView<const float> row_view{rows.data(), kRows, dim};
    const MatrixView<const float> axis_view{axes.data(), n_axes, dim};
    epibias::polarization_scores(row_view, axis_view, {expected.data(), n_axes, kRows});
    epibias::gathered_polarization_scores(row_view, axis_view, {indices.data(), n_axes, kGathered},
                                          {}, {gathered.data(), n_axes, kGathered});

    const DeviceArray<float> device_rows{std::span<const float>(rows)};
    const DeviceArray<float> device_axes{std::span<const float>(axes)};
    const DeviceArray<std::int64_t> device_indices{std::span<const std::int64_t>(indices)};
    const DeviceArray<float> scores(expected.size());
    const DeviceArray<float> device_gathered(gathered.size());
    const FaultRecord fault;
    polarization_scores(device_rows.view(kRows, dim), device_axes.view(n_axes, dim),
                        scores.matrix(n_axes, kRows), true, fault.data(), {});
    gathered_polarization_scores(device_rows.view(kRows, dim), device_axes.view(n_axes, dim),
                                 device_indices.view(n_axes, kGathered), nullptr,
                                 device_gathered.matrix(n_axes, kGathered), true, fault.data(), {});
    expect_no_fault("polarization_scores", fault);
    expect_same("polarization_scores", scores.values(), expected);
    expect_same("gathered_polarization_scores", device_gathered.values(), gathered);
}

}  // namespace

void check_polarization() {
    check_axis(3, 2, 5);
    check_axis(2, 17, 33);
    check_axis(1, 40, 70);
    check_scores(check_axis(3, 8, 97), 3, 97);
}

void check_rerank() {
    constexpr std::int64_t kQueries = 3;
    constexpr std::int64_t kCandidates = 37;
    constexpr std::int64_t kDim = 19;
    constexpr std::int64_t kSelected = 12;
    const auto similarities = random_values(kQueries * kCandidates, 5);
    const auto embeddings = random_values(kQueries * kCandidates * kDim, 6);
    std::vector<std::int64_t> expected(static_cast<std::size_t>(kQueries * kSelected));
    epibias::mmr({similarities.data(), kQueries, kCandidates},
                 {embeddings.data(), kQueries * kCandidates, kDim}, kSelected,
                 {expected.data(), kQueries, kSelected});

    const DeviceArray<float> device_similarities{std::span<const float>(similarities)};
    const DeviceArray<float> device_embeddings{std::span<const float>(embeddings)};
    const DeviceArray<std::int64_t> positions(expected.size());
    const std::size_t n_bytes = mmr_workspace_bytes(kQueries, kCandidates);
    const DeviceArray<unsigned char> workspace(n_bytes);
    const FaultRecord fault;
    mmr(device_similarities.view(kQueries, kCandidates),
        device_embeddings.view(kQueries * kCandidates, kDim), kSelected,
        positions.matrix(kQueries, kSelected), MmrOptions{}.relevance_weight, workspace.data(),
        n_bytes, fault.data(), {});
    expect_no_fault("mmr", fault);
    expect_same("mmr", positions.values(), expected);
}

}  // namespace epibias::cuda::check
