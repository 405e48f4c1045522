// What: one function per stage adds its Python functions to the module. A stage adds its line to
// the list; its bind_<stage>.cpp is picked up by name.
#pragma once

#include <pybind11/pybind11.h>

#define EPIBIAS_CUDA_BINDINGS(BIND) \
    BIND(numeric)                   \
    BIND(fault_record)              \
    BIND(cosine_topk)               \
    BIND(threshold_sweep)           \
    BIND(biasdef_select)            \
    BIND(polarization_axis)         \
    BIND(polarization_scores)       \
    BIND(rerank)                    \
    /* one line a stage, above this one */

namespace epibias::cuda::bindings {

#define EPIBIAS_DECLARE_BINDING(stage) void bind_##stage(pybind11::module_& module);
EPIBIAS_CUDA_BINDINGS(EPIBIAS_DECLARE_BINDING)
#undef EPIBIAS_DECLARE_BINDING

}  // namespace epibias::cuda::bindings
