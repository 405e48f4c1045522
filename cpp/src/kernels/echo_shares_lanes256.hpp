// What: letters to codes, 32 at a time, for the levels that have AVX2. Blocks with a letter beyond
// ASCII, and the end of a text, go the portable way.
#pragma once

#include <immintrin.h>

#include "kernels/echo_shares_body.hpp"

namespace epibias::kernels {
namespace {

// For each mask of eight bytes: which ones, moved together, and how many.
struct Moves {
    alignas(8) std::uint8_t bytes[256][8];
    std::uint8_t counts[256];
};

constexpr Moves all_moves() {
    Moves moves{};
    for (std::uint32_t mask = 0; mask < 256; ++mask) {
        std::uint8_t count = 0;
        for (std::uint8_t lane = 0; lane < 8; ++lane) {
            if ((mask >> lane & 1U) != 0) moves.bytes[mask][count++] = lane;
        }
        moves.counts[mask] = count;
    }
    return moves;
}

constexpr Moves kMoves = all_moves();

// 1 to 36 for letters and digits of ASCII, 0 for all else below 128.
__m256i codes_of(__m256i point) {
    const __m256i lower = _mm256_or_si256(point, _mm256_set1_epi8(0x20));
    const __m256i is_letter = _mm256_and_si256(_mm256_cmpgt_epi8(lower, _mm256_set1_epi8('a' - 1)),
                                               _mm256_cmpgt_epi8(_mm256_set1_epi8('z' + 1), lower));
    const __m256i is_digit = _mm256_and_si256(_mm256_cmpgt_epi8(point, _mm256_set1_epi8('0' - 1)),
                                              _mm256_cmpgt_epi8(_mm256_set1_epi8('9' + 1), point));
    const __m256i letter = _mm256_sub_epi8(lower, _mm256_set1_epi8('a' - 1));
    const __m256i digit = _mm256_sub_epi8(point, _mm256_set1_epi8('0' - 27));
    return _mm256_or_si256(_mm256_and_si256(is_letter, letter), _mm256_and_si256(is_digit, digit));
}

// Writes eight mixed codes, of which the first so many as are kept count; returns how many.
std::size_t write_eight(__m128i codes, std::uint32_t kept, std::uint32_t* target) {
    const __m128i moves = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kMoves.bytes[kept]));
    const __m256i wide = _mm256_cvtepu8_epi32(_mm_shuffle_epi8(codes, moves));
    const __m256i mixer = _mm256_set1_epi32(static_cast<int>(kEchoMixer));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), _mm256_mullo_epi32(wide, mixer));
    return kMoves.counts[kept];
}

// 32 letters as bytes; false where one is beyond ASCII.
bool read_ascii(const std::uint8_t* units, __m256i& point) {
    point = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(units));
    return _mm256_movemask_epi8(point) == 0;
}

bool read_ascii(const std::uint16_t* units, __m256i& point) {
    const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(units));
    const __m256i second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(units + 16));
    const __m256i beyond = _mm256_set1_epi16(static_cast<short>(0xFF80));
    // Packed lane by lane: quarters 0 and 2 are of the first.
    point = _mm256_permute4x64_epi64(_mm256_packus_epi16(first, second), 0xD8);
    return _mm256_testz_si256(_mm256_or_si256(first, second), beyond) != 0;
}

template <typename Unit>
std::size_t collapse(const Unit* units, std::size_t n, std::uint32_t* codes) {
    std::size_t length = 0;
    std::size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const std::uint32_t before = i == 0 ? 0 : mixed_code(units[i - 1]);
        __m256i point;
        if (!read_ascii(units + i, point)) {
            length += collapse_some(units + i, 32, before, codes + length);
            continue;
        }
        const __m256i code = codes_of(point);
        const __m256i is_space = _mm256_cmpeq_epi8(code, _mm256_setzero_si256());
        const auto letters = ~static_cast<std::uint32_t>(_mm256_movemask_epi8(is_space));
        const std::uint32_t kept = letters | letters << 1U | (before != 0 ? 1U : 0U);
        const __m128i low = _mm256_castsi256_si128(code);
        const __m128i high = _mm256_extracti128_si256(code, 1);
        length += write_eight(low, kept & 255U, codes + length);
        length += write_eight(_mm_srli_si128(low, 8), kept >> 8U & 255U, codes + length);
        length += write_eight(high, kept >> 16U & 255U, codes + length);
        length += write_eight(_mm_srli_si128(high, 8), kept >> 24U, codes + length);
    }
    const std::uint32_t before = i == 0 ? 0 : mixed_code(units[i - 1]);
    return length + collapse_some(units + i, n - i, before, codes + length);
}

constexpr EchoKernels kEcho256 = {.collapse8 = collapse<std::uint8_t>,
                                  .collapse16 = collapse<std::uint16_t>,
                                  .collapse32 = collapse_all<std::uint32_t>,
                                  .sift = sift};

}  // namespace
}  // namespace epibias::kernels
