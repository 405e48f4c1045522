#include "pages.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <new>

namespace epibias::cuda::emulation {

char* map_pages(std::size_t bytes, void* address) {
    // ThreadSanitizer's own mmap counts as a write to all the pages, and takes milliseconds for it:
    // the kernel is asked directly.
    const int flags =
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (address == nullptr ? 0 : MAP_FIXED);
    const long pages = syscall(SYS_mmap, address, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (pages == -1) throw std::bad_alloc();
    return reinterpret_cast<char*>(static_cast<std::uintptr_t>(pages));
}

void unmap_pages(char* pages, std::size_t bytes) {
    munmap(pages, bytes);
}

}  // namespace epibias::cuda::emulation
