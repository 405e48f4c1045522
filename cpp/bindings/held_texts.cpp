#include "held_texts.hpp"

#include <atomic>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

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

bool is_ready([[maybe_unused]] const py::handle& text) {
#if PY_VERSION_HEX < 0x030C0000
    return PyUnicode_IS_READY(text.ptr());
#else
    return true;
#endif
}

bool is_plain(const py::handle& text) {
    if (!is_ready(text)) return false;
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

// What `as_read` makes of a single letter, of those alphabets in which it is a single letter, too,
// and does not hang on its neighbours. Capital sigma's small form does.
class Folds {
  public:
    static constexpr std::uint32_t kFirst = 0xC0, kEnd = 0x530, kSigma = 0x3A3;
    static constexpr std::uint16_t kNone = 0;

    // With the GIL. Python may hand it to another thread meanwhile, which then makes its own: a
    // lock here would wait for the GIL, and the GIL for the lock.
    static const Folds& made() {
        const Folds* known = Folds::known();
        if (known != nullptr) return *known;
        const auto* own = new Folds();  // lives as long as the process
        return place().compare_exchange_strong(known, own) ? *own : *known;
    }
    // Without: null where nobody has asked yet.
    static const Folds* known() { return place().load(std::memory_order_acquire); }

    [[nodiscard]] std::uint16_t of(std::uint32_t point) const {
        return point - kFirst < kEnd - kFirst ? of_[point - kFirst] : kNone;
    }

  private:
    Folds() {
        for (std::uint32_t point = kFirst; point < kEnd; ++point) {
            const bool is_letter =
                point < 0x250 || point >= 0x370;  // between them: marks, phonetics
            if (!is_letter || point == kSigma) continue;
            const auto letter =
                py::reinterpret_steal<py::object>(PyUnicode_FromOrdinal(static_cast<int>(point)));
            const py::object read = as_read(letter);
            if (PyUnicode_GET_LENGTH(read.ptr()) != 1) continue;
            const Py_UCS4 folded = PyUnicode_READ_CHAR(read.ptr(), 0);
            if (folded < 0x10000) of_[point - kFirst] = static_cast<std::uint16_t>(folded);
        }
    }

    std::uint16_t of_[kEnd - kFirst] = {};
    static std::atomic<const Folds*>& place() {
        static constinit std::atomic<const Folds*> made = nullptr;
        return made;
    }
};

// The text as read, in units as wide as its own; false where a point needs the long way.
template <typename Unit>
bool fold(const Folds& folds, const Unit* units, py::ssize_t n, std::vector<unsigned char>& bytes) {
    bytes.resize(static_cast<std::size_t>(n) * sizeof(Unit));
    auto* const target = reinterpret_cast<Unit*>(bytes.data());
    for (py::ssize_t i = 0; i < n; ++i) {
        const auto point = static_cast<std::uint32_t>(units[i]);
        std::uint32_t read = point;
        if (!is_plain_of(units + i, 1)) {
            read = folds.of(point);
            if (read == Folds::kNone || read > std::numeric_limits<Unit>::max()) return false;
        }
        target[i] = static_cast<Unit>(read);
    }
    return true;
}

bool fold(const Folds& folds, const py::handle& text, std::vector<unsigned char>& bytes) {
    const py::ssize_t n = PyUnicode_GET_LENGTH(text.ptr());
    switch (PyUnicode_KIND(text.ptr())) {
        case PyUnicode_1BYTE_KIND:
            return fold(folds, PyUnicode_1BYTE_DATA(text.ptr()), n, bytes);
        case PyUnicode_2BYTE_KIND:
            return fold(folds, PyUnicode_2BYTE_DATA(text.ptr()), n, bytes);
        default:
            return fold(folds, PyUnicode_4BYTE_DATA(text.ptr()), n, bytes);
    }
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
    std::vector<unsigned char> bytes;
    const Folds* folds = Folds::known();
    bool is_folded = is_text && folds != nullptr && is_ready(text) && fold(*folds, text, bytes);
    const py::gil_scoped_acquire acquired;
    if (!is_text) refuse(argument_, "texts", text, " (row " + std::to_string(row) + ")");
#if PY_VERSION_HEX < 0x030C0000
    if (PyUnicode_READY(text.ptr()) != 0) throw py::error_already_set();
#endif
    if (folds == nullptr && !is_plain(text)) is_folded = fold(Folds::made(), text, bytes);
    if (is_folded) {
        folded_.push_back(std::move(bytes));
        return {folded_.back().data(), PyUnicode_GET_LENGTH(text.ptr()),
                static_cast<int>(PyUnicode_KIND(text.ptr()))};
    }
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
