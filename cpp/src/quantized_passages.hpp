// What: the codes of all passages, as quantized_scan.hpp lays them out: where a tile lies, and how
// its records are written.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "kernels/quantized_scan_kernels.hpp"

namespace epibias {

class QuantizedPassages {
  public:
    QuantizedPassages(const std::uint8_t* data, std::int64_t n_rows, std::int64_t dim, int bits,
                      bool has_remainders = false)
        : data_(data),
          n_rows_(n_rows),
          n_words_((dim + 7) / 8 * 2),
          bits_(bits),
          has_remainders_(has_remainders) {}

    [[nodiscard]] int bits() const { return bits_; }
    // Fours of columns; an even number, as the last ones may be padding.
    [[nodiscard]] std::int64_t n_words() const { return n_words_; }
    // Cache lines of the codes of a group.
    [[nodiscard]] std::int64_t n_steps() const { return n_words_ * bits_ / 8; }
    [[nodiscard]] std::int64_t n_tiles() const {
        return (n_rows_ + kernels::kTileRows - 1) / kernels::kTileRows;
    }
    [[nodiscard]] std::int64_t group_bytes() const {
        return n_steps() * kernels::kStepBytes + kernels::kGroupTail +
               (has_remainders_ ? kernels::kScaleBytes : 0);
    }
    [[nodiscard]] std::int64_t tile_bytes() const { return kernels::kTileGroups * group_bytes(); }
    [[nodiscard]] std::int64_t size() const { return n_tiles() * tile_bytes(); }

    // `next` is the tile that will be scanned after it; each call fetches its share of that.
    [[nodiscard]] kernels::QuantizedTile tile(std::int64_t number, std::int64_t next) const {
        return {.data = data_ + number * tile_bytes(),
                .n_steps = n_steps(),
                .group_bytes = group_bytes(),
                .next = data_ + next * tile_bytes(),
                .n_next_lines = 0,
                .has_remainders = has_remainders_};
    }

    // The record of a group: codes [16, 4 * n_words] in the order of the columns; `tails`: scales,
    // residuals, perhaps remainders, [16] each.
    void write_group(const std::int8_t* codes, std::initializer_list<const float*> tails,
                     std::uint8_t* out) const {
        for (std::int64_t step = 0; step < n_steps(); ++step) {
            for (std::int64_t row = 0; row < kernels::kGroupRows; ++row) {
                const std::int8_t* own = codes + row * 4 * n_words_;
                std::uint32_t word = 0;
                if (bits_ == 8) {
                    word = offset_word(own, step);
                } else {
                    word = offset_word(own, 2 * step) | offset_word(own, 2 * step + 1) << 4U;
                }
                std::memcpy(out + step * kernels::kStepBytes + row * 4, &word, sizeof word);
            }
        }
        out += n_steps() * kernels::kStepBytes;
        for (const float* tail : tails) {
            std::memcpy(out, tail, kernels::kScaleBytes);
            out += kernels::kScaleBytes;
        }
    }

  private:
    // The word of columns 4 * word … 4 * word + 3 of a row.
    [[nodiscard]] std::uint32_t offset_word(const std::int8_t* codes, std::int64_t word) const {
        std::uint32_t four = 0;
        std::memcpy(&four, codes + 4 * word, sizeof four);
        if (bits_ == 8) return four ^ 0x80808080U;  // code + 128
        return (four ^ 0x08080808U) & 0x0F0F0F0FU;  // code + 8
    }

    const std::uint8_t* data_;
    std::int64_t n_rows_;
    std::int64_t n_words_;
    int bits_;
    bool has_remainders_;
};

}  // namespace epibias
