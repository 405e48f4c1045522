// What: a matrix that somebody else owns, and a reader for rows whose address is not aligned.
//
// Layout: row-major, rows adjacent, 64-bit sizes. A view never owns, copies or converts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace epibias {

template <typename Value>
struct MatrixView {
    Value* data = nullptr;
    std::int64_t n_rows = 0;
    std::int64_t n_columns = 0;

    // Address of a row. Do not read through it before `is_aligned(data)` is known: numpy hands out
    // float32 arrays at any byte (np.frombuffer with an offset, fields of packed records).
    [[nodiscard]] Value* row(std::int64_t number) const { return data + number * n_columns; }
};

template <typename Value>
[[nodiscard]] inline bool is_aligned(const Value* data) {
    return reinterpret_cast<std::uintptr_t>(data) % alignof(Value) == 0;
}

// Gives rows that may be read as `Value`: the rows themselves where they are aligned, otherwise a
// copy in the reader's own buffer (at most the rows asked for at once; valid until the next call).
// One reader per thread.
template <typename Value>
class RowReader {
  public:
    explicit RowReader(MatrixView<const Value> matrix)
        : matrix_(matrix), aligned_(is_aligned(matrix.data)) {}

    [[nodiscard]] const Value* rows(std::int64_t first, std::int64_t count) {
        if (aligned_) return matrix_.row(first);
        const auto n_values = static_cast<std::size_t>(count * matrix_.n_columns);
        if (buffer_.size() < n_values) buffer_.resize(n_values);
        // Byte arithmetic: the address is not one of a Value.
        const auto* bytes = reinterpret_cast<const unsigned char*>(matrix_.data);
        const auto offset = static_cast<std::size_t>(first * matrix_.n_columns) * sizeof(Value);
        if (n_values != 0) std::memcpy(buffer_.data(), bytes + offset, n_values * sizeof(Value));
        return buffer_.data();
    }

    [[nodiscard]] const Value* row(std::int64_t number) { return rows(number, 1); }

  private:
    static_assert(std::is_arithmetic_v<Value>);
    MatrixView<const Value> matrix_;
    bool aligned_;
    std::vector<Value> buffer_;
};

}  // namespace epibias
