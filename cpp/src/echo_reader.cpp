#include "echo_reader.hpp"

#include <string>

#include "epibias/simd_level.hpp"
#include "refuse.hpp"

namespace epibias {

namespace {

constexpr std::int64_t kMostLetters = std::int64_t{1} << 31;  // places are counted in 32 bits

const kernels::EchoKernels& chosen_kernels() {
#if defined(EPIBIAS_X86_LEVELS)
    switch (active_simd_level()) {
        case SimdLevel::kAvx512:
            return kernels::avx512::kEcho;
        case SimdLevel::kAvx2:
            return kernels::avx2::kEcho;
        case SimdLevel::kScalar:
            break;
    }
#endif
    return kernels::scalar::kEcho;
}

void check_letters(const TextView& text) {
    if (text.n_units < kMostLetters) return;
    refuse("texts", "fewer than 2147483648 letters each", std::to_string(text.n_units));
}

}  // namespace

EchoReader::EchoReader() : level_(chosen_kernels()) {}

void EchoReader::ask(const TextView& question) {
    check_letters(question);
    codes_.read(level_, question);
    asked_.read(codes_);
}

void EchoReader::read(const TextView& passage) {
    check_letters(passage);
    if (asked_.n_different() == 0) return;
    codes_.read(level_, passage);
    hits_.find(level_, codes_, asked_);
}

double EchoReader::share(double limit) {
    return asked_.n_different() == 0 ? 0 : hits_.share(asked_, limit);
}

}  // namespace epibias
