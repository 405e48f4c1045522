// What: the Python modules epibias._cuda (compiled by nvcc) and epibias._cuda_emulated (the same
// kernels compiled by g++, for tests). One source; EPIBIAS_CUDA_MODULE is the name.
#include "module.hpp"

#include <pybind11/stl.h>

#include <utility>

#include "epibias/cuda/device.hpp"

PYBIND11_MODULE(EPIBIAS_CUDA_MODULE, module) {
    module.doc() = "CUDA kernels of epibias; arrays come as tuples made by epibias.device.arrays.";
    module.attr("emulated") = epibias::cuda::is_emulated();
    module.def(
        "device_status",
        [] {
            auto status = epibias::cuda::device_status();
            return std::pair(status.n_devices, std::move(status.reason));
        },
        "Number of devices, and why there is none.");

#define EPIBIAS_CALL_BINDING(stage) epibias::cuda::bindings::bind_##stage(module);
    EPIBIAS_CUDA_BINDINGS(EPIBIAS_CALL_BINDING)
#undef EPIBIAS_CALL_BINDING
}
