// Runs every tests/cuda/test_*.cpp: the CUDA kernels under emulation, against the CPU's functions.
// Suites are named after stages: `epibias_cuda_tests -ts=cosine_topk` runs one.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>

#include "emulation_cases.hpp"
#include "epibias/parallel.hpp"

int main(int argc, char** argv) {
    if (const char* name = std::getenv(epibias::cuda::test::kChildVariable)) {
        return epibias::cuda::test::ChildCase::run(name);
    }
    // The core may be built without the sanitizers that look at the kernels: its threads would look
    // like races.
    epibias::set_n_threads(1);
    return doctest::Context(argc, argv).run();
}
