#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "epibias/cuda/biasdef_select.hpp"
#include "refusal.hpp"
#include "support.hpp"

namespace epibias::cuda {
namespace {

using test::message_of;
using Integers = std::vector<std::int64_t>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Pools {
    std::vector<float> similarities, scores;
    Integers offsets = {0};
    std::vector<double> centres;

    [[nodiscard]] std::size_t n_queries() const { return centres.size(); }
    [[nodiscard]] BiasDefInput view() const { return {similarities, scores, offsets, centres}; }
};

// Queries of the given sizes, in falling similarity, with a one-sided group of varying strength.
Pools pools_of(const std::vector<int>& sizes, unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<float> uniform(0, 1);
    Pools pools;
    for (const int n : sizes) {
        const float shift = 5 * uniform(generator), share = uniform(generator);
        for (int i = 0; i < n; ++i) {
            const auto place = static_cast<float>(i);
            const bool one_sided = place < share * static_cast<float>(n);
            pools.similarities.push_back(0.9F - 0.01F * place + 1e-3F * normal(generator));
            pools.scores.push_back(0.1F * (normal(generator) + (one_sided ? shift : 0.0F)));
        }
        pools.offsets.push_back(pools.offsets.back() + n);
        pools.centres.push_back(static_cast<double>(0.2F * normal(generator)));
    }
    return pools;
}

struct Selected {
    Integers order, n_selected, n_kept, n_moved;
    std::vector<DroppedSide> sides;
    std::vector<float> thresholds;
    std::vector<double> divergences, p_values;
    Fault fault{kNoFault, 0};

    Selected(std::size_t n_candidates, std::size_t n_queries)
        : order(n_candidates, -7),
          n_selected(n_queries, -7),
          n_kept(n_queries, -7),
          n_moved(n_queries, -7),
          sides(n_queries),
          thresholds(n_queries, -7),
          divergences(n_queries, -7),
          p_values(n_queries, -7) {}

    [[nodiscard]] BiasDefResult view() {
        return {order, n_selected, n_kept, n_moved, sides, thresholds, divergences, p_values};
    }
};

void check_same(const Selected& got, const Selected& expected) {
    CHECK(got.fault.word == kNoFault);
    CHECK(got.order == expected.order);
    CHECK(got.n_selected == expected.n_selected);
    CHECK(got.n_kept == expected.n_kept);
    CHECK(got.n_moved == expected.n_moved);
    CHECK((got.sides == expected.sides));
    CHECK(got.thresholds == expected.thresholds);
    CHECK(got.divergences == expected.divergences);
    CHECK(got.p_values == expected.p_values);
}

std::vector<double> workspace_of(std::size_t n_queries, std::size_t n_candidates, std::int64_t most,
                                 bool from_vectors) {
    const std::size_t bytes =
        biasdef_select_workspace_bytes(static_cast<std::int64_t>(n_queries),
                                       static_cast<std::int64_t>(n_candidates), most, from_vectors);
    return std::vector<double>((bytes + 7) / 8, -3.0);
}

Selected on_device(const Pools& pools, const BiasDefOptions& options, std::int64_t most = 1 << 30) {
    Selected got(pools.scores.size(), pools.n_queries());
    auto workspace = workspace_of(pools.n_queries(), pools.scores.size(), most, false);
    biasdef_select(pools.view(), got.view(), options, most, workspace.data(), &got.fault, Stream{});
    return got;
}

Selected on_cpu(const Pools& pools, const BiasDefOptions& options) {
    Selected got(pools.scores.size(), pools.n_queries());
    epibias::biasdef_select(pools.view(), got.view(), options);
    return got;
}

// Rows of some queries, with an axis each, indices, rows of another encoder, and offsets.
struct Rows {
    Rows(const std::vector<int>& sizes, std::int64_t dim, std::int64_t ps_dim, unsigned seed)
        : n_queries(static_cast<std::int64_t>(sizes.size())),
          queries(test::random_matrix(n_queries, dim, seed)),
          candidates(1, 1),
          ps_rows(1, 1),
          axes(test::random_matrix(n_queries, ps_dim, seed + 1)) {
        for (const int n : sizes) offsets.push_back(offsets.back() + n);
        candidates = test::random_matrix(offsets.back(), dim, seed + 2);
        ps_rows = test::random_matrix(offsets.back(), ps_dim, seed + 3);
        for (std::int64_t i = 0; i < offsets.back(); ++i) indices.push_back((i * 7919) % 10'007);
        for (std::int64_t i = 0; i < n_queries; ++i) {
            axis_of_query.push_back(n_queries - 1 - i);
            score_offsets.push_back(0.01 * static_cast<double>(i));
        }
        for (std::int64_t i = 1; i < offsets.back(); i += 3) candidates.copy_row(i - 1, i);  // ties
    }

    [[nodiscard]] CandidateRows view(bool everything) const {
        CandidateRows rows{queries.view(), candidates.view(), offsets, {}, {}, axes.view(), {}, {}};
        if (!everything) return rows;
        rows.indices = indices;
        rows.ps_rows = ps_rows.view();
        rows.axis_of_query = axis_of_query;
        rows.score_offsets = score_offsets;
        return rows;
    }

    std::int64_t n_queries;
    test::Matrix queries, candidates, ps_rows, axes;
    Integers offsets = {0}, indices, axis_of_query;
    std::vector<double> score_offsets;
};

struct Ranking {
    Integers rows, indices;
    std::vector<float> similarities, scores;

