// polarization_axis and polarization_scores in Python: check, hold, release the GIL, call.
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "array_view.hpp"
#include "epibias/polarization_axis.hpp"
#include "module.hpp"

namespace epibias::bindings {

namespace {

py::tuple polarization_axis(const py::object& anchors, const py::object& stances, bool normalize) {
    const ArrayView<float> anchor_view("anchors", anchors, {3});
    const auto stance_view = optional_array<double>("stances", stances, {2});
    const std::int64_t n_topics = anchor_view.shape(0);
    const std::int64_t dim = anchor_view.shape(2);
    MatrixView<const double> stance_matrix;
    if (stance_view) stance_matrix = stance_view->matrix();
    py::array_t<float> axes(std::vector<py::ssize_t>{n_topics, dim});
    py::array_t<double> explained(n_topics);
    py::array_t<double> gap(n_topics);
    const auto size = static_cast<std::size_t>(n_topics);
    const PolarizationAxisResult result{{axes.mutable_data(), n_topics, dim},
                                        {explained.mutable_data(), size},
                                        {gap.mutable_data(), size}};
    {
        const py::gil_scoped_release released;
        epibias::polarization_axis(anchor_view.matrix(), anchor_view.shape(1), stance_matrix,
                                   result, {.normalize = normalize});
    }
    return py::make_tuple(axes, explained, gap);
}

py::array_t<double> anchor_scores(const py::object& anchors, const py::object& axes,
                                  bool normalize) {
    const ArrayView<float> anchor_view("anchors", anchors, {3});
    const ArrayView<float> axis_view("axes", axes, {2});
    const std::int64_t n_topics = anchor_view.shape(0);
    const std::int64_t n_anchors = anchor_view.shape(1);
    py::array_t<double> scores(std::vector<py::ssize_t>{n_topics, n_anchors});
    const MatrixView<double> score_view{scores.mutable_data(), n_topics, n_anchors};
    {
        const py::gil_scoped_release released;
        epibias::anchor_scores(anchor_view.matrix(), axis_view.matrix(), score_view,
                               {.normalize = normalize});
    }
    return scores;
}

py::array_t<float> polarization_scores(const py::object& rows, const py::object& axes,
                                       const py::object& indices, const py::object& axis_of_query,
                                       bool normalize) {
    const ArrayView<float> row_view("rows", rows, {2});
    const ArrayView<float> axis_view("axes", axes, {2});
    const auto index_view = optional_array<std::int64_t>("indices", indices, {2});
    const auto topic_view = optional_array<std::int64_t>("axis_of_query", axis_of_query, {1});
    const PolarizationAxisOptions options{.normalize = normalize};
    if (!index_view) {
        if (topic_view) {
            throw std::invalid_argument(
                "axis_of_query: expected None where indices is None, got an array");
        }
        const std::int64_t n_topics = axis_view.shape(0);
        const std::int64_t n_rows = row_view.shape(0);
        py::array_t<float> scores(std::vector<py::ssize_t>{n_topics, n_rows});
        const MatrixView<float> score_view{scores.mutable_data(), n_topics, n_rows};
        {
            const py::gil_scoped_release released;
            epibias::polarization_scores(row_view.matrix(), axis_view.matrix(), score_view,
                                         options);
        }
        return scores;
    }
    const std::int64_t n_queries = index_view->shape(0);
    const std::int64_t n_columns = index_view->shape(1);
    std::span<const std::int64_t> topics;
    std::optional<RowReader<std::int64_t>> topic_reader;  // copies where they are not aligned
    if (topic_view) {
        if (topic_view->size() != n_queries) {  // an empty span means "not given" below
            throw std::invalid_argument("axis_of_query: expected " + std::to_string(n_queries) +
                                        " axes, one a row of indices, got " +
                                        std::to_string(topic_view->size()));
        }
        topic_reader.emplace(topic_view->matrix());
        topics = {topic_reader->row(0), static_cast<std::size_t>(topic_view->size())};
    }
    py::array_t<float> scores(std::vector<py::ssize_t>{n_queries, n_columns});
    const MatrixView<float> score_view{scores.mutable_data(), n_queries, n_columns};
    {
        const py::gil_scoped_release released;
        gathered_polarization_scores(row_view.matrix(), axis_view.matrix(), index_view->matrix(),
                                     topics, score_view, options);
    }
    return scores;
}

}  // namespace

void bind_polarization_axis(py::module_& module) {
    module.def("polarization_axis", &polarization_axis, py::arg("anchors"),
               py::arg("stances") = py::none(), py::arg("normalize") = true,
               "Leading axis of each topic: (axis, explained_variance_ratio, relative_gap).");
    module.def("anchor_scores", &anchor_scores, py::arg("anchors"), py::arg("axes"),
               py::arg("normalize") = true,
               "Every topic's anchors on its own axis, float64 [n_topics, n_anchors].");
    module.def("polarization_scores", &polarization_scores, py::arg("rows"), py::arg("axes"),
               py::arg("indices") = py::none(), py::arg("axis_of_query") = py::none(),
               py::arg("normalize") = true,
               "Projections: [n_topics, n_rows], or [n_queries, m] of the rows that indices name.");
}

}  // namespace epibias::bindings
