#define EPIBIAS_LEVEL avx2
#include "kernels/threshold_sweep_body.hpp"
