// What: input for the C++ tests: seeded matrices at any byte address, and every SIMD level in turn.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "epibias/matrix_view.hpp"
#include "epibias/simd_level.hpp"

namespace epibias::test {

// A matrix that starts `offset` bytes behind an aligned address.
class Matrix {
  public:
    Matrix(std::int64_t n_rows, std::int64_t n_columns, std::size_t offset = 0)
        : n_rows_(n_rows),
          n_columns_(n_columns),
          offset_(offset),
          bytes_(static_cast<std::size_t>(n_rows * n_columns) * sizeof(float) + offset) {}

    void set(std::int64_t row, std::int64_t column, float value) {
        std::memcpy(at(row, column), &value, sizeof value);
    }

    [[nodiscard]] float get(std::int64_t row, std::int64_t column) const {
        float value = 0;
        std::memcpy(&value, const_cast<Matrix*>(this)->at(row, column), sizeof value);
        return value;
    }

    [[nodiscard]] std::vector<float> row(std::int64_t row) const {
        std::vector<float> values;
        for (std::int64_t i = 0; i < n_columns_; ++i) values.push_back(get(row, i));
        return values;
    }

    void copy_row(std::int64_t from, std::int64_t to) {
        for (std::int64_t i = 0; i < n_columns_; ++i) set(to, i, get(from, i));
    }

    [[nodiscard]] MatrixView<const float> view() const {
        return {reinterpret_cast<const float*>(bytes_.data() + offset_), n_rows_, n_columns_};
    }

    [[nodiscard]] std::int64_t n_rows() const { return n_rows_; }
    [[nodiscard]] std::int64_t n_columns() const { return n_columns_; }

  private:
    unsigned char* at(std::int64_t row, std::int64_t column) {
        const auto number = static_cast<std::size_t>(row * n_columns_ + column);
        return bytes_.data() + offset_ + number * sizeof(float);
    }

    std::int64_t n_rows_;
    std::int64_t n_columns_;
    std::size_t offset_;
    std::vector<unsigned char> bytes_;
};

inline Matrix random_matrix(std::int64_t n_rows, std::int64_t n_columns, unsigned seed,
                            std::size_t offset = 0) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    Matrix matrix(n_rows, n_columns, offset);
    for (std::int64_t row = 0; row < n_rows; ++row) {
        for (std::int64_t i = 0; i < n_columns; ++i) matrix.set(row, i, normal(generator));
    }
    return matrix;
}

// Whole numbers from -2 to 2: many exact ties and duplicates; no row is zero.
inline Matrix integer_matrix(std::int64_t n_rows, std::int64_t n_columns, unsigned seed) {
    std::mt19937 generator(seed);
    std::uniform_int_distribution<int> small(-2, 2);
    Matrix matrix(n_rows, n_columns);
    for (std::int64_t row = 0; row < n_rows; ++row) {
        for (std::int64_t i = 0; i < n_columns; ++i) {
            matrix.set(row, i, static_cast<float>(small(generator)));
        }
        matrix.set(row, 0, 1.0F);
    }
    return matrix;
}

// Runs `test` at every level of this machine and leaves the best one active.
template <typename Test>
void at_every_level(Test test) {
    for (const SimdLevel level : supported_simd_levels()) {
        set_simd_level(simd_level_name(level));
        test(std::string(simd_level_name(level)));
    }
}

}  // namespace epibias::test
