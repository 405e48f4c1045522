// What: the sweep's options by the names that Python gives them; shared with cuda/bindings.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "epibias/threshold_sweep.hpp"

namespace epibias::bindings {

inline SweepCriterion criterion_from_name(const std::string& name) {
    if (name == "kl") return SweepCriterion::kKullbackLeibler;
    if (name == "mi") return SweepCriterion::kMutualInformation;
    throw std::invalid_argument("criterion: expected 'kl' or 'mi', got '" + name + "'");
}

inline SweepPrecision precision_from_name(const std::string& name) {
    if (name == "float64") return SweepPrecision::kFloat64;
    if (name == "float32") return SweepPrecision::kFloat32;
    throw std::invalid_argument("precision: expected 'float64' or 'float32', got '" + name + "'");
}

inline SweepMethod method_from_name(const std::string& name) {
    if (name == "all_splits") return SweepMethod::kAllSplits;
    if (name == "binned") return SweepMethod::kBinned;
    if (name == "auto") return SweepMethod::kAuto;
    throw std::invalid_argument("method: expected 'all_splits', 'binned' or 'auto', got '" + name +
                                "'");
}

// All but the ids of the queries, which are an array, and read where it lies.
inline ThresholdSweepOptions sweep_options(const std::string& criterion, std::int64_t min_kept,
                                           std::int64_t min_dropped, double kappa,
                                           double bandwidth_factor, std::int64_t permutations,
                                           std::int64_t max_exceedances, const pybind11::int_& seed,
                                           const std::string& precision,
                                           const std::string& method) {
    ThresholdSweepOptions options;
    options.criterion = criterion_from_name(criterion);
    options.min_kept = min_kept;
    options.min_dropped = min_dropped;
    options.kappa = kappa;
    options.bandwidth_factor = bandwidth_factor;
    options.permutations = permutations;
    options.max_exceedances = max_exceedances;
    // Any integer is a seed: its low 64 bits count, as in the oracle.
    options.seed = PyLong_AsUnsignedLongLongMask(seed.ptr());
    options.precision = precision_from_name(precision);
    options.method = method_from_name(method);
    return options;
}

}  // namespace epibias::bindings
