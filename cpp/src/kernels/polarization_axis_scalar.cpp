#define EPIBIAS_LEVEL scalar
#include "kernels/polarization_axis_body.hpp"
