#include "order.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>

namespace epibias::cuda::emulation {
namespace {

constexpr const char* kVariable = "EPIBIAS_EMULATION_ORDER";

[[noreturn]] void refuse_order(std::string_view text) {
    throw std::invalid_argument(std::string(kVariable) +
                                ": expected forward, reverse or random[:seed], got " +
                                std::string(text));
}

}  // namespace

Order Order::from_environment() {
    Order order;
    const char* variable = std::getenv(kVariable);
    const std::string_view text = variable == nullptr ? "forward" : variable;
    constexpr std::string_view kRandom = "random";
    if (text == "forward") return order;
    if (text == "reverse") {
        order.kind_ = Kind::kReverse;
        return order;
    }
    if (!text.starts_with(kRandom)) refuse_order(text);
    unsigned seed = 1;
    std::string_view rest = text.substr(kRandom.size());
    if (!rest.empty()) {
        const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), seed);
        if (rest[0] != ':' || error != std::errc{} || end != rest.data() + rest.size()) {
            refuse_order(text);
        }
    }
    order.kind_ = Kind::kRandom;
    order.generator_ = OrderGenerator(seed);
    return order;
}

const std::vector<unsigned>& Order::arrange(std::vector<unsigned>& numbers, unsigned count) {
    if (numbers.size() != count) {
        numbers.resize(count);
        std::iota(numbers.begin(), numbers.end(), 0U);
        if (kind_ == Kind::kReverse) std::reverse(numbers.begin(), numbers.end());
    }
    if (kind_ == Kind::kRandom) std::shuffle(numbers.begin(), numbers.end(), generator_);
    return numbers;
}

const std::vector<unsigned>& Order::warps(unsigned count) {
    return arrange(warps_, count);
}
const std::vector<unsigned>& Order::lanes(unsigned count) {
    return arrange(lanes_, count);
}

std::vector<std::int64_t> Order::blocks(std::int64_t count, bool only_ends) {
    std::vector<std::int64_t> numbers;
    if (only_ends && count > 2) {
        numbers = {0, count - 1};
    } else {
        numbers.resize(static_cast<std::size_t>(count));
        std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
    }
    if (kind_ == Kind::kReverse) std::reverse(numbers.begin(), numbers.end());
    if (kind_ == Kind::kRandom) std::shuffle(numbers.begin(), numbers.end(), generator_);
    return numbers;
}

unsigned Order::rounds_of_a_warp() {
    if (kind_ != Kind::kRandom) return std::numeric_limits<unsigned>::max();
    constexpr unsigned kRounds[] = {1, 1, 2, 4, 16, std::numeric_limits<unsigned>::max()};
    return kRounds[generator_() % std::size(kRounds)];
}

}  // namespace epibias::cuda::emulation
