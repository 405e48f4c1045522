#include "held_texts.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>

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
#if PY_VERSION_HEX < 0x030C0000
    if (!PyUnicode_IS_READY(text.ptr())) return false;
#endif

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

TextView view_of(const py::handle& text) {
    return {PyUnicode_DATA(text.ptr()), PyUnicode_GET_LENGTH(text.ptr()),
            static_cast<int>(PyUnicode_KIND(text.ptr()))};
}

[[noreturn]] void refuse(const char* argument, const char* expected, const py::handle& value,
                         const std::string& where = "") {
    const auto got = py::str(py::type::handle_of(value).attr("__name__")).cast<std::string>();
    throw std::invalid_argument(std::string(argument) + ": expected " + expected + ", got " + got +
                                where);
}

}  // namespace

HeldTexts::HeldTexts(const char* argument, const py::object& texts) : argument_(argument) {
    if (!PySequence_Check(texts.ptr()) || PyUnicode_Check(texts.ptr())) {
        refuse(argument, "a sequence of texts", texts);
    }
    // A tuple is itself; of a list its own tuple, which no other thread changes.
    texts_ = py::tuple(texts);
}

TextView HeldTexts::view(std::size_t row) {
    py::handle text = PyTuple_GET_ITEM(texts_.ptr(), static_cast<py::ssize_t>(row));
    const bool is_text = PyUnicode_Check(text.ptr());
    if (is_text && is_plain(text)) return view_of(text);
    const py::gil_scoped_acquire acquired;
    if (!is_text) refuse(argument_, "texts", text, " (row " + std::to_string(row) + ")");
#if PY_VERSION_HEX < 0x030C0000
    if (PyUnicode_READY(text.ptr()) != 0) throw py::error_already_set();
#endif
    if (!is_plain(text)) {
        py::object read = as_read(text);
#if PY_VERSION_HEX < 0x030C0000
        if (PyUnicode_READY(read.ptr()) != 0) throw py::error_already_set();
#endif
        read_.push_back(std::move(read));
        text = read_.back();
    }
    return view_of(text);
}

}  // namespace epibias::bindings
