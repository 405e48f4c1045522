// Portable level of rank_candidates.
#include "kernels/rank_candidates_kernels.hpp"

namespace epibias::kernels {
namespace {

double folded(double* sums) {
    for (int width = 16; width > 0; width /= 2) {
        for (int lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
    }
    return sums[0];
}

RowProducts row_products(const float* row, const double* first, const double* second,
                         std::int64_t dim) {
    double squared_sums[32] = {};
    double first_sums[32] = {};
    double second_sums[32] = {};
    std::int64_t i = 0;
    for (; i < dim; i += 32) {
        const int n_lanes = dim - i < 32 ? static_cast<int>(dim - i) : 32;
        for (int lane = 0; lane < n_lanes; ++lane) {
            const auto value = static_cast<double>(row[i + lane]);
            squared_sums[lane] += value * value;
            first_sums[lane] += value * first[i + lane];
            second_sums[lane] += value * second[i + lane];
        }
    }
    return {folded(squared_sums), folded(first_sums), folded(second_sums)};
}

}  // namespace

namespace scalar {
const RankCandidatesKernels kRankCandidates = {.row_products = row_products};
}

}  // namespace epibias::kernels
