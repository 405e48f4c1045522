// What: by how much a scanned value may differ from the similarity; written for launchers and
// tests.
//
// For a unit query q and unit row x, their codes q', x' and residuals r_q = |q - q'|, r_x = |x -
// x'|:
//   |<q, x> - value| <= weight * r_x + own,   weight = (1 + r_q)(1 + a),  own = r_q + a (1 + r_q) +
//   s by Cauchy and Schwarz (quantized_scan.hpp); a is what summation loses of the product of
//   norms, s what single roundings of numbers below 10 lose.
// Summation: dim * u / (1 - dim * u), u = 2^-24, in float32 in any order (Higham, section 3.1). A
//   tensor core aligns the terms of a short sum to the largest and truncates below its 24 bits:
//   at most two units of 2^-23 a term, a = dim * 2^-22. int32 sums are exact.
// tf32: operands are rounded to 11 bits, 2^-11 of each at most.
// Reference: Fasi, Higham, Mikaitis, Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ
//   Computer Science 7:e330 (doi:10.7717/peerj-cs.330); Higham, Accuracy and Stability of Numerical
//   Algorithms, 2nd ed. (doi:10.1137/1.9780898718027).
#pragma once

#include <cstdint>
#include <limits>

namespace epibias::cuda {

// What a scan multiplies, and with what.
enum class ScanPath { kFloat32, kTf32, kBf16, kBf16Portable, kInt8, kInt8Portable };

struct ScanError {
    double summation;  // a: share of the product of norms
    double fixed;      // s: whatever the norms, codes included
};

// Conversion of the sum, three products, one addition and the rounding of the similarity.
inline constexpr double kRoundings = 64 * 0x1p-24;

[[nodiscard]] inline ScanError scan_error(ScanPath path, std::int64_t dim) {
    const auto terms = static_cast<double>(dim);
    const double plain = (terms + 4) * 0x1p-24;
    const double tensor = terms * 0x1p-22;
    // Beyond a half nothing is proven: everything is re-scored.
    if (plain >= 0.5 || tensor >= 0.5) {
        return {0, std::numeric_limits<double>::infinity()};
    }
    switch (path) {
        case ScanPath::kFloat32:
            return {0, 1.001 * plain / (1 - plain)};  // scan_error_bound of the CPU
        case ScanPath::kTf32:
            // (1 + 2^-11)^2 - 1 of the operands, and their sum is that much longer.
            return {0, 1.002 * (0x1p-10 + tensor) + kRoundings};
        case ScanPath::kBf16:
        case ScanPath::kBf16Portable:
            return {tensor, kRoundings};
        case ScanPath::kInt8:
        case ScanPath::kInt8Portable:
            break;
    }
    return {0, kRoundings};
}

}  // namespace epibias::cuda
