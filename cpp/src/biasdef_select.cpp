#include "epibias/biasdef_select.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "biasdef_checks.hpp"
#include "biasdef_sides.hpp"
#include "epibias/parallel.hpp"
#include "ragged.hpp"
#include "refuse.hpp"

namespace epibias {

namespace {

// A candidate of a sweep against a multiply-add of `threads_worth_waking`: 64 cells of 20.
constexpr double kOperationsPerCandidate = 64 * 20;
constexpr double kOperationsPerTask = 2e6;  // a tenth of a millisecond
constexpr std::int64_t kLargestTask = 256;  // queries

// Per candidate: 1 where it is marked (dropped, or on the left).
using Marks = std::vector<std::uint8_t>;

// ---- checks --------------------------------------------------------------------------------

void check(const BiasDefInput& given, std::int64_t n_queries, const BiasDefOptions& options) {
    check_count("scores", "similarities", given.scores.size(), given.similarities.size());
    check_offsets(given.offsets, n_queries, std::ssize(given.similarities));
    check_finite("similarities", given.offsets, given.similarities);
    check_finite("scores", given.offsets, given.scores);
    biasdef::check_options(options);
    const auto n = static_cast<std::size_t>(n_queries);
    if (options.side_auto) {
        check_count("neutral_centres", "queries", given.neutral_centres.size(), n);
        for (std::size_t query = 0; query < n; ++query) {
            const double centre = given.neutral_centres[query];
            if (std::isfinite(centre)) continue;
            refuse("neutral_centres", "finite values",
                   number_text(centre) + " (row " + std::to_string(query) + ")");
        }
    }
    if (!options.sweep.query_ids.empty()) {
        check_count("query_ids", "queries", options.sweep.query_ids.size(), n);
    }
}

// ---- queries with equally many candidates --------------------------------------------------

// The rows of a task's queries side by side, and the marks of one query.
struct Rectangle {
    std::vector<float> similarities, scores;
    std::vector<std::int64_t> query_ids, n_below;
    Marks is_left, dropped, before;

    void resize(std::size_t n_queries, std::size_t n) {
        similarities.resize(n_queries * n);
        scores.resize(n_queries * n);
        query_ids.resize(n_queries);
        n_below.resize(n_queries);
    }
};

// What the sweep says of a task's queries, which need not follow each other in the batch.
struct SweepBuffers {
    std::vector<float> thresholds;
    std::vector<double> divergences, p_values;
};

class Selector {
  public:
    Selector(const BiasDefInput& given, const BiasDefResult& result, const BiasDefOptions& options)
        : given_(given), result_(result), options_(options) {}

    // `queries` have n candidates each.
    void select(std::span<const std::int64_t> queries, std::int64_t n) const {
        if (n >= 2) {
            select_swept(queries, n);
            return;
        }
        for (const std::int64_t query : queries) {
            blank(query);
            const Marks nothing(static_cast<std::size_t>(n), 0);
            fill(query, nothing);
        }
    }

    [[nodiscard]] std::int64_t size_of(std::int64_t query) const {
        const auto place = static_cast<std::size_t>(query);
        return given_.offsets[place + 1] - given_.offsets[place];
    }

  private:
    void select_swept(std::span<const std::int64_t> queries, std::int64_t n) const {
        Rectangle rectangle;
        const auto n_columns = static_cast<std::size_t>(n);
        rectangle.resize(queries.size(), n_columns);
        for (std::size_t row = 0; row < queries.size(); ++row) {
            const auto query = static_cast<std::size_t>(queries[row]);
            const auto first = static_cast<std::size_t>(given_.offsets[query]);
            const auto target = static_cast<std::ptrdiff_t>(row * n_columns);
            std::ranges::copy(given_.similarities.subspan(first, n_columns),
                              rectangle.similarities.begin() + target);
            std::ranges::copy(given_.scores.subspan(first, n_columns),
                              rectangle.scores.begin() + target);
            const auto& ids = options_.sweep.query_ids;
            rectangle.query_ids[row] = ids.empty() ? queries[row] : ids[query];
        }
        SweepBuffers swept;
        swept.thresholds.resize(queries.size());
        swept.divergences.resize(queries.size());
        swept.p_values.resize(queries.size());
        sweep(rectangle, swept, n);
        for (std::size_t row = 0; row < queries.size(); ++row) {
            const auto place = static_cast<std::size_t>(queries[row]);
            blank(queries[row]);
            result_.sweep_thresholds[place] = swept.thresholds[row];
            result_.divergences[place] = swept.divergences[row];
            result_.p_values[place] = swept.p_values[row];
            const std::size_t first = row * n_columns;
            judge(queries[row], std::span(rectangle.similarities).subspan(first, n_columns),
                  std::span(rectangle.scores).subspan(first, n_columns), rectangle);
            fill(queries[row], rectangle.dropped);
        }
    }

