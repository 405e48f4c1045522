// What: a cosine search on the (emulated) device and on the CPU, for tests of both.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "epibias/cosine_topk.hpp"
#include "epibias/cuda/cosine_topk.hpp"
#include "epibias/numeric.hpp"
#include "support.hpp"

namespace epibias::test {

// Memory as a device's allocator gives it: aligned to 256 bytes, and no bit of it cleared.
class DeviceBytes {
  public:
    explicit DeviceBytes(std::size_t n_bytes)
        : bytes_(static_cast<unsigned char*>(::operator new(n_bytes, kAlignment))) {
        std::memset(bytes_.get(), 0xA5, n_bytes);
    }
    template <typename Value = void>
    [[nodiscard]] Value* data() const {
        return static_cast<Value*>(static_cast<void*>(bytes_.get()));
    }

  private:
    static constexpr std::align_val_t kAlignment{256};
    struct Free {
        void operator()(unsigned char* bytes) const { ::operator delete(bytes, kAlignment); }
    };
    std::unique_ptr<unsigned char, Free> bytes_;
};

struct Topk {
    std::vector<std::int64_t> indices;
    std::vector<float> similarities;

    bool operator==(const Topk& other) const {
        if (indices != other.indices || similarities.size() != other.similarities.size()) {
            return false;
        }
        for (std::size_t i = 0; i < similarities.size(); ++i) {
            if (std::bit_cast<std::uint32_t>(similarities[i]) !=
                std::bit_cast<std::uint32_t>(other.similarities[i])) {
                return false;
            }
        }
        return true;
    }
};

inline Topk cpu_topk(const Matrix& queries, const Matrix& passages, std::int64_t k) {
    const auto size = static_cast<std::size_t>(queries.n_rows() * k);
    Topk found{std::vector<std::int64_t>(size, -7), std::vector<float>(size)};
    cosine_topk(queries.view(), passages.view(), k, {}, {found.indices.data(), queries.n_rows(), k},
                {found.similarities.data(), queries.n_rows(), k});
    return found;
}

// A way to scan: a storage, and whether tensor cores do it.
struct ScanCase {
    std::string name;
    cuda::CosineStorage storage;
    bool tensor_cores;
};

inline const std::vector<ScanCase>& scan_cases() {
    using cuda::CosineStorage;
    static const std::vector<ScanCase> cases = {
        {"tf32", CosineStorage::kFloat32, true}, {"float32", CosineStorage::kFloat32, false},
        {"bf16", CosineStorage::kBf16, true},    {"bf16 portable", CosineStorage::kBf16, false},
        {"int8", CosineStorage::kInt8, true},    {"int8 portable", CosineStorage::kInt8, false},
    };
    return cases;
}

// Passages on the device, prepared for one storage.
class DevicePassages {
  public:
    DevicePassages(MatrixView<const float> rows, std::vector<double> inverse_norms,
                   cuda::CosineStorage storage)
        : inverse_norms_(std::move(inverse_norms)) {
        passages_ = {.rows = rows, .inverse_norms = inverse_norms_.data(), .storage = storage};
        if (storage == cuda::CosineStorage::kFloat32) return;
        const std::int64_t n_bytes = rows.n_rows * cuda::code_row_bytes(rows.n_columns, storage);
        codes_ = std::make_unique<DeviceBytes>(static_cast<std::size_t>(n_bytes));
        scales_.resize(static_cast<std::size_t>(rows.n_rows));
        residuals_.resize(static_cast<std::size_t>(rows.n_rows));
        passages_.codes = codes_->data<std::uint8_t>();
        passages_.scales = scales_.data();
        passages_.residuals = residuals_.data();
        cuda::prepare_passages(rows, inverse_norms_.data(), storage, codes_->data<std::uint8_t>(),
                               scales_.data(), residuals_.data(), {});
    }

    [[nodiscard]] const cuda::CosinePassages& get() const { return passages_; }
    [[nodiscard]] cuda::CosinePassages& get() { return passages_; }

  private:
    std::vector<double> inverse_norms_;
    std::unique_ptr<DeviceBytes> codes_;
    std::vector<float> scales_;
    std::vector<float> residuals_;
    cuda::CosinePassages passages_;
};

inline std::vector<double> norms_of(const Matrix& passages) {
    std::vector<double> norms(static_cast<std::size_t>(passages.n_rows()));
    inverse_norms(passages.view(), "passages", norms);
    return norms;
}

inline constexpr cuda::Fault kClearFault{cuda::kNoFault, 0};

inline Topk device_topk(const Matrix& queries, const cuda::CosinePassages& passages, std::int64_t k,
                        const cuda::CosineTopkOptions& options, cuda::Fault& fault,
                        std::int64_t* n_rescored = nullptr) {
    const auto size = static_cast<std::size_t>(queries.n_rows() * k);
    Topk found{std::vector<std::int64_t>(size, -7), std::vector<float>(size)};
    const DeviceBytes workspace(cuda::cosine_topk_workspace_bytes(
        queries.n_rows(), queries.n_columns(), k, passages.storage, options));
    cuda::cosine_topk(queries.view(), passages, k, {found.indices.data(), queries.n_rows(), k},
                      {found.similarities.data(), queries.n_rows(), k}, n_rescored,
                      workspace.data(), &fault, {}, options);
    return found;
}

inline Topk device_topk(const Matrix& queries, const Matrix& passages, std::int64_t k,
                        const ScanCase& scan, cuda::CosineTopkOptions options = {}) {
    options.tensor_cores = scan.tensor_cores;
    const DevicePassages prepared(passages.view(), norms_of(passages), scan.storage);
    cuda::Fault fault = kClearFault;
    Topk found = device_topk(queries, prepared.get(), k, options, fault);
    if (fault.word != cuda::kNoFault) found.indices.clear();  // no answer equals this
    return found;
}

}  // namespace epibias::test
