// cosine_topk and inverse_norms in Python: check, hold, release the GIL, call.
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "array_view.hpp"
#include "epibias/cosine_topk.hpp"
#include "epibias/numeric.hpp"
#include "module.hpp"

namespace epibias::bindings {

namespace {

py::array_t<double> inverse_norms(const py::object& rows, const std::string& argument) {
    const ArrayView<float> view(argument, rows, {2});
    py::array_t<double> result(view.shape(0));
    const std::span<double> values(result.mutable_data(), static_cast<std::size_t>(view.shape(0)));
    {
        const py::gil_scoped_release released;
        epibias::inverse_norms(view.matrix(), argument, values);
    }
    return result;
}

py::tuple cosine_topk(const py::object& queries, const py::object& passages, std::int64_t k,
                      const py::object& inverse_norms, std::int64_t tile_rows) {
    const ArrayView<float> query_view("queries", queries, {2});
    const ArrayView<float> passage_view("passages", passages, {2});
    const auto norms_view = optional_array<double>("inverse_norms", inverse_norms, {1});
    std::span<const double> norms;
    std::optional<RowReader<double>> norms_reader;  // copies where they are not aligned
    if (norms_view) {
        if (norms_view->size() != passage_view.shape(0)) {  // an empty span means "not given" below
            throw std::invalid_argument(
                "inverse_norms: expected " + std::to_string(passage_view.shape(0)) +
                " numbers, one per passage, got " + std::to_string(norms_view->size()));
        }
        norms_reader.emplace(norms_view->matrix());
        norms = {norms_reader->row(0), static_cast<std::size_t>(norms_view->size())};
    }
    // A wrong k is refused by the core; until then nothing of that size is allocated.
    const std::int64_t n_columns = k >= 0 && k <= passage_view.shape(0) ? k : 0;
    py::array_t<std::int64_t> indices({query_view.shape(0), n_columns});
    py::array_t<float> similarities({query_view.shape(0), n_columns});
    const MatrixView<std::int64_t> index_view{indices.mutable_data(), query_view.shape(0),
                                              n_columns};
    const MatrixView<float> similarity_view{similarities.mutable_data(), query_view.shape(0),
                                            n_columns};
    std::int64_t n_rescored = 0;
    {
        const py::gil_scoped_release released;
        n_rescored = epibias::cosine_topk(query_view.matrix(), passage_view.matrix(), k, norms,
                                          index_view, similarity_view, {.tile_rows = tile_rows});
    }
    return py::make_tuple(indices, similarities, n_rescored);
}

}  // namespace

void bind_cosine_topk(py::module_& module) {
    module.def("inverse_norms", &inverse_norms, py::arg("rows"), py::arg("argument") = "rows",
               "1 / norm of every row, float64 [n_rows]; refuses non-finite and zero rows.");
    module.def("cosine_topk", &cosine_topk, py::arg("queries"), py::arg("passages"), py::arg("k"),
               py::arg("inverse_norms") = py::none(), py::arg("tile_rows") = 0,
               "Exact cosine top-k: (indices, similarities, number of re-scored pairs).");
}

}  // namespace epibias::bindings
