#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "device_code.hpp"
#include "epibias/cuda/threshold_sweep.hpp"
#include "refusal.hpp"
#include "sparse_memory.hpp"
#include "sweep_cases.hpp"

namespace epibias::cuda {
namespace {

using test::message_of;
using test::sweep_case;
using test::SweepCase;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Swept {
    std::vector<float> thresholds;
    std::vector<std::int64_t> n_kept, n_undecided;
    std::vector<double> divergences, p_values, curve;
    Fault fault{kNoFault, 0};

    Swept(std::int64_t n_queries, std::int64_t curve_columns)
        : thresholds(static_cast<std::size_t>(n_queries), -7.0F),
          n_kept(thresholds.size(), -7),
          n_undecided(thresholds.size(), -7),
          divergences(thresholds.size(), -7),
          p_values(thresholds.size(), -7),
          curve(static_cast<std::size_t>(n_queries * curve_columns), -7) {}

    [[nodiscard]] SweepResult view() {
        SweepResult result{thresholds, n_kept, divergences, p_values, {}, n_undecided};
        const auto n_queries = static_cast<std::int64_t>(thresholds.size());
        if (!curve.empty()) {
            result.curve = {curve.data(), n_queries,
                            static_cast<std::int64_t>(curve.size()) / n_queries};
        }
        return result;
    }
};

// Exactly as many bytes as are asked for, aligned as a device's allocator aligns them.
std::vector<double> workspace_of(std::int64_t n_queries, std::int64_t n) {
    const std::size_t bytes = threshold_sweep_workspace_bytes(n_queries, n);
    REQUIRE(bytes % sizeof(double) == 0);
    return std::vector<double>(bytes / sizeof(double), -3.0);
}

Swept on_device(const SweepCase& given, const ThresholdSweepOptions& options,
                std::int64_t curve_columns = 0) {
    Swept swept(given.n_queries, curve_columns);
    auto workspace = workspace_of(given.n_queries, given.n);
    threshold_sweep(given.similarity_view(), given.score_view(), swept.view(), options,
                    workspace.data(), &swept.fault, Stream{});
    return swept;
}

Swept on_cpu(const SweepCase& given, const ThresholdSweepOptions& options,
             std::int64_t curve_columns = 0) {
    Swept swept(given.n_queries, curve_columns);
    epibias::threshold_sweep(given.similarity_view(), given.score_view(), swept.view(), options);
    return swept;
}

// NaN equals NaN here, and -0 is not 0.
bool same_bits(const std::vector<double>& left, const std::vector<double>& right) {
    return left.size() == right.size() &&
           std::memcmp(left.data(), right.data(), left.size() * sizeof(double)) == 0;
}

void check_same(const Swept& got, const Swept& expected) {
    CHECK(got.fault.word == kNoFault);
    CHECK(got.thresholds == expected.thresholds);
    CHECK(got.n_kept == expected.n_kept);
    CHECK(same_bits(got.divergences, expected.divergences));
    CHECK(same_bits(got.p_values, expected.p_values));
    REQUIRE(got.curve.size() == expected.curve.size());
    for (std::size_t i = 0; i < got.curve.size(); ++i) {
        if (std::isnan(expected.curve[i])) {
            CHECK(std::isnan(got.curve[i]));
        } else {
            CHECK(got.curve[i] == expected.curve[i]);
        }
    }
}

TEST_SUITE("threshold_sweep") {
    TEST_CASE("the CPU's bits, for both criteria and every size") {
        for (const std::int64_t n : {0, 1, 2, 3, 9, 19, 20, 33, 130}) {
            CAPTURE(n);
            const SweepCase given = sweep_case(7, n, static_cast<unsigned>(n) + 1);
            for (const auto criterion :
                 {SweepCriterion::kKullbackLeibler, SweepCriterion::kMutualInformation}) {
                ThresholdSweepOptions options{
                    .criterion = criterion, .min_kept = 2, .min_dropped = 1 + n / 20};
                check_same(on_device(given, options), on_cpu(given, options));
                const std::int64_t curve_columns = n > 1 ? n - 1 : 0;
                check_same(on_device(given, options, curve_columns),
                           on_cpu(given, options, curve_columns));
            }
        }
    }

    TEST_CASE("large queries: no cache, and memory outside the block") {
        for (const std::int64_t n : {400, 1200}) {
            CAPTURE(n);
            CHECK((threshold_sweep_workspace_bytes(2, n) > 0) == (n == 1200));
            const SweepCase given = sweep_case(2, n, 3);
            const ThresholdSweepOptions options{.min_kept = 5, .min_dropped = n / 20};
            check_same(on_device(given, options), on_cpu(given, options));
        }
    }

    TEST_CASE("p-values are the CPU's, by warps, by the block, and stopped early") {
        for (const std::int64_t n : {2, 20, 33}) {
            CAPTURE(n);
            const SweepCase given = sweep_case(9, n, 5);
            ThresholdSweepOptions options{
                .min_kept = 1, .permutations = 23, .max_exceedances = 0, .seed = 42};
            check_same(on_device(given, options), on_cpu(given, options));
            options.max_exceedances = 3;
            const std::vector<std::int64_t> ids{5, -1, 7, 1LL << 40, 0, 3, 2, 9, 8};
            options.query_ids = ids;
            options.criterion = SweepCriterion::kMutualInformation;
            check_same(on_device(given, options), on_cpu(given, options));
        }
        const SweepCase large = sweep_case(1, 900, 6);  // a block's memory for one team
        const ThresholdSweepOptions options{.min_kept = 440, .min_dropped = 440, .permutations = 3};
        check_same(on_device(large, options), on_cpu(large, options));
    }

    TEST_CASE("float32 is computed in float64, and every decision is counted") {
        const SweepCase given = sweep_case(8, 20, 7);
        ThresholdSweepOptions options{.permutations = 5};
        const Swept exact = on_device(given, options);
        options.precision = SweepPrecision::kFloat32;
        check_same(on_device(given, options), exact);
        for (std::size_t query = 0; query < 8; ++query) {
            CHECK(exact.n_undecided[query] == (std::isinf(exact.thresholds[query]) ? 0 : 6));
        }
    }

    TEST_CASE("the first of equal divergences is chosen") {
        // Scores that mirror each other: splits m and n - m are equal in exact arithmetic.
        SweepCase given{1, 8, {}, {}};
        for (int i = 0; i < 8; ++i) {
            given.similarities.push_back(static_cast<float>(i));
            given.scores.push_back(i < 2 || i >= 6 ? 1.0F : 0.0F);
        }
        const ThresholdSweepOptions options{.criterion = SweepCriterion::kMutualInformation};
        CHECK(on_device(given, options).n_kept[0] == 2);
    }

    TEST_CASE("a narrow grid and one at its limit") {
        SweepCase given = sweep_case(3, 40, 8);
        for (std::int64_t i = 0; i < 39; ++i) {  // one outlier: 1,024 points
            given.scores[static_cast<std::size_t>(i)] *= 1e-6F;
        }
        for (const double factor : {0.01, 1.06, 500.0}) {
            const ThresholdSweepOptions options{.bandwidth_factor = factor};
            check_same(on_device(given, options), on_cpu(given, options));
        }
    }

    TEST_CASE("printed_sweep: the CPU's bits") {
        for (const std::int64_t n : {1, 2, 20, 70}) {
            CAPTURE(n);
            SweepCase given = sweep_case(12, n, 9);
            for (float& similarity : given.similarities) similarity = 0.5F + similarity / 2;
            for (const std::int64_t n_thresholds : {1, 2, 100}) {
                const PrintedSweepOptions options{.n_thresholds = n_thresholds};
                Swept got(12, n_thresholds), expected(12, n_thresholds);
                auto workspace = workspace_of(12, n);
                printed_sweep(given.similarity_view(), given.score_view(), got.view(), options,
                              workspace.data(), &got.fault, Stream{});
                epibias::printed_sweep(given.similarity_view(), given.score_view(), expected.view(),
                                       options);
                check_same(got, expected);
            }
        }
    }

    TEST_CASE("the lowest query with a value that is not finite is recorded, and poisoned") {
        SweepCase given = sweep_case(6, 20, 10);
        given.similarities[5 * 20 + 3] = std::numeric_limits<float>::infinity();
        given.scores[3 * 20 + 19] = kNan;
        given.scores[3 * 20 + 17] = -std::numeric_limits<float>::infinity();
        const Swept got = on_device(given, {}, 19);
        CHECK(got.fault.word == fault_word(kSweepFault, 2 * 3 + 1, 17));
        CHECK(got.fault.value == -std::numeric_limits<double>::infinity());
        for (std::size_t query = 0; query < 6; ++query) {
            const bool faulty = query == 3 || query == 5;
            CHECK(std::isnan(got.thresholds[query]) == faulty);
            CHECK(std::isnan(got.divergences[query]) == faulty);
            CHECK(std::isnan(got.p_values[query]) == faulty);
            CHECK((got.n_kept[query] == -1) == faulty);
        }
        for (std::size_t i = 0; i < 19; ++i) CHECK(std::isnan(got.curve[3 * 19 + i]));
    }

    TEST_CASE("more values than 32 bits count: the last query is read and written") {
        constexpr std::int64_t kN = 64, kQueries = (std::int64_t{1} << 31) / kN + 2;
        const test::SparseArray<float> similarities(kN * kQueries), scores(kN * kQueries);
        const test::SparseArray<float> thresholds(kQueries);
        const test::SparseArray<std::int64_t> n_kept(kQueries);
        const test::SparseArray<double> divergences(kQueries);
        const SweepCase given = sweep_case(1, kN, 12);
        const std::int64_t last = (kQueries - 1) * kN;
        for (std::size_t i = 0; i < kN; ++i) {
            const auto place = last + static_cast<std::int64_t>(i);
            similarities[place] = given.similarities[i];
            scores[place] = given.scores[i];
        }
        Fault fault{kNoFault, 0};
        {
            const emulation::OnlyEndBlocks only_ends;
            threshold_sweep({similarities.data(), kQueries, kN}, {scores.data(), kQueries, kN},
                            {thresholds.span(), n_kept.span(), divergences.span(), {}, {}}, {},
                            nullptr, &fault, Stream{});
        }
        const Swept expected = on_cpu(given, {});
        CHECK(fault.word == kNoFault);
        CHECK(thresholds[kQueries - 1] == expected.thresholds[0]);
        CHECK(n_kept[kQueries - 1] == expected.n_kept[0]);
        CHECK(divergences[kQueries - 1] == expected.divergences[0]);
        CHECK(n_kept[0] == kN);  // zeros: nothing to split
    }

    TEST_CASE("options and shapes are refused in the CPU's words, and binned sweeps") {
        const SweepCase given = sweep_case(1, 20, 11);
        const auto message = [&](const ThresholdSweepOptions& options) {
            return message_of([&] { on_device(given, options); });
        };
        CHECK(message({}) == "nothing was thrown");
        CHECK(message({.min_kept = 0}) == "min_kept: expected an integer of at least 1, got 0");
        CHECK(message({.kappa = 0}) == "kappa: expected a number > 0 and at most 1000000, got 0");
        CHECK(message({.method = SweepMethod::kBinned}) ==
              "method: expected 'all_splits' on a device; the binned sweep runs on the CPU alone, "
              "got a binned sweep of 20 candidates");
        CHECK(message({.method = SweepMethod::kAuto}) == "nothing was thrown");
    }
}

}  // namespace
}  // namespace epibias::cuda
