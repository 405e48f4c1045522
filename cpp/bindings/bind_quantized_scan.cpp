// quantized_scan and quantize_passages in Python: check, hold, release the GIL, call.
#include <sys/mman.h>

#include <cstdlib>
#include <new>
#include <optional>
#include <span>

#include "array_view.hpp"
#include "epibias/principal_codes.hpp"
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

// (axes, number of leading ones, leading codes, codes of the rest), as quantize_principal takes and
// gives them.
struct PrincipalView {
    explicit PrincipalView(const py::tuple& parts)
        : axes("axes", parts[0], {2}),
          n_leading(parts[1].cast<std::int64_t>()),
          leading("leading", parts[2], {1}),
          rest("rest", parts[3], {1}) {}

    [[nodiscard]] PrincipalCodes codes() const {
        return {{axes.matrix(), n_leading}, bytes_of(leading), bytes_of(rest)};
    }

    ArrayView<float> axes;
    std::int64_t n_leading;
    ArrayView<std::uint8_t> leading;
    ArrayView<std::uint8_t> rest;
};

py::tuple quantize_principal(const py::object& passages, const py::object& inverse_norms,
                             const py::object& axes, std::int64_t n_leading) {
    const ArrayView<float> passage_view("passages", passages, {2});
    const ArrayView<double> norms_view("inverse_norms", inverse_norms, {1});
    const ArrayView<float> axes_view("axes", axes, {2});
    const auto matrix = passage_view.matrix();
    RowReader<double> reader(norms_view.matrix());  // copies where they are not aligned
    const auto sizes = principal_sizes(matrix.n_rows, axes_view.shape(0), n_leading);
    auto leading = huge_array(sizes.leading);
    auto rest = huge_array(sizes.rest);
    const std::span<std::uint8_t> leading_bytes(leading.mutable_data(),
                                                static_cast<std::size_t>(leading.size()));
    const std::span<std::uint8_t> rest_bytes(rest.mutable_data(),
                                             static_cast<std::size_t>(rest.size()));
    {
        const py::gil_scoped_release released;
        epibias::quantize_principal(matrix, norms_of(norms_view, reader),
                                    {axes_view.matrix(), n_leading}, leading_bytes, rest_bytes);
    }
    return py::make_tuple(leading, rest);
}

py::tuple principal_sizes_of(std::int64_t n_passages, std::int64_t n_axes, std::int64_t n_leading) {
    const PrincipalSizes sizes = principal_sizes(n_passages, n_axes, n_leading);
    return py::make_tuple(sizes.leading, sizes.rest);
}

py::tuple quantized_scan(const py::object& queries, const py::object& passages, std::int64_t k,
                         const py::object& inverse_norms, const py::object& codes,
                         const py::object& four_bits, bool vnni, std::int64_t sample_stride,
                         std::int64_t capacity, const py::object& principal) {
    const ArrayView<float> query_view("queries", queries, {2});
    const ArrayView<float> passage_view("passages", passages, {2});
    const ArrayView<double> norms_view("inverse_norms", inverse_norms, {1});
    const ArrayView<std::uint8_t> code_view("codes", codes, {1});
    const auto four_view = optional_array<std::uint8_t>("four_bits", four_bits, {1});
    std::optional<PrincipalView> principal_view;
    if (!principal.is_none()) principal_view.emplace(principal.cast<py::tuple>());
    RowReader<double> reader(norms_view.matrix());  // copies where they are not aligned
    Answer answer(query_view.shape(0), passage_view.shape(0), k);
    QuantizedScanCounts counts;
    {
        const py::gil_scoped_release released;
        counts = epibias::quantized_scan(
            query_view.matrix(), passage_view.matrix(), k, norms_of(norms_view, reader),
            {.eight_bits = bytes_of(code_view),
             .four_bits = four_view ? bytes_of(*four_view) : std::span<const std::uint8_t>{},
             .principal = principal_view ? principal_view->codes() : PrincipalCodes{}},
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
               py::arg("principal") = py::none(),
               "Exact cosine top-k through codes of 8 bits, and before them of 4 or of principal "
               "axes (axes, n_leading, leading, rest) where given: (indices, similarities, number "
               "of re-scored pairs, number of queries scanned twice).");
    module.def("principal_sizes", &principal_sizes_of, py::arg("n_passages"), py::arg("n_axes"),
               py::arg("n_leading"), "Bytes of the codes of principal axes: (leading, rest).");
    module.def("quantize_principal", &quantize_principal, py::arg("passages"),
               py::arg("inverse_norms"), py::arg("axes"), py::arg("n_leading"),
               "Codes of 8 bits along principal axes, float32 [n_axes, dim]: (leading, rest).");
    module.def("quantized_scan_once", &quantized_scan_once, py::arg("queries"), py::arg("passages"),
               py::arg("k"), py::arg("inverse_norms"), py::arg("vnni") = true,
               "The same without codes at hand: they are made chunk by chunk.");
}

}  // namespace epibias::bindings
