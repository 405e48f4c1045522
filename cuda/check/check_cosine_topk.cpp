// cosine_topk and the inverse norms: every storage, with and without tensor cores, ragged shapes.
#include <memory>

#include "checks.hpp"
#include "epibias/cosine_topk.hpp"
#include "epibias/cuda/cosine_topk.hpp"
#include "epibias/cuda/numeric.hpp"

namespace epibias::cuda::check {
namespace {

struct Shape {
    std::int64_t n_queries, n_passages, dim, k;
};

struct Codes {
    Codes(std::size_t n_rows, std::size_t row_bytes)
        : codes(n_rows * row_bytes), scales(n_rows), residuals(n_rows) {}
    DeviceArray<std::uint8_t> codes;
    DeviceArray<float> scales;
    DeviceArray<float> residuals;
};

std::unique_ptr<Codes> prepared(CosinePassages& passages) {
    if (passages.storage == CosineStorage::kFloat32) return nullptr;
    const auto n_rows = static_cast<std::size_t>(passages.rows.n_rows);
    const auto row_bytes =
        static_cast<std::size_t>(code_row_bytes(passages.rows.n_columns, passages.storage));
    auto codes = std::make_unique<Codes>(n_rows, row_bytes);
    prepare_passages(passages.rows, passages.inverse_norms, passages.storage, codes->codes.data(),
                     codes->scales.data(), codes->residuals.data(), {});
    passages.codes = codes->codes.data();
    passages.scales = codes->scales.data();
    passages.residuals = codes->residuals.data();
    return codes;
}

void check_shape(const Shape& shape, CosineStorage storage, bool tensor_cores) {
    const auto [n_queries, n_passages, dim, k] = shape;
    const auto queries = random_values(n_queries * dim, 1);
    const auto passages = random_values(n_passages * dim, 2);
    const auto n_found = static_cast<std::size_t>(n_queries * k);
    std::vector<std::int64_t> expected_indices(n_found);
    std::vector<float> expected(n_found);
    epibias::cosine_topk({queries.data(), n_queries, dim}, {passages.data(), n_passages, dim}, k,
                         {}, {expected_indices.data(), n_queries, k},
                         {expected.data(), n_queries, k});

    const DeviceArray<float> device_queries{std::span<const float>(queries)};
    const DeviceArray<float> rows{std::span<const float>(passages)};
    const DeviceArray<double> norms(static_cast<std::size_t>(n_passages));
    const FaultRecord fault;
    inverse_norms(rows.view(n_passages, dim), 1, norms.data(), fault.data(), {});
    CosinePassages given{
        .rows = rows.view(n_passages, dim), .inverse_norms = norms.data(), .storage = storage};
    const auto codes = prepared(given);

    const CosineTopkOptions options{.tensor_cores = tensor_cores};
    const DeviceArray<unsigned char> workspace(
        cosine_topk_workspace_bytes(n_queries, dim, k, storage, options));
    const DeviceArray<std::int64_t> indices(n_found);
    const DeviceArray<float> similarities(n_found);
    const DeviceArray<std::int64_t> n_rescored(1);
    cosine_topk(device_queries.view(n_queries, dim), given, k, indices.matrix(n_queries, k),
                similarities.matrix(n_queries, k), n_rescored.data(), workspace.data(),
                fault.data(), {}, options);

    const std::string name = "cosine_topk, storage " + std::to_string(static_cast<int>(storage)) +
                             (tensor_cores ? ", tensor cores" : ", portable") + ", dim " +
                             std::to_string(dim);
    expect_no_fault(name, fault);
    expect_same(name + ", indices", indices.values(), expected_indices);
    expect_same(name + ", similarities", similarities.values(), expected);
}

}  // namespace

void check_cosine_topk() {
    const std::vector<Shape> shapes = {{1, 1, 1, 1}, {3, 130, 33, 7}, {17, 300, 64, 100}};
    for (const Shape& shape : shapes) {
        for (const auto storage :
             {CosineStorage::kFloat32, CosineStorage::kBf16, CosineStorage::kInt8}) {
            check_shape(shape, storage, true);
            check_shape(shape, storage, false);
        }
    }
}

}  // namespace epibias::cuda::check
