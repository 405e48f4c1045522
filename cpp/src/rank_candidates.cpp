#include "epibias/rank_candidates.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "epibias/numeric.hpp"
#include "epibias/parallel.hpp"
#include "epibias/ranking.hpp"
#include "epibias/simd_level.hpp"
#include "kernels/rank_candidates_kernels.hpp"
#include "ragged.hpp"
#include "rank_checks.hpp"
#include "refuse.hpp"

namespace epibias {

namespace {

const kernels::RankCandidatesKernels& active_kernels() {
#if defined(EPIBIAS_X86_LEVELS)
    switch (active_simd_level()) {
        case SimdLevel::kAvx512:
            return kernels::avx512::kRankCandidates;
        case SimdLevel::kAvx2:
            return kernels::avx2::kRankCandidates;
        case SimdLevel::kScalar:
            break;
    }
#endif
    return kernels::scalar::kRankCandidates;
}

std::string of_query(std::int64_t query) {
    return " (query " + std::to_string(query) + ")";
}

// A candidate and where it stands.
struct Place {
    Ranked ranked;
    std::int64_t row;  // within the query
    float score;
};

// What one thread needs for one query.
struct Scratch {
    explicit Scratch(const CandidateRows& given)
        : queries(given.queries),
          candidates(given.candidates),
          ps_rows(given.ps_rows),
          axes(given.axes) {}

    RowReader<float> queries, candidates, ps_rows, axes;
    std::vector<double> wide_query, wide_axis;
    std::int64_t axis_number = -1;  // whose copy wide_axis is
    std::vector<std::int64_t> sorted_indices;
    std::vector<Place> places;
};

void widen(const float* row, std::int64_t dim, std::vector<double>& wide) {
    wide.resize(static_cast<std::size_t>(dim));
    for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<double>(row[i]);
}

void refuse_row_of_query(const char* argument, const float* row, std::int64_t dim,
                         std::int64_t number, std::int64_t query) {
    try {
        refuse_row(argument, row, dim, number);
    } catch (const std::invalid_argument& error) {
        throw std::invalid_argument(error.what() + of_query(query));
    }
}

void refuse_value(const float* row, std::int64_t dim, std::int64_t number, std::int64_t query) {
    std::int64_t column = 0;
    while (column + 1 < dim && std::isfinite(row[column])) ++column;
    refuse("ps_embeddings", "finite values",
           number_text(static_cast<double>(row[column])) + " (query " + std::to_string(query) +
               ", row " + std::to_string(number) + ", column " + std::to_string(column) + ")");
}

// Unscaled rows of large values have scores beyond float32.
[[noreturn]] void refuse_score(const char* argument, double score, std::int64_t number,
                               std::int64_t query) {
    refuse(argument, "rows whose score float32 holds",
           number_text(score) + " (query " + std::to_string(query) + ", row " +
               std::to_string(number) + ")");
}

bool is_positive_and_finite(double value) {
    return value > 0 && std::isfinite(value);
}

class Ranking {
  public:
    Ranking(const CandidateRows& given, const RankedCandidates& result)
        : given_(given), result_(result), row_products_(active_kernels().row_products) {}

    void rank_query(std::int64_t query, Scratch& scratch) const {
        const std::int64_t first = given_.offsets[static_cast<std::size_t>(query)];
        const std::int64_t n = given_.offsets[static_cast<std::size_t>(query) + 1] - first;
        const std::int64_t dim = given_.queries.n_columns;
        check_indices(query, first, n, scratch);
        const float* query_row = scratch.queries.row(query);
        const double squared = canonical_dot(query_row, query_row, dim);
        if (!is_positive_and_finite(squared)) {
            refuse_row("query_embeddings", query_row, dim, query);
        }
        const double inverse = 1.0 / std::sqrt(squared);
        const std::int64_t axis = axis_of(query);
        widen(query_row, dim, scratch.wide_query);
        widen_axis(axis, scratch);
        scratch.places.resize(static_cast<std::size_t>(n));
        for (std::int64_t row = 0; row < n; ++row) {
            Place& place = scratch.places[static_cast<std::size_t>(row)];
            const bool numbered = !given_.indices.empty();
            place.row = row;
            place.ranked.index =
                numbered ? given_.indices[static_cast<std::size_t>(first + row)] : row;
            measure(query, first + row, inverse, axis, place, scratch);
        }
        std::ranges::sort(scratch.places, [](const Place& left, const Place& right) {
            return ranks_before(left.ranked, right.ranked);
        });
        auto target = static_cast<std::size_t>(first);
        for (const Place& place : scratch.places) {
            result_.rows[target] = first + place.row;
            result_.indices[target] = place.ranked.index;
            result_.similarities[target] = place.ranked.similarity;
            result_.scores[target] = place.score;
            ++target;
        }
    }

  private:
    void check_indices(std::int64_t query, std::int64_t first, std::int64_t n,
                       Scratch& scratch) const {
        if (given_.indices.empty()) return;
        const auto own =
            given_.indices.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n));
        scratch.sorted_indices.assign(own.begin(), own.end());
        std::ranges::sort(scratch.sorted_indices);
        const auto twice = std::ranges::adjacent_find(scratch.sorted_indices);
        if (twice == scratch.sorted_indices.end()) return;
        refuse("indices", "each candidate once",
               std::to_string(*twice) + " twice" + of_query(query));
    }

