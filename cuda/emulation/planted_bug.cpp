#include "planted_bug.hpp"

#include <cstdlib>

namespace epibias::cuda::emulation {
namespace {

std::uint64_t hash_of_variable() noexcept {
    const char* name = std::getenv("EPIBIAS_PLANTED_BUG");
    return name == nullptr || *name == '\0' ? 0 : hash_of_name(name);
}

}  // namespace

const std::uint64_t kPlantedBug = hash_of_variable();

}  // namespace epibias::cuda::emulation
