// The candidates of one query: what may be dropped, what must stay.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "../../cpp/src/atomic_bounds.hpp"
#include "../../cpp/src/topk_candidates.hpp"

using epibias::ExactTopk;
using epibias::Pending;
using epibias::PendingHits;
using epibias::Ranked;

namespace {

constexpr double kBound = 1e-3;

// The scan's value is the similarity itself, unless a test says otherwise.
epibias::Rescored rescore_as_scanned(PendingHits& pending, ExactTopk& exact, float proven) {
    return epibias::rescore(
        pending, exact, proven, kBound, [](const Pending& hit) { return hit.value; },
        [](const Pending&) {});
}

std::vector<std::int64_t> sorted_indices(ExactTopk& exact) {
    exact.trim();
    std::sort(exact.kept().begin(), exact.kept().end(), epibias::ranks_before);
    std::vector<std::int64_t> indices;
    for (const Ranked& candidate : exact.kept()) indices.push_back(candidate.index);
    return indices;
}

}  // namespace

TEST_CASE("a pending tie with a lower index beats what another thread has proven") {
    ExactTopk exact(2);
    exact.offer({0.5F, 8});
    exact.offer({0.5F, 9});
    exact.trim();
    PendingHits pending(2);
    pending.add({3, 1.0, 0.5F});
    const auto result = rescore_as_scanned(pending, exact, 0.5F);
    CHECK(result.count == 1);
    CHECK(result.threshold == 0.5F);
    CHECK(sorted_indices(exact) == std::vector<std::int64_t>{3, 8});
    CHECK(pending.hits().empty());
}

TEST_CASE("only what lies below the threshold by more than the bound is dropped unseen") {
    ExactTopk exact(1);
    PendingHits pending(1);
    pending.add({1, 1.0, 0.5F});
    pending.add({2, 1.0, 0.5F - 1.5e-3F});  // within the bound of the best value's own lower end
    pending.add({3, 1.0, 0.5F - 2.5e-3F});  // beyond it
    // The scan was wrong by nearly the bound, each time in the worse direction.
    const auto score = [](const Pending& hit) {
        return hit.index == 1 ? hit.value - 0.99e-3F : hit.value + 0.99e-3F;
    };
    const auto result = epibias::rescore(pending, exact, epibias::kNoThreshold, kBound, score,
                                         [](const Pending&) {});
    CHECK(result.count == 2);
    CHECK(sorted_indices(exact) == std::vector<std::int64_t>{2});
}

TEST_CASE("ExactTopk keeps the k best of any stream, in bounded memory") {
    std::mt19937 generator(1);
    std::uniform_int_distribution<int> level(0, 9);  // many ties
    for (const std::int64_t k : {1, 7, 300}) {
        std::vector<Ranked> all;
        ExactTopk exact(k);
        std::size_t largest = 0;
        for (std::int64_t index = 5000; index > 0; --index) {
            const Ranked candidate{static_cast<float>(level(generator)), index};
            all.push_back(candidate);
            exact.offer(candidate);
            largest = std::max(largest, exact.kept().size());
        }
        std::sort(all.begin(), all.end(), epibias::ranks_before);
        std::vector<std::int64_t> expected;
        for (std::int64_t rank = 0; rank < k; ++rank) {
            expected.push_back(all[static_cast<std::size_t>(rank)].index);
        }
        CHECK(sorted_indices(exact) == expected);
        CHECK(exact.threshold() == all[static_cast<std::size_t>(k) - 1].similarity);
        CHECK(largest < static_cast<std::size_t>(2 * k + 40));
    }
}

TEST_CASE("too few candidates prove nothing") {
    ExactTopk exact(3);
    exact.offer({0.9F, 1});
    exact.trim();
    PendingHits pending(3);
    pending.add({2, 1.0, 0.8F});
    CHECK(exact.threshold() == epibias::kNoThreshold);
    CHECK(pending.threshold(kBound) == epibias::kNoThreshold);
    CHECK(rescore_as_scanned(pending, exact, epibias::kNoThreshold).threshold ==
          epibias::kNoThreshold);
}

TEST_CASE("thresholds are rounded towards letting more through") {
    CHECK(epibias::round_down(0.1) < 0.1);
    CHECK(epibias::round_down(0.5) == 0.5F);
    CHECK(static_cast<double>(epibias::round_down(-0.1)) <= -0.1);
    CHECK(epibias::round_down(-std::numeric_limits<double>::infinity()) == epibias::kNoThreshold);
}

TEST_CASE("shared bounds move one way only") {
    std::atomic<float> threshold{0.5F};
    epibias::raise(threshold, 0.4F);
    CHECK(threshold == 0.5F);
    epibias::raise(threshold, 0.6F);
    CHECK(threshold == 0.6F);
    std::atomic<std::int64_t> row{17};
    epibias::lower(row, 20);
    CHECK(row == 17);
    epibias::lower(row, 3);
    CHECK(row == 3);
}
