// What: fresh pages of memory, which no sanitizer takes for something that a thread wrote.
#pragma once

#include <cstddef>

namespace epibias::cuda::emulation {

// Zeroed pages, taken from the machine when they are touched; at `address` if it is not null.
char* map_pages(std::size_t bytes, void* address = nullptr);
// ThreadSanitizer forgets what happened there.
void unmap_pages(char* pages, std::size_t bytes);

}  // namespace epibias::cuda::emulation
