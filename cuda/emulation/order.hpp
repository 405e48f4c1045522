// What: the order in which blocks, warps and lanes run: EPIBIAS_EMULATION_ORDER=forward (default),
// reverse, or random[:seed].
//
// forward and reverse let each warp run as far as it can before the next: a missing barrier shows
// as data that is not there yet, or no longer. random shuffles blocks, warps and lanes in every
// round, lets warps run ahead of each other by different amounts, and switches at atomics.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace epibias::cuda::emulation {

// Small, and no class of the standard library, whose functions the linker might take from a source
// that is compiled with ThreadSanitizer: threads of the kernel draw numbers too.
class OrderGenerator {
  public:
    using result_type = std::uint32_t;  // NOLINT(readability-identifier-naming): std::shuffle asks
    static constexpr result_type min() { return 0; }
    static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
    explicit OrderGenerator(unsigned seed) noexcept : state_(seed) {}
    result_type operator()() {
        state_ += 0x9E3779B97F4A7C15U;  // SplitMix64
        std::uint64_t mixed = state_;
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9U;
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBU;
        return static_cast<result_type>(mixed >> 32);
    }

  private:
    std::uint64_t state_;
};

class Order {
  public:
    // Throws std::invalid_argument where the environment variable says something else.
    static Order from_environment();

    // The numbers below `count`, in the order of this round.
    const std::vector<unsigned>& warps(unsigned count);
    const std::vector<unsigned>& lanes(unsigned count);
    std::vector<std::int64_t> blocks(std::int64_t count, bool only_ends);

    // How often a warp's lanes may each run before another warp's turn.
    [[nodiscard]] unsigned rounds_of_a_warp();
    [[nodiscard]] bool switches_here() { return kind_ == Kind::kRandom && generator_() % 4 == 0; }

  private:
    enum class Kind { kForward, kReverse, kRandom };

    const std::vector<unsigned>& arrange(std::vector<unsigned>& numbers, unsigned count);

    Kind kind_ = Kind::kForward;
    OrderGenerator generator_{1};
    std::vector<unsigned> warps_;
    std::vector<unsigned> lanes_;
};

}  // namespace epibias::cuda::emulation
