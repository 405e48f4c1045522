// The codes of quantized_scan: what each says of its error, where bits are spent, and the kernels
// that this machine does not choose.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "epibias/quantized_scan.hpp"
#include "kernels/quantized_scan_kernels.hpp"
#include "quantized_cases.hpp"
#include "support.hpp"

using epibias::test::at_every_level;
using epibias::test::codes_of;
using epibias::test::Matrix;
using epibias::test::norms_of;
using epibias::test::random_matrix;

TEST_CASE("each code says how far it is from its row, and never too little") {
    constexpr std::int64_t kDim = 37;  // stored as 40
    Matrix passages = random_matrix(70, kDim, 13);
    for (std::int64_t i = 0; i < kDim; ++i) {
        passages.set(1, i, passages.get(1, i) * 1e-38F);
        passages.set(2, i, i == 5 ? 3.0F : 0.0F);  // exact
    }
    const auto norms = norms_of(passages);
    at_every_level([&](const std::string& level) {
        CAPTURE(level);
        for (const int bits : {8, 4}) {
            CAPTURE(bits);
            const std::int64_t n_steps = bits == 8 ? 10 : 5;
            const std::int64_t columns = 40 / n_steps;
            const int most = bits == 8 ? 127 : 7;
            const auto codes = codes_of(passages, norms, bits);
            for (std::int64_t row = 0; row < 70; ++row) {
                const std::uint8_t* group = codes.data() + row / 16 * (n_steps * 64 + 128);
                float scale = 0;
                float residual = 0;
                std::memcpy(&scale, group + n_steps * 64 + row % 16 * 4, 4);
                std::memcpy(&residual, group + n_steps * 64 + 64 + row % 16 * 4, 4);
                double squared = 0;
                for (std::int64_t i = 0; i < 40; ++i) {
                    const std::int64_t place = i % columns;
                    const int byte = group[i / columns * 64 + row % 16 * 4 + place % 4];
                    const int code = bits == 8   ? byte - 128
                                     : place < 4 ? byte % 16 - 8
                                                 : byte / 16 - 8;
                    const double unit = i < kDim ? static_cast<double>(passages.get(row, i)) *
                                                       norms[static_cast<std::size_t>(row)]
                                                 : 0.0;
                    const double error = unit - static_cast<double>(scale) * code;
                    squared += error * error;
                    CHECK(std::abs(code) <= most);
                }
                CHECK(std::sqrt(squared) <= static_cast<double>(residual));
                CHECK(static_cast<double>(residual) <= std::sqrt(squared) * 1.001 + 2e-6);
            }
            float padding = 0;
            std::memcpy(&padding, codes.data() + 4 * (n_steps * 64 + 128) + n_steps * 64 + 64 + 24,
                        4);
            CHECK(std::isnan(padding));
        }
    });
}

TEST_CASE("few bits are spent where most of the row is: one large element is clipped") {
    constexpr std::int64_t kDim = 384;
    Matrix passages = random_matrix(64, kDim, 17);
    for (std::int64_t row = 0; row < 64; ++row) passages.set(row, row, 6.0F);
    const auto norms = norms_of(passages);
    at_every_level([&](const std::string& level) {
        CAPTURE(level);
        const auto codes = codes_of(passages, norms, 4);
        for (std::int64_t row = 0; row < 64; ++row) {
            constexpr std::int64_t kLines = kDim / 8 * 64;
            float residual = 0;
            std::memcpy(&residual,
                        codes.data() + row / 16 * (kLines + 128) + kLines + 64 + row % 16 * 4, 4);
            // Without clipping a step is 6/7, and its rounding errors 0.25 * sqrt(dim) in all.
            CHECK(static_cast<double>(residual) <
                  0.22 * std::sqrt(384.0) * norms[static_cast<std::size_t>(row)]);
        }
    });
}

