#include "shared_memory.hpp"

#include <cstdint>
#include <cstdlib>
#include <new>

#include "limits.hpp"
#include "pages.hpp"
#include "raw_memory.hpp"
#include "thread.hpp"
#include "tsan.hpp"

namespace epibias::cuda::emulation {
namespace {

struct SharedArray {
    const void* key;
    const char* name;
    char* data;
    std::size_t bytes;
};

constexpr unsigned kMaxArrays = 64;
constexpr std::size_t kGuardBytes = 64;
constexpr unsigned char kGuardByte = 0xA5;
constexpr std::size_t kArenaBytes = std::size_t{256} << 20;

SharedArray arrays[kMaxArrays];
unsigned n_arrays = 0;
std::size_t static_bytes = 0;
std::size_t dynamic_bytes_asked = 0;
char* dynamic_data = nullptr;

#if defined(__SANITIZE_ADDRESS__)

// AddressSanitizer keeps freed memory out of use for a while: stale pointers are seen too.
char* allocate(std::size_t bytes) {
    void* data = nullptr;
    if (posix_memalign(&data, 16, bytes) != 0) throw std::bad_alloc();
    fill_raw(data, kPoison, bytes);
    return static_cast<char*>(data);
}

void release(const SharedArray& array) {
    std::free(array.data);
}
bool guard_is_whole(const SharedArray&) {
    return true;
}
void begin_arena() {}

#else

char* arena = nullptr;
std::size_t arena_used = 0;

void map_arena() {
    if (arena != nullptr) unmap_pages(arena, kArenaBytes);
    arena = map_pages(kArenaBytes);
    arena_used = 0;
}

// Multiples of 16 and no more: CUDA promises no more.
char* allocate(std::size_t bytes) {
    const std::size_t whole = (bytes + kGuardBytes + 31) / 32 * 32 + 32;
    if (arena == nullptr || arena_used + whole > kArenaBytes) map_arena();
    char* data = arena + arena_used + 16;
    arena_used += whole;
    fill_raw(data, kPoison, bytes);
    fill_raw(data + bytes, kGuardByte, kGuardBytes);
    return data;
}

void release(const SharedArray&) {}

bool guard_is_whole(const SharedArray& array) {
    for (std::size_t i = 0; i < kGuardBytes; ++i) {
        if (static_cast<unsigned char>(array.data[array.bytes + i]) != kGuardByte) return false;
    }
    return true;
}

// Under ThreadSanitizer every block gets fresh addresses, because accesses of different blocks to
// one address would be races; otherwise the same ones, which stay in the cache.
void begin_arena() {
    if (!tsan::kEnabled) arena_used = 0;
}

#endif

char* add_array(const void* key, std::size_t bytes, const char* name) {
    char* data = allocate(bytes);
    arrays[n_arrays++] = {key, name, data, bytes};
    return data;
}

}  // namespace

void* static_shared(const void* key, std::size_t bytes, const char* name, const Place& place) {
    for (unsigned i = 0; i < n_arrays; ++i) {
        if (arrays[i].key == key) return arrays[i].data;
    }
    if (n_arrays == kMaxArrays) fail(place, "more than %u shared arrays", kMaxArrays);
    static_bytes += bytes;
    if (static_bytes > kMaxStaticSharedBytes ||
        static_bytes + dynamic_bytes_asked > kMaxSharedBytes) {
        fail(place, "%zu bytes of declared and %zu of dynamic shared memory", static_bytes,
             dynamic_bytes_asked);
    }
    return add_array(key, bytes, name);
}

void* dynamic_shared(const Place& place) {
    if (dynamic_data == nullptr) fail(place, "launched without dynamic shared memory");
    return dynamic_data;
}

bool is_shared(const void* address, std::size_t bytes) {
    const auto first = reinterpret_cast<std::uintptr_t>(address);
    for (unsigned i = 0; i < n_arrays; ++i) {
        const auto begin = reinterpret_cast<std::uintptr_t>(arrays[i].data);
        if (first >= begin && first + bytes <= begin + arrays[i].bytes) return true;
    }
    return false;
}

void begin_shared_memory(std::size_t dynamic_bytes) {
    begin_arena();
    n_arrays = 0;
    static_bytes = 0;
    dynamic_bytes_asked = dynamic_bytes;
    dynamic_data =
        dynamic_bytes == 0 ? nullptr : add_array(nullptr, dynamic_bytes, "dynamic shared memory");
}

const char* end_shared_memory() {
    const char* overrun = nullptr;
    for (unsigned i = 0; i < n_arrays; ++i) {
        if (!guard_is_whole(arrays[i])) overrun = arrays[i].name;
        release(arrays[i]);
    }
    n_arrays = 0;
    return overrun;
}

}  // namespace epibias::cuda::emulation
