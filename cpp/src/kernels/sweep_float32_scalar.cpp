#define EPIBIAS_LEVEL scalar
#include "kernels/sweep_float32_body.hpp"
