#include "device_array.hpp"

#include <algorithm>

#include "refuse.hpp"

namespace epibias::cuda::bindings {
namespace {

constexpr std::size_t kWorkspaceAlignment = 256;

template <typename Sizes>
std::string sizes_text(const Sizes& sizes) {
    std::string text = "(";
    for (const auto size : sizes) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
    return text + (sizes.size() == 1 ? ",)" : ")");
}

std::string dimensions_text(std::initializer_list<int> allowed_ndim) {
    std::string text;
    for (const int ndim : allowed_ndim) text += (text.empty() ? "" : " or ") + std::to_string(ndim);
    return text + (text == "1" ? " dimension" : " dimensions");
}

}  // namespace

void DeviceCall::add_array(const std::string& argument, int device) {
    if (!device_) {
        device_ = device;
        first_argument_ = argument;
    }
    if (*device_ == device) return;
    refuse(argument, "an array on device " + std::to_string(*device_) + " as " + first_argument_,
           "one on device " + std::to_string(device));
}

ArrayTuple checked_tuple(DeviceCall& call, const std::string& argument, const py::handle& value,
                         std::string_view dtype, std::size_t alignment,
                         std::initializer_list<int> allowed_ndim) {
    if (!py::isinstance<py::tuple>(value) || py::len(value) != 4) {
        refuse(argument, "a tuple (pointer, shape, dtype, device)",
               std::string(py::str(py::type::of(value).attr("__name__"))));
    }
    const auto parts = py::reinterpret_borrow<py::tuple>(value);
    ArrayTuple array;
    array.pointer = parts[0].cast<std::uintptr_t>();
    for (const py::handle length : parts[1].cast<py::tuple>()) {
        array.shape.push_back(length.cast<std::int64_t>());
    }
    const auto found_dtype = parts[2].cast<std::string>();
    array.device = parts[3].cast<int>();
    // numpy has no bfloat16: an array of its bits is uint16 there.
    const bool same_bits = dtype == "bfloat16" && found_dtype == "uint16";
    if (found_dtype != dtype && !same_bits) refuse(argument, std::string(dtype), found_dtype);
    const auto ndim = static_cast<int>(array.shape.size());
    if (std::find(allowed_ndim.begin(), allowed_ndim.end(), ndim) == allowed_ndim.end()) {
        refuse(argument, dimensions_text(allowed_ndim), "shape " + sizes_text(array.shape));
    }
    // Of an array without elements the address is not used.
    const bool is_empty = std::find(array.shape.begin(), array.shape.end(), 0) != array.shape.end();
    if (!is_empty && array.pointer % alignment != 0) {
        refuse(argument, "an address that is a multiple of " + std::to_string(alignment),
               std::to_string(array.pointer % alignment) + " bytes more");
    }
    call.add_array(argument, array.device);
    return array;
}

void check_shape(const std::string& argument, const std::vector<std::int64_t>& found,
                 std::initializer_list<std::int64_t> expected) {
    if (std::equal(found.begin(), found.end(), expected.begin(), expected.end())) return;
    refuse(argument, "shape " + sizes_text(expected), "shape " + sizes_text(found));
}

Fault* fault_record(DeviceCall& call, const py::handle& value) {
    const DeviceArray<std::int64_t> record(call, "fault", value, {1});
    check_shape("fault", record, {2});
    return reinterpret_cast<Fault*>(record.data());
}

std::uint8_t* workspace_bytes(DeviceCall& call, const py::handle& value, std::int64_t n_bytes) {
    const ArrayTuple bytes = checked_tuple(call, "workspace", value, dtype_name<std::uint8_t>(),
                                           kWorkspaceAlignment, {1});
    if (bytes.shape[0] < n_bytes) {
        refuse("workspace", "at least " + std::to_string(n_bytes) + " bytes",
               std::to_string(bytes.shape[0]));
    }
    return reinterpret_cast<std::uint8_t*>(bytes.pointer);
}

}  // namespace epibias::cuda::bindings
