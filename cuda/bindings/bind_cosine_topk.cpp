// cosine_topk in Python: check the tuples, look at them, release the GIL, launch.
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <tuple>

#include "device_array.hpp"
#include "epibias/cuda/cosine_topk.hpp"
#include "epibias/cuda/cosine_topk_streamed.hpp"
#include "module.hpp"
#include "refuse.hpp"

namespace epibias::cuda::bindings {

namespace {

// tensor_cores, sample_rows, capacity, round_growth; zeros choose.
using OptionsTuple = std::tuple<bool, std::int64_t, std::int64_t, std::int64_t>;

CosineTopkOptions options_of(const OptionsTuple& options) {
    const auto& [tensor_cores, sample_rows, capacity, round_growth] = options;
    return {tensor_cores, sample_rows, capacity, round_growth};
}

CosineStorage storage_of(const std::string& name) {
    if (name == "float32") return CosineStorage::kFloat32;
    if (name == "bf16") return CosineStorage::kBf16;
    if (name == "int8") return CosineStorage::kInt8;
    refuse("storage", "'float32', 'bf16' or 'int8'", "'" + name + "'");
}

// Indices, similarities and the count, as every search writes them.
struct Outputs {
    Outputs(DeviceCall& call, const py::handle& index_tuple, const py::handle& similarity_tuple,
            const py::handle& count_tuple, std::int64_t n_queries, std::int64_t k)
        : indices(call, "indices", index_tuple, {2}),
          similarities(call, "similarities", similarity_tuple, {2}),
          n_rescored(call, "n_rescored", count_tuple, {1}) {
        check_shape("indices", indices, {n_queries, k});
        check_shape("similarities", similarities, {n_queries, k});
        check_shape("n_rescored", n_rescored, {1});
    }
    DeviceArray<std::int64_t> indices;
    DeviceArray<float> similarities;
    DeviceArray<std::int64_t> n_rescored;
};

// Codes, scales and residuals of prepare_passages.
struct Codes {
    Codes(DeviceCall& call, const py::tuple& tuples, const std::string& storage_name,
          std::int64_t n_rows, std::int64_t dim)
        : codes(call, "codes", tuples[0], {2}),
          scales(call, "scales", tuples[1], {1}),
          residuals(call, "residuals", tuples[2], {1}) {
        check_shape("codes", codes, {n_rows, code_row_bytes(dim, storage_of(storage_name))});
        check_shape("scales", scales, {n_rows});
        check_shape("residuals", residuals, {n_rows});
        if (reinterpret_cast<std::uintptr_t>(codes.data()) % 16 != 0) {
            refuse("codes", "an address that is a multiple of 16", "another");
        }
    }
    DeviceArray<std::uint8_t> codes;
    DeviceArray<float> scales;
    DeviceArray<float> residuals;
};

void prepare(const py::handle& passages, const py::handle& inverse_norms,
             const std::string& storage, const py::tuple& codes, std::uintptr_t stream) {
    DeviceCall call(stream);
    const DeviceArray<const float> rows(call, "passages", passages, {2});
    const DeviceArray<const double> norms(call, "inverse_norms", inverse_norms, {1});
    check_shape("inverse_norms", norms, {rows.shape(0)});
    const Codes out(call, codes, storage, rows.shape(0), rows.shape(1));
    call.run([&] {
        prepare_passages(rows.matrix(), norms.data(), storage_of(storage), out.codes.data(),
                         out.scales.data(), out.residuals.data(), call.stream());
    });
}

void search(const py::handle& queries, const py::handle& passages, const py::handle& inverse_norms,
            const std::string& storage, const std::optional<py::tuple>& codes, std::int64_t k,
            const py::handle& indices, const py::handle& similarities, const py::handle& n_rescored,
            const py::handle& workspace, const py::handle& fault, std::uintptr_t stream,
            const OptionsTuple& option_tuple) {
    DeviceCall call(stream);
    const CosineTopkOptions options = options_of(option_tuple);
    const DeviceArray<const float> query_array(call, "queries", queries, {2});
    const DeviceArray<const float> rows(call, "passages", passages, {2});
    const DeviceArray<const double> norms(call, "inverse_norms", inverse_norms, {1});
    check_shape("inverse_norms", norms, {rows.shape(0)});
    CosinePassages corpus{
        .rows = rows.matrix(), .inverse_norms = norms.data(), .storage = storage_of(storage)};
    if (codes) {
        const Codes given(call, *codes, storage, rows.shape(0), rows.shape(1));
        corpus.codes = given.codes.data();
        corpus.scales = given.scales.data();
        corpus.residuals = given.residuals.data();
    } else if (corpus.storage != CosineStorage::kFloat32) {
        refuse("codes", "those of the passages, as storage is '" + storage + "'", "None");
    }
    const Outputs out(call, indices, similarities, n_rescored, query_array.shape(0), k);
    const auto n_bytes = static_cast<std::int64_t>(cosine_topk_workspace_bytes(
        query_array.shape(0), query_array.shape(1), k, corpus.storage, options));
    auto* memory = workspace_bytes(call, workspace, n_bytes);
    Fault* const record = fault_record(call, fault);
    call.run([&] {
        cosine_topk(query_array.matrix(), corpus, k, out.indices.matrix(),
                    out.similarities.matrix(), out.n_rescored.data(), memory, record, call.stream(),
                    options);
    });
}

// `passages` is (address, n_passages, dim) of float32 in host memory, at any byte address.
void search_streamed(const py::handle& queries,
                     const std::tuple<std::uintptr_t, std::int64_t, std::int64_t>& passages,
                     std::int64_t k, std::int64_t tile_rows, const py::handle& indices,
                     const py::handle& similarities, const py::handle& n_rescored,
                     const py::handle& workspace, const py::handle& fault, std::uintptr_t stream,
                     const OptionsTuple& option_tuple) {
    DeviceCall call(stream);
    const CosineTopkOptions options = options_of(option_tuple);
    const DeviceArray<const float> query_array(call, "queries", queries, {2});
    const auto& [address, n_passages, dim] = passages;
    const MatrixView<const float> rows{reinterpret_cast<const float*>(address), n_passages, dim};
    const Outputs out(call, indices, similarities, n_rescored, query_array.shape(0), k);
    const auto n_bytes = static_cast<std::int64_t>(cosine_topk_streamed_workspace_bytes(
        query_array.shape(0), query_array.shape(1), k, tile_rows, options));
    auto* memory = workspace_bytes(call, workspace, n_bytes);
    Fault* const record = fault_record(call, fault);
    call.run([&] {
        cosine_topk_streamed(query_array.matrix(), rows, k, tile_rows, out.indices.matrix(),
                             out.similarities.matrix(), out.n_rescored.data(), memory, record,
                             call.stream(), options);
    });
}

}  // namespace

void bind_cosine_topk(py::module_& module) {
    module.def(
        "code_row_bytes",
        [](std::int64_t dim, const std::string& storage) {
            return code_row_bytes(dim, storage_of(storage));
        },
        py::arg("dim"), py::arg("storage"), "Bytes of a row of codes, 'bf16' or 'int8'.");
    module.def(
        "cosine_topk_workspace_bytes",
        [](std::int64_t n_queries, std::int64_t dim, std::int64_t k, const std::string& storage,
           const OptionsTuple& options) {
            return cosine_topk_workspace_bytes(n_queries, dim, k, storage_of(storage),
                                               options_of(options));
        },
        py::arg("n_queries"), py::arg("dim"), py::arg("k"), py::arg("storage"), py::arg("options"),
        "Bytes of the workspace of cosine_topk.");
    module.def("streamed_tile_rows", &streamed_tile_rows, py::arg("dim"),
               "Rows of a tile of cosine_topk_streamed where nothing else is wanted.");
    module.def(
        "cosine_topk_streamed_workspace_bytes",
        [](std::int64_t n_queries, std::int64_t dim, std::int64_t k, std::int64_t tile_rows,
           const OptionsTuple& options) {
            return cosine_topk_streamed_workspace_bytes(n_queries, dim, k, tile_rows,
                                                        options_of(options));
        },
        py::arg("n_queries"), py::arg("dim"), py::arg("k"), py::arg("tile_rows"),
        py::arg("options"), "Bytes of the workspace of cosine_topk_streamed.");
    module.def("prepare_passages", &prepare, py::arg("passages"), py::arg("inverse_norms"),
               py::arg("storage"), py::arg("codes"), py::arg("stream"),
               "Codes of passages into (codes, scales, residuals).");
    module.def("cosine_topk", &search, py::arg("queries"), py::arg("passages"),
               py::arg("inverse_norms"), py::arg("storage"), py::arg("codes"), py::arg("k"),
               py::arg("indices"), py::arg("similarities"), py::arg("n_rescored"),
               py::arg("workspace"), py::arg("fault"), py::arg("stream"), py::arg("options"),
               "Exact cosine top-k into indices, similarities and n_rescored; faults: 0 queries, "
               "1 passages, 2 inverse_norms.");
    module.def(
        "cosine_topk_streamed", &search_streamed, py::arg("queries"), py::arg("passages"),
        py::arg("k"), py::arg("tile_rows"), py::arg("indices"), py::arg("similarities"),
        py::arg("n_rescored"), py::arg("workspace"), py::arg("fault"), py::arg("stream"),
        py::arg("options"),
        "cosine_topk for passages in host memory, which pass in tiles; waits for the copies.");
}

}  // namespace epibias::cuda::bindings
