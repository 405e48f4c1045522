// What: memory of the device by plain allocations, for a program that compute-sanitizer watches.
//
// Every array is an allocation of exactly its size, so that one element beyond it is found: a
// framework's pool would have the next array there. Under emulation it is the host's memory.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "epibias/cuda/fault.hpp"
#include "epibias/matrix_view.hpp"

namespace epibias::cuda::check {

void* allocate(std::size_t n_bytes);
void release(void* memory) noexcept;
void copy_to_device(void* device, const void* host, std::size_t n_bytes);
// Waits for everything before it.
void copy_to_host(void* host, const void* device, std::size_t n_bytes);

// An array on the device; uninitialised unless made from values.
template <typename Value>
class DeviceArray {
  public:
    explicit DeviceArray(std::size_t size)
        : size_(size), data_(static_cast<Value*>(allocate(size * sizeof(Value)))) {}
    explicit DeviceArray(std::span<const Value> values) : DeviceArray(values.size()) {
        copy_to_device(data_, values.data(), values.size_bytes());
    }
    ~DeviceArray() { release(data_); }
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;

    [[nodiscard]] Value* data() const { return data_; }
    [[nodiscard]] std::span<Value> span() const { return {data_, size_}; }
    [[nodiscard]] MatrixView<Value> matrix(std::int64_t n_rows, std::int64_t n_columns) const {
        return {data_, n_rows, n_columns};
    }
    [[nodiscard]] MatrixView<const Value> view(std::int64_t n_rows, std::int64_t n_columns) const {
        return {data_, n_rows, n_columns};
    }
    [[nodiscard]] std::vector<Value> values() const {
        std::vector<Value> found(size_);
        copy_to_host(found.data(), data_, size_ * sizeof(Value));
        return found;
    }

  private:
    std::size_t size_;
    Value* data_;
};

// A fault record that says "none", as the caller of every launcher makes it.
class FaultRecord {
  public:
    FaultRecord() : record_(std::span<const Fault>(&kClear, 1)) {}
    [[nodiscard]] Fault* data() const { return record_.data(); }
    [[nodiscard]] std::uint64_t word() const { return record_.values().front().word; }

  private:
    static constexpr Fault kClear{kNoFault, 0};
    DeviceArray<Fault> record_;
};

}  // namespace epibias::cuda::check
