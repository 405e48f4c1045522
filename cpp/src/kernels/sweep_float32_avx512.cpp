#define EPIBIAS_LEVEL avx512
#include "kernels/sweep_float32_body.hpp"
