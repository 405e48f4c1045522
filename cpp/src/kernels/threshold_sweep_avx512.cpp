#define EPIBIAS_LEVEL avx512
#include "kernels/threshold_sweep_body.hpp"
