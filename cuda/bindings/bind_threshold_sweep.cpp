// threshold_sweep and printed_sweep on a device, for python/epibias/device/threshold_sweep.py.
#include "bindings/sweep_options.hpp"
#include "device_array.hpp"
#include "epibias/cuda/threshold_sweep.hpp"
#include "module.hpp"

namespace epibias::cuda::bindings {

namespace {

using epibias::bindings::sweep_options;

// The outputs of a sweep: (thresholds, n_kept, divergences, p_values, curve or None, n_undecided),
// the p-values and n_undecided None for the printed rule.
class SweepOutputs {
  public:
    SweepOutputs(DeviceCall& call, const py::tuple& outputs, std::int64_t n_queries,
                 std::int64_t curve_columns)
        : thresholds_(call, "thresholds", outputs[0], {1}),
          n_kept_(call, "n_kept", outputs[1], {1}),
          divergences_(call, "divergences", outputs[2], {1}),
          p_values_(optional_device_array<double>(call, "p_values", outputs[3], {1})),
          curve_(optional_device_array<double>(call, "curve", outputs[4], {2})),
          n_undecided_(optional_device_array<std::int64_t>(call, "n_undecided", outputs[5], {1})) {
        check_shape("thresholds", thresholds_, {n_queries});
        check_shape("n_kept", n_kept_, {n_queries});
        check_shape("divergences", divergences_, {n_queries});
        if (p_values_) check_shape("p_values", *p_values_, {n_queries});
        if (n_undecided_) check_shape("n_undecided", *n_undecided_, {n_queries});
        if (curve_) check_shape("curve", *curve_, {n_queries, curve_columns});
    }

    [[nodiscard]] SweepResult view() const {
        SweepResult result;
        result.thresholds = span_of(thresholds_);
        result.n_kept = span_of(n_kept_);
        result.divergences = span_of(divergences_);
        if (p_values_) result.p_values = span_of(*p_values_);
        if (n_undecided_) result.n_undecided = span_of(*n_undecided_);
        if (curve_) result.curve = curve_->matrix();
        return result;
    }

  private:
    template <typename Value>
    static std::span<Value> span_of(const DeviceArray<Value>& array) {
        return {array.data(), static_cast<std::size_t>(array.size())};
    }

    DeviceArray<float> thresholds_;
    DeviceArray<std::int64_t> n_kept_;
    DeviceArray<double> divergences_;
    std::optional<DeviceArray<double>> p_values_, curve_;
    std::optional<DeviceArray<std::int64_t>> n_undecided_;
};

std::int64_t workspace_size(std::int64_t n_queries, std::int64_t n) {
    return static_cast<std::int64_t>(threshold_sweep_workspace_bytes(n_queries, n));
}

void sweep(const py::object& similarities, const py::object& scores, const std::string& criterion,
           std::int64_t min_kept, std::int64_t min_dropped, double kappa, double bandwidth_factor,
           std::int64_t permutations, std::int64_t max_exceedances, const py::int_& seed,
           const std::string& precision, const std::string& method, const py::object& query_ids,
           const py::tuple& outputs, const py::object& workspace, const py::object& fault,
           std::uintptr_t stream) {
    DeviceCall call(stream);
    const DeviceArray<const float> xs(call, "similarities", similarities, {2});
    const DeviceArray<const float> ys(call, "scores", scores, {2});
    const auto ids = optional_device_array<const std::int64_t>(call, "query_ids", query_ids, {1});
    ThresholdSweepOptions options =
        sweep_options(criterion, min_kept, min_dropped, kappa, bandwidth_factor, permutations,
                      max_exceedances, seed, precision, method);
    const std::int64_t n_queries = xs.shape(0), n = xs.shape(1);
    if (ids) {
        if (ids->size() != n_queries) {  // an empty span would mean "not given"
            throw std::invalid_argument("query_ids: expected " + std::to_string(n_queries) +
                                        " ids, one a query, got " + std::to_string(ids->size()));
        }
        options.query_ids = {ids->data(), static_cast<std::size_t>(n_queries)};
    }
    const SweepOutputs results(call, outputs, n_queries, n > 1 ? n - 1 : 0);
    void* const memory = workspace_bytes(call, workspace, workspace_size(n_queries, n));
    Fault* const record = fault_record(call, fault);
    call.run([&] {
        threshold_sweep(xs.matrix(), ys.matrix(), results.view(), options, memory, record,
                        call.stream());
    });
}

void printed(const py::object& similarities, const py::object& scores, double tau,
             std::int64_t n_thresholds, double floor, double bandwidth_factor,
             const py::tuple& outputs, const py::object& workspace, const py::object& fault,
             std::uintptr_t stream) {
    DeviceCall call(stream);
    const DeviceArray<const float> xs(call, "similarities", similarities, {2});
    const DeviceArray<const float> ys(call, "scores", scores, {2});
    PrintedSweepOptions options;
    options.tau = tau;
    options.n_thresholds = n_thresholds;
    options.floor = floor;
    options.bandwidth_factor = bandwidth_factor;
    const SweepOutputs results(call, outputs, xs.shape(0), n_thresholds);
    void* const memory = workspace_bytes(call, workspace, workspace_size(xs.shape(0), xs.shape(1)));
    Fault* const record = fault_record(call, fault);
    call.run([&] {
        printed_sweep(xs.matrix(), ys.matrix(), results.view(), options, memory, record,
                      call.stream());
    });
}

}  // namespace

void bind_threshold_sweep(py::module_& module) {
    module.def("threshold_sweep_workspace_bytes", &workspace_size, py::arg("n_queries"),
               py::arg("n"), "Bytes of workspace that either sweep needs.");
    module.def("threshold_sweep", &sweep, py::arg("similarities"), py::arg("scores"), py::kw_only(),
               py::arg("criterion"), py::arg("min_kept"), py::arg("min_dropped"), py::arg("kappa"),
               py::arg("bandwidth_factor"), py::arg("permutations"), py::arg("max_exceedances"),
               py::arg("seed"), py::arg("precision"), py::arg("method"), py::arg("query_ids"),
               py::arg("outputs"), py::arg("workspace"), py::arg("fault"), py::arg("stream"),
               "threshold_sweep into (thresholds, n_kept, divergences, p_values, curve, "
               "n_undecided).");
    module.def("printed_sweep", &printed, py::arg("similarities"), py::arg("scores"), py::kw_only(),
               py::arg("tau"), py::arg("n_thresholds"), py::arg("floor"),
               py::arg("bandwidth_factor"), py::arg("outputs"), py::arg("workspace"),
               py::arg("fault"), py::arg("stream"),
               "printed_sweep into (thresholds, n_kept, divergences, None, curve, None).");
}

}  // namespace epibias::cuda::bindings
