// What a pool has in common with the one that was remembered, in Python: check, hold, release the
// GIL, call.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "biasdef_arguments.hpp"
#include "epibias/remembered.hpp"
#include "module.hpp"

namespace epibias::bindings {

namespace {

// float64 [m, 2]; copied where its address is not aligned.
class HeldPairs {
  public:
    explicit HeldPairs(const py::handle& value)
        : view_("remembered", value, {2}), reader_({view_.data(), 1, view_.size()}) {
        if (view_.shape(1) == 2) return;
        throw std::invalid_argument("remembered: expected arrays of shape (m, 2), got (" +
                                    std::to_string(view_.shape(0)) + ", " +
                                    std::to_string(view_.shape(1)) + ")");
    }

    [[nodiscard]] std::span<const double> values() {
        return {reader_.row(0), static_cast<std::size_t>(view_.size())};
    }

  private:
    ArrayView<double> view_;
    RowReader<double> reader_;
};

py::array_t<bool> mark_unchanged(const py::object& similarities, const py::object& scores,
                                 const py::object& offsets, std::int64_t k,
                                 const py::object& mean_similarities,
                                 const py::object& mean_scores) {
    HeldSpan<float> similarity_span("similarities", similarities);
    HeldSpan<float> score_span("scores", scores);
    HeldSpan<std::int64_t> offset_span("offsets", offsets);
    HeldSpan<double> remembered_similarities("mean_similarities", mean_similarities);
    HeldSpan<double> remembered_scores("mean_scores", mean_scores);
    const PoolToRecognize pool{similarity_span.values(), score_span.values(), offset_span.values()};
    py::array_t<bool> unchanged(std::max<py::ssize_t>(std::ssize(pool.offsets) - 1, 0));
    const auto similarity_values = remembered_similarities.values();
    const auto score_values = remembered_scores.values();
    const auto marks = marks_of(unchanged);
    {
        const py::gil_scoped_release released;
        epibias::mark_unchanged(pool, k, similarity_values, score_values, marks);
    }
    return unchanged;
}

py::array_t<bool> mark_unremembered(const py::object& similarities, const py::object& scores,
                                    const py::object& offsets, const py::sequence& remembered,
                                    bool sparing) {
    HeldSpan<float> similarity_span("similarities", similarities);
    HeldSpan<float> score_span("scores", scores);
    HeldSpan<std::int64_t> offset_span("offsets", offsets);
    std::deque<HeldPairs> held;
    std::vector<RememberedCandidates> of_queries;
    of_queries.reserve(remembered.size());
    for (const py::handle one : remembered) {
        if (!py::isinstance<py::tuple>(one) || py::len(one) != 2) {
            const auto got = py::str(py::type::handle_of(one).attr("__name__")).cast<std::string>();
            throw std::invalid_argument("remembered: expected pairs of a query and an array, got " +
                                        got);
        }
        const auto pair = py::reinterpret_borrow<py::tuple>(one);
        of_queries.push_back(
            {py::cast<std::int64_t>(pair[0]), held.emplace_back(pair[1]).values()});
    }
    const PoolToRecognize pool{similarity_span.values(), score_span.values(), offset_span.values()};
    py::array_t<bool> unremembered(std::ssize(pool.similarities));
    const auto marks = marks_of(unremembered);
    std::ranges::fill(marks, std::uint8_t{0});
    {
        const py::gil_scoped_release released;
        epibias::mark_unremembered(pool, of_queries, sparing, marks);
    }
    return unremembered;
}

py::tuple refuse_newcomers(const py::object& is_new, const py::object& offsets,
                           const py::object& most_in_pool, std::int64_t most_in_selection,
                           const py::object& sources, std::int64_t most_of_source) {
    const ArrayView<bool> new_view("is_new", is_new, {1});
    HeldSpan<std::int64_t> offset_span("offsets", offsets);
    HeldSpan<std::int64_t> most_span("most_in_pool", most_in_pool);
    HeldSpan<std::int64_t> source_span("sources", sources);
    const NewcomersInput given{bytes_of(new_view), offset_span.values(), most_span.values(),
                               most_in_selection,  source_span.values(), most_of_source};
    py::array_t<bool> refused(new_view.size());
    py::array_t<std::int64_t> n_refused(std::max<py::ssize_t>(std::ssize(given.offsets) - 1, 0));
    const auto marks = marks_of(refused);
    const auto counts = filled_span(n_refused);
    {
        const py::gil_scoped_release released;
        epibias::refuse_newcomers(given, marks, counts);
    }
    return py::make_tuple(refused, n_refused);
}

}  // namespace

void bind_remembered(py::module_& module) {
    module.def("mark_unchanged", &mark_unchanged, py::arg("similarities"), py::arg("scores"),
               py::arg("offsets"), py::arg("k"), py::arg("mean_similarities"),
               py::arg("mean_scores"), "Queries whose first k are as remembered, bool.");
    module.def("mark_unremembered", &mark_unremembered, py::arg("similarities"), py::arg("scores"),
               py::arg("offsets"), py::arg("remembered"), py::arg("sparing"),
               "Candidates that were not in the pool when it was remembered, bool.");
    module.def("refuse_newcomers", &refuse_newcomers, py::arg("is_new"), py::arg("offsets"),
               py::arg("most_in_pool"), py::arg("most_in_selection"), py::arg("sources"),
               py::arg("most_of_source"),
               "New candidates that may not be selected, bool, and how many by query.");
}

}  // namespace epibias::bindings
