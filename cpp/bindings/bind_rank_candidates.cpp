// rank_candidates in Python: check, hold, release the GIL, call.
#include "biasdef_arguments.hpp"
#include "module.hpp"

namespace epibias::bindings {

CandidateArguments::CandidateArguments(const py::object& queries, const py::object& candidates,
                                       const py::object& offsets, const py::object& indices,
                                       const py::object& ps_rows, const py::object& axes,
                                       const py::object& axis_of_query,
                                       const py::object& score_offsets, bool normalize)
    : row_offsets("offsets", offsets),
      queries_("query_embeddings", queries, {2}),
      candidates_("candidate_embeddings", candidates, {2}),
      indices_("indices", indices),
      axis_of_query_("axis_of_query", axis_of_query),
      ps_rows_(optional_array<float>("ps_embeddings", ps_rows, {2})),
      axes_("axes", axes, {2}),
      score_offsets_("score_offsets", score_offsets) {
    given_.queries = queries_.matrix();
    given_.candidates = candidates_.matrix();
    given_.offsets = row_offsets.values();
    given_.indices = indices_.values();
    if (ps_rows_) given_.ps_rows = ps_rows_->matrix();
    given_.axes = axes_.matrix();
    given_.axis_of_query = axis_of_query_.values();
    given_.score_offsets = score_offsets_.values();
    given_.normalize = normalize;
    const std::int64_t n_candidates = given_.candidates.n_rows;
    ranked_rows = py::array_t<std::int64_t>(n_candidates);
    ranked_indices = py::array_t<std::int64_t>(n_candidates);
    similarities = py::array_t<float>(n_candidates);
    scores = py::array_t<float>(n_candidates);
    result_ = {filled_span(ranked_rows), filled_span(ranked_indices), filled_span(similarities),
               filled_span(scores)};
}

void CandidateArguments::rank() {
    rank_candidates(given_, result_);
}

namespace {

py::tuple rank_candidates(const py::object& query_embeddings,
                          const py::object& candidate_embeddings, const py::object& offsets,
                          const py::object& indices, const py::object& ps_embeddings,
                          const py::object& axes, const py::object& axis_of_query,
                          const py::object& score_offsets, bool normalize) {
    CandidateArguments arguments(query_embeddings, candidate_embeddings, offsets, indices,
                                 ps_embeddings, axes, axis_of_query, score_offsets, normalize);
    {
        const py::gil_scoped_release released;
        arguments.rank();
    }
    return py::make_tuple(arguments.ranked_rows, arguments.ranked_indices, arguments.similarities,
                          arguments.scores);
}

}  // namespace

void bind_rank_candidates(py::module_& module) {
    module.def("rank_candidates", &rank_candidates, py::arg("query_embeddings"),
               py::arg("candidate_embeddings"), py::arg("offsets"), py::arg("indices"),
               py::arg("ps_embeddings"), py::arg("axes"), py::arg("axis_of_query") = py::none(),
               py::arg("score_offsets") = py::none(), py::arg("normalize").noconvert() = true,
               "Candidates in the total order: (rows, indices, similarities, scores).");
}

}  // namespace epibias::bindings
