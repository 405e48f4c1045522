// Portable level of cosine_topk: no intrinsics. Four floats at a time in the vector type of GCC and
// Clang, which is SSE on x86-64 and NEON on AArch64.
#include "kernels/cosine_topk_body.hpp"

namespace epibias::kernels {
namespace {

struct Lanes128 {
    using Vector = float __attribute__((vector_size(16)));
    static constexpr int kWidth = 4;

    static Vector zero() { return Vector{}; }
    static Vector load(const float* at) { return Vector{at[0], at[1], at[2], at[3]}; }
    static Vector load_first(const float* at, int count) {
        return Vector{at[0], count > 1 ? at[1] : 0.0F, count > 2 ? at[2] : 0.0F, 0.0F};
    }
    static Vector broadcast(const float* at) { return Vector{*at, *at, *at, *at}; }
    static Vector multiply_add(Vector left, Vector right, Vector sum) { return left * right + sum; }
    static Vector multiply(Vector left, Vector right) { return left * right; }
    static float sum(Vector values) { return (values[0] + values[2]) + (values[1] + values[3]); }
    static void store(float* at, Vector values) {
        for (int lane = 0; lane < kWidth; ++lane) at[lane] = values[lane];
    }
    static unsigned at_least(Vector values, Vector limits) {
        const auto passed = values >= limits;
        // One test for the usual case that nothing passes.
        const auto any = (passed[0] | passed[1]) | (passed[2] | passed[3]);
        if (any == 0) return 0;
        return (passed[0] & 1U) | (passed[1] & 2U) | (passed[2] & 4U) | (passed[3] & 8U);
    }
};

double canonical_dot(const float* left, const float* right, std::int64_t dim) {
    double sums[32] = {};
    std::int64_t i = 0;
    for (; i + 32 <= dim; i += 32) {
        for (int lane = 0; lane < 32; ++lane) {
            sums[lane] +=
                static_cast<double>(left[i + lane]) * static_cast<double>(right[i + lane]);
        }
    }
    for (int lane = 0; i < dim; ++lane, ++i) {
        sums[lane] += static_cast<double>(left[i]) * static_cast<double>(right[i]);
    }
    for (int width = 16; width > 0; width /= 2) {
        for (int lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
    }
    return sums[0];
}

}  // namespace

namespace scalar {
const CosineTopkKernels kCosineTopk = {
    .panel_width = 8,
    .few_queries = 4,
    .group_rows = 4,
    .canonical_dot = canonical_dot,
    .scan_panel = scan_panel<Lanes128, 4, 2>,
    .scan_few = scan_few<Lanes128, 2, 4, 2>,
};
}  // namespace scalar

}  // namespace epibias::kernels
