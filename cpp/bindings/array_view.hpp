// What: the one door from numpy arrays to the core: check, hold, look at; never cast, never copy.
//
// An array of another dtype, layout or number of dimensions is refused with the argument, what was
// expected, what was found and the call that would put it right. The view keeps the array alive, so
// that the caller may release the GIL. Addresses need not be aligned (see RowReader).
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "epibias/matrix_view.hpp"

namespace epibias::bindings {

namespace py = pybind11;

// Checks and returns the array itself; throws std::invalid_argument.
py::array checked_array(const std::string& argument, const py::handle& value,
                        const py::dtype& dtype, std::initializer_list<int> allowed_ndim);

template <typename Value>
class ArrayView {
  public:
    ArrayView(const std::string& argument, const py::handle& value,
              std::initializer_list<int> allowed_ndim)
        : array_(checked_array(argument, value, py::dtype::of<Value>(), allowed_ndim)),
          data_(static_cast<const Value*>(array_.data())) {}

    [[nodiscard]] const Value* data() const { return data_; }
    [[nodiscard]] int ndim() const { return static_cast<int>(array_.ndim()); }
    [[nodiscard]] std::int64_t shape(int axis) const { return array_.shape(axis); }
    [[nodiscard]] std::int64_t size() const { return array_.size(); }

    // The last axis as columns and all others together as rows; a 1-d array is one row.
    [[nodiscard]] MatrixView<const Value> matrix() const {
        const std::int64_t n_columns = shape(ndim() - 1);
        std::int64_t n_rows = 1;
        for (int axis = 0; axis + 1 < ndim(); ++axis) n_rows *= shape(axis);
        return {data_, n_rows, n_columns};
    }

  private:
    py::array array_;
    const Value* data_;
};

// None stays empty; anything else is checked as above.
template <typename Value>
std::optional<ArrayView<Value>> optional_array(const std::string& argument, const py::object& value,
                                               std::initializer_list<int> allowed_ndim) {
    if (value.is_none()) return std::nullopt;
    return ArrayView<Value>(argument, value, allowed_ndim);
}

// A mask that is a view of other numbers may hold what no bool does.
[[nodiscard]] inline std::span<const std::uint8_t> bytes_of(const ArrayView<bool>& mask) {
    return {reinterpret_cast<const std::uint8_t*>(mask.data()),
            static_cast<std::size_t>(mask.size())};
}

}  // namespace epibias::bindings
