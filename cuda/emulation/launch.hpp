// What: a kernel launch: the grid's blocks one after another, each to its end.
//
// Throws Misuse where the kernel breaks a rule of CUDA, std::invalid_argument where the launch
// itself does. Launches from several threads wait for each other. Runs with the default
// floating-point environment: a device keeps denormals whatever the host has set.
// Not emulated: speed, weak memory order, blocks that wait for other blocks, wgmma and TMA.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <type_traits>

#include "limits.hpp"
#include "vector_types.hpp"

namespace epibias::cuda::emulation {

class Misuse : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Launch {
    const char* name;
    dim3 grid;
    dim3 block;
    std::size_t shared_bytes;
    void (*body)(const void* context);
    const void* context;
};

void run_launch(const Launch& asked);

template <typename Kernel, typename... Arguments>
void launch_kernel(const char* name, dim3 grid, dim3 block, std::size_t shared_bytes,
                   const Kernel& kernel, const Arguments&... arguments) {
    static_assert((std::is_trivially_copyable_v<Arguments> && ...), "kernels take plain data");
    static_assert((sizeof(Arguments) + ... + 0) <= kMaxArgumentBytes);
    const auto body = [&] { kernel(arguments...); };
    using Body = decltype(body);
    run_launch({name, grid, block, shared_bytes,
                [](const void* context) { (*static_cast<Body*>(context))(); }, &body});
}

// For tests of 64-bit indices: while one lives, launches run only the first and the last block.
class OnlyEndBlocks {
  public:
    OnlyEndBlocks();
    ~OnlyEndBlocks();
    OnlyEndBlocks(const OnlyEndBlocks&) = delete;
    OnlyEndBlocks& operator=(const OnlyEndBlocks&) = delete;
};

}  // namespace epibias::cuda::emulation