TEST_CASE("codes of whole tiles can be made piece by piece") {
    const Matrix passages = random_matrix(200, 21, 18);
    const auto norms = norms_of(passages);
    for (const int bits : {8, 4}) {
        std::vector<std::uint8_t> joined;
        for (const std::int64_t start : {0, 64, 192}) {
            const std::int64_t end = start == 0 ? 64 : start == 64 ? 192 : 200;
            Matrix piece(end - start, 21);
            for (std::int64_t row = start; row < end; ++row) {
                for (std::int64_t i = 0; i < 21; ++i) {
                    piece.set(row - start, i, passages.get(row, i));
                }
            }
            const auto codes = codes_of(piece, norms_of(piece), bits);
            joined.insert(joined.end(), codes.begin(), codes.end());
        }
        CHECK(joined == codes_of(passages, norms, bits));
    }
}

#if defined(EPIBIAS_X86_LEVELS)
namespace epibias::kernels::avx2_vnni_twin {
extern const QuantizedScanKernels kQuantizedScan;
extern const QuantizedScanKernels kQuantizedScanFourBits;
}  // namespace epibias::kernels::avx2_vnni_twin

TEST_CASE("the AVX-VNNI kernels give the sums of the portable ones") {
    namespace kernels = epibias::kernels;
    if (!__builtin_cpu_supports("avx512vnni") || !__builtin_cpu_supports("avx512vl")) return;
    constexpr std::int64_t kDim = 40;
    const Matrix passages = random_matrix(64, kDim, 23);
    const auto norms = norms_of(passages);
    std::mt19937 generator(24);
    std::uniform_int_distribution<int> any(-127, 127);
    for (const int bits : {8, 4}) {
        CAPTURE(bits);
        const auto& twin = bits == 8 ? kernels::avx2_vnni_twin::kQuantizedScan
                                     : kernels::avx2_vnni_twin::kQuantizedScanFourBits;
        const auto& portable =
            bits == 8 ? kernels::scalar::kQuantizedScan : kernels::scalar::kQuantizedScanFourBits;
        const auto codes = codes_of(passages, norms, bits);
        const std::int64_t n_steps = kDim / 4 * bits / 8;
        const kernels::QuantizedTile tile{.data = codes.data(),
                                          .n_steps = n_steps,
                                          .group_bytes = n_steps * 64 + 128,
                                          .next = codes.data(),
                                          .n_next_lines = 3};
        for (int n_queries = 1; n_queries <= twin.n_queries; ++n_queries) {
            std::vector<std::int32_t> words(static_cast<std::size_t>(kDim / 4 * n_queries));
            std::vector<std::int32_t> starts(static_cast<std::size_t>(n_queries), 0);
            std::vector<std::int8_t> query_codes(kDim);
            std::vector<std::vector<std::int32_t>> own_words;
            for (std::size_t query = 0; query < starts.size(); ++query) {
                for (auto& code : query_codes) {
                    code = static_cast<std::int8_t>(any(generator));
                    starts[query] -= twin.code_offset * code;
                }
                std::vector<std::int32_t> own(kDim / 4);
                std::memcpy(own.data(), query_codes.data(), kDim);
                for (std::size_t word = 0; word < own.size(); ++word) {
                    words[word * starts.size() + query] = own[word];
                }
                own_words.push_back(own);
            }
            std::vector<std::int32_t> sums(static_cast<std::size_t>(64 * n_queries));
            twin.sum_tile(tile, words.data(), starts.data(), n_queries, sums.data());
            for (std::size_t query = 0; query < starts.size(); ++query) {
                std::int32_t zero = 0;
                std::vector<std::int32_t> expected_sums(64);
                portable.sum_tile(tile, own_words[query].data(), &zero, 1, expected_sums.data());
                CHECK(std::equal(expected_sums.begin(), expected_sums.end(),
                                 sums.begin() + static_cast<std::ptrdiff_t>(64 * query)));
            }
        }
    }
}
#endif
