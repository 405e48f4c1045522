// cosine_topk on the emulated device: ranges, 64-bit indices, and what is wrong with the input.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "cosine_cases.hpp"
#include "epibias/cuda/cosine_topk_streamed.hpp"

using namespace epibias::test;
using epibias::MatrixView;
using epibias::cuda::CosineArgument;
using epibias::cuda::CosinePassages;
using epibias::cuda::CosineStorage;
using epibias::cuda::CosineTopkOptions;
using epibias::cuda::CosineTopkSearch;
using epibias::cuda::Fault;

namespace {

struct Range {
    const CosinePassages* passages;
    std::int64_t first_row;
    std::int64_t n_rows;
};

Topk search_ranges(const Matrix& queries, std::int64_t k, const std::vector<Range>& ranges,
                   Fault& fault, const CosineTopkOptions& options) {
    const CosineStorage storage = ranges[0].passages->storage;
    const auto size = static_cast<std::size_t>(queries.n_rows() * k);
    Topk found{std::vector<std::int64_t>(size, -7), std::vector<float>(size)};
    const DeviceBytes workspace(epibias::cuda::cosine_topk_workspace_bytes(
        queries.n_rows(), queries.n_columns(), k, storage, options));
    CosineTopkSearch search{queries.view(), k, storage, workspace.data(), &fault, {}, options};
    epibias::cuda::cosine_topk_begin(search);
    for (const Range& range : ranges) {
        epibias::cuda::cosine_topk_range(search, *range.passages, range.first_row, range.n_rows);
    }
    epibias::cuda::cosine_topk_finish(search, {found.indices.data(), queries.n_rows(), k},
                                      {found.similarities.data(), queries.n_rows(), k}, nullptr);
    return found;
}

// Memory that takes none until it is written.
class SparseMemory {
  public:
    explicit SparseMemory(std::size_t n_bytes)
        : n_bytes_(n_bytes),
          data_(mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
    ~SparseMemory() { munmap(data_, n_bytes_); }
    SparseMemory(const SparseMemory&) = delete;
    SparseMemory& operator=(const SparseMemory&) = delete;
    [[nodiscard]] bool is_there() const { return data_ != MAP_FAILED; }
    [[nodiscard]] float* floats() const { return static_cast<float*>(data_); }

  private:
    std::size_t n_bytes_;
    void* data_;
};

// Fault and answer of passages or queries with something wrong.
struct Outcome {
    Fault fault = kClearFault;
    Topk found;
};

Outcome outcome(const Matrix& queries, const Matrix& passages, const std::vector<double>& norms,
                const ScanCase& scan) {
    Outcome result;
    const CosineTopkOptions options{
        .tensor_cores = scan.tensor_cores, .sample_rows = 8, .capacity = 32};
    const DevicePassages prepared(passages.view(), norms, scan.storage);
    result.found = device_topk(queries, prepared.get(), 3, options, result.fault);
    return result;
}

Outcome streamed(const Matrix& queries, const Matrix& passages, std::int64_t k,
                 std::int64_t tile_rows) {
    Outcome result;
    const CosineTopkOptions options{.sample_rows = 16, .capacity = 64};
    const auto size = static_cast<std::size_t>(queries.n_rows() * k);
    result.found = {std::vector<std::int64_t>(size, -7), std::vector<float>(size)};
    const DeviceBytes workspace(epibias::cuda::cosine_topk_streamed_workspace_bytes(
        queries.n_rows(), queries.n_columns(), k, tile_rows, options));
    epibias::cuda::cosine_topk_streamed(queries.view(), passages.view(), k, tile_rows,
                                        {result.found.indices.data(), queries.n_rows(), k},
                                        {result.found.similarities.data(), queries.n_rows(), k},
                                        nullptr, workspace.data(), &result.fault, {}, options);
    return result;
}

template <typename Call>
std::string message(Call call) {
    try {
        call();
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "no error";
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_SUITE("cosine_topk") {
    TEST_CASE("ranges in any order, and tiles that lie elsewhere, give the answer of the whole") {
        const Matrix queries = integer_matrix(3, 6, 21);
        const Matrix passages = integer_matrix(300, 6, 22);
        const Topk expected = cpu_topk(queries, passages, 12);
        for (const ScanCase& scan : scan_cases()) {
            CAPTURE(scan.name);
            const CosineTopkOptions options{
                .tensor_cores = scan.tensor_cores, .sample_rows = 16, .capacity = 40};
            Fault fault = kClearFault;
            const DevicePassages all(passages.view(), norms_of(passages), scan.storage);
            const std::vector<Range> backwards = {
                {&all.get(), 250, 50}, {&all.get(), 3, 247}, {&all.get(), 0, 3}};
            CHECK(search_ranges(queries, 12, backwards, fault, options) == expected);

            std::vector<DevicePassages> tiles;
            std::vector<Range> ranges;
            for (std::int64_t first = 0; first < 300; first += 110) {
                const std::int64_t n_rows = std::min<std::int64_t>(110, 300 - first);
                const MatrixView<const float> rows{passages.view().row(first), n_rows, 6};
                std::vector<double> norms(static_cast<std::size_t>(n_rows));
                epibias::inverse_norms(rows, "passages", norms);
                tiles.emplace_back(rows, norms, scan.storage);
                tiles.back().get().first_index = first;
            }
            for (const DevicePassages& tile : tiles) {
                ranges.push_back({&tile.get(), 0, tile.get().rows.n_rows});
            }
            CHECK(search_ranges(queries, 12, ranges, fault, options) == expected);
            CHECK(fault.word == epibias::cuda::kNoFault);
        }
    }

    TEST_CASE("more than 2^31 elements: only the first and the last rows are there and searched") {
        constexpr std::int64_t kDim = 2048;
        constexpr std::int64_t kRows = (std::int64_t{1} << 20) + 64;  // x 2048 > 2^31
        constexpr std::int64_t kEnd = 40;
        const SparseMemory memory(static_cast<std::size_t>(kRows * kDim) * sizeof(float));
        const SparseMemory norm_memory(static_cast<std::size_t>(kRows) * sizeof(double));
        REQUIRE(memory.is_there());
        REQUIRE(norm_memory.is_there());
        auto* norms = static_cast<double*>(static_cast<void*>(norm_memory.floats()));
        const MatrixView<float> rows{memory.floats(), kRows, kDim};
        const Matrix there = random_matrix(2 * kEnd, kDim, 23);
        const std::vector<double> norms_there = norms_of(there);
        for (std::int64_t i = 0; i < 2 * kEnd; ++i) {
            const std::int64_t row = i < kEnd ? i : kRows - 2 * kEnd + i;
            for (std::int64_t j = 0; j < kDim; ++j) rows.row(row)[j] = there.get(i, j);
            norms[row] = norms_there[static_cast<std::size_t>(i)];
        }
        const CosinePassages passages{.rows = {rows.data, kRows, kDim}, .inverse_norms = norms};
        const Matrix queries = random_matrix(2, kDim, 24);
        Fault fault = kClearFault;
        const Topk found =
            search_ranges(queries, 9, {{&passages, 0, kEnd}, {&passages, kRows - kEnd, kEnd}},
                          fault, {.sample_rows = 16});
        Topk expected = cpu_topk(queries, there, 9);
        for (std::int64_t& index : expected.indices) {
            if (index >= kEnd) index += kRows - 2 * kEnd;
        }
        CHECK(found == expected);
        CHECK(fault.word == epibias::cuda::kNoFault);
    }

    TEST_CASE("passages in host memory, at any address, stream through the device in tiles") {
        const Matrix queries = integer_matrix(2, 7, 32);
        Matrix passages(230, 7, 3);  // three bytes behind an aligned address
        const Matrix values = integer_matrix(230, 7, 33);
        for (std::int64_t row = 0; row < 230; ++row) {
            for (std::int64_t i = 0; i < 7; ++i) passages.set(row, i, values.get(row, i));
        }
        const Topk expected = cpu_topk(queries, passages, 9);
        for (const std::int64_t tile_rows : {1, 60, 230, 1000}) {
            CAPTURE(tile_rows);
            Outcome result = streamed(queries, passages, 9, tile_rows);
            CHECK(result.found == expected);
            CHECK(result.fault.word == epibias::cuda::kNoFault);
        }
        passages.set(210, 5, kNan);
        for (std::int64_t i = 0; i < 7; ++i) passages.set(140, i, 0);
        const Outcome result = streamed(queries, passages, 9, 60);
        CHECK(result.fault.word ==
              epibias::cuda::fault_word(static_cast<int>(CosineArgument::kPassages), 140, 0));
        CHECK(result.fault.value == 0);
        for (const std::int64_t index : result.found.indices) CHECK(index == -1);
        CHECK(message([&] { streamed(queries, passages, 231, 60); }) ==
              "k: expected 1 to 230 (the number of passages), got 231");
        CHECK(message([&] { streamed(queries, passages, 3, 0); }) ==
              "tile_rows: expected an integer of at least 1, got 0");
    }

    TEST_CASE("a faulty query is recorded and poisoned, the others are answered") {
        Matrix queries = random_matrix(5, 40, 25);
        const Matrix passages = random_matrix(60, 40, 26);
        const Topk expected = cpu_topk(queries, passages, 3);
        queries.set(3, 37, -std::numeric_limits<float>::infinity());
        queries.set(3, 39, kNan);
        for (std::int64_t i = 0; i < 40; ++i) queries.set(4, i, 0);
        for (const ScanCase& scan : scan_cases()) {
            CAPTURE(scan.name);
            const Outcome result = outcome(queries, passages, norms_of(passages), scan);
            CHECK(result.fault.word ==
                  epibias::cuda::fault_word(static_cast<int>(CosineArgument::kQueries), 3, 37));
            CHECK(result.fault.value == -std::numeric_limits<double>::infinity());
            for (std::size_t i = 0; i < 15; ++i) {
                CHECK(result.found.indices[i] == (i < 9 ? expected.indices[i] : -1));
                CHECK(std::isnan(result.found.similarities[i]) == (i >= 9));
            }
        }
    }

    TEST_CASE("a faulty passage, whose inverse norm is none, poisons every answer") {
        const Matrix queries = random_matrix(2, 6, 27);
        const Matrix passages = random_matrix(60, 6, 28);
        for (const double bad :
             {std::nan(""), 0.0, -1.0, std::numeric_limits<double>::infinity()}) {
            CAPTURE(bad);
            std::vector<double> norms = norms_of(passages);
            norms[51] = norms[57] = bad;
            for (const ScanCase& scan : scan_cases()) {
                CAPTURE(scan.name);
                const Outcome result = outcome(queries, passages, norms, scan);
                CHECK(result.fault.word ==
                      epibias::cuda::fault_word(static_cast<int>(CosineArgument::kInverseNorms), 51,
                                                0));
                CHECK((result.fault.value == bad ||
                       (std::isnan(bad) && std::isnan(result.fault.value))));
                for (const std::int64_t index : result.found.indices) CHECK(index == -1);
                for (const float similarity : result.found.similarities) {
                    CHECK(std::isnan(similarity));
                }
            }
        }
    }

    TEST_CASE("what no launch can answer is refused by name") {
        using epibias::cuda::code_row_bytes;
        using epibias::cuda::cosine_topk_workspace_bytes;
        const Matrix queries = random_matrix(2, 4, 29);
        const Matrix passages = random_matrix(3, 4, 30);
        const Matrix wide = random_matrix(3, 5, 31);
        const auto& plain = scan_cases()[0];
        CHECK(message([&] { device_topk(queries, passages, 4, plain); }) ==
              "k: expected 1 to 3 (the number of passages), got 4");
        CHECK(message([&] { device_topk(queries, wide, 2, plain); }) ==
              "queries: expected rows of dim 5, as the passages have, and at least 1, got dim 4");
        CHECK(message([] {
                  static_cast<void>(
                      cosine_topk_workspace_bytes(1, 8, 4097, CosineStorage::kFloat32));
              }) == "k: expected at most 4096 on a device, got 4097");
        CHECK(message([] { static_cast<void>(code_row_bytes(65'537, CosineStorage::kInt8)); }) ==
              "passages: expected 1 to 65536 columns for this storage on a device, got 65537");
        CHECK(code_row_bytes(17, CosineStorage::kBf16) == 48);
        CHECK(code_row_bytes(17, CosineStorage::kInt8) == 32);
        CHECK(device_topk(Matrix(0, 4), passages, 2, plain) == Topk{});
    }
}
