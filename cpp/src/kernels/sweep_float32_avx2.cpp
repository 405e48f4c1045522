#define EPIBIAS_LEVEL avx2
#include "kernels/sweep_float32_body.hpp"
