// What: BiasDef's options from the fields of epibias.BiasDef, by their names; shared with
// cuda/bindings.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "epibias/biasdef_select.hpp"

namespace epibias::bindings {

namespace py = pybind11;

inline bool is_second(const std::string& argument, const std::string& value,
                      const std::string& first, const std::string& second) {
    if (value == first) return false;
    if (value == second) return true;
    throw std::invalid_argument(argument + ": expected '" + first + "' or '" + second + "', got '" +
                                value + "'");
}

// The fields of epibias.BiasDef, by their names; it has checked them.
inline BiasDefOptions options_of(const py::dict& parameters, const std::string& precision) {
    const auto text = [&](const char* name) { return parameters[name].cast<std::string>(); };
    const auto integer = [&](const char* name) { return parameters[name].cast<std::int64_t>(); };
    const auto number = [&](const char* name) { return parameters[name].cast<double>(); };
    const auto given = [&](const char* name) { return !parameters[name].is_none(); };
    BiasDefOptions options;
    options.k = integer("k");
    options.min_kept = given("min_kept") ? integer("min_kept") : options.k;
    options.min_side = integer("min_side");
    options.slack = number("slack");
    if (given("kappa_points")) options.kappa_points = number("kappa_points");
    options.side_auto = is_second("side", text("side"), "right", "auto");
    options.mitigation = given("mitigation");
    options.refill = is_second("fill", text("fill"), "short", "refill");
    options.printed_rule = is_second("rule", text("rule"), "splits", "printed");
    if (is_second("criterion", text("criterion"), "kl", "mi")) {
        options.sweep.criterion = SweepCriterion::kMutualInformation;
    }
    options.sweep.kappa = number("kappa");
    options.sweep.bandwidth_factor = options.printed.bandwidth_factor = number("bandwidth_factor");
    if (is_second("precision", precision, "float64", "float32")) {
        options.sweep.precision = SweepPrecision::kFloat32;
    }
    if (given("gate")) {
        options.gate = number("gate");
        options.sweep.permutations = integer("permutations");
        options.sweep.seed = PyLong_AsUnsignedLongLongMask(py::int_(parameters["seed"]).ptr());
    }
    options.printed.tau = number("tau");
    options.printed.n_thresholds = integer("n_thresholds");
    options.printed.floor = number("floor");
    return options;
}

}  // namespace epibias::bindings
