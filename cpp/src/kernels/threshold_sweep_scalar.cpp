#define EPIBIAS_LEVEL scalar
#include "kernels/threshold_sweep_body.hpp"
