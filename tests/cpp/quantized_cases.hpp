// Norms and codes of passages, for the tests of the quantized scan.
#pragma once

#include <cstdint>
#include <vector>

#include "epibias/numeric.hpp"
#include "epibias/quantized_scan.hpp"
#include "support.hpp"

namespace epibias::test {

inline std::vector<double> norms_of(const Matrix& rows) {
    std::vector<double> norms(static_cast<std::size_t>(rows.n_rows()));
    epibias::inverse_norms(rows.view(), "passages", norms);
    return norms;
}

inline std::vector<std::uint8_t> codes_of(const Matrix& passages, const std::vector<double>& norms,
                                          int bits) {
    const std::int64_t size =
        epibias::quantized_size(passages.n_rows(), passages.n_columns(), bits);
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(size));
    epibias::quantize_passages(passages.view(), norms, bits, codes);
    return codes;
}

}  // namespace epibias::test
