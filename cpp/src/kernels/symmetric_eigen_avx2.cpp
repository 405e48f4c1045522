#define EPIBIAS_LEVEL avx2
#include "kernels/symmetric_eigen_body.hpp"
