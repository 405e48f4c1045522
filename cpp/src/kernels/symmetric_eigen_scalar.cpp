#define EPIBIAS_LEVEL scalar
#include "kernels/symmetric_eigen_body.hpp"
