// What: the loops over letters of echo_shares, a table of them per SIMD level.
//
// No inline function of a library header may be used in the sources of this folder (see
// numeric.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace epibias::kernels {

// Codes are kept times this, mod 2^32, for the number of a triple is linear in them; it is odd, so
// that only the code of a space is 0 then.
inline constexpr std::uint32_t kEchoMixer = 2'654'435'769U;  // 2^32 over the golden ratio
// Vectors are written whole: buffers of codes have so many values behind their last.
inline constexpr std::size_t kEchoSlack = 32;
// A filter has a byte for eight numbers: 8 KB stay in the first cache beside the text.
inline constexpr std::uint32_t kFilterShift = 3;

// Mixed codes of the letters of Latin-1; defined in echo_shares_scalar.cpp.
struct EchoCodes {
    std::uint32_t of[256];
};
extern const EchoCodes kEchoMixedCodes;
inline constexpr std::uint32_t kClasses = 223, kFirstClass = 37;  // of letters beyond ASCII

struct EchoKernels {
    // Mixed codes of letters in one, two or four bytes, of runs of spaces the first; returns how
    // many.
    std::size_t (*collapse8)(const std::uint8_t* units, std::size_t n, std::uint32_t* codes);
    std::size_t (*collapse16)(const std::uint16_t* units, std::size_t n, std::uint32_t* codes);
    std::size_t (*collapse32)(const std::uint32_t* units, std::size_t n, std::uint32_t* codes);
    // Those i < n, ascending, for which the number of codes[i], codes[i + 1], codes[i + 2] may be
    // one that the filter knows (bytes of 0 or 1); returns how many.
    std::size_t (*sift)(const std::uint32_t* codes, std::size_t n, const std::uint8_t* filter,
                        std::uint32_t* places);
};

namespace scalar {
extern const EchoKernels kEcho;
}
namespace avx2 {
extern const EchoKernels kEcho;
}
namespace avx512 {
extern const EchoKernels kEcho;
}

}  // namespace epibias::kernels
