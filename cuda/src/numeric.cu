#include "epibias/cuda/numeric.hpp"
#include "numeric.cuh"
#include "require.hpp"

namespace epibias::cuda {

void inverse_norms(MatrixView<const float> rows, int argument, double* result, Fault* fault,
                   Stream stream) {
    require_fault_places("rows", rows.n_rows, rows.n_columns);
    if (rows.n_rows == 0) return;
    using Policy = InverseNormsPolicy;
    const dim3 grid(grid_size("rows", rows.n_rows, Policy::kWarps));
    EPIBIAS_LAUNCH(inverse_norms_kernel, grid, Policy::kThreads, 0, stream, rows.data, rows.n_rows,
                   rows.n_columns, argument, result, fault);
    check_launch("inverse_norms");
    EPIBIAS_LAUNCH(describe_fault<float>, 1, 1, 0, stream, fault, argument, rows.data,
                   rows.n_columns);
    check_launch("describe_fault");
}

}  // namespace epibias::cuda
