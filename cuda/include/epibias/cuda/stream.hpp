// What: the caller's CUDA stream, without CUDA's headers.
//
// `handle` is the cudaStream_t as an integer, as torch (`stream.cuda_stream`) and cupy
//   (`stream.ptr`) give it; 0 is the legacy default stream. The emulation ignores it.
// Launchers enqueue on this stream and return: none synchronises, none allocates.
#pragma once

#include <cstdint>

namespace epibias::cuda {

struct Stream {
    std::uintptr_t handle = 0;
};

}  // namespace epibias::cuda
