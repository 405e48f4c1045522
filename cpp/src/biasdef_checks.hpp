// What: the checks of biasdef_select that look at options and lengths alone; shared with cuda/src.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "epibias/biasdef_select.hpp"
#include "refuse.hpp"

namespace epibias::biasdef {

inline void check_options(const BiasDefOptions& options) {
    check_at_least("k", options.k, 1);
    check_at_least("min_kept", options.min_kept, 1);
    check_at_least("min_side", options.min_side, 1);
    const bool slack_inside = options.slack >= 0 && options.slack <= 0.5;
    if (!slack_inside) refuse("slack", "a number from 0 to 0.5", number_text(options.slack));
    if (std::isnan(options.gate)) refuse("gate", "a number", "nan");
}

}  // namespace epibias::biasdef
