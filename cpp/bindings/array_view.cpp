#include "array_view.hpp"

#include <stdexcept>

namespace epibias::bindings {

namespace {

[[noreturn]] void refuse(const std::string& argument, const std::string& expected,
                         const std::string& got) {
    throw std::invalid_argument(argument + ": expected " + expected + ", got " + got);
}

std::string ndim_text(std::initializer_list<int> allowed_ndim) {
    std::string text;
    for (const int ndim : allowed_ndim) {
        if (!text.empty()) text += " or ";
        text += std::to_string(ndim) + "-d";
    }
    return text;
}

std::string attribute_text(const py::handle& value, const char* attribute) {
    return py::str(value.attr(attribute)).cast<std::string>();
}

// Of numpy's own class and none derived from it.
bool is_exact_array(const py::handle& value) {
    return Py_TYPE(value.ptr()) == py::detail::npy_api::get().PyArray_Type_;
}

// Nothing here reads masks, so what is masked out would count.
bool is_masked(const py::handle& value) {
    return py::isinstance(value, py::module_::import("numpy.ma").attr("MaskedArray"));
}

}  // namespace

py::array checked_array(const std::string& argument, const py::handle& value,
                        const py::dtype& dtype, std::initializer_list<int> allowed_ndim) {
    // The texts of a refusal take longer than a query's work: they are made when one is due.
    const auto shape = [&] { return ndim_text(allowed_ndim); };
    const auto name = [&] { return py::str(dtype).cast<std::string>(); };
    if (!py::isinstance<py::array>(value)) {
        const auto type = py::str(py::type::handle_of(value).attr("__name__")).cast<std::string>();
        refuse(argument, "a numpy array, " + shape() + " " + name(), type);
    }
    auto array = py::reinterpret_borrow<py::array>(value);
    if (!is_exact_array(value) && is_masked(value)) {
        refuse(
            argument,
            "an array without a mask; leave the masked rows out, or call " + argument + ".filled",
            "a masked array");
    }
    if (!array.dtype().is(dtype) && !array.dtype().equal(dtype)) {
        refuse(argument, "dtype " + name() + "; call " + argument + ".astype(np." + name() + ")",
               "dtype " + attribute_text(value, "dtype"));
    }
    bool allowed = false;
    for (const int ndim : allowed_ndim) allowed = allowed || array.ndim() == ndim;
    if (!allowed) {
        refuse(argument, "a " + shape() + " array", "shape " + attribute_text(value, "shape"));
    }
    if ((array.flags() & py::array::c_style) == 0) {
        refuse(argument, "a C-contiguous array; call np.ascontiguousarray(" + argument + ")",
               "strides " + attribute_text(value, "strides"));
    }
    return array;
}

}  // namespace epibias::bindings
