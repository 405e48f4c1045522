#define EPIBIAS_LEVEL avx512
#include "kernels/polarization_axis_body.hpp"
