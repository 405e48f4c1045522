// echo_shares in Python: texts are read where Python has them, without the GIL.
#include <algorithm>
#include <cstdint>
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

// Whether `as_read` changes nothing in an ASCII text but capitals, which the core reads as small
// ones, and spaces.
bool is_plain(const Py_UCS1* units, py::ssize_t n) {
    std::uint8_t hidden = 0;
    for (py::ssize_t i = 0; i < n; ++i) {
        const Py_UCS1 unit = units[i];
        hidden |= static_cast<std::uint8_t>(
            ((unit < 0x20) & (unit != 9) & (unit != 10) & (unit != 13)) | (unit == 0x7F));
    }
    return hidden == 0;
}

// The same of any text: Latin-1 without accents and capitals, visible dashes and quotation marks,
// and Chinese and Korean are told apart quickly; what else there is goes the long way.
template <typename Unit>
bool is_plain_of(const Unit* units, py::ssize_t n) {
    bool other = false;
    for (py::ssize_t i = 0; i < n; ++i) {
        const auto point = static_cast<std::uint32_t>(units[i]);
        const bool ascii = (point - 0x20U) < 0x5FU || point == 9 || point == 10 || point == 13;
        const bool latin = ((point - 0xA1U) < 0x1FU && point != 0xADU) || point == 0xD7U ||
                           point == 0xDFU || point == 0xF7U;
        const bool marks = (point - 0x2010U) < 0x18U || (point - 0x2030U) < 0x2FU;
        const bool caseless = (point - 0x4E00U) < 0x51F0U || (point - 0xAC00U) < 0x2BA4U;
        other |= !(ascii | latin | marks | caseless);
    }
    return !other;
}

bool is_plain(const py::handle& text) {
    const py::ssize_t n = PyUnicode_GET_LENGTH(text.ptr());
    if (PyUnicode_IS_ASCII(text.ptr())) return is_plain(PyUnicode_1BYTE_DATA(text.ptr()), n);
    switch (PyUnicode_KIND(text.ptr())) {
        case PyUnicode_1BYTE_KIND:
            return is_plain_of(PyUnicode_1BYTE_DATA(text.ptr()), n);
        case PyUnicode_2BYTE_KIND:
            return is_plain_of(PyUnicode_2BYTE_DATA(text.ptr()), n);
        default:
            return is_plain_of(PyUnicode_4BYTE_DATA(text.ptr()), n);
    }
}

// A text as encoders without capitals read it: in lower case, without accents and without points
// that nobody sees; spaces of any width, punctuation and symbols as spaces. With a soft hyphen
// behind every letter a copy of the question has its very embedding, and would else have none of
// its triples.
py::object as_read(const py::handle& text) {
    const auto unicode = py::module_::import("unicodedata");
    const auto category = unicode.attr("category");
    const auto normalize = unicode.attr("normalize");
    const py::object apart = normalize("NFD", text.attr("lower")());
    std::u32string kept;
    for (py::ssize_t i = 0; i < PyUnicode_GET_LENGTH(apart.ptr()); ++i) {
        const Py_UCS4 point = PyUnicode_READ_CHAR(apart.ptr(), i);
        if (point >= 0x20 && point < 0x7F) {
            kept.push_back(point);
            continue;
        }
        const auto letter =
            py::reinterpret_steal<py::object>(PyUnicode_FromOrdinal(static_cast<int>(point)));
        const auto kind = category(letter).cast<std::string>();
        const bool is_apart = kind[0] == 'Z' || kind[0] == 'P' || kind[0] == 'S';
        if (is_apart || point == '\t' || point == '\n' || point == '\r') {
            kept.push_back(' ');
        } else if (kind[0] != 'C' && kind != "Mn") {
            kept.push_back(point);
        }
    }
    const auto together = py::reinterpret_steal<py::object>(PyUnicode_FromKindAndData(
        PyUnicode_4BYTE_KIND, kept.data(), static_cast<py::ssize_t>(kept.size())));
    if (!together) throw py::error_already_set();
    return normalize("NFC", together);
}

// Views of texts that are held as long as it lives; of some as they are read.
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
        if (!is_plain(text)) {
            read_.push_back(as_read(text));
            text = read_.back();
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
    std::vector<py::object> read_;
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
