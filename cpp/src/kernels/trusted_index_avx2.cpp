// AVX2 level of trusted_index.
#include "kernels/trusted_index_body.hpp"

namespace epibias::kernels::avx2 {
const TrustedKernels kTrusted = {.sketch = sketch};
}  // namespace epibias::kernels::avx2