    [[nodiscard]] std::int64_t axis_of(std::int64_t query) const {
        if (given_.axis_of_query.empty()) return given_.axes.n_rows == 1 ? 0 : query;
        const std::int64_t axis = given_.axis_of_query[static_cast<std::size_t>(query)];
        if (axis >= 0 && axis < given_.axes.n_rows) return axis;
        refuse("axis_of_query", "axes from 0 to " + std::to_string(given_.axes.n_rows - 1),
               std::to_string(axis) + " (row " + std::to_string(query) + ")");
    }

    void widen_axis(std::int64_t axis, Scratch& scratch) const {
        if (scratch.axis_number == axis) return;
        const float* row = scratch.axes.row(axis);
        if (!std::isfinite(canonical_dot(row, row, given_.axes.n_columns))) {
            refuse("axes", "finite rows", "NaN or Inf in row " + std::to_string(axis));
        }
        widen(row, given_.axes.n_columns, scratch.wide_axis);
        scratch.axis_number = axis;
    }

    // Similarity and score of flat row `number`.
    void measure(std::int64_t query, std::int64_t number, double inverse, std::int64_t axis,
                 Place& place, Scratch& scratch) const {
        const std::int64_t dim = given_.candidates.n_columns;
        const float* row = scratch.candidates.row(number);
        const double* wide_query = scratch.wide_query.data();
        const double* wide_axis = scratch.wide_axis.data();
        const bool same_rows = given_.ps_rows.data == nullptr;
        // Rows of another encoder: the third product of each call is not used.
        const kernels::RowProducts of_row =
            row_products_(row, wide_query, same_rows ? wide_axis : wide_query, dim);
        if (!is_positive_and_finite(of_row.squared)) {
            refuse_row_of_query("candidate_embeddings", row, dim, place.row, query);
        }
        const double row_inverse = 1.0 / std::sqrt(of_row.squared);
        place.ranked.similarity = static_cast<float>(of_row.first * inverse * row_inverse);
        double product = of_row.second;
        double scale = row_inverse;
        if (!same_rows) {
            const float* ps_row = scratch.ps_rows.row(number);
            const kernels::RowProducts of_ps =
                row_products_(ps_row, wide_axis, wide_axis, given_.ps_rows.n_columns);
            check_ps_row(of_ps.squared, ps_row, place.row, query);
            product = of_ps.first;
            scale = 1.0 / std::sqrt(of_ps.squared);
        }
        const auto score = static_cast<float>(given_.normalize ? product * scale : product);
        const double offset = given_.score_offsets.empty()
                                  ? 0.0
                                  : given_.score_offsets[static_cast<std::size_t>(axis)];
        place.score = static_cast<float>(static_cast<double>(score) - offset);
        if (!std::isfinite(place.score)) {
            refuse_score(same_rows ? "candidate_embeddings" : "ps_embeddings", product, place.row,
                         query);
        }
    }

    void check_ps_row(double squared, const float* row, std::int64_t number,
                      std::int64_t query) const {
        const std::int64_t dim = given_.ps_rows.n_columns;
        if (given_.normalize && !is_positive_and_finite(squared)) {
            refuse_row_of_query("ps_embeddings", row, dim, number, query);
        }
        // A zero row has a score where nothing is scaled.
        if (!std::isfinite(squared)) refuse_value(row, dim, number, query);
    }

    const CandidateRows& given_;
    const RankedCandidates& result_;
    decltype(kernels::RankCandidatesKernels::row_products) row_products_;
};

// Float32 holds them, so that no score less its offset is one of the row's own making.
void check_score_offsets(std::span<const double> offsets) {
    for (std::size_t axis = 0; axis < offsets.size(); ++axis) {
        if (std::isfinite(static_cast<float>(offsets[axis]))) continue;
        refuse("score_offsets", "finite values within float32",
               number_text(offsets[axis]) + " (row " + std::to_string(axis) + ")");
    }
}

void check(const CandidateRows& given) {
    check_offsets(given.offsets, given.queries.n_rows, given.candidates.n_rows);
    ranking::check_row_shapes(given);
    check_score_offsets(given.score_offsets);
    ranking::check_axis_choice(given);
}

}  // namespace

void rank_candidates(const CandidateRows& given, const RankedCandidates& result, int n_threads) {
    check(given);
    constexpr std::int64_t kTaskFloats = 65'536;  // 256 KiB of rows a task
    const std::int64_t n_queries = given.queries.n_rows;
    const std::int64_t n_floats =
        given.candidates.n_rows * given.candidates.n_columns +
        (given.ps_rows.data == nullptr ? 0 : given.ps_rows.n_rows * given.ps_rows.n_columns);
    const int threads =
        n_threads > 0 ? n_threads : threads_worth_waking(4.0 * static_cast<double>(n_floats));
    const std::int64_t floats_per_query = n_floats / std::max<std::int64_t>(n_queries, 1) + 1;
    const std::int64_t task_queries = std::max<std::int64_t>(1, kTaskFloats / floats_per_query);
    const Ranking ranking(given, result);
    std::vector<Scratch> scratch(static_cast<std::size_t>(threads), Scratch(given));
    parallel_for((n_queries + task_queries - 1) / task_queries,
                 [&](std::int64_t task, int thread) {
                     const std::int64_t end = std::min(n_queries, (task + 1) * task_queries);
                     for (std::int64_t query = task * task_queries; query < end; ++query) {
                         ranking.rank_query(query, scratch[static_cast<std::size_t>(thread)]);
                     }
                 },
                 threads);
}

}  // namespace epibias
