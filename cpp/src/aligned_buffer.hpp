// What: scratch that starts on a cache line, so that a block of lanes lies in one line (a row that
// straddles two costs a third of the sweep's speed). Grows, never shrinks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace epibias {

template <typename Value>
class AlignedBufferOf {
  public:
    // At least `size` values; what they were is lost when the buffer grows.
    [[nodiscard]] Value* get(std::int64_t size) {
        constexpr std::size_t kLine = 64 / sizeof(Value);
        const auto wanted = static_cast<std::size_t>(size) + kLine;
        if (values_.size() < wanted) {
            values_.clear();  // nothing worth copying
            values_.resize(wanted);
        }
        const auto address = reinterpret_cast<std::uintptr_t>(values_.data());
        const std::size_t n_skipped = (64 - address % 64) % 64 / sizeof(Value);
        return values_.data() + n_skipped;
    }

  private:
    std::vector<Value> values_;
};

using AlignedBuffer = AlignedBufferOf<double>;

}  // namespace epibias
