#include "device_array.hpp"
#include "epibias/cuda/numeric.hpp"
#include "module.hpp"

namespace epibias::cuda::bindings {

void bind_numeric(py::module_& module) {
    module.def(
        "inverse_norms",
        [](const py::handle& rows, const py::handle& result, const py::handle& fault,
           std::uintptr_t stream, int argument) {
            DeviceCall call(stream);
            const DeviceArray<const float> row_array(call, "rows", rows, {2});
            const DeviceArray<double> result_array(call, "result", result, {1});
            check_shape("result", result_array, {row_array.shape(0)});
            Fault* const record = fault_record(call, fault);
            call.run([&] {
                inverse_norms(row_array.matrix(), argument, result_array.data(), record,
                              call.stream());
            });
        },
        py::arg("rows"), py::arg("result"), py::arg("fault"), py::arg("stream"),
        py::arg("argument") = 0,
        "Inverse norms of rows into result; a faulty row gets NaN and is recorded as this "
        "argument.");
}

}  // namespace epibias::cuda::bindings
