// bounded_selection in Python: check, hold, release the GIL, call.
#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "biasdef_arguments.hpp"
#include "epibias/bounded_selection.hpp"
#include "held_texts.hpp"
#include "module.hpp"

namespace epibias::bindings {

namespace {

py::ssize_t n_queries_of(std::span<const std::int64_t> offsets) {
    return std::max<py::ssize_t>(std::ssize(offsets) - 1, 0);
}

// Positions in each query of the marked candidates, flat, ascending, and where each query's start.
struct Marked {
    Marked(std::span<const std::uint8_t> marks, std::span<const std::int64_t> offsets)
        : starts(std::ssize(offsets)) {
        const std::int64_t n_candidates = offsets.back();
        const auto is_marked = [&](std::int64_t row) {
            return marks[static_cast<std::size_t>(row)] != 0;
        };
        std::int64_t n_marked = 0;
        for (std::int64_t row = 0; row < n_candidates; ++row) n_marked += is_marked(row) ? 1 : 0;
        positions = py::array_t<std::int64_t>(n_marked);
        rows = std::vector<std::int64_t>();
        rows.reserve(static_cast<std::size_t>(n_marked));
        std::int64_t* position_at = positions.mutable_data();
        std::int64_t* start_at = starts.mutable_data();
        *start_at++ = 0;
        for (std::size_t query = 0; query + 1 < offsets.size(); ++query) {
            for (std::int64_t row = offsets[query]; row < offsets[query + 1]; ++row) {
                if (!is_marked(row)) continue;
                *position_at++ = row - offsets[query];
                rows.push_back(row);
            }
            *start_at++ = std::ssize(rows);
        }
    }

    [[nodiscard]] py::array_t<std::int64_t> picked(std::span<const std::int64_t> indices) const {
        py::array_t<std::int64_t> values(std::ssize(rows));
        std::int64_t* value_at = values.mutable_data();
        for (const std::int64_t row : rows) *value_at++ = indices[static_cast<std::size_t>(row)];
        return values;
    }

    py::array_t<std::int64_t> positions, starts;
    std::vector<std::int64_t> rows;
};

// (questions, passages, limits, limits_of_two, every_candidate, tested, by_others), held.
struct HeldEchoes {
    HeldEchoes(const py::object& given, py::ssize_t n_queries, py::ssize_t n_candidates)
        : parts(given),
          questions("questions", parts[0]),
          passages("passages", parts[1]),
          limits("limits", parts[2]),
          limits_of_two("limits_of_two", parts[3]),
          tested(optional_array<bool>("tested", parts[5], {1})),
          by_others(optional_array<bool>("by_others", parts[6], {1})) {
        check("questions", questions.size(), n_queries, "queries");
        check("passages", passages.size(), n_candidates, "similarities");
        test.question = [this](std::int64_t query) {
            return questions.view(static_cast<std::size_t>(query));
        };
        test.passage = [this](std::int64_t row) {
            return passages.view(static_cast<std::size_t>(row));
        };
        test.limits = limits.values();
        test.limits_of_two = limits_of_two.values();
        test.every_candidate = py::cast<bool>(parts[4]);
        if (tested) test.tested = bytes_of(*tested);
        if (by_others) test.by_others = bytes_of(*by_others);
    }

    static void check(const char* argument, std::size_t got, py::ssize_t expected,
                      const char* other) {
        if (std::cmp_equal(got, expected)) return;
        throw std::invalid_argument(std::string(argument) + ": expected " +
                                    std::to_string(expected) + " texts, as many as " + other +
                                    ", got " + std::to_string(got));
    }

    py::tuple parts;
    HeldTexts questions, passages;
    HeldSpan<double> limits, limits_of_two;
    std::optional<ArrayView<bool>> tested, by_others;
    EchoTest test;
};

// What may not be selected, and what a later defence may choose from: where texts were read for
// a selection alone, nothing that may be an echo and was not read.
struct LeftOver {
    LeftOver(const BoundedSelectionInput& given, std::span<const std::uint8_t> judged,
             bool has_test)
        : dropped(given.similarities.size()),
          kept(given.similarities.size()),
          n_echo(n_queries_of(given.offsets)) {
        std::int64_t* const counts = n_echo.mutable_data();
        for (std::size_t query = 0; query + 1 < given.offsets.size(); ++query) {
            const bool is_read = has_test && !std::isnan(given.echo->limits[query]);
            counts[query] = 0;
            for (std::int64_t row = given.offsets[query]; row < given.offsets[query + 1]; ++row) {
                const auto place = static_cast<std::size_t>(row);
                const bool may = given.allowed.empty() || given.allowed[place] != 0;
                const std::uint8_t found = is_read ? judged[place] : kNoEcho;
                counts[query] += found == kEcho ? 1 : 0;
                dropped[place] = !may || found == kEcho ? 1 : 0;
                kept[place] = may && found == kNoEcho ? 1 : 0;
            }
        }
    }

