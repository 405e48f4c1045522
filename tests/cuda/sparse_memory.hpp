// What: arrays of more elements than 32 bits count, of which a test touches a few: address space
// without memory behind it.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

namespace epibias::test {

template <typename Value>
class SparseArray {
  public:
    explicit SparseArray(std::int64_t size) : size_(static_cast<std::size_t>(size)) {
        void* memory = mmap(nullptr, size_ * sizeof(Value), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        data_ = static_cast<Value*>(memory);
    }
    ~SparseArray() { munmap(data_, size_ * sizeof(Value)); }
    SparseArray(const SparseArray&) = delete;
    SparseArray& operator=(const SparseArray&) = delete;

    [[nodiscard]] Value* data() const { return data_; }
    [[nodiscard]] std::span<Value> span() const { return {data_, size_}; }
    [[nodiscard]] Value& operator[](std::int64_t place) const { return data_[place]; }

  private:
    std::size_t size_;
    Value* data_;
};

}  // namespace epibias::test
