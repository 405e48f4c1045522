#include "device_array.hpp"
#include "epibias/cuda/polarization_axis.hpp"
#include "module.hpp"

namespace epibias::cuda::bindings {
namespace {

void fit(const py::handle& anchors, const py::object& stances, bool normalize,
         const py::handle& axes, const py::handle& explained, const py::handle& gap,
         const py::handle& workspace, const py::handle& fault, std::uintptr_t stream) {
    DeviceCall call(stream);
    const DeviceArray<const float> anchor_array(call, "anchors", anchors, {3});
    const auto stance_array = optional_device_array<const double>(call, "stances", stances, {2});
    const std::int64_t n_topics = anchor_array.shape(0);
    const std::int64_t n_anchors = anchor_array.shape(1);
    const std::int64_t dim = anchor_array.shape(2);
    const DeviceArray<float> axis_array(call, "axes", axes, {2});
    check_shape("axes", axis_array, {n_topics, dim});
    const DeviceArray<double> explained_array(call, "explained_variance_ratio", explained, {1});
    check_shape("explained_variance_ratio", explained_array, {n_topics});
    const DeviceArray<double> gap_array(call, "relative_gap", gap, {1});
    check_shape("relative_gap", gap_array, {n_topics});
    const std::size_t n_bytes = polarization_axis_workspace_bytes(n_topics, n_anchors, dim);
    std::uint8_t* const space =
        workspace_bytes(call, workspace, static_cast<std::int64_t>(n_bytes));
    Fault* const record = fault_record(call, fault);
    MatrixView<const double> stance_matrix;
    if (stance_array) stance_matrix = stance_array->matrix();
    const auto size = static_cast<std::size_t>(n_topics);
    const PolarizationAxisResult result{
        axis_array.matrix(), {explained_array.data(), size}, {gap_array.data(), size}};
    call.run([&] {
        polarization_axis(anchor_array.matrix(), n_anchors, stance_matrix, result, normalize, space,
                          n_bytes, record, call.stream());
    });
}

}  // namespace

void bind_polarization_axis(py::module_& module) {
    module.def("polarization_axis_workspace_bytes", &polarization_axis_workspace_bytes,
               py::arg("n_topics"), py::arg("n_anchors"), py::arg("dim"));
    module.def("polarization_axis", &fit, py::arg("anchors"), py::arg("stances"),
               py::arg("normalize"), py::arg("axes"), py::arg("explained_variance_ratio"),
               py::arg("relative_gap"), py::arg("workspace"), py::arg("fault"), py::arg("stream"),
               "Leading axis of each topic into axes, explained_variance_ratio, relative_gap; NaN "
               "for a topic at fault, which is recorded as argument 0.");
}

}  // namespace epibias::cuda::bindings
