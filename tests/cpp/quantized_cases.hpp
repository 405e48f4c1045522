// Norms and codes of passages, for the tests of the quantized scan.
#pragma once

#include <cstdint>
#include <vector>

#include "epibias/numeric.hpp"
#include "epibias/principal_codes.hpp"
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

// Principal axes as a test needs them: any orthonormal rows will do. Those of an identity, turned
// by a reflection; all of the space where n_axes is dim.
inline Matrix axes_of(std::int64_t n_axes, std::int64_t dim) {
    Matrix axes(n_axes, dim);
    const auto length = static_cast<double>(dim);
    for (std::int64_t axis = 0; axis < n_axes; ++axis) {
        for (std::int64_t i = 0; i < dim; ++i) {
            axes.set(axis, i, static_cast<float>((axis == i ? 1.0 : 0.0) - 2 / length));
        }
    }
    return axes;
}

struct OwnPrincipalCodes {
    OwnPrincipalCodes(const Matrix& passages, const std::vector<double>& norms, std::int64_t n_axes,
                      std::int64_t n_leading)
        : axes(axes_of(n_axes, passages.n_columns())), n_leading_(n_leading) {
        const auto sizes = epibias::principal_sizes(passages.n_rows(), n_axes, n_leading);
        leading.resize(static_cast<std::size_t>(sizes.leading));
        rest.resize(static_cast<std::size_t>(sizes.rest));
        epibias::quantize_principal(passages.view(), norms, {axes.view(), n_leading}, leading,
                                    rest);
    }
    [[nodiscard]] PrincipalCodes view() const { return {{axes.view(), n_leading_}, leading, rest}; }

    Matrix axes;
    std::vector<std::uint8_t> leading;
    std::vector<std::uint8_t> rest;

  private:
    std::int64_t n_leading_;
};

}  // namespace epibias::test