    // The limits and the floor depend on n.
    void sweep(Rectangle& rectangle, SweepBuffers& swept, std::int64_t n) const {
        const auto n_rows = static_cast<std::int64_t>(swept.thresholds.size());
        const MatrixView<const float> similarities{rectangle.similarities.data(), n_rows, n};
        const MatrixView<const float> scores{rectangle.scores.data(), n_rows, n};
        const SweepResult result{
            swept.thresholds, rectangle.n_below, swept.divergences, swept.p_values, {}};
        if (options_.printed_rule) {
            PrintedSweepOptions printed = options_.printed;
            printed.n_threads = 1;
            printed_sweep(similarities, scores, result, printed);
            return;
        }
        const auto millionths = static_cast<std::int64_t>(
            std::nearbyint(options_.slack * static_cast<double>(biasdef::kMillion)));
        ThresholdSweepOptions splits = options_.sweep;
        splits.min_dropped = biasdef::least_on_a_side(millionths, options_.min_side, n);
        // With side_auto either side may be the one that is kept: min_kept is asked afterwards.
        splits.min_kept = std::max(splits.min_dropped, options_.side_auto ? 1 : options_.min_kept);
        if (options_.kappa_points > 0) {
            splits.kappa = options_.kappa_points / static_cast<double>(n);
        }
        splits.query_ids = rectangle.query_ids;
        splits.n_threads = 1;
        threshold_sweep(similarities, scores, result, splits);
    }

    // Marks the dropped candidates of one query in rectangle.dropped.
    void judge(std::int64_t query, std::span<const float> similarities,
               std::span<const float> scores, Rectangle& rectangle) const {
        const auto place = static_cast<std::size_t>(query);
        const float threshold = result_.sweep_thresholds[place];
        rectangle.dropped.assign(similarities.size(), 0);
        if (!std::isfinite(threshold) || !(result_.p_values[place] <= options_.gate)) return;
        rectangle.is_left.resize(similarities.size());
        for (std::size_t i = 0; i < similarities.size(); ++i) {
            rectangle.is_left[i] = static_cast<std::uint8_t>(similarities[i] < threshold);
        }
        const DroppedSide side = options_.side_auto
                                     ? suspicious_side(scores, rectangle.is_left, place)
                                     : DroppedSide::kRight;
        result_.sides[place] = side;
        if (side == DroppedSide::kNone) return;
        const auto dropped_mark = static_cast<std::uint8_t>(side == DroppedSide::kLeft);
        for (std::size_t i = 0; i < similarities.size(); ++i) {
            rectangle.dropped[i] = static_cast<std::uint8_t>(rectangle.is_left[i] == dropped_mark);
        }
        if (!options_.mitigation) return;
        result_.n_moved[place] =
            move_to_nearer_side(similarities, scores, rectangle.dropped, rectangle.before);
    }

    [[nodiscard]] DroppedSide suspicious_side(std::span<const float> scores, const Marks& is_left,
                                              std::size_t query) const {
        const std::int64_t n = std::ssize(scores);
        const auto left = biasdef::Side::of(scores.data(), is_left.data(), n, 1);
        const auto right = biasdef::Side::of(scores.data(), is_left.data(), n, 0);
        return biasdef::suspicious_side(left, right, scores.data(), n,
                                        given_.neutral_centres[query], options_.min_kept);
    }

