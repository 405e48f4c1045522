#include "epibias/rerank.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "epibias/numeric.hpp"
#include "epibias/parallel.hpp"
#include "refuse.hpp"

namespace epibias {

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

void check_k(std::int64_t k, std::int64_t n) {
    if (k >= 0 && k <= n) return;
    refuse("k", "0 to " + std::to_string(n) + " (the number of candidates)", std::to_string(k));
}

int threads_for(int n_threads, double operations) {
    return n_threads > 0 ? n_threads : threads_worth_waking(operations);
}

// Position of the largest value among those not yet selected; the lowest on a tie; -1 for none
// above `bar`.
std::int64_t best_position(const std::vector<double>& values, const std::vector<char>& selected,
                           double bar) {
    std::int64_t best = -1;
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (selected[i] != 0 || !(values[i] > bar)) continue;
        best = static_cast<std::int64_t>(i);
        bar = values[i];
    }
    return best;
}

struct MmrScratch {
    std::vector<double> inverse_norms, redundancy, values;
    std::vector<char> selected;
};

void mmr_query(const float* similarities, const float* embeddings, std::int64_t query,
               std::int64_t dim, std::int64_t k, double relevance_weight, std::int64_t* indices,
               MmrScratch& scratch) {
    const std::size_t n = scratch.values.size();
    for (std::size_t i = 0; i < n; ++i) {
        if (!std::isfinite(similarities[i])) {
            refuse("similarities", "finite values",
                   number_text(static_cast<double>(similarities[i])) + " (row " +
                       std::to_string(query) + ", column " + std::to_string(i) + ")");
        }
    }
    for (std::size_t i = 0; i < n; ++i) {
        const float* row = embeddings + static_cast<std::int64_t>(i) * dim;
        const double inverse = inverse_norm(row, dim);
        const bool good = inverse > 0 && std::isfinite(inverse);
        if (!good) {
            refuse("embeddings", "finite rows of non-zero norm",
                   (std::isinf(inverse) ? "a zero row " : "NaN or Inf in row ") +
                       std::to_string(i) + " (query " + std::to_string(query) + ")");
        }
        scratch.inverse_norms[i] = inverse;
        scratch.values[i] = static_cast<double>(similarities[i]);
    }
    std::fill(scratch.selected.begin(), scratch.selected.end(), static_cast<char>(0));
    std::fill(scratch.redundancy.begin(), scratch.redundancy.end(), kMinusInfinity);
    for (std::int64_t place = 0; place < k; ++place) {
        const std::int64_t chosen = best_position(scratch.values, scratch.selected, kMinusInfinity);
        indices[place] = chosen;
        const auto chosen_row = static_cast<std::size_t>(chosen);
        scratch.selected[chosen_row] = 1;
        if (place + 1 == k) break;
        for (std::size_t i = 0; i < n; ++i) {
            if (scratch.selected[i] != 0) continue;
            const double product = canonical_dot(embeddings + static_cast<std::int64_t>(i) * dim,
                                                 embeddings + chosen * dim, dim);
            const double cosine =
                product * scratch.inverse_norms[i] * scratch.inverse_norms[chosen_row];
            scratch.redundancy[i] = std::max(scratch.redundancy[i], cosine);
            double value = relevance_weight * static_cast<double>(similarities[i]);
            value -= (1 - relevance_weight) * scratch.redundancy[i];
            scratch.values[i] = value;
        }
    }
}

// ---- determinantal point process -----------------------------------------------------------

void check_kernel(const double* kernel, std::int64_t n, std::int64_t query) {
    double largest = 0;
    const auto place = [&](std::int64_t i, std::int64_t j) {
        return " (query " + std::to_string(query) + ", row " + std::to_string(i) + ", column " +
               std::to_string(j) + ")";
    };
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
            const double value = kernel[i * n + j];
            if (!std::isfinite(value)) {
                refuse("kernel", "finite values", number_text(value) + place(i, j));
            }
            largest = std::max(largest, std::abs(value));
        }
    }
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < i; ++j) {
            const double value = kernel[i * n + j];
            const double mirrored = kernel[j * n + i];
            if (std::abs(value - mirrored) <= kSymmetryTolerance * largest) continue;
            refuse("kernel", "a symmetric matrix",
                   number_text(value) + " against " + number_text(mirrored) + place(i, j));
        }
    }
}

struct DppScratch {
    std::vector<double> gains, factor;  // factor [k, n]: row r is the r-th column of Cholesky's L
    std::vector<char> selected;
};

