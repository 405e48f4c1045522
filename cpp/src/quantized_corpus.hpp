// What: what a scan of codes knows of the passages, and the checks of their inverse norms.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "epibias/matrix_view.hpp"
#include "quantized_passages.hpp"
#include "refuse.hpp"

namespace epibias {

struct QuantizedCorpus {
    MatrixView<const float> rows;
    std::span<const double> inverse_norms;
    QuantizedPassages codes;
};

inline void check_number_of_norms(MatrixView<const float> passages,
                                  std::span<const double> inverse_norms) {
    if (std::ssize(inverse_norms) == passages.n_rows) return;
    refuse("inverse_norms", std::to_string(passages.n_rows) + " numbers, one per passage",
           std::to_string(inverse_norms.size()));
}

inline double checked_inverse_norm(std::span<const double> inverse_norms, std::int64_t row) {
    const double inverse = inverse_norms[static_cast<std::size_t>(row)];
    if (inverse > 0 && inverse <= std::numeric_limits<double>::max()) return inverse;
    refuse("inverse_norms", "positive finite numbers",
           number_text(inverse) + " in row " + std::to_string(row));
}

}  // namespace epibias
