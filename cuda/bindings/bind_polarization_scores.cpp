#include "device_array.hpp"
#include "epibias/cuda/polarization_scores.hpp"
#include "module.hpp"
#include "refuse.hpp"

namespace epibias::cuda::bindings {
namespace {

void score_anchors(const py::handle& anchors, const py::handle& axes, bool normalize,
                   const py::handle& scores, const py::handle& fault, std::uintptr_t stream) {
    DeviceCall call(stream);
    const DeviceArray<const float> anchor_array(call, "anchors", anchors, {3});
    const DeviceArray<const float> axis_array(call, "axes", axes, {2});
    const DeviceArray<double> score_array(call, "scores", scores, {2});
    check_shape("scores", score_array, {anchor_array.shape(0), anchor_array.shape(1)});
    Fault* const record = fault_record(call, fault);
    call.run([&] {
        anchor_scores(anchor_array.matrix(), axis_array.matrix(), score_array.matrix(), normalize,
                      record, call.stream());
    });
}

void score(const py::handle& rows, const py::handle& axes, const py::object& indices,
           const py::object& axis_of_query, bool normalize, const py::handle& scores,
           const py::handle& fault, std::uintptr_t stream) {
    DeviceCall call(stream);
    const DeviceArray<const float> row_array(call, "rows", rows, {2});
    const DeviceArray<const float> axis_array(call, "axes", axes, {2});
    const auto index_array =
        optional_device_array<const std::int64_t>(call, "indices", indices, {2});
    const auto topic_array =
        optional_device_array<const std::int64_t>(call, "axis_of_query", axis_of_query, {1});
    const DeviceArray<float> score_array(call, "scores", scores, {2});
    Fault* const record = fault_record(call, fault);
    if (!index_array) {
        if (topic_array) refuse("axis_of_query", "None where indices is None", "an array");
        check_shape("scores", score_array, {axis_array.shape(0), row_array.shape(0)});
        call.run([&] {
            polarization_scores(row_array.matrix(), axis_array.matrix(), score_array.matrix(),
                                normalize, record, call.stream());
        });
        return;
    }
    const std::int64_t n_queries = index_array->shape(0);
    check_shape("scores", score_array, {n_queries, index_array->shape(1)});
    if (topic_array && topic_array->size() != n_queries) {
        refuse("axis_of_query", std::to_string(n_queries) + " axes, one a row of indices",
               std::to_string(topic_array->size()));
    }
    call.run([&] {
        gathered_polarization_scores(row_array.matrix(), axis_array.matrix(), index_array->matrix(),
                                     topic_array ? topic_array->data() : nullptr,
                                     score_array.matrix(), normalize, record, call.stream());
    });
}

}  // namespace

void bind_polarization_scores(py::module_& module) {
    module.def("anchor_scores", &score_anchors, py::arg("anchors"), py::arg("axes"),
               py::arg("normalize"), py::arg("scores"), py::arg("fault"), py::arg("stream"),
               "Every topic's anchors on its own axis into scores, float64 [n_topics, n_anchors].");
    module.def("polarization_scores", &score, py::arg("rows"), py::arg("axes"), py::arg("indices"),
               py::arg("axis_of_query"), py::arg("normalize"), py::arg("scores"), py::arg("fault"),
               py::arg("stream"),
               "Projections into scores: [n_topics, n_rows], or [n_queries, m] of the rows that "
               "indices name. Faults: axes are argument 0, all else 1.");
}

}  // namespace epibias::cuda::bindings
