#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "epibias/bounded_selection.hpp"
#include "refusal.hpp"

namespace {

using epibias::test::message_of;
using Marks = std::vector<std::uint8_t>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Pools {
    std::vector<float> similarities, scores;
    std::vector<std::int64_t> offsets;
    std::vector<double> centres, widths;
    Marks allowed;
};

struct Selected {
    Marks chosen;
    std::vector<double> before, after;
    bool operator==(const Selected&) const = default;
};

Selected run(const Pools& pools, std::int64_t k, int n_threads = 1) {
    const std::size_t n_queries = pools.offsets.size() - 1;
    Selected selected{Marks(pools.similarities.size()), std::vector<double>(n_queries),
                      std::vector<double>(n_queries)};
    epibias::bounded_selection({pools.similarities, pools.scores, pools.offsets, pools.centres,
                                pools.widths, pools.allowed},
                               {selected.chosen, selected.before, selected.after, {}},
                               {k, n_threads});
    return selected;
}

struct Asked {
    std::vector<std::string> questions, passages;
    std::vector<double> limits, limits_of_two;
    bool every_candidate;
    Marks tested, by_others;
};

struct Reading {
    Selected selected;
    Marks judged;
    std::int64_t n_read;
};

epibias::TextView view(const std::string& text) {
    return {text.data(), std::ssize(text), 1};
}

Reading read(const Pools& pools, const Asked& asked, std::int64_t k, int n_threads = 1) {
    const std::size_t n_queries = pools.offsets.size() - 1;
    const std::size_t n_candidates = pools.similarities.size();
    Reading found{
        {Marks(n_candidates), std::vector<double>(n_queries), std::vector<double>(n_queries)},
        Marks(n_candidates),
        0};
    std::atomic<std::int64_t> n_read = 0;
    const epibias::EchoTest echo{
        [&](std::int64_t query) { return view(asked.questions[static_cast<std::size_t>(query)]); },
        [&](std::int64_t row) {
            ++n_read;
            return view(asked.passages[static_cast<std::size_t>(row)]);
        },
        asked.limits,
        asked.limits_of_two,
        asked.every_candidate,
        asked.tested,
        asked.by_others};
    epibias::bounded_selection(
        {pools.similarities, pools.scores, pools.offsets, pools.centres, pools.widths,
         pools.allowed, &echo},
        {found.selected.chosen, found.selected.before, found.selected.after, found.judged},
        {k, n_threads});
    found.n_read = n_read;
    return found;
}

Pools one_query(std::vector<float> similarities, std::vector<float> scores, double width) {
    const auto n = static_cast<std::int64_t>(scores.size());
    return {std::move(similarities), std::move(scores), {0, n}, {0.0}, {width}, {}};
}

Pools random_pools(std::size_t n_queries, unsigned seed) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> similarity(0.2F, 0.9F);
    std::normal_distribution<float> score(0.05F, 0.1F);
    std::uniform_int_distribution<std::int64_t> size(0, 30);
    Pools pools;
    pools.offsets = {0};
    for (std::size_t query = 0; query < n_queries; ++query) {
        const std::int64_t n = size(generator);
        std::vector<float> own(static_cast<std::size_t>(n));
        for (float& value : own) value = similarity(generator);
        std::ranges::sort(own, std::ranges::greater());
        pools.similarities.insert(pools.similarities.end(), own.begin(), own.end());
        pools.offsets.push_back(pools.offsets.back() + n);
        pools.centres.push_back(0);
        pools.widths.push_back(query % 3 == 0 ? kInfinity : 0.01);
        for (std::int64_t i = 0; i < n; ++i) {
            pools.scores.push_back(score(generator));
            pools.allowed.push_back(generator() % 5 == 0 ? 0 : 1);
        }
    }
    return pools;
}

}  // namespace

TEST_CASE("bounded_selection: worked by hand") {
    // Both of the first two are at +1: only 0.7 in place of 0.8 reaches 0.1, at a loss of 0.1.
    const auto reached = run(one_query({0.9F, 0.8F, 0.7F, 0.6F}, {1, 1, -1, 0}, 0.1), 2);
    CHECK(reached.chosen == Marks{1, 0, 1, 0});
    CHECK(reached.before[0] == 1.0);
    CHECK(reached.after[0] == 0.0);
    // Nothing reaches 0: the nearest that can be had, and both exchanges of the way.
    const auto nearer = run(one_query({0.9F, 0.8F, 0.7F, 0.6F}, {4, 4, 1, 1}, 0.5), 2);
    CHECK(nearer.chosen == Marks{0, 0, 1, 1});
    CHECK(nearer.after[0] == 1.0);
    // Within the width from the start, or asked for nothing: left alone.
    CHECK(run(one_query({0.9F, 0.8F, 0.7F}, {1, 1, -1}, 1.0), 2).chosen == Marks{1, 1, 0});
    CHECK(run(one_query({0.9F, 0.8F, 0.7F}, {1, 1, -1}, kInfinity), 2).chosen == Marks{1, 1, 0});
    // Once there, similarity is won back within the width.
    const auto won = run(one_query({0.9F, 0.8F, 0.7F, 0.6F, 0.5F}, {2, 2, 2, 0, -4}, 0.7), 3);
    CHECK(std::abs(won.after[0]) <= 0.7);
}

