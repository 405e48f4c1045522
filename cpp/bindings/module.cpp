// What: the Python module epibias._core, as python/epibias/_core.pyi describes it. Stages bind
// themselves; here are only the functions that concern all of them.
#include "module.hpp"

#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "epibias/parallel.hpp"
#include "epibias/simd_level.hpp"

namespace py = pybind11;

PYBIND11_MODULE(_core, module) {
    module.doc() = "Kernels of epibias: numpy arrays in, numpy arrays out. See _core.pyi.";

    module.def(
        "simd_level",
        [] { return std::string(epibias::simd_level_name(epibias::active_simd_level())); },
        "Name of the instruction set that the kernels use.");
    module.def(
        "simd_levels",
        [] {
            std::vector<std::string> names;
            for (const auto level : epibias::supported_simd_levels()) {
                names.emplace_back(epibias::simd_level_name(level));
            }
            return names;
        },
        "Names of the instruction sets that this machine can run, ascending.");
    module.def(
        "set_simd_level", [](const std::string& level) { epibias::set_simd_level(level); },
        py::arg("level"), "Choose an instruction set by name, for tests.");
    module.def("n_threads", &epibias::n_threads, "Number of threads that kernels may use.");
    module.def("set_n_threads", &epibias::set_n_threads, py::arg("n_threads"),
               "Set the number of threads, 1 to 1024; 0 undoes an earlier setting.");

    epibias::bindings::bind_cosine_topk(module);
    epibias::bindings::bind_quantized_scan(module);
    epibias::bindings::bind_polarization_axis(module);
    epibias::bindings::bind_threshold_sweep(module);
    epibias::bindings::bind_rerank(module);
    epibias::bindings::bind_rank_candidates(module);
    epibias::bindings::bind_biasdef_select(module);
    epibias::bindings::bind_bounded_selection(module);
    epibias::bindings::bind_echo_shares(module);
    epibias::bindings::bind_remembered(module);
    epibias::bindings::bind_trusted_index(module);
}
