// echo_shares in Python: texts are read where Python has them, without the GIL.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "biasdef_arguments.hpp"
#include "epibias/echo_shares.hpp"
#include "held_texts.hpp"
#include "module.hpp"

namespace epibias::bindings {

namespace {

py::array_t<double> echo_shares(const py::object& questions, const py::object& passages,
                                const py::object& offsets, const py::object& queries,
                                const py::object& limits) {
    HeldTexts question_texts("questions", questions), passage_texts("passages", passages);
    HeldSpan<std::int64_t> offset_span("offsets", offsets), query_span("queries", queries);
    HeldSpan<double> limit_span("limits", limits);
    std::vector<TextView> question_views(question_texts.size());
    std::vector<TextView> passage_views(passage_texts.size());
    const auto offset_values = offset_span.values();
    const auto query_values = query_span.values();
    const auto limit_values = limit_span.values();
    const auto n_passages = static_cast<std::int64_t>(passage_texts.size());
    // Only what will be read is looked at; what is out of range the core refuses.
    for (const std::int64_t query : query_values) {
        if (query < 0 || query + 1 >= std::ssize(offset_values)) continue;
        if (std::cmp_greater_equal(query, question_texts.size())) continue;
        const auto place = static_cast<std::size_t>(query);
        question_views[place] = question_texts.view(place);
        const std::int64_t last = std::min(offset_values[place + 1], n_passages);
        for (std::int64_t row = std::max<std::int64_t>(offset_values[place], 0); row < last;
             ++row) {
            passage_views[static_cast<std::size_t>(row)] =
                passage_texts.view(static_cast<std::size_t>(row));
        }
    }
    py::array_t<double> shares(n_passages);
    const auto share_values = filled_span(shares);
    std::ranges::fill(share_values, -std::numeric_limits<double>::infinity());
    {
        const py::gil_scoped_release released;
        epibias::echo_shares(
            {question_views, passage_views, offset_values, query_values, limit_values},
            share_values);
    }
    return shares;
}

}  // namespace

void bind_echo_shares(py::module_& module) {
    module.def("echo_shares", &echo_shares, py::arg("questions"), py::arg("passages"),
               py::arg("offsets"), py::arg("queries"), py::arg("limits") = py::none(),
               "How much of its question each passage says in one place, float64 [n_passages].");
}

}  // namespace epibias::bindings
