#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "epibias/remembered.hpp"
#include "refusal.hpp"

namespace {

using epibias::test::message_of;
using Marks = std::vector<std::uint8_t>;
using Offsets = std::vector<std::int64_t>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Pool {
    std::vector<float> similarities, scores;
    Offsets offsets;

    [[nodiscard]] epibias::PoolToRecognize view() const { return {similarities, scores, offsets}; }
};

Marks unchanged(const Pool& pool, std::int64_t k, const std::vector<double>& similarities,
                const std::vector<double>& scores) {
    Marks marks(pool.offsets.size() - 1);
    epibias::mark_unchanged(pool.view(), k, similarities, scores, marks);
    return marks;
}

Marks unremembered(const Pool& pool, const std::vector<epibias::RememberedCandidates>& remembered,
                   bool sparing = true) {
    Marks marks(pool.similarities.size());
    epibias::mark_unremembered(pool.view(), remembered, sparing, marks);
    return marks;
}

struct Refused {
    Marks marks;
    std::vector<std::int64_t> counts;
};

Refused refused(const epibias::NewcomersInput& given) {
    Refused found{Marks(given.is_new.size()), std::vector<std::int64_t>(given.offsets.size() - 1)};
    epibias::refuse_newcomers(given, found.marks, found.counts);
    return found;
}

}  // namespace

TEST_CASE("mark_unchanged: means of the first k, to a millionth; long sums in blocks") {
    Pool pool{std::vector<float>(1000, 0.5F), std::vector<float>(1000, 0.25F), {0, 1000, 1000}};
    pool.similarities[0] = 1.5F;
    for (const std::int64_t k : {1, 2, 8, 500, 2000}) {
        const double mean = 0.5 + 1.0 / static_cast<double>(std::min<std::int64_t>(k, 1000));
        CHECK(unchanged(pool, k, {mean, mean}, {0.25, 0.25}) == Marks{1, 0});
        CHECK(unchanged(pool, k, {mean + 9e-7, mean}, {0.25 - 9e-7, 0.25}) == Marks{1, 0});
        CHECK(unchanged(pool, k, {mean + 2e-6, mean}, {0.25, 0.25}) == Marks{0, 0});
        CHECK(unchanged(pool, k, {mean, mean}, {0.25 + 2e-6, 0.25}) == Marks{0, 0});
        CHECK(unchanged(pool, k, {mean, mean}, {kNan, kNan}) == Marks{0, 0});
    }
    CHECK(message_of([&] { unchanged(pool, 0, {1, 1}, {1, 1}); }) ==
          "k: expected an integer of at least 1, got 0");
    CHECK(message_of([&] { unchanged(pool, 1, {1}, {1, 1}); }) ==
          "mean_similarities: expected 2 values, as many as queries, got 1");
}

TEST_CASE("mark_unremembered: by similarity and score, copies one for one, none out of sight") {
    const std::vector<double> pairs = {0.5, 0.1, 0.7, 0.2, 0.9, 0.3};
    const Pool pool{{0.9F, 0.9F, 0.9F, 0.7F, 0.6F, 0.5F, 0.4F},
                    {0.3F, 0.3F, 0.4F, 0.2F, 0.2F, 0.2F, 0.2F},
                    {0, 7, 7}};
    // The second is a copy of the first; the sixth lies no higher than the lowest remembered one.
    CHECK(unremembered(pool, {{0, pairs}}) == Marks{0, 1, 1, 0, 1, 0, 0});
    CHECK(unremembered(pool, {{0, pairs}}, false) == Marks{0, 1, 1, 0, 1, 1, 1});
    CHECK(unremembered(pool, {{1, pairs}}) == Marks(7));
    CHECK(unremembered(pool, {}) == Marks(7));
    const std::vector<double> twice = {0.5, 0.1, 0.9, 0.3, 0.9, 0.3};
    CHECK(unremembered(pool, {{0, twice}}) == Marks{0, 0, 1, 1, 1, 0, 0});

    CHECK(message_of([&] { unremembered(pool, {{2, pairs}}); }) ==
          "remembered: expected queries from 0 to 1, got 2");
    const std::vector<double> falling = {0.9, 0.1, 0.7, 0.2};
    CHECK(message_of([&] { unremembered(pool, {{0, falling}}); }) ==
          "remembered: expected similarities that ascend (query 0), got 0.7 after 0.9");
    const std::vector<double> broken = {0.9, kNan};
    CHECK(message_of([&] { unremembered(pool, {{0, broken}}); }) ==
          "remembered: expected finite values (query 0), got nan");
    CHECK(message_of([&] { unremembered(pool, {{0, {}}}); }) ==
          "remembered: expected pairs, at least one (query 0), got 0 numbers");
}

TEST_CASE("refuse_newcomers: a wave, the first few of a selection, the first of a source") {
    const Marks is_new = {1, 0, 1, 1, 1, 1};
    const Offsets offsets = {0, 4, 4, 6};
    const Offsets most = {3, 0, 1};
    Refused found = refused({is_new, offsets, most, 2, {}});
    CHECK(found.marks == Marks{0, 0, 0, 1, 1, 1});
    CHECK(found.counts == Offsets{1, 0, 2});
    const std::vector<std::int64_t> sources = {5, 5, 5, 7, 5, 5};
    found = refused({is_new, offsets, most, 2, sources, 1});
    CHECK(found.marks == Marks{0, 0, 1, 0, 1, 1});
    CHECK(found.counts == Offsets{1, 0, 2});
    CHECK(refused({is_new, offsets, most, 0, {}}).counts == Offsets{3, 0, 2});
    const Offsets few = {3};
    CHECK(message_of([&] { refused({is_new, offsets, few, 2, {}}); }) ==
          "most_in_pool: expected 3 values, as many as queries, got 1");
    CHECK(message_of([&] { refused({is_new, offsets, most, 2, few}); }) ==
          "sources: expected 6 values, as many as is_new, got 1");
}
