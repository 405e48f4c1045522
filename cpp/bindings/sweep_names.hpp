// What: the sweep's options by the names that Python gives them; shared with cuda/bindings.
#pragma once

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

}  // namespace epibias::bindings
