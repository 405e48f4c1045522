// The codes of quantized_scan: what each says of its error, where bits are spent, and the kernels
// that this machine does not choose.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
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

TEST_CASE("codes of principal axes say how far they are from their row, and never too little") {
    constexpr std::int64_t kDim = 37;
    constexpr std::int64_t kLeading = 13;  // stored as 16
    constexpr std::int64_t kAxes = 30;
    constexpr std::int64_t kGroup = 4 * 64 + 3 * 64;
    constexpr std::int64_t kRecord = 64;
    Matrix passages = random_matrix(70, kDim, 13);
    for (std::int64_t i = 0; i < kDim; ++i) {
        passages.set(1, i, passages.get(1, i) * 1e-38F);
        passages.set(2, i, i == 5 ? 3.0F : 0.0F);
    }
    const auto norms = norms_of(passages);
    at_every_level([&](const std::string& level) {
        CAPTURE(level);
        const epibias::test::OwnPrincipalCodes codes(passages, norms, kAxes, kLeading);
        CHECK(codes.leading.size() == 8 * kGroup);
        CHECK(codes.rest.size() == 70 * kRecord);
        for (std::int64_t row = 0; row < 70; ++row) {
            const std::uint8_t* group = codes.leading.data() + row / 16 * kGroup;
            const std::uint8_t* record = codes.rest.data() + row * kRecord;
            float tail[3];
            float numbers[4];
            for (std::size_t part = 0; part < 3; ++part) {
                std::memcpy(tail + part, group + 4 * 64 + 64 * part + row % 16 * 4, 4);
            }
            std::memcpy(numbers, record + kRecord - 16, 16);
            double along_squared = 0;
            double leading_squared = 0;
            double error = 0;
            double leading_error = 0;
            for (std::int64_t axis = 0; axis < kAxes; ++axis) {
                double along = 0;
                for (std::int64_t i = 0; i < kDim; ++i) {
                    along += static_cast<double>(codes.axes.get(axis, i)) *
                             static_cast<double>(passages.get(row, i)) *
                             norms[static_cast<std::size_t>(row)];
                }
                const bool leads = axis < kLeading;
                const int code = leads ? group[axis / 4 * 64 + row % 16 * 4 + axis % 4] - 128
                                       : record[axis - kLeading] - 128;
                const double off = along - static_cast<double>(leads ? tail[0] : numbers[0]) * code;
                along_squared += along * along;
                error += off * off;
                if (!leads) continue;
                leading_squared += along * along;
                leading_error += off * off;
            }
            const auto holds = [](double value, float bound) {
                CHECK(value <= static_cast<double>(bound));
                CHECK(static_cast<double>(bound) <= value * 1.01 + 0.02);
            };
            holds(std::sqrt(leading_error), tail[1]);
            holds(std::sqrt(error), numbers[1]);
            holds(std::sqrt(std::max(0.0, 1 - leading_squared)), tail[2]);
            holds(std::sqrt(std::max(0.0, 1 - along_squared)), numbers[2]);
        }
        float padding = 0;
        std::memcpy(&padding, codes.leading.data() + 4 * kGroup + 4 * 64 + 64 + 24, 4);
        CHECK(std::isnan(padding));
    });
}

TEST_CASE("axes that are not orthonormal, and sizes that are none, are refused") {
    const Matrix passages = random_matrix(3, 6, 29);
    const auto norms = norms_of(passages);
    Matrix axes = epibias::test::axes_of(4, 6);
    std::vector<std::uint8_t> leading(
        static_cast<std::size_t>(epibias::principal_sizes(3, 4, 2).leading));
    std::vector<std::uint8_t> rest(
        static_cast<std::size_t>(epibias::principal_sizes(3, 4, 2).rest));
    const auto message = [&](std::int64_t n_leading) -> std::string {
        try {
            epibias::quantize_principal(passages.view(), norms, {axes.view(), n_leading}, leading,
                                        rest);
        } catch (const std::invalid_argument& error) {
            return error.what();
        }
        return "no error";
    };
    CHECK(message(2) == "no error");
    CHECK(message(5) == "n_leading: expected 1 to 4 (the number of axes), got 5");
    axes.set(3, 0, axes.get(3, 0) + 1e-3F);
    CHECK(
        message(2).starts_with("axes: expected orthonormal rows, got rows whose products differ"));
    axes.set(3, 0, std::numeric_limits<float>::quiet_NaN());
    CHECK(message(2).starts_with("axes: expected orthonormal rows"));
    CHECK_THROWS_WITH_AS(static_cast<void>(epibias::principal_sizes(3, 0, 1)),
                         "axes: expected 1 to 65536 rows, got 0", std::invalid_argument);
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
            if (bits == 8) {  // a row of 40 codes, in one line
                std::vector<std::int8_t> wanted(64);
                std::vector<std::uint8_t> row(64, 128);
                for (std::size_t i = 0; i < 40; ++i) {
                    wanted[i] = static_cast<std::int8_t>(any(generator));
                    row[i] = static_cast<std::uint8_t>(any(generator) + 128);
                }
                int start = 0;
                for (const auto code : wanted) start -= 128 * code;
                CHECK(twin.row_product(row.data(), wanted.data(), 1, start) ==
                      portable.row_product(row.data(), wanted.data(), 1, 0));
            }
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
