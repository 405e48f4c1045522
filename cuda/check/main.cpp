// A small program that calls the launchers of every stage, for compute-sanitizer: plain allocations
// of exact sizes, no Python, no framework. It compares with the CPU's functions, and exits with 1
// where they differ. bench/gpu_check.py builds and runs it; under emulation it runs in CI.
#include <cstdio>
#include <exception>

#include "checks.hpp"

int main() {
    const struct {
        const char* stage;
        void (*run)();
    } checks[] = {
        {"cosine_topk", epibias::cuda::check::check_cosine_topk},
        {"polarization_axis and its scores", epibias::cuda::check::check_polarization},
        {"rerank", epibias::cuda::check::check_rerank},
        {"threshold_sweep", epibias::cuda::check::check_threshold_sweep},
        {"biasdef_select", epibias::cuda::check::check_biasdef_select},
    };
    for (const auto& check : checks) {
        try {
            check.run();
        } catch (const std::exception& error) {
            std::fprintf(stderr, "%s\n", error.what());
            return 1;
        }
        std::printf("%s: as on the CPU\n", check.stage);
    }
    return 0;
}
