#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "epibias/biasdef_select.hpp"
#include "refusal.hpp"
#include "support.hpp"

namespace {

using epibias::BiasDefOptions;
using epibias::DroppedSide;
using epibias::test::at_every_level;
using epibias::test::message_of;
using Integers = std::vector<std::int64_t>;

struct Selected {
    Integers order, n_selected, n_kept, n_moved;
    std::vector<DroppedSide> sides;
    std::vector<float> thresholds;
    std::vector<double> divergences, p_values;
    bool operator==(const Selected&) const = default;
};

struct Pools {
    std::vector<float> similarities, scores;
    Integers offsets = {0};
    std::vector<double> centres;

    // A query whose first candidates are the one-sided ones.
    void add(int n, int n_one_sided, float shift) {
        for (int i = 0; i < n; ++i) {
            similarities.push_back(0.9F - 0.04F * static_cast<float>(i));
            const float noise = 0.01F * static_cast<float>(i * 7 % 5 - 2);
            scores.push_back(i < n_one_sided ? noise + shift : noise);
        }
        offsets.push_back(offsets.back() + n);
        centres.push_back(0);
    }
};

Selected select(const Pools& pools, const BiasDefOptions& options) {
    const std::size_t n = pools.centres.size();
    Selected got{Integers(pools.scores.size()),
                 Integers(n),
                 Integers(n),
                 Integers(n),
                 std::vector<DroppedSide>(n),
                 std::vector<float>(n),
                 std::vector<double>(n),
                 std::vector<double>(n)};
    epibias::biasdef_select({pools.similarities, pools.scores, pools.offsets, pools.centres},
                            {got.order, got.n_selected, got.n_kept, got.n_moved, got.sides,
                             got.thresholds, got.divergences, got.p_values},
                            options);
    return got;
}

Pools one_query(int n, int n_one_sided, float shift) {
    Pools pools;
    pools.add(n, n_one_sided, shift);
    return pools;
}

}  // namespace

TEST_CASE("biasdef_select: the one-sided top is dropped, and stands behind the kept") {
    const Selected got = select(one_query(10, 3, 0.5F), {.k = 4, .min_kept = 4});
    CHECK(got.order == Integers{3, 4, 5, 6, 7, 8, 9, 0, 1, 2});
    CHECK(got.n_selected == Integers{4});
    CHECK(got.n_kept == Integers{7});
    CHECK(got.sides == std::vector{DroppedSide::kRight});
    CHECK(got.thresholds[0] == 0.9F - 0.04F * 2);
    CHECK(got.p_values == std::vector{1.0});
}

TEST_CASE("biasdef_select: fewer than k are kept, and refilled where that is asked for") {
    const Pools pools = one_query(10, 7, 0.5F);
    CHECK(select(pools, {.k = 5, .min_kept = 1}).n_selected == Integers{3});
    const Selected refilled = select(pools, {.k = 5, .min_kept = 1, .refill = true});
    CHECK(refilled.n_selected == Integers{5});
    CHECK(refilled.n_kept == Integers{3});
    CHECK(refilled.order == Integers{7, 8, 9, 0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("biasdef_select: with side_auto the far side goes, wherever it stands") {
    Pools pools = one_query(12, 9, 0.01F);
    for (std::size_t i = 9; i < 12; ++i) pools.scores[i] += 0.6F;
    const Selected got = select(pools, {.k = 5, .side_auto = true});
    CHECK(got.sides == std::vector{DroppedSide::kLeft});
    CHECK(got.order == Integers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    CHECK(got.n_kept == Integers{9});
    pools.centres[0] = 0.3;  // between both sides
    CHECK(select(pools, {.k = 5, .side_auto = true}).sides == std::vector{DroppedSide::kNone});
}

TEST_CASE("biasdef_select: a ragged batch is its queries, for every level and thread count") {
    Pools pools;
    for (int query = 0; query < 40; ++query) {
        pools.add(query * 7 % 13, query % 4, 0.1F * static_cast<float>(query % 6));
    }
    Integers ids;
    for (std::int64_t query = 0; query < 40; ++query) ids.push_back(query);
    BiasDefOptions options{
        .k = 3, .min_kept = 2, .gate = 0.6, .side_auto = true, .mitigation = true};
    options.sweep.permutations = 9;
    const Selected whole = select(pools, options);
    at_every_level([&](const std::string& level) {
        CAPTURE(level);
        for (const int n_threads : {1, 4}) {
            options.n_threads = n_threads;
            CHECK(select(pools, options) == whole);
        }
    });
    for (std::size_t query = 0; query < 40; ++query) {
        const auto first = static_cast<std::ptrdiff_t>(pools.offsets[query]);
        const auto last = static_cast<std::ptrdiff_t>(pools.offsets[query + 1]);
        Pools alone;
        alone.similarities.assign(pools.similarities.begin() + first,
                                  pools.similarities.begin() + last);
        alone.scores.assign(pools.scores.begin() + first, pools.scores.begin() + last);
        alone.offsets.push_back(last - first);
        alone.centres.push_back(0);
        options.sweep.query_ids = {ids.data() + query, 1};
        const Selected got = select(alone, options);
        CHECK(got.order == Integers(whole.order.begin() + first, whole.order.begin() + last));
        CHECK(got.p_values[0] == whole.p_values[query]);
        CHECK(got.sides[0] == whole.sides[query]);
        CHECK(got.n_moved[0] == whole.n_moved[query]);
    }
}

TEST_CASE("biasdef_select: what does not fit is named") {
    Pools pools = one_query(5, 1, 0.5F);
    const auto message = [&](const BiasDefOptions& options) {
        return message_of([&] { select(pools, options); });
    };
    CHECK(message({}) == "nothing was thrown");
    CHECK(message({.k = 0}) == "k: expected an integer of at least 1, got 0");
    CHECK(message({.slack = 0.7}) == "slack: expected a number from 0 to 0.5, got 0.7");
    pools.scores[3] = std::numeric_limits<float>::infinity();
    CHECK(message({}) == "scores: expected finite values, got inf (query 0, column 3)");
}