    std::vector<std::uint8_t> dropped, kept;
    py::array_t<std::int64_t> n_echo;
};

// (indices, offsets, positions, dropped, dropped_offsets, kept, kept_offsets, diagnostics), as
// biasdef_select.
py::tuple bounded_selection(const py::object& similarities, const py::object& scores,
                            const py::object& offsets, const py::object& indices,
                            const py::object& centres, const py::object& widths, std::int64_t k,
                            const py::object& allowed, const py::object& echoes) {
    HeldSpan<float> similarity_span("similarities", similarities);
    HeldSpan<float> score_span("scores", scores);
    HeldSpan<std::int64_t> offset_span("offsets", offsets);
    HeldSpan<std::int64_t> index_span("indices", indices);
    HeldSpan<double> centre_span("centres", centres);
    HeldSpan<double> width_span("widths", widths);
    const auto allowed_view = optional_array<bool>("allowed", allowed, {1});
    BoundedSelectionInput given{similarity_span.values(),
                                score_span.values(),
                                offset_span.values(),
                                centre_span.values(),
                                width_span.values(),
                                {},
                                nullptr};
    if (allowed_view) {
        given.allowed = bytes_of(*allowed_view);
        if (given.allowed.size() != given.similarities.size()) {
            throw std::invalid_argument(
                "allowed: expected " + std::to_string(given.similarities.size()) +
                " values, as many as similarities, got " + std::to_string(given.allowed.size()));
        }
    }
    const auto index_values = index_span.values();
    if (index_values.size() != given.similarities.size()) {
        throw std::invalid_argument(
            "indices: expected " + std::to_string(given.similarities.size()) +
            " rows, as many as similarities, got " + std::to_string(index_values.size()));
    }
    const py::ssize_t n_queries = n_queries_of(given.offsets);
    py::array_t<double> before(n_queries), after(n_queries);
    std::optional<HeldEchoes> held;
    if (!echoes.is_none()) {
        given.echo = &held.emplace(echoes, n_queries, std::ssize(index_values)).test;
    }
    std::vector<std::uint8_t> chosen(given.similarities.size());
    std::vector<std::uint8_t> judged(held ? given.similarities.size() : 0);
    const BoundedSelectionResult result{chosen, filled_span(before), filled_span(after), judged};
    {
        const py::gil_scoped_release released;
        epibias::bounded_selection(given, result, {.k = k, .n_threads = 0});
    }
    const Marked selected(chosen, given.offsets);
    const LeftOver left(given, judged, held.has_value());
    const Marked dropped(left.dropped, given.offsets);
    const Marked kept(left.kept, given.offsets);
    py::array_t<std::int64_t> n_selected(n_queries);
    py::array_t<bool> is_short(n_queries);
    for (py::ssize_t query = 0; query < n_queries; ++query) {
        const std::int64_t count = selected.starts.at(query + 1) - selected.starts.at(query);
        n_selected.mutable_at(query) = count;
        is_short.mutable_at(query) = count < k;
    }
    py::dict diagnostics;
    diagnostics["n_selected"] = n_selected;
    diagnostics["short"] = is_short;
    diagnostics["before"] = before;
    diagnostics["after"] = after;
    diagnostics["n_echo"] = left.n_echo;
    return py::make_tuple(selected.picked(index_values), selected.starts, selected.positions,
                          dropped.picked(index_values), dropped.starts, kept.positions, kept.starts,
                          diagnostics);
}

}  // namespace

void bind_bounded_selection(py::module_& module) {
    module.def("bounded_selection", &bounded_selection, py::arg("similarities"), py::arg("scores"),
               py::arg("offsets"), py::arg("indices"), py::arg("centres"), py::arg("widths"),
               py::arg("k"), py::arg("allowed") = py::none(), py::arg("echoes") = py::none(),
               "TiltBound's exchanges: the parts of a Selection.");
}

}  // namespace epibias::bindings
