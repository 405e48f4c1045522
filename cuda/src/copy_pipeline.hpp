// What: two pinned host buffers whose content goes to the device on a stream of its own, and the
// events that keep the three parties apart: the host that fills, the copies, the caller's kernels.
//
// Use, for tile 0, 1, …: stage(n) gives the buffer to fill, send() copies it and makes the caller's
// stream wait for it, release() says that the kernels enqueued so far were the last to read it.
// The emulation copies at once; there is nothing to wait for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "device_code.hpp"

#if !defined(__CUDACC__)
#include <vector>
#endif

namespace epibias::cuda {

#if defined(__CUDACC__)

class CopyPipeline {
  public:
    CopyPipeline(std::size_t buffer_bytes, Stream stream) : user_(native_stream(stream)) {
        try {
            check_cuda("cudaStreamCreate",
                       cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking));
            for (Slot& slot : slots_) {
                check_cuda("cudaHostAlloc",
                           cudaHostAlloc(&slot.pinned, buffer_bytes, cudaHostAllocDefault));
                check_cuda("cudaEventCreate",
                           cudaEventCreateWithFlags(&slot.copied, cudaEventDisableTiming));
                check_cuda("cudaEventCreate",
                           cudaEventCreateWithFlags(&slot.used, cudaEventDisableTiming));
            }
            // Copies start behind what the caller has enqueued: the tiles may still be in use.
            for (Slot& slot : slots_) {
                check_cuda("cudaEventRecord", cudaEventRecord(slot.used, user_));
            }
        } catch (...) {
            free_all();
            throw;
        }
    }
    ~CopyPipeline() { free_all(); }
    CopyPipeline(const CopyPipeline&) = delete;
    CopyPipeline& operator=(const CopyPipeline&) = delete;

    // Waits until the buffer's last copy is done.
    void* stage(std::int64_t tile) {
        Slot& slot = slot_of(tile);
        check_cuda("cudaEventSynchronize", cudaEventSynchronize(slot.copied));
        return slot.pinned;
    }

    void send(std::int64_t tile, void* device, std::size_t bytes) {
        Slot& slot = slot_of(tile);
        check_cuda("cudaStreamWaitEvent", cudaStreamWaitEvent(copies_, slot.used, 0));
        check_cuda("cudaMemcpyAsync",
                   cudaMemcpyAsync(device, slot.pinned, bytes, cudaMemcpyHostToDevice, copies_));
        check_cuda("cudaEventRecord", cudaEventRecord(slot.copied, copies_));
        check_cuda("cudaStreamWaitEvent", cudaStreamWaitEvent(user_, slot.copied, 0));
    }

    void release(std::int64_t tile) {
        check_cuda("cudaEventRecord", cudaEventRecord(slot_of(tile).used, user_));
    }

  private:
    struct Slot {
        void* pinned = nullptr;
        cudaEvent_t copied = nullptr;
        cudaEvent_t used = nullptr;
    };

    Slot& slot_of(std::int64_t tile) { return slots_[static_cast<std::size_t>(tile % 2)]; }

    // A destructor must not throw: what fails here has failed before.
    void free_all() {
        if (copies_ != nullptr) {
            static_cast<void>(cudaStreamSynchronize(copies_));
            static_cast<void>(cudaStreamDestroy(copies_));
        }
        for (Slot& slot : slots_) {
            if (slot.copied != nullptr) static_cast<void>(cudaEventDestroy(slot.copied));
            if (slot.used != nullptr) static_cast<void>(cudaEventDestroy(slot.used));
            if (slot.pinned != nullptr) static_cast<void>(cudaFreeHost(slot.pinned));
        }
    }

    cudaStream_t user_;
    cudaStream_t copies_ = nullptr;
    std::array<Slot, 2> slots_{};
};

#else

class CopyPipeline {
  public:
    CopyPipeline(std::size_t buffer_bytes, Stream stream) : stream_(stream) {
        for (auto& buffer : buffers_) buffer.resize(buffer_bytes);
    }
    void* stage(std::int64_t tile) { return buffer_of(tile).data(); }
    void send(std::int64_t tile, void* device, std::size_t bytes) {
        copy_to_device_async(device, buffer_of(tile).data(), bytes, stream_);
    }
    void release(std::int64_t /*tile*/) {}

  private:
    std::vector<unsigned char>& buffer_of(std::int64_t tile) {
        return buffers_[static_cast<std::size_t>(tile % 2)];
    }
    Stream stream_;
    std::array<std::vector<unsigned char>, 2> buffers_;
};

#endif

}  // namespace epibias::cuda
