// echo_shares in Python: texts are read where Python has them, without the GIL.
#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "biasdef_arguments.hpp"
#include "epibias/echo_shares.hpp"
#include "module.hpp"

namespace epibias::bindings {

namespace {

// Whether `lower` may change more than the capitals of ASCII, which the core reads as small ones:
// it leaves the rest of Latin-1, dashes and quotation marks, and Chinese and Korean alone.
template <typename Unit>
bool has_capitals(const Unit* units, py::ssize_t n) {
    bool found = false;
    for (py::ssize_t i = 0; i < n; ++i) {
        const auto point = static_cast<std::uint32_t>(units[i]);
        const bool latin = point < 0xC0U || (point - 0xDFU) < 0x21U;
        const bool marks = (point - 0x2000U) < 0x70U;
        const bool caseless = (point - 0x3000U) < 0x7000U || (point - 0xAC00U) < 0x2BA4U;
        found |= !(latin | marks | caseless);
    }
    return found;
}

bool has_capitals(const py::handle& text) {
    if (PyUnicode_IS_ASCII(text.ptr())) return false;
    const py::ssize_t n = PyUnicode_GET_LENGTH(text.ptr());
    switch (PyUnicode_KIND(text.ptr())) {
        case PyUnicode_1BYTE_KIND:
            return has_capitals(PyUnicode_1BYTE_DATA(text.ptr()), n);
        case PyUnicode_2BYTE_KIND:
            return has_capitals(PyUnicode_2BYTE_DATA(text.ptr()), n);
        default:
            return has_capitals(PyUnicode_4BYTE_DATA(text.ptr()), n);
    }
}

// Views of texts that are held as long as it lives; of some as their lower case.
class HeldTexts {
  public:
    HeldTexts(const char* argument, const py::object& texts) : argument_(argument) {
        // A tuple is itself; of a list its own tuple, which no other thread changes.
        if (!PySequence_Check(texts.ptr()) || PyUnicode_Check(texts.ptr())) {
            refuse("a sequence of texts", py::type::handle_of(texts));
        }
        texts_ = py::tuple(texts);
        views_.resize(texts_.size());
    }

    [[nodiscard]] std::size_t size() const { return views_.size(); }

    void read(std::size_t row) {
        py::handle text = PyTuple_GET_ITEM(texts_.ptr(), static_cast<py::ssize_t>(row));
        if (!PyUnicode_Check(text.ptr())) {
            refuse("texts", py::type::handle_of(text), " (row " + std::to_string(row) + ")");
        }
        ready(text);
        if (has_capitals(text)) {
            lowered_.push_back(text.attr("lower")());
            text = lowered_.back();
            ready(text);
        }
        views_[row] = {PyUnicode_DATA(text.ptr()), PyUnicode_GET_LENGTH(text.ptr()),
                       static_cast<int>(PyUnicode_KIND(text.ptr()))};
    }

    [[nodiscard]] std::span<const TextView> views() const { return views_; }

  private:
    static void ready([[maybe_unused]] py::handle text) {
#if PY_VERSION_HEX < 0x030C0000
        if (PyUnicode_READY(text.ptr()) != 0) throw py::error_already_set();
#endif
    }

    [[noreturn]] void refuse(const char* expected, const py::handle& type,
                             const std::string& where = "") const {
        const auto got = py::str(type.attr("__name__")).cast<std::string>();
        throw std::invalid_argument(std::string(argument_) + ": expected " + expected + ", got " +
                                    got + where);
    }

    const char* argument_;
    py::tuple texts_;
    std::vector<py::object> lowered_;
    std::vector<TextView> views_;
};

py::array_t<double> echo_shares(const py::object& questions, const py::object& passages,
                                const py::object& offsets, const py::object& queries,
                                const py::object& limits) {
    HeldTexts question_texts("questions", questions), passage_texts("passages", passages);
    HeldSpan<std::int64_t> offset_span("offsets", offsets), query_span("queries", queries);
    HeldSpan<double> limit_span("limits", limits);
    const auto offset_values = offset_span.values();
    const auto query_values = query_span.values();
    const auto limit_values = limit_span.values();
    const auto n_passages = static_cast<std::int64_t>(passage_texts.size());
    // Only what will be read is looked at; what is out of range the core refuses.
    for (const std::int64_t query : query_values) {
        if (query < 0 || query + 1 >= std::ssize(offset_values)) continue;
        if (std::cmp_greater_equal(query, question_texts.size())) continue;
        const auto place = static_cast<std::size_t>(query);
        question_texts.read(place);
        const std::int64_t last = std::min(offset_values[place + 1], n_passages);
        for (std::int64_t row = std::max<std::int64_t>(offset_values[place], 0); row < last;
             ++row) {
            passage_texts.read(static_cast<std::size_t>(row));
        }
    }
    py::array_t<double> shares(n_passages);
    const auto share_values = filled_span(shares);
    std::ranges::fill(share_values, -std::numeric_limits<double>::infinity());
    {
        const py::gil_scoped_release released;
        epibias::echo_shares({question_texts.views(), passage_texts.views(), offset_values,
                              query_values, limit_values},
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