    // Moves candidates to the side they are nearer to; returns how many.
    static std::int64_t move_to_nearer_side(std::span<const float> similarities,
                                            std::span<const float> scores, Marks& dropped,
                                            Marks& before) {
        before = dropped;
        const std::int64_t n = std::ssize(scores);
        const auto side_of = [&](std::span<const float> values, std::uint8_t mark) {
            return biasdef::Side::of(values.data(), before.data(), n, mark);
        };
        const biasdef::Side y[2] = {side_of(scores, 0), side_of(scores, 1)};
        if (y[0].n < 2 || y[1].n < 2) return 0;
        const biasdef::Side x[2] = {side_of(similarities, 0), side_of(similarities, 1)};
        const double least_y = biasdef::kLeastVariance * biasdef::total_variance(scores.data(), n);
        const double least_x =
            biasdef::kLeastVariance * biasdef::total_variance(similarities.data(), n);
        const biasdef::Sides sides_of[2] = {{y[0], y[1], x[0], x[1], least_y, least_x},
                                            {y[1], y[0], x[1], x[0], least_y, least_x}};
        std::int64_t n_moved = 0;
        for (std::size_t i = 0; i < scores.size(); ++i) {
            const bool nearer =
                biasdef::is_nearer_to_other(sides_of[before[i]], static_cast<double>(scores[i]),
                                            static_cast<double>(similarities[i]));
            if (!nearer) continue;
            dropped[i] = static_cast<std::uint8_t>(1 - before[i]);
            ++n_moved;
        }
        return n_moved;
    }

    void blank(std::int64_t query) const {
        const auto place = static_cast<std::size_t>(query);
        result_.sweep_thresholds[place] = std::numeric_limits<float>::infinity();
        result_.divergences[place] = 0;
        result_.p_values[place] = 1;
        result_.sides[place] = DroppedSide::kNone;
        result_.n_moved[place] = 0;
    }

    // The kept as the candidates stand, then the dropped as they stand.
    void fill(std::int64_t query, const Marks& dropped) const {
        const auto place = static_cast<std::size_t>(query);
        auto target = static_cast<std::size_t>(given_.offsets[place]);
        std::int64_t n_kept = 0;
        for (const std::uint8_t wanted : {std::uint8_t{0}, std::uint8_t{1}}) {
            for (std::size_t i = 0; i < dropped.size(); ++i) {
                if (dropped[i] != wanted) continue;
                result_.order[target++] = static_cast<std::int64_t>(i);
                n_kept += wanted == 0 ? 1 : 0;
            }
        }
        result_.n_kept[place] = n_kept;
        const auto n = static_cast<std::int64_t>(dropped.size());
        result_.n_selected[place] = std::min(options_.k, options_.refill ? n : n_kept);
    }

    const BiasDefInput& given_;
    const BiasDefResult& result_;
    const BiasDefOptions& options_;
};

// Queries [first, last) of the list by size, all of one size.
struct Run {
    std::size_t first, last;
    std::int64_t n;
};

double operations_of(std::int64_t n, const BiasDefOptions& options) {
    if (options.printed_rule) {
        return static_cast<double>(n) * kOperationsPerCandidate +
               static_cast<double>(options.printed.n_thresholds);
    }
    const auto passes = static_cast<double>(options.sweep.permutations) + 1;
    return static_cast<double>(n) * kOperationsPerCandidate * passes;
}

}  // namespace

void biasdef_select(const BiasDefInput& given, const BiasDefResult& result,
                    const BiasDefOptions& options) {
    const auto n_queries = static_cast<std::int64_t>(result.n_kept.size());
    check(given, n_queries, options);
    const Selector selector(given, result, options);
    // The sweep takes rectangles: queries of equal size together, and cut into tasks.
    std::vector<std::int64_t> by_size(static_cast<std::size_t>(n_queries));
    std::iota(by_size.begin(), by_size.end(), 0);
    const auto smaller = [&](std::int64_t left, std::int64_t right) {
        return selector.size_of(left) < selector.size_of(right);
    };
    if (!std::ranges::is_sorted(by_size, smaller)) std::ranges::stable_sort(by_size, smaller);
    std::vector<Run> runs;
    double operations = 0;
    for (std::size_t first = 0; first < by_size.size();) {
        const std::int64_t n = selector.size_of(by_size[first]);
        const double a_query = operations_of(n, options);
        const auto most = static_cast<std::size_t>(std::clamp<double>(
            kOperationsPerTask / (a_query + 1), 1, static_cast<double>(kLargestTask)));
        std::size_t last = first;
        while (last < by_size.size() && last < first + most &&
               selector.size_of(by_size[last]) == n) {
            ++last;
        }
        runs.push_back({first, last, n});
        operations += a_query * static_cast<double>(last - first);
        first = last;
    }
    const int threads =
        options.n_threads > 0 ? options.n_threads : threads_worth_waking(operations);
    parallel_for(
        static_cast<std::int64_t>(runs.size()),
        [&](std::int64_t task, int) {
            const Run& run = runs[static_cast<std::size_t>(task)];
            selector.select(std::span(by_size).subspan(run.first, run.last - run.first), run.n);
        },
        threads);
}

}  // namespace epibias
