#define EPIBIAS_LEVEL avx512
#include "kernels/symmetric_eigen_body.hpp"
