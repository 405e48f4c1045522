// threshold_sweep and printed_sweep in Python: check, hold, release the GIL, call.
#include <algorithm>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "array_view.hpp"
#include "epibias/threshold_sweep.hpp"
#include "module.hpp"
#include "sweep_options.hpp"

namespace epibias::bindings {

namespace {

// The arrays that a sweep fills, owned by Python, and the core's view of them.
struct SweepArrays {
    py::array_t<float> thresholds;
    py::array_t<std::int64_t> n_kept, n_undecided;
    py::array_t<double> divergences, p_values;
    std::optional<py::array_t<double>> curve;
    SweepResult view;

    SweepArrays(std::int64_t n_queries, bool curve_wanted, std::int64_t curve_columns)
        : thresholds(n_queries),
          n_kept(n_queries),
          n_undecided(n_queries),
          divergences(n_queries),
          p_values(n_queries) {
        const auto size = static_cast<std::size_t>(n_queries);
        view.thresholds = {thresholds.mutable_data(), size};
        view.n_kept = {n_kept.mutable_data(), size};
        view.divergences = {divergences.mutable_data(), size};
        view.p_values = {p_values.mutable_data(), size};
        view.n_undecided = {n_undecided.mutable_data(), size};
        if (!curve_wanted) return;
        curve.emplace(std::vector<py::ssize_t>{n_queries, curve_columns});
        view.curve = {curve->mutable_data(), n_queries, curve_columns};
    }

    [[nodiscard]] py::object curve_or_none() const {
        return curve ? py::object(*curve) : py::object(py::none());
    }
};

py::tuple threshold_sweep(const py::object& similarities, const py::object& scores,
                          const std::string& criterion, std::int64_t min_kept,
                          std::int64_t min_dropped, double kappa, double bandwidth_factor,
                          std::int64_t permutations, std::int64_t max_exceedances,
                          const py::int_& seed, const py::object& query_ids, bool curve,
                          const std::string& precision, const std::string& method) {
    const ArrayView<float> similarity_view("similarities", similarities, {2});
    const ArrayView<float> score_view("scores", scores, {2});
    const auto id_view = optional_array<std::int64_t>("query_ids", query_ids, {1});
    std::span<const std::int64_t> ids;
    std::optional<RowReader<std::int64_t>> id_reader;  // copies where they are not aligned
    if (id_view) {
        if (id_view->size() != similarity_view.shape(0)) {  // an empty span means "not given" below
            throw std::invalid_argument(
                "query_ids: expected " + std::to_string(similarity_view.shape(0)) +
                " ids, one a query, got " + std::to_string(id_view->size()));
        }
        id_reader.emplace(id_view->matrix());
        ids = {id_reader->row(0), static_cast<std::size_t>(id_view->size())};
    }
    ThresholdSweepOptions options =
        sweep_options(criterion, min_kept, min_dropped, kappa, bandwidth_factor, permutations,
                      max_exceedances, seed, precision, method);
    options.query_ids = ids;
    SweepArrays arrays(similarity_view.shape(0), curve,
                       std::max<std::int64_t>(similarity_view.shape(1) - 1, 0));
    {
        const py::gil_scoped_release released;
        epibias::threshold_sweep(similarity_view.matrix(), score_view.matrix(), arrays.view,
                                 options);
    }
    return py::make_tuple(arrays.thresholds, arrays.n_kept, arrays.divergences, arrays.p_values,
                          arrays.curve_or_none(), arrays.n_undecided);
}

py::tuple printed_sweep(const py::object& similarities, const py::object& scores, double tau,
                        std::int64_t n_thresholds, double floor, double bandwidth_factor,
                        bool curve) {
    const ArrayView<float> similarity_view("similarities", similarities, {2});
    const ArrayView<float> score_view("scores", scores, {2});
    // A wrong number is refused by the core; until then nothing of that size is allocated.
    const std::int64_t n_columns = std::clamp<std::int64_t>(n_thresholds, 0, kMaxThresholds);
    SweepArrays arrays(similarity_view.shape(0), curve, n_columns);
    PrintedSweepOptions options;
    options.tau = tau;
    options.n_thresholds = n_thresholds;
    options.floor = floor;
    options.bandwidth_factor = bandwidth_factor;
    {
        const py::gil_scoped_release released;
        epibias::printed_sweep(similarity_view.matrix(), score_view.matrix(), arrays.view, options);
    }
    return py::make_tuple(arrays.thresholds, arrays.n_kept, arrays.divergences,
                          arrays.curve_or_none());
}

}  // namespace

void bind_threshold_sweep(py::module_& module) {
    module.def("threshold_sweep", &threshold_sweep, py::arg("similarities"), py::arg("scores"),
               py::arg("criterion") = "kl", py::arg("min_kept") = 1, py::arg("min_dropped") = 1,
               py::arg("kappa") = 0.025, py::arg("bandwidth_factor") = 1.06,
               py::arg("permutations") = 0, py::arg("max_exceedances") = 0, py::arg("seed") = 0,
               py::arg("query_ids") = py::none(), py::arg("curve") = false,
               py::arg("precision") = "float64", py::arg("method") = "all_splits",
               "Split of each query's candidates: (threshold, n_kept, divergence, p_value, curve, "
               "n_undecided).");
    module.def(
        "sweep_is_binned",
        [](const std::string& method, std::int64_t n) {
            return sweep_is_binned(method_from_name(method), n);
        },
        py::arg("method"), py::arg("n"), "Whether threshold_sweep bins queries of n candidates.");
    module.def("printed_sweep", &printed_sweep, py::arg("similarities"), py::arg("scores"),
               py::arg("tau") = 0.05, py::arg("n_thresholds") = 100, py::arg("floor") = 1e-12,
               py::arg("bandwidth_factor") = 1.06, py::arg("curve") = false,
               "Algorithm 1 as printed: (threshold, n_kept, divergence, curve).");
}

}  // namespace epibias::bindings
