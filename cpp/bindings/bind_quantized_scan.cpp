// quantized_scan and quantize_passages in Python: check, hold, release the GIL, call.
#include <sys/mman.h>

#include <cstdlib>
#include <new>
#include <optional>
#include <span>

#include "array_view.hpp"
#include "epibias/quantized_scan.hpp"
#include "module.hpp"

namespace epibias::bindings {

namespace {

// An array on huge pages where the system gives them: a scan of 4 KiB pages spends a quarter of its
// time on address translation.
py::array_t<std::uint8_t> huge_array(std::int64_t size) {
    constexpr std::size_t kHugePage = std::size_t{2} << 20;
    constexpr std::size_t kLine = 64;
    const auto wanted = static_cast<std::size_t>(size);
    const std::size_t alignment = wanted >= kHugePage ? kHugePage : kLine;
    const std::size_t rounded = (wanted + alignment) / alignment * alignment;
    void* memory = std::aligned_alloc(alignment, rounded);
    if (memory == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
    if (alignment == kHugePage) madvise(memory, rounded, MADV_HUGEPAGE);  // a wish: may be refused
#endif
    const py::capsule owner(memory, [](void* address) { std::free(address); });
    return py::array_t<std::uint8_t>(size, static_cast<std::uint8_t*>(memory), owner);
}

std::span<const double> norms_of(const ArrayView<double>& view, RowReader<double>& reader) {
    return {reader.row(0), static_cast<std::size_t>(view.size())};
}

std::span<const std::uint8_t> bytes_of(const ArrayView<std::uint8_t>& view) {
    return {view.data(), static_cast<std::size_t>(view.size())};
}

py::array_t<std::uint8_t> quantize_passages(const py::object& passages,
                                            const py::object& inverse_norms, int bits) {
    const ArrayView<float> passage_view("passages", passages, {2});
    const ArrayView<double> norms_view("inverse_norms", inverse_norms, {1});
    const auto matrix = passage_view.matrix();
    RowReader<double> reader(norms_view.matrix());  // copies where they are not aligned
    auto codes = huge_array(quantized_size(matrix.n_rows, matrix.n_columns, bits));
    const std::span<std::uint8_t> bytes(codes.mutable_data(),
                                        static_cast<std::size_t>(codes.size()));
    {
        const py::gil_scoped_release released;
        epibias::quantize_passages(matrix, norms_of(norms_view, reader), bits, bytes);
    }
    return codes;
}

// The arrays of an answer. A wrong k is refused by the core; until then nothing of that size is
// allocated.
struct Answer {
    Answer(std::int64_t n_queries, std::int64_t n_passages, std::int64_t k)
        : n_columns(k >= 0 && k <= n_passages ? k : 0),
          indices({n_queries, n_columns}),
          similarities({n_queries, n_columns}),
          index_view{indices.mutable_data(), n_queries, n_columns},
          similarity_view{similarities.mutable_data(), n_queries, n_columns} {}

    std::int64_t n_columns;
    py::array_t<std::int64_t> indices;
    py::array_t<float> similarities;
    MatrixView<std::int64_t> index_view;
    MatrixView<float> similarity_view;
};

py::tuple quantized_scan(const py::object& queries, const py::object& passages, std::int64_t k,
                         const py::object& inverse_norms, const py::object& codes,
                         const py::object& four_bits, bool vnni, std::int64_t sample_stride,
                         std::int64_t capacity) {
    const ArrayView<float> query_view("queries", queries, {2});
    const ArrayView<float> passage_view("passages", passages, {2});
    const ArrayView<double> norms_view("inverse_norms", inverse_norms, {1});
    const ArrayView<std::uint8_t> code_view("codes", codes, {1});
    const auto four_view = optional_array<std::uint8_t>("four_bits", four_bits, {1});
    RowReader<double> reader(norms_view.matrix());  // copies where they are not aligned
    Answer answer(query_view.shape(0), passage_view.shape(0), k);
    QuantizedScanCounts counts;
    {
        const py::gil_scoped_release released;
        counts = epibias::quantized_scan(
            query_view.matrix(), passage_view.matrix(), k, norms_of(norms_view, reader),
            {.eight_bits = bytes_of(code_view),
             .four_bits = four_view ? bytes_of(*four_view) : std::span<const std::uint8_t>{}},
            answer.index_view, answer.similarity_view,
            {.vnni = vnni, .sample_stride = sample_stride, .capacity = capacity});
    }
    return py::make_tuple(answer.indices, answer.similarities, counts.n_rescored,
                          counts.n_repeated);
}

py::tuple quantized_scan_once(const py::object& queries, const py::object& passages, std::int64_t k,
                              const py::object& inverse_norms, bool vnni) {
    const ArrayView<float> query_view("queries", queries, {2});
    const ArrayView<float> passage_view("passages", passages, {2});
    const ArrayView<double> norms_view("inverse_norms", inverse_norms, {1});
    RowReader<double> reader(norms_view.matrix());  // copies where they are not aligned
    Answer answer(query_view.shape(0), passage_view.shape(0), k);
    QuantizedScanCounts counts;
    {
        const py::gil_scoped_release released;
        counts = epibias::quantized_scan_once(query_view.matrix(), passage_view.matrix(), k,
                                              norms_of(norms_view, reader), answer.index_view,
                                              answer.similarity_view, {.vnni = vnni});
    }
    return py::make_tuple(answer.indices, answer.similarities, counts.n_rescored,
                          counts.n_repeated);
}

}  // namespace

void bind_quantized_scan(py::module_& module) {
    module.def("quantized_size", &quantized_size, py::arg("n_passages"), py::arg("dim"),
               py::arg("bits"), "Bytes of the codes.");
    module.def("quantize_passages", &quantize_passages, py::arg("passages"),
               py::arg("inverse_norms"), py::arg("bits") = 8,
               "Codes of 8 or 4 bits of the passages, uint8 [size].");
    module.def("quantized_scan", &quantized_scan, py::arg("queries"), py::arg("passages"),
               py::arg("k"), py::arg("inverse_norms"), py::arg("codes"),
               py::arg("four_bits") = py::none(), py::arg("vnni") = true,
               py::arg("sample_stride") = 0, py::arg("capacity") = 0,
               "Exact cosine top-k through codes of 8 bits, and of 4 before them where given: "
               "(indices, similarities, number of re-scored "
               "pairs, number of queries scanned twice).");
    module.def("quantized_scan_once", &quantized_scan_once, py::arg("queries"), py::arg("passages"),
               py::arg("k"), py::arg("inverse_norms"), py::arg("vnni") = true,
               "The same without codes at hand: they are made chunk by chunk.");
}

}  // namespace epibias::bindings
