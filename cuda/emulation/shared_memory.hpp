// What: a block's shared memory: for each declaration an allocation of its exact size, made when
// the block first reaches the declaration, filled with poison, freed with the block.
//
// Blocks do not find what earlier ones left, and neighbours do not hide a write past the end:
// AddressSanitizer stops at it, and without it a guard behind each array is checked when the block
// ends.
#pragma once

#include <cstddef>

#include "place.hpp"

namespace epibias::cuda::emulation {

// The array of the declaration that `key` stands for.
void* static_shared(const void* key, std::size_t bytes, const char* name,
                    const Place& place = Place::current());
void* dynamic_shared(const Place& place = Place::current());

// Whether all the bytes lie in one shared array of this block.
bool is_shared(const void* address, std::size_t bytes);

void begin_shared_memory(std::size_t dynamic_bytes);
// Frees everything and returns the name of an array that was written past its end, or null.
const char* end_shared_memory();

}  // namespace epibias::cuda::emulation
