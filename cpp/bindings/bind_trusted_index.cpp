// What was in a trusted index, in Python: check, hold, release the GIL, call.
#include <algorithm>
#include <cstdint>
#include <span>

#include "biasdef_arguments.hpp"
#include "epibias/trusted_index.hpp"
#include "module.hpp"

namespace epibias::bindings {

namespace {

// A matrix that is copied where its address is not aligned.
class HeldRows {
  public:
    HeldRows(const char* argument, const py::object& value)
        : view_(argument, value, {2}), reader_(view_.matrix()) {}

    [[nodiscard]] MatrixView<const float> values() {
        return {reader_.rows(0, view_.shape(0)), view_.shape(0), view_.shape(1)};
    }

  private:
    ArrayView<float> view_;
    RowReader<float> reader_;
};

py::array_t<float> fingerprints(const py::object& rows, const py::object& signs) {
    const ArrayView<float> view("rows", rows, {2});
    HeldSpan<float> sign_span("signs", signs);
    const std::int64_t n_numbers = std::min(kFingerprintNumbers, view.shape(1));
    py::array_t<float> numbers(
        {static_cast<py::ssize_t>(view.shape(0)), static_cast<py::ssize_t>(n_numbers)});
    const MatrixView<float> filled{numbers.mutable_data(), view.shape(0), n_numbers};
    const auto sign_values = sign_span.values();
    {
        const py::gil_scoped_release released;
        epibias::fingerprints(view.matrix(), sign_values, filled);
    }
    return numbers;
}

py::array_t<bool> mark_untrusted(const py::object& trusted, const py::object& starts,
                                 const py::object& columns, const py::object& low,
                                 const py::object& step, std::int64_t n_cells, double tolerance,
                                 const py::object& fingerprints, const py::object& offsets) {
    HeldRows trusted_rows("trusted", trusted), own_rows("fingerprints", fingerprints);
    HeldSpan<std::int64_t> start_span("starts", starts), column_span("columns", columns);
    HeldSpan<double> low_span("low", low), step_span("step", step);
    HeldSpan<std::int64_t> offset_span("offsets", offsets);
    const TrustedTable table{trusted_rows.values(),
                             start_span.values(),
                             column_span.values(),
                             low_span.values(),
                             step_span.values(),
                             n_cells,
                             tolerance};
    const auto own = own_rows.values();
    const auto offset_values = offset_span.values();
    py::array_t<bool> untrusted(own.n_rows);
    const auto marks = marks_of(untrusted);
    {
        const py::gil_scoped_release released;
        epibias::mark_untrusted(table, own, offset_values, marks);
    }
    return untrusted;
}

py::array_t<double> trusted_records(const py::object& scores, const py::object& offsets,
                                    const py::object& is_new, std::int64_t k) {
    HeldSpan<float> score_span("scores", scores);
    HeldSpan<std::int64_t> offset_span("offsets", offsets);
    const ArrayView<bool> new_view("is_new", is_new, {1});
    const auto score_values = score_span.values();
    const auto offset_values = offset_span.values();
    const auto n_queries = std::max<py::ssize_t>(std::ssize(offset_values) - 1, 0);
    py::array_t<double> records({py::ssize_t{2}, n_queries});
    const MatrixView<double> filled{records.mutable_data(), 2, n_queries};
    {
        const py::gil_scoped_release released;
        epibias::trusted_records(score_values, offset_values, bytes_of(new_view), k, filled);
    }
    return records;
}

}  // namespace

void bind_trusted_index(py::module_& module) {
    module.def("fingerprints", &fingerprints, py::arg("rows"), py::arg("signs"),
               "What passages are known by, float32 [n_rows, 8].");
    module.def("mark_untrusted", &mark_untrusted, py::arg("trusted"), py::arg("starts"),
               py::arg("columns"), py::arg("low"), py::arg("step"), py::arg("n_cells"),
               py::arg("tolerance"), py::arg("fingerprints"), py::arg("offsets"),
               "Candidates that were not in a trusted index, bool.");
    module.def("trusted_records", &trusted_records, py::arg("scores"), py::arg("offsets"),
               py::arg("is_new"), py::arg("k"),
               "Centre and spread of what is not new, float64 [2, n_queries].");
}

}  // namespace epibias::bindings
