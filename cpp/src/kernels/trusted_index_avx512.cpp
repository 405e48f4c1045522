// AVX-512 level of trusted_index.
#include "kernels/trusted_index_body.hpp"

namespace epibias::kernels::avx512 {
const TrustedKernels kTrusted = {.sketch = sketch};
}  // namespace epibias::kernels::avx512
