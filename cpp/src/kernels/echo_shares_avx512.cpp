// AVX-512 level of echo_shares.
#include "kernels/echo_shares_lanes256.hpp"

namespace epibias::kernels::avx512 {
const EchoKernels kEcho = kEcho256;
}  // namespace epibias::kernels::avx512