TEST_CASE("bounded_selection: of equal exchanges the lowest leaves and the highest enters") {
    const auto selected = run(one_query({0.5F, 0.5F, 0.5F, 0.5F}, {1, 1, -1, -1}, 0.0), 2);
    CHECK(selected.chosen == Marks{1, 0, 1, 0});
}

TEST_CASE("bounded_selection: fewer than k, nothing allowed, no candidates, no queries") {
    CHECK(run(one_query({0.9F, 0.8F}, {3, 1}, 0.0), 5).chosen == Marks{1, 1});
    Pools nothing = one_query({0.9F, 0.8F}, {3, 1}, 0.0);
    nothing.allowed = {0, 0};
    const auto selected = run(nothing, 1);
    CHECK(selected.chosen == Marks{0, 0});
    CHECK(selected.before[0] == 0.0);
    CHECK(run({{}, {}, {0, 0}, {0.0}, {0.0}, {}}, 3).after[0] == 0.0);
    CHECK(run({{}, {}, {0}, {}, {}, {}}, 3).after.empty());
}

TEST_CASE("bounded_selection: threads and batches do not matter; no selection moves away") {
    const Pools pools = random_pools(300, 4);
    const Selected expected = run(pools, 5);
    for (const int n_threads : {2, 3}) CHECK(run(pools, 5, n_threads) == expected);
    std::size_t n_moved = 0;
    for (std::size_t query = 0; query < 300; ++query) {
        CHECK(std::abs(expected.after[query]) <= std::abs(expected.before[query]));
        if (expected.after[query] != expected.before[query]) ++n_moved;
    }
    CHECK(n_moved > 100);
}

TEST_CASE("bounded_selection: a text is read where a selection comes to it") {
    // From (1, 1) the third would reach 0, and so would the last: the third says the question.
    const Pools pools = one_query({0.9F, 0.8F, 0.7F, 0.6F, 0.5F}, {1, 1, -1, 5, -1}, 0.1);
    const std::vector<std::string> texts = {"yes", "no", "we ban cars", "ban cars", "never"};
    Asked asked{{"Ban cars?"}, texts, {0.5}, {kNan}, false, {}, {}};
    Reading found = read(pools, asked, 2);
    CHECK(found.selected.chosen == Marks{1, 0, 0, 0, 1});
    CHECK(found.judged == Marks{1, 1, 2, 0, 1});
    CHECK(found.n_read == 4);

    asked.every_candidate = true;
    found = read(pools, asked, 2);
    CHECK(found.selected.chosen == Marks{1, 0, 0, 0, 1});
    CHECK(found.judged == Marks{1, 1, 2, 2, 1});
    CHECK(found.n_read == 5);

    asked.limits = {kNan};  // of this query nothing is read
    found = read(pools, asked, 2);
    CHECK(found.selected.chosen == Marks{1, 0, 1, 0, 0});
    CHECK(found.judged == Marks(5));
    CHECK(found.n_read == 0);
}

TEST_CASE("bounded_selection: two of the first k are held to a lower limit than one") {
    const Pools pools = one_query({0.9F, 0.8F, 0.7F, 0.6F, 0.5F}, {0, 0, 0, 0, 0}, kInfinity);
    const std::vector<std::string> texts = {"bans", "ban ca", "trams", "rain", "bans"};
    Asked asked{{"Ban cars?"}, texts, {0.9}, {0.2}, false, {}, {}};  // .25, .5 and .25 of it
    CHECK(read(pools, asked, 2).judged == Marks{2, 2, 1, 1, 0});
    CHECK(read(pools, asked, 2).selected.chosen == Marks{0, 0, 1, 1, 0});
    asked.limits_of_two = {0.3};  // one exceeds it
    CHECK(read(pools, asked, 2).judged == Marks{1, 1, 0, 0, 0});
    asked.limits = {0.3};
    CHECK(read(pools, asked, 2).judged == Marks{1, 2, 1, 0, 0});
    asked = {{"Ban cars?"}, texts, {0.2}, {0.3},
             true,          {},    {}};  // the limit of one is the lower one
    CHECK(read(pools, asked, 2).judged == Marks{2, 2, 1, 1, 2});
    asked.questions = {"?"};  // without a triple nothing says it
    CHECK(read(pools, asked, 2).judged == Marks(5, 1));
}

