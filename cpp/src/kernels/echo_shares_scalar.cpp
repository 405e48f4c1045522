// Portable level of echo_shares, and what letters count as.
#include "kernels/echo_shares_body.hpp"

namespace epibias::kernels {
namespace {

// Punctuation and symbols of Latin-1 beyond ASCII: spaces, as those of ASCII are.
constexpr bool is_mark(std::uint32_t point) noexcept {
    const bool other = point == 0xAA || point == 0xAD || point == 0xB2 || point == 0xB3 ||
                       point == 0xB5 || point == 0xB9 || point == 0xBA ||
                       (point >= 0xBC && point <= 0xBE);
    return (point >= 0xA1 && point <= 0xBF && !other) || point == 0xD7 || point == 0xF7;
}

constexpr EchoCodes mixed_codes() noexcept {
    EchoCodes table{};
    for (std::uint32_t point = 0; point < 256; ++point) {
        std::uint32_t code = 0;
        if (point >= 'a' && point <= 'z') code = point - 'a' + 1;
        if (point >= 'A' && point <= 'Z') code = point - 'A' + 1;
        if (point >= '0' && point <= '9') code = point - '0' + 27;
        if (point > 127 && !is_mark(point)) code = kFirstClass + point % kClasses;
        table.of[point] = code * kEchoMixer;
    }
    return table;
}

}  // namespace

constinit const EchoCodes kEchoMixedCodes = mixed_codes();

namespace scalar {
const EchoKernels kEcho = {.collapse8 = collapse_all<std::uint8_t>,
                           .collapse16 = collapse_all<std::uint16_t>,
                           .collapse32 = collapse_all<std::uint32_t>,
                           .sift = sift};
}

}  // namespace epibias::kernels
