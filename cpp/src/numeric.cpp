#include "epibias/numeric.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "epibias/parallel.hpp"
#include "epibias/simd_level.hpp"
#include "kernels/cosine_topk_kernels.hpp"

namespace epibias {

const kernels::CosineTopkKernels& kernels::cosine_topk_kernels() {
#if defined(EPIBIAS_X86_LEVELS)
    switch (active_simd_level()) {
        case SimdLevel::kAvx512:
            return avx512::kCosineTopk;
        case SimdLevel::kAvx2:
            return avx2::kCosineTopk;
        case SimdLevel::kScalar:
            break;
    }
#endif
    return scalar::kCosineTopk;
}

double canonical_dot(const float* left, const float* right, std::int64_t dim) {
    return kernels::cosine_topk_kernels().canonical_dot(left, right, dim);
}

double inverse_norm(const float* row, std::int64_t dim) {
    return 1.0 / std::sqrt(canonical_dot(row, row, dim));
}

void refuse_row(const std::string& argument, const float* row, std::int64_t dim,
                std::int64_t row_number) {
    std::string got = "a zero row ";
    for (std::int64_t i = 0; i < dim; ++i) {
        if (std::isfinite(row[i])) continue;
        got = std::isnan(row[i]) ? "NaN in row " : "Inf in row ";
        break;
    }
    throw std::invalid_argument(argument + ": expected finite rows of non-zero norm, got " + got +
                                std::to_string(row_number));
}

void inverse_norms(MatrixView<const float> rows, const std::string& argument,
                   std::span<double> result) {
    constexpr std::int64_t kTaskFloats = 1 << 18;  // 1 MiB of rows a task
    const auto& kernels = kernels::cosine_topk_kernels();
    const std::int64_t dim = rows.n_columns;
    const std::int64_t task_rows =
        std::max<std::int64_t>(1, kTaskFloats / std::max<std::int64_t>(dim, 1));
    const std::int64_t n_tasks = (rows.n_rows + task_rows - 1) / task_rows;
    const auto check_task = [&](std::int64_t task, int) {
        RowReader<float> reader(rows);
        const std::int64_t end = std::min(rows.n_rows, (task + 1) * task_rows);
        for (std::int64_t number = task * task_rows; number < end; ++number) {
            const float* row = reader.row(number);
            const double squared = kernels.canonical_dot(row, row, dim);
            // Not a positive finite number: zero row, or NaN or Inf somewhere in it. A task stops
            // at its lowest such row, and parallel_for keeps the exception of the lowest task.
            const bool good = squared > 0 && squared <= std::numeric_limits<double>::max();
            if (!good) refuse_row(argument, row, dim, number);
            result[static_cast<std::size_t>(number)] = 1.0 / std::sqrt(squared);
        }
    };
    const auto size = static_cast<double>(rows.n_rows) * static_cast<double>(dim);
    parallel_for(n_tasks, check_task, threads_worth_waking(size));
}

}  // namespace epibias
