// threshold_sweep with and without permutations, printed_sweep, and BiasDef from vectors on.
#include "checks.hpp"
#include "epibias/biasdef_select.hpp"
#include "epibias/cuda/biasdef_select.hpp"
#include "epibias/cuda/threshold_sweep.hpp"

namespace epibias::cuda::check {
namespace {

// What a sweep writes, on the host or on the device.
template <template <typename> typename Array>
struct SweepArrays {
    explicit SweepArrays(std::size_t n_queries)
        : thresholds(n_queries), n_kept(n_queries), divergences(n_queries), p_values(n_queries) {}
    Array<float> thresholds;
    Array<std::int64_t> n_kept;
    Array<double> divergences;
    Array<double> p_values;
};
template <typename Value>
using HostArray = std::vector<Value>;

void check_sweep(std::int64_t n_queries, std::int64_t n, std::int64_t permutations, bool printed) {
    const auto similarities = random_values(n_queries * n, 7);
    const auto scores = random_values(n_queries * n, 8);
    const MatrixView<const float> x{similarities.data(), n_queries, n};
    const MatrixView<const float> y{scores.data(), n_queries, n};
    const ThresholdSweepOptions options{.permutations = permutations, .seed = 5};
    const auto size = static_cast<std::size_t>(n_queries);
    SweepArrays<HostArray> expected(size);
    const SweepResult on_host{
        expected.thresholds, expected.n_kept, expected.divergences, expected.p_values, {}};
    if (printed) {
        epibias::printed_sweep(x, y, on_host);
    } else {
        epibias::threshold_sweep(x, y, on_host, options);
    }

    const DeviceArray<float> device_x{std::span<const float>(similarities)};
    const DeviceArray<float> device_y{std::span<const float>(scores)};
    const SweepArrays<DeviceArray> found(size);
    const SweepResult on_device{found.thresholds.span(),
                                found.n_kept.span(),
                                found.divergences.span(),
                                found.p_values.span(),
                                {}};
    const DeviceArray<unsigned char> workspace(threshold_sweep_workspace_bytes(n_queries, n));
    const FaultRecord fault;
    if (printed) {
        printed_sweep(device_x.view(n_queries, n), device_y.view(n_queries, n), on_device, {},
                      workspace.data(), fault.data(), {});
    } else {
        threshold_sweep(device_x.view(n_queries, n), device_y.view(n_queries, n), on_device,
                        options, workspace.data(), fault.data(), {});
    }
    const std::string name = printed ? "printed_sweep" : "threshold_sweep";
    expect_no_fault(name, fault);
    expect_same(name + ", thresholds", found.thresholds.values(), expected.thresholds);
    expect_same(name + ", n_kept", found.n_kept.values(), expected.n_kept);
    expect_same(name + ", divergences", found.divergences.values(), expected.divergences);
    expect_same(name + ", p-values", found.p_values.values(), expected.p_values);
}

}  // namespace

void check_threshold_sweep() {
    check_sweep(3, 2, 0, false);
    check_sweep(2, 65, 0, false);
    check_sweep(2, 33, 9, false);
    check_sweep(2, 40, 0, true);
}

void check_biasdef_select() {
    const std::vector<std::int64_t> offsets = {0, 33, 45, 110};
    constexpr std::int64_t kQueries = 3;
    constexpr std::int64_t kCandidates = 110;
    constexpr std::int64_t kMost = 65;
    const auto scores = random_values(kCandidates, 9);
    std::vector<float> similarities(scores.size());
    for (std::size_t query = 0; query + 1 < offsets.size(); ++query) {  // in the total order
        for (auto i = offsets[query]; i < offsets[query + 1]; ++i) {
            similarities[static_cast<std::size_t>(i)] =
                1.0F - 0.01F * static_cast<float>(i - offsets[query]);
        }
    }
    const BiasDefOptions options;
    std::vector<std::int64_t> order(kCandidates);
    std::vector<std::int64_t> n_selected(kQueries);
    std::vector<std::int64_t> n_kept(kQueries);
    std::vector<std::int64_t> n_moved(kQueries);
    std::vector<DroppedSide> sides(kQueries);
    SweepArrays<HostArray> expected(kQueries);
    epibias::biasdef_select({similarities, scores, offsets, {}},
                            {order, n_selected, n_kept, n_moved, sides, expected.thresholds,
                             expected.divergences, expected.p_values},
                            options);

    const DeviceArray<float> device_similarities{std::span<const float>(similarities)};
    const DeviceArray<float> device_scores{std::span<const float>(scores)};
    const DeviceArray<std::int64_t> device_offsets{std::span<const std::int64_t>(offsets)};
    const DeviceArray<std::int64_t> device_order(kCandidates);
    const DeviceArray<std::int64_t> device_selected(kQueries);
    const DeviceArray<std::int64_t> device_kept(kQueries);
    const DeviceArray<std::int64_t> device_moved(kQueries);
    const DeviceArray<DroppedSide> device_sides(kQueries);
    const SweepArrays<DeviceArray> found(kQueries);
    const DeviceArray<unsigned char> workspace(
        biasdef_select_workspace_bytes(kQueries, kCandidates, kMost, false));
    const FaultRecord fault;
    biasdef_select({device_similarities.span(), device_scores.span(), device_offsets.span(), {}},
                   {device_order.span(), device_selected.span(), device_kept.span(),
                    device_moved.span(), device_sides.span(), found.thresholds.span(),
                    found.divergences.span(), found.p_values.span()},
                   options, kMost, workspace.data(), fault.data(), {});
    expect_no_fault("biasdef_select", fault);
    expect_same("biasdef_select, n_selected", device_selected.values(), n_selected);
    expect_same("biasdef_select, n_kept", device_kept.values(), n_kept);
    expect_same("biasdef_select, thresholds", found.thresholds.values(), expected.thresholds);
    expect_same("biasdef_select, divergences", found.divergences.values(), expected.divergences);
    const auto found_order = device_order.values();
    for (std::size_t query = 0; query + 1 < offsets.size(); ++query) {
        for (std::int64_t i = 0; i < n_selected[query]; ++i) {
            const auto at = static_cast<std::size_t>(offsets[query] + i);
            if (found_order[at] != order[at]) {
                throw std::runtime_error("biasdef_select: another selection");
            }
        }
    }
}

}  // namespace epibias::cuda::check