TEST_CASE("bounded_selection: what is read does not depend on threads") {
    const Pools pools = random_pools(300, 5);
    Asked asked{std::vector<std::string>(300, "Ban cars?"),
                {},
                std::vector<double>(300, 0.3),
                std::vector<double>(300, kNan),
                false,
                {},
                {}};
    for (std::size_t row = 0; row < pools.scores.size(); ++row) {
        asked.passages.emplace_back(row % 3 == 0 ? "ban cars" : row % 5 == 0 ? "cars" : "rain");
    }
    const Reading alone = read(pools, asked, 4, 1);
    CHECK(alone.n_read > 0);
    CHECK(alone.n_read < std::ssize(pools.scores));
    for (const int n_threads : {2, 3}) {
        const Reading again = read(pools, asked, 4, n_threads);
        CHECK(again.selected == alone.selected);
        CHECK(again.judged == alone.judged);
    }
    asked.every_candidate = true;
    CHECK(read(pools, asked, 4).selected == alone.selected);
}

TEST_CASE("bounded_selection: error texts") {
    const Pools good = one_query({0.9F, 0.8F, 0.7F}, {1, 1, -1}, 0.1);
    CHECK(message_of([&] { run(good, 0); }) == "k: expected an integer of at least 1, got 0");
    Pools bad = good;
    bad.scores[2] = static_cast<float>(kNan);
    CHECK(message_of([&] { run(bad, 2); }) ==
          "scores: expected finite values, got nan (query 0, column 2)");
    bad = good;
    bad.widths[0] = kNan;
    CHECK(message_of([&] { run(bad, 2); }) ==
          "widths: expected numbers of at least 0, got nan (query 0)");
    bad = good;
    bad.centres[0] = kInfinity;
    CHECK(message_of([&] { run(bad, 2); }) == "centres: expected finite values, got inf (query 0)");
    bad = good;
    bad.allowed = {1, 1};
    CHECK(message_of([&] { run(bad, 2); }) ==
          "allowed: expected 3 values, as many as similarities, got 2");
    bad = good;
    bad.scores.pop_back();
    CHECK(message_of([&] { run(bad, 2); }) ==
          "scores: expected 3 values, as many as similarities, got 2");
    const std::vector<std::string> texts(3, "a");
    CHECK(message_of([&] { read(good, {{"a"}, texts, {1, 1}, {1}, false, {}, {}}, 2); }) ==
          "limits: expected 1 values, as many as queries, got 2");
    CHECK(message_of([&] { read(good, {{"a"}, texts, {1}, {}, false, {}, {}}, 2); }) ==
          "limits_of_two: expected 1 values, as many as queries, got 0");
    bad = good;
    bad.offsets = {0, 2};
    CHECK(message_of([&] { run(bad, 2); }) ==
          "offsets: expected offsets that rise from 0 to 3 (the number of candidates), got others");
}

TEST_CASE("bounded_selection: a limit by others is that of the first k who are not tested") {
    // The first is tested; the second says half of the question, the fourth all of it.
    Pools pools = one_query({0.9F, 0.8F, 0.7F, 0.6F}, {0, 0, 0, 0}, kInfinity);
    const std::vector<std::string> texts = {"ban cars", "ban", "no", "ban cars"};
    Asked asked{{"Ban cars?"}, texts, {0}, {kNan}, false, {1, 0, 0, 0}, {1}};
    Reading found = read(pools, asked, 2);
    CHECK(found.selected.chosen == Marks{0, 1, 1, 0});
    CHECK(found.judged == Marks{2, 1, 1, 1});
    CHECK(found.n_read == 3);
    CHECK(read(pools, asked, 3).selected.chosen == Marks{1, 1, 1, 0});  // the fourth is its equal

    asked.limits = {1};  // the larger of both
    CHECK(read(pools, asked, 2).selected.chosen == Marks{1, 1, 0, 0});
    asked.limits = {0};
    pools.allowed = {1, 1, 1, 0};  // who may not be selected is no measure
    CHECK(read(pools, asked, 3).selected.chosen == Marks{0, 1, 1, 0});
    pools.allowed = {0, 1, 1, 1};  // nobody to be tested: nothing is read
    found = read(pools, asked, 2);
    CHECK(found.selected.chosen == Marks{0, 1, 1, 0});
    CHECK(found.n_read == 0);
}
