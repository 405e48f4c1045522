// AVX2 level of echo_shares.
#include "kernels/echo_shares_lanes256.hpp"

namespace epibias::kernels::avx2 {
const EchoKernels kEcho = kEcho256;
}  // namespace epibias::kernels::avx2
