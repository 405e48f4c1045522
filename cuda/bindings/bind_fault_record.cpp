#include <bit>
#include <utility>

#include "device_array.hpp"
#include "epibias/cuda/fault_record.hpp"
#include "module.hpp"

namespace epibias::cuda::bindings {

void bind_fault_record(py::module_& module) {
    module.def(
        "clear_fault",
        [](const py::handle& fault, std::uintptr_t stream) {
            DeviceCall call(stream);
            Fault* const record = fault_record(call, fault);
            call.run([&] { clear_fault(record, call.stream()); });
        },
        py::arg("fault"), py::arg("stream"), "Fill a fault record with ones, on the stream.");
    module.def(
        "read_fault",
        [](const py::handle& fault) {
            DeviceCall call(0);
            const Fault* const record = fault_record(call, fault);
            Fault found{};
            call.run([&] { found = read_fault(record); });
            return std::pair(std::bit_cast<std::int64_t>(found.word),
                             std::bit_cast<std::int64_t>(found.value));
        },
        py::arg("fault"), "Wait for the device; the record's two numbers as int64.");
}

}  // namespace epibias::cuda::bindings
