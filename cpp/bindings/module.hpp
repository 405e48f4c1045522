// What: one function per stage adds its Python functions to the module.
#pragma once

#include <pybind11/pybind11.h>

namespace epibias::bindings {

void bind_cosine_topk(pybind11::module_& module);
void bind_quantized_scan(pybind11::module_& module);
void bind_polarization_axis(pybind11::module_& module);
void bind_threshold_sweep(pybind11::module_& module);
void bind_rerank(pybind11::module_& module);
void bind_rank_candidates(pybind11::module_& module);
void bind_biasdef_select(pybind11::module_& module);
void bind_bounded_selection(pybind11::module_& module);
void bind_echo_shares(pybind11::module_& module);
void bind_remembered(pybind11::module_& module);
void bind_trusted_index(pybind11::module_& module);

}  // namespace epibias::bindings
