#include "device_array.hpp"
#include "epibias/cuda/rerank.hpp"
#include "module.hpp"

namespace epibias::cuda::bindings {
namespace {

void select_mmr(const py::handle& similarities, const py::handle& embeddings, std::int64_t k,
                double relevance_weight, const py::handle& indices, const py::handle& workspace,
                const py::handle& fault, std::uintptr_t stream) {
    DeviceCall call(stream);
    const DeviceArray<const float> similarity_array(call, "similarities", similarities, {2});
    const std::int64_t n_queries = similarity_array.shape(0);
    const std::int64_t n = similarity_array.shape(1);
    const DeviceArray<const float> embedding_array(call, "embeddings", embeddings, {3});
    check_shape("embeddings", embedding_array, {n_queries, n, embedding_array.shape(2)});
    const DeviceArray<std::int64_t> index_array(call, "indices", indices, {2});
    check_shape("indices", index_array, {n_queries, k});
    const std::size_t n_bytes = mmr_workspace_bytes(n_queries, n);
    std::uint8_t* const space =
        workspace_bytes(call, workspace, static_cast<std::int64_t>(n_bytes));
    Fault* const record = fault_record(call, fault);
    call.run([&] {
        mmr(similarity_array.matrix(), embedding_array.matrix(), k, index_array.matrix(),
            relevance_weight, space, n_bytes, record, call.stream());
    });
}

}  // namespace

void bind_rerank(py::module_& module) {
    module.def("mmr_workspace_bytes", &mmr_workspace_bytes, py::arg("n_queries"), py::arg("n"));
    module.def("mmr", &select_mmr, py::arg("similarities"), py::arg("embeddings"), py::arg("k"),
               py::arg("relevance_weight"), py::arg("indices"), py::arg("workspace"),
               py::arg("fault"), py::arg("stream"),
               "Maximal marginal relevance into indices [n_queries, k]; -1 for a query at fault, "
               "which is recorded as argument 0.");
}

}  // namespace epibias::cuda::bindings
