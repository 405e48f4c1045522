// mmr and dpp_greedy in Python: check, hold, release the GIL, call.
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "array_view.hpp"
#include "epibias/rerank.hpp"
#include "module.hpp"

namespace epibias::bindings {

namespace {

std::string shape_of(const py::object& array) {
    return py::str(array.attr("shape")).cast<std::string>();
}

py::array_t<std::int64_t> mmr(const py::object& similarities, const py::object& embeddings,
                              std::int64_t k, double relevance_weight) {
    const ArrayView<float> similarity_view("similarities", similarities, {2});
    const ArrayView<float> embedding_view("embeddings", embeddings, {3});
    const std::int64_t n_queries = similarity_view.shape(0);
    const std::int64_t n = similarity_view.shape(1);
    if (embedding_view.shape(0) != n_queries || embedding_view.shape(1) != n) {
        throw std::invalid_argument("embeddings: expected shape (" + std::to_string(n_queries) +
                                    ", " + std::to_string(n) +
                                    ", dim), as similarities, got shape " + shape_of(embeddings));
    }
    // A wrong k is refused by the core; until then nothing of that size is allocated.
    const std::int64_t n_columns = k >= 0 && k <= n ? k : 0;
    py::array_t<std::int64_t> indices(std::vector<py::ssize_t>{n_queries, n_columns});
    const MatrixView<std::int64_t> index_view{indices.mutable_data(), n_queries, n_columns};
    {
        const py::gil_scoped_release released;
        epibias::mmr(similarity_view.matrix(), embedding_view.matrix(), k, index_view,
                     {.relevance_weight = relevance_weight});
    }
    return indices;
}

py::tuple dpp_greedy(const py::object& kernel, std::int64_t k) {
    const ArrayView<double> kernel_view("kernel", kernel, {3});
    const std::int64_t n_queries = kernel_view.shape(0);
    const std::int64_t n = kernel_view.shape(2);
    if (kernel_view.shape(1) != n) {
        throw std::invalid_argument("kernel: expected shape (n_queries, n, n), got shape " +
                                    shape_of(kernel));
    }
    const std::int64_t n_columns = k >= 0 && k <= n ? k : 0;
    py::array_t<std::int64_t> indices(std::vector<py::ssize_t>{n_queries, n_columns});
    py::array_t<std::int64_t> n_selected(n_queries);
    const MatrixView<std::int64_t> index_view{indices.mutable_data(), n_queries, n_columns};
    const std::span<std::int64_t> counts(n_selected.mutable_data(),
                                         static_cast<std::size_t>(n_queries));
    {
        const py::gil_scoped_release released;
        epibias::dpp_greedy(kernel_view.matrix(), k, index_view, counts);
    }
    return py::make_tuple(indices, n_selected);
}

}  // namespace

void bind_rerank(py::module_& module) {
    module.def("mmr", &mmr, py::arg("similarities"), py::arg("embeddings"), py::arg("k"),
               py::arg("relevance_weight") = 0.5,
               "Maximal marginal relevance: positions int64 [n_queries, k].");
    module.def("dpp_greedy", &dpp_greedy, py::arg("kernel"), py::arg("k"),
               "Greedy determinantal point process: (positions padded with -1, n_selected).");
}

}  // namespace epibias::bindings
