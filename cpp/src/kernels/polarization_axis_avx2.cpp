#define EPIBIAS_LEVEL avx2
#include "kernels/polarization_axis_body.hpp"
