// What: the limits of a CUDA device that a launch must keep, those of compute capability 8.0
// to 10.0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace epibias::cuda::emulation {

inline constexpr unsigned kWarpLanes = 32;
inline constexpr unsigned kMaxThreads = 1024;  // of a block
inline constexpr unsigned kMaxWarps = kMaxThreads / kWarpLanes;
inline constexpr unsigned kMaxBlockDepth = 64;             // blockDim.z
inline constexpr std::int64_t kMaxGridWidth = 0x7FFFFFFF;  // gridDim.x
inline constexpr unsigned kMaxGridHeight = 65535;          // gridDim.y and .z
// Shared memory of a block: what a declaration may take, and with dynamic memory opted in. The
// smaller of the devices aimed at is sm_80 with 163 KiB; sm_90 and sm_100 have 227 KiB.
inline constexpr std::size_t kMaxStaticSharedBytes = std::size_t{48} << 10;
inline constexpr std::size_t kMaxSharedBytes = std::size_t{227} << 10;
inline constexpr std::size_t kMaxArgumentBytes = 4096;

}  // namespace epibias::cuda::emulation
