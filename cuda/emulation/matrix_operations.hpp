// What: the tensor-core products of one warp, with operands laid out as PTX lays them out.
//
// c (16 x 8) += a (16 x depth) · b (depth x 8). Lane 4·g + t holds of c the rows g and g + 8 at
// columns 2t and 2t + 1; of a and b, registers of 4 bytes as the functions below spell out.
// Rounding is not the device's: products are exact here and added one by one in float32 with
// growing depth; a tensor core adds several at once and cuts bits off. A kernel whose result hangs
// on that has to bound the error, not to reproduce it.
#pragma once

#include <cstdint>
#include <cstring>

#include "intrinsics.hpp"
#include "warp_exchange.hpp"

namespace epibias::cuda::emulation {

// All lanes' registers: four of a, then two of b.
class Fragments {
  public:
    Fragments(WarpOperation operation, const unsigned (&a)[4], const unsigned (&b)[2],
              const Place& place) {
        const unsigned mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
        slots_ = warp_exchange(operation, ~0U, mine, sizeof(mine), place);
    }
    ~Fragments() { leave_warp_exchange(); }
    Fragments(const Fragments&) = delete;
    Fragments& operator=(const Fragments&) = delete;

    // `unit` counts along the depth in registers: units 0-3 are the first register of lanes t =
    // 0-3, units 4-7 the second.
    [[nodiscard]] unsigned a(unsigned row, unsigned unit) const {
        return word((row % 8) * 4 + unit % 4, row / 8 + 2 * (unit / 4));
    }
    [[nodiscard]] unsigned b(unsigned unit, unsigned column) const {
        return word(column * 4 + unit % 4, 4 + unit / 4);
    }

  private:
    [[nodiscard]] unsigned word(unsigned lane, unsigned number) const {
        unsigned value;
        std::memcpy(&value, slots_[lane] + std::size_t{number} * 4, sizeof(value));
        return value;
    }

    Slots slots_;
};

inline constexpr unsigned kDepthUnits = 8;

// Adds what `product(a, b)` makes of two registers to the four numbers that this lane holds of c.
template <typename Sum, typename Product>
void multiply_fragments(Sum (&c)[4], const Fragments& fragments, Product add_product) {
    const unsigned lane = current->lane();
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned row = lane / 4 + 8 * (i / 2);
        const unsigned column = 2 * (lane % 4) + i % 2;
        for (unsigned unit = 0; unit < kDepthUnits; ++unit) {
            c[i] = add_product(c[i], fragments.a(row, unit), fragments.b(unit, column));
        }
    }
}

// The lower of two bfloat16 in a register.
inline float low_bf16(unsigned word) {
    return __uint_as_float(word << 16);
}
inline float high_bf16(unsigned word) {
    return __uint_as_float(word & 0xFFFF0000U);
}

}  // namespace epibias::cuda::emulation

namespace epibias::cuda {

// A register holds two bfloat16 next to each other in depth, the lower half first.
inline void mma_bf16_m16n8k16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                              emulation::Place place = emulation::Place::current()) {
    const emulation::Fragments fragments(emulation::WarpOperation::kMatrixBf16, a, b, place);
    emulation::multiply_fragments(c, fragments, [](float sum, unsigned left, unsigned right) {
        sum += emulation::low_bf16(left) * emulation::low_bf16(right);
        return sum + emulation::high_bf16(left) * emulation::high_bf16(right);
    });
}

// A register holds four signed bytes next to each other in depth, the lowest byte first.
inline void mma_s8_m16n8k32(int (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                            emulation::Place place = emulation::Place::current()) {
    const emulation::Fragments fragments(emulation::WarpOperation::kMatrixS8, a, b, place);
    emulation::multiply_fragments(c, fragments, [](int sum, unsigned left, unsigned right) {
        return __dp4a(static_cast<int>(left), static_cast<int>(right), sum);
    });
}

// A register holds one tf32: the tensor core does not look at the lowest 13 bits.
inline void mma_tf32_m16n8k8(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                             emulation::Place place = emulation::Place::current()) {
    const emulation::Fragments fragments(emulation::WarpOperation::kMatrixTf32, a, b, place);
    emulation::multiply_fragments(c, fragments, [](float sum, unsigned left, unsigned right) {
        constexpr unsigned kKept = 0xFFFFE000U;
        return sum + __uint_as_float(left & kKept) * __uint_as_float(right & kKept);
    });
}

// To the nearest, ties away from zero (cvt.rna.tf32.f32).
inline unsigned to_tf32(float value) {
    const unsigned bits = __float_as_uint(value);
    if ((bits & 0x7F800000U) == 0x7F800000U) return std::isnan(value) ? 0x7FFFFFFFU : bits;
    return (bits + 0x1000U) & 0xFFFFE000U;
}

// To the nearest, ties to even (cvt.rn.bf16.f32).
inline unsigned short to_bf16(float value) {
    const unsigned bits = __float_as_uint(value);
    if (std::isnan(value)) return 0x7FFF;
    return static_cast<unsigned short>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

}  // namespace epibias::cuda
