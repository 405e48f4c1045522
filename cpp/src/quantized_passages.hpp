// What: the codes of all passages, as quantized_scan.hpp lays them out: where a tile lies.
#pragma once

#include <cstdint>

#include "kernels/quantized_scan_kernels.hpp"

namespace epibias {

class QuantizedPassages {
  public:
    QuantizedPassages(const std::uint8_t* data, std::int64_t n_rows, std::int64_t dim, int bits)
        : data_(data), n_rows_(n_rows), n_words_((dim + 7) / 8 * 2), bits_(bits) {}

    [[nodiscard]] int bits() const { return bits_; }
    // Fours of columns; an even number, as the last ones may be padding.
    [[nodiscard]] std::int64_t n_words() const { return n_words_; }
    // Cache lines of the codes of a group.
    [[nodiscard]] std::int64_t n_steps() const { return n_words_ * bits_ / 8; }
    [[nodiscard]] std::int64_t n_tiles() const {
        return (n_rows_ + kernels::kTileRows - 1) / kernels::kTileRows;
    }
    [[nodiscard]] std::int64_t group_bytes() const {
        return n_steps() * kernels::kStepBytes + kernels::kGroupTail;
    }
    [[nodiscard]] std::int64_t tile_bytes() const { return kernels::kTileGroups * group_bytes(); }
    [[nodiscard]] std::int64_t size() const { return n_tiles() * tile_bytes(); }

    // `next` is the tile that will be scanned after it; each call fetches its share of that.
    [[nodiscard]] kernels::QuantizedTile tile(std::int64_t number, std::int64_t next) const {
        return {.data = data_ + number * tile_bytes(),
                .n_steps = n_steps(),
                .group_bytes = group_bytes(),
                .next = data_ + next * tile_bytes(),
                .n_next_lines = 0};
    }

  private:
    const std::uint8_t* data_;
    std::int64_t n_rows_;
    std::int64_t n_words_;
    int bits_;
};

}  // namespace epibias