std::int64_t dpp_query(const double* kernel, std::int64_t n, std::int64_t k, std::int64_t* indices,
                       DppScratch& scratch) {
    const auto size = static_cast<std::size_t>(n);
    scratch.gains.resize(size);
    scratch.factor.resize(size * static_cast<std::size_t>(k));
    scratch.selected.assign(size, 0);
    for (std::size_t i = 0; i < size; ++i) scratch.gains[i] = kernel[i * size + i];
    for (std::int64_t place = 0; place < k; ++place) {
        const std::int64_t chosen = best_position(scratch.gains, scratch.selected, kSmallestGain);
        if (chosen < 0) return place;
        indices[place] = chosen;
        const auto chosen_row = static_cast<std::size_t>(chosen);
        scratch.selected[chosen_row] = 1;
        const double pivot = std::sqrt(scratch.gains[chosen_row]);
        double* column = scratch.factor.data() + place * n;
        for (std::size_t i = 0; i < size; ++i) column[i] = kernel[chosen_row * size + i];
        for (std::int64_t earlier = 0; earlier < place; ++earlier) {
            const double* previous = scratch.factor.data() + earlier * n;
            const double weight = previous[chosen_row];
            for (std::size_t i = 0; i < size; ++i) column[i] -= weight * previous[i];
        }
        for (std::size_t i = 0; i < size; ++i) {
            column[i] /= pivot;
            scratch.gains[i] -= column[i] * column[i];
        }
    }
    return k;
}

}  // namespace

void mmr(MatrixView<const float> similarities, MatrixView<const float> embeddings, std::int64_t k,
         MatrixView<std::int64_t> indices, const MmrOptions& options) {
    const std::int64_t n = similarities.n_columns;
    const std::int64_t n_queries = similarities.n_rows;
    const std::int64_t dim = embeddings.n_columns;
    check_k(k, n);
    const bool weight_inside = options.relevance_weight >= 0 && options.relevance_weight <= 1;
    if (!weight_inside) {
        refuse("relevance_weight", "a number from 0 to 1", number_text(options.relevance_weight));
    }
    if (embeddings.n_rows != n_queries * n) {
        refuse("embeddings",
               std::to_string(n_queries) + " x " + std::to_string(n) + " rows, as similarities",
               std::to_string(embeddings.n_rows));
    }
    const auto operations = static_cast<double>(n_queries * n * (k + 1)) * static_cast<double>(dim);
    const int threads = threads_for(options.n_threads, operations);
    std::vector<MmrScratch> scratch(static_cast<std::size_t>(threads));
    const auto select = [&](std::int64_t query, int thread) {
        MmrScratch& own = scratch[static_cast<std::size_t>(thread)];
        own.inverse_norms.resize(static_cast<std::size_t>(n));
        own.redundancy.resize(static_cast<std::size_t>(n));
        own.values.resize(static_cast<std::size_t>(n));
        own.selected.resize(static_cast<std::size_t>(n));
        RowReader<float> similarity_reader(similarities);
        RowReader<float> embedding_reader(embeddings);
        mmr_query(similarity_reader.row(query), embedding_reader.rows(query * n, n), query, dim, k,
                  options.relevance_weight, indices.row(query), own);
    };
    parallel_for(n_queries, select, threads);
}

void dpp_greedy(MatrixView<const double> kernel, std::int64_t k, MatrixView<std::int64_t> indices,
                std::span<std::int64_t> n_selected, int n_threads) {
    const std::int64_t n = kernel.n_columns;
    const auto n_queries = static_cast<std::int64_t>(n_selected.size());
    check_k(k, n);
    if (kernel.n_rows != n_queries * n) {
        refuse("kernel", "square matrices", shape_text(kernel.n_rows, n));
    }
    const auto operations = static_cast<double>(n_queries * n) * static_cast<double>(k * k + n);
    const int threads = threads_for(n_threads, operations);
    std::vector<DppScratch> scratch(static_cast<std::size_t>(threads));
    const auto select = [&](std::int64_t query, int thread) {
        RowReader<double> reader(kernel);
        const double* own_kernel = reader.rows(query * n, n);
        check_kernel(own_kernel, n, query);
        std::fill_n(indices.row(query), k, std::int64_t{-1});
        n_selected[static_cast<std::size_t>(query)] = dpp_query(
            own_kernel, n, k, indices.row(query), scratch[static_cast<std::size_t>(thread)]);
    };
    parallel_for(n_queries, select, threads);
}

}  // namespace epibias
