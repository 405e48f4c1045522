// What: the door from Python's arrays to launchers: tuples (pointer, shape, dtype, device) made by
// python/epibias/device/arrays.py, checked and looked at; nothing is cast, copied or held.
//
// The Python caller holds the arrays over the call. Shapes are C-contiguous. The emulation has one
// device, 0, and its memory is the host's. One DeviceCall a function: all its arrays must be on one
// device, and run() makes that device current and releases the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "epibias/cuda/device.hpp"
#include "epibias/cuda/fault.hpp"
#include "epibias/cuda/stream.hpp"
#include "epibias/matrix_view.hpp"

namespace epibias::cuda::bindings {

namespace py = pybind11;

class DeviceCall {
  public:
    explicit DeviceCall(std::uintptr_t stream) : stream_{stream} {}

    // Throws std::invalid_argument where an earlier array is on another device.
    void add_array(const std::string& argument, int device);
    [[nodiscard]] Stream stream() const { return stream_; }

    template <typename Launch>
    void run(Launch launch) const {
        const py::gil_scoped_release release;
        const DeviceGuard guard(device_.value_or(0));
        launch();
    }

  private:
    Stream stream_;
    std::optional<int> device_;
    std::string first_argument_;
};

struct ArrayTuple {
    std::uintptr_t pointer = 0;
    std::vector<std::int64_t> shape;
    int device = 0;
};

// Checks everything but the type of the elements' use; throws std::invalid_argument.
ArrayTuple checked_tuple(DeviceCall& call, const std::string& argument, const py::handle& value,
                         std::string_view dtype, std::size_t alignment,
                         std::initializer_list<int> allowed_ndim);

// The dtype that Python gives arrays of these elements. bfloat16 has no type in C++20: its bits are
// std::uint16_t.
template <typename Value>
constexpr std::string_view dtype_name() {
    using Plain = std::remove_const_t<Value>;
    if constexpr (std::is_same_v<Plain, float>) return "float32";
    if constexpr (std::is_same_v<Plain, double>) return "float64";
    if constexpr (std::is_same_v<Plain, std::int8_t>) return "int8";
    if constexpr (std::is_same_v<Plain, std::uint8_t>) return "uint8";
    if constexpr (std::is_same_v<Plain, std::uint16_t>) return "bfloat16";
    if constexpr (std::is_same_v<Plain, std::int32_t>) return "int32";
    if constexpr (std::is_same_v<Plain, std::int64_t>) return "int64";
    if constexpr (std::is_same_v<Plain, bool>) return "bool";
    return "";
}

template <typename Value>
class DeviceArray {
  public:
    static_assert(!dtype_name<Value>().empty());

    DeviceArray(DeviceCall& call, const std::string& argument, const py::handle& value,
                std::initializer_list<int> allowed_ndim)
        : array_(checked_tuple(call, argument, value, dtype_name<Value>(), alignof(Value),
                               allowed_ndim)) {}

    [[nodiscard]] Value* data() const { return reinterpret_cast<Value*>(array_.pointer); }
    [[nodiscard]] int ndim() const { return static_cast<int>(array_.shape.size()); }
    [[nodiscard]] std::int64_t shape(int axis) const {
        return array_.shape[static_cast<std::size_t>(axis)];
    }
    [[nodiscard]] const std::vector<std::int64_t>& shape() const { return array_.shape; }
    [[nodiscard]] std::int64_t size() const {
        std::int64_t n_values = 1;
        for (const std::int64_t length : array_.shape) n_values *= length;
        return n_values;
    }
    // The last axis as columns and all others together as rows; a 1-d array is one row.
    [[nodiscard]] MatrixView<Value> matrix() const {
        const std::int64_t n_columns = shape(ndim() - 1);
        std::int64_t n_rows = 1;
        for (int axis = 0; axis + 1 < ndim(); ++axis) n_rows *= shape(axis);
        return {data(), n_rows, n_columns};
    }

  private:
    ArrayTuple array_;
};

// None stays empty; anything else is checked as above.
template <typename Value>
std::optional<DeviceArray<Value>> optional_device_array(DeviceCall& call,
                                                        const std::string& argument,
                                                        const py::object& value,
                                                        std::initializer_list<int> allowed_ndim) {
    if (value.is_none()) return std::nullopt;
    return DeviceArray<Value>(call, argument, value, allowed_ndim);
}

// A fault record: int64 [2], filled with -1 by the caller.
Fault* fault_record(DeviceCall& call, const py::handle& value);

// The device's memory for intermediate results: uint8 [n_bytes], aligned to 256 bytes as every
// framework's allocator gives it.
std::uint8_t* workspace_bytes(DeviceCall& call, const py::handle& value, std::int64_t n_bytes);

// Refuses arrays whose shape is not `expected`.
void check_shape(const std::string& argument, const std::vector<std::int64_t>& found,
                 std::initializer_list<std::int64_t> expected);

template <typename Value>
void check_shape(const std::string& argument, const DeviceArray<Value>& array,
                 std::initializer_list<std::int64_t> expected) {
    check_shape(argument, array.shape(), expected);
}

}  // namespace epibias::cuda::bindings
