// Portable level of trusted_index.
#include "kernels/trusted_index_body.hpp"

namespace epibias::kernels::scalar {
const TrustedKernels kTrusted = {.sketch = sketch};
}  // namespace epibias::kernels::scalar