    explicit Ranking(std::int64_t n)
        : rows(static_cast<std::size_t>(n), -7),
          indices(rows.size(), -7),
          similarities(rows.size(), -7),
          scores(rows.size(), -7) {}
    [[nodiscard]] RankedCandidates view() { return {rows, indices, similarities, scores}; }
    bool operator==(const Ranking&) const = default;
};

Fault rank(const CandidateRows& rows, Ranking& ranked) {
    Fault fault{kNoFault, 0};
    const std::int64_t n = rows.candidates.n_rows;
    std::vector<double> workspace((rank_candidates_workspace_bytes(rows.queries.n_rows, n) + 7) /
                                  8);
    rank_candidates(rows, ranked.view(), workspace.data(), &fault, Stream{});
    return fault;
}

TEST_SUITE("biasdef_select") {
    TEST_CASE("the CPU's results to the bit, for every rule and size") {
        const Pools pools = pools_of({0, 1, 2, 3, 5, 20, 20, 33, 12, 0, 70, 8}, 1);
        std::vector<BiasDefOptions> rules;
        rules.push_back({});
        rules.push_back({.k = 3, .min_kept = 2, .side_auto = true});
        rules.push_back({.k = 4, .min_kept = 1, .mitigation = true, .refill = true});
        rules.push_back(
            {.k = 9, .slack = 0.2, .kappa_points = 0.01, .side_auto = true, .mitigation = true});
        rules.push_back({.printed_rule = true});
        rules.push_back({.gate = 0.3});
        rules.back().sweep.criterion = SweepCriterion::kMutualInformation;
        rules.back().sweep.permutations = 9;
        for (std::size_t rule = 0; rule < rules.size(); ++rule) {
            CAPTURE(rule);
            const Selected expected = on_cpu(pools, rules[rule]);
            check_same(on_device(pools, rules[rule]), expected);
            check_same(on_device(pools, rules[rule], 70), expected);
        }
    }

    TEST_CASE("large queries lie outside the block's memory") {
        const Pools pools = pools_of({150, 3, 300}, 2);
        CHECK(biasdef_select_workspace_bytes(3, 453, 300, false) == 0);
        CHECK(biasdef_select_workspace_bytes(3, 2'000, 2'000, false) > 192 * 2'000);
        const BiasDefOptions options{.k = 5, .side_auto = true, .mitigation = true};
        const Selected expected = on_cpu(pools, options);
        check_same(on_device(pools, options, 300), expected);
        Pools larger = pools_of({1500, 4}, 3);
        const BiasDefOptions few{.k = 5, .min_kept = 700, .min_side = 700, .mitigation = true};
        check_same(on_device(larger, few), on_cpu(larger, few));
    }

    TEST_CASE("rank_candidates: the CPU's results to the bit") {
        for (const bool everything : {false, true}) {
            for (const std::int64_t dim : {1, 31, 32, 97}) {
                CAPTURE(dim);
                const Rows rows({0, 1, 20, 33, 2}, dim, everything ? 40 : dim, 5);
                CandidateRows given = rows.view(everything);
                for (const bool normalize : {true, false}) {
                    given.normalize = normalize;
                    Ranking got(rows.offsets.back()), expected(rows.offsets.back());
                    CHECK(rank(given, got).word == kNoFault);
                    epibias::rank_candidates(given, expected.view());
                    CHECK(got == expected);
                }
            }
        }
        const Rows many({1100}, 3, 3, 6);
        Ranking got(1100), expected(1100);
        CHECK(rank(many.view(false), got).word == kNoFault);
        epibias::rank_candidates(many.view(false), expected.view());
        CHECK(got == expected);
    }

    TEST_CASE("from vectors: the CPU's two calls to the bit") {
        const Rows rows({20, 1, 33, 7}, 48, 48, 7);
        const std::vector<double> centres(4, 0.01);
        const BiasDefOptions options{.k = 4, .side_auto = true, .mitigation = true};
        const std::int64_t n = rows.offsets.back();
        Ranking got_ranking(n), expected_ranking(n);
        Selected got(static_cast<std::size_t>(n), 4), expected(static_cast<std::size_t>(n), 4);
        auto workspace = workspace_of(4, static_cast<std::size_t>(n), n, true);
        biasdef_select_vectors(rows.view(false), got_ranking.view(), centres, got.view(), options,
                               n, workspace.data(), &got.fault, Stream{});
        epibias::rank_candidates(rows.view(false), expected_ranking.view());
        epibias::biasdef_select(
            {expected_ranking.similarities, expected_ranking.scores, rows.offsets, centres},
            expected.view(), options);
        CHECK(got_ranking == expected_ranking);
        check_same(got, expected);
    }

    TEST_CASE("faults in values are recorded in the CPU's order, and poison their query") {
        Pools pools = pools_of({5, 6, 7}, 8);
        pools.scores[0] = std::numeric_limits<float>::quiet_NaN();
        pools.similarities[5 + 4] = -std::numeric_limits<float>::infinity();
        const Selected got = on_device(pools, {});
        CHECK(got.fault.word == fault_word(kSimilaritiesFault, 1, 4));
        CHECK(got.fault.value == -kInfinity);
        CHECK(got.n_selected == Integers{-1, -1, 5});
        CHECK(std::isnan(got.thresholds[0]));
        CHECK(got.order[4] == -1);
        CHECK(static_cast<int>(got.sides[1]) == 255);
        pools = pools_of({5, 6, 7}, 8);
        pools.centres[2] = kInfinity;
        CHECK(on_device(pools, {}).fault.word == kNoFault);
        CHECK(on_device(pools, {.side_auto = true}).fault.word == fault_word(kCentresFault, 2, 0));
        pools.offsets = {0, 9, 7, 18};
        CHECK(on_device(pools, {}).fault.word == fault_word(kOffsetsFault, 1, 0));
        pools.offsets = {0, 5, 11, 18};
        CHECK(on_device(pools, {}, 6).fault.word == fault_word(kOffsetsFault, 2, 1));
    }

    TEST_CASE("faults in rows are recorded in the CPU's order") {
        const auto fault_of = [](const CandidateRows& given) {
            Ranking got(given.candidates.n_rows);
            const Fault fault = rank(given, got);
            CHECK(got.rows.back() == -1);
            CHECK(std::isnan(got.similarities.back()));
            return fault;
        };
        Rows rows({2, 30}, 40, 40, 9);
        rows.candidates.set(2 + 7, 39, std::numeric_limits<float>::infinity());
        for (std::int64_t i = 0; i < 40; ++i) rows.candidates.set(2 + 9, i, 0);
        Fault fault = fault_of(rows.view(false));
        CHECK(fault.word == fault_word(kRankFault, 8 + kCandidate, 4 * 7 + kCandidateRow));
        CHECK(fault.value == kInfinity);
        rows.indices[5] = rows.indices[31] = 77;
        rows.indices[6] = rows.indices[30] = 90;
        fault = fault_of(rows.view(true));
        CHECK(fault.word == fault_word(kRankFault, 8 + kIndexTwice, 29));
        CHECK(fault.value == 77);
        rows = Rows({2, 30}, 40, 40, 9);
        rows.ps_rows.set(2 + 3, 6, -std::numeric_limits<float>::infinity());
        CandidateRows given = rows.view(true);
        fault = fault_of(given);
        CHECK(fault.word == fault_word(kRankFault, 8 + kCandidate, 4 * 3 + kPsRow));
        given.normalize = false;
        CHECK(fault_of(given).value == 4 * 6 + 2);
        rows.axis_of_query[1] = 2;
        CHECK(fault_of(given).word == fault_word(kRankFault, 8 + kAxisOfQuery, 0));
        CHECK(fault_of(given).value == 2);
        rows.queries.set(1, 39, std::numeric_limits<float>::quiet_NaN());
        CHECK(fault_of(given).word == fault_word(kRankFault, 8 + kQueryRow, 0));
    }

    TEST_CASE("options are refused in the CPU's words") {
        const Pools pools = pools_of({20}, 10);
        const auto message = [&](const BiasDefOptions& options) {
            return message_of([&] { on_device(pools, options); });
        };
        CHECK(message({}) == "nothing was thrown");
        CHECK(message({.k = 0}) == "k: expected an integer of at least 1, got 0");
        CHECK(message({.slack = 0.7}) == "slack: expected a number from 0 to 0.5, got 0.7");
    }
}

}  // namespace
}  // namespace epibias::cuda
