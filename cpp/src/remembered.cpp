#include "epibias/remembered.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "pairwise_sum.hpp"
#include "ragged.hpp"
#include "refuse.hpp"

namespace epibias {

namespace {

// ---- who is remembered -----------------------------------------------------------------------

class RememberedLine {
  public:
    // The pairs of one query, which are checked here.
    void hold(const RememberedCandidates& one) {
        pairs_ = one.pairs;
        const std::string where = " (query " + std::to_string(one.query) + ")";
        if (pairs_.empty() || pairs_.size() % 2 != 0) {
            refuse("remembered", "pairs, at least one" + where,
                   std::to_string(pairs_.size()) + " numbers");
        }
        for (const double value : pairs_) {
            if (!std::isfinite(value)) {
                refuse("remembered", "finite values" + where, number_text(value));
            }
        }
        for (std::size_t place = 1; place < size(); ++place) {
            if (similarity(place - 1) <= similarity(place)) continue;
            refuse("remembered", "similarities that ascend" + where,
                   number_text(similarity(place)) + " after " + number_text(similarity(place - 1)));
        }
        n_claims_.assign(size(), 0);
    }

    [[nodiscard]] double lowest() const { return similarity(0); }

    // Whether a candidate, asked about in the pool's order, is one of them.
    [[nodiscard]] bool has(double similarity_of_it, double score_of_it) {
        std::size_t first_met = size();
        std::uint32_t n_met = 0;
        for (std::size_t place = first_from(similarity_of_it - kSameCandidate);
             place < size() && similarity(place) < similarity_of_it + kSameCandidate; ++place) {
            if (!(std::abs(pairs_[2 * place + 1] - score_of_it) <= kSameCandidate)) continue;
            if (n_met == 0) first_met = place;
            ++n_met;
        }
        return n_met != 0 && n_claims_[first_met]++ < n_met;
    }

  private:
    [[nodiscard]] std::size_t size() const { return pairs_.size() / 2; }
    [[nodiscard]] double similarity(std::size_t place) const { return pairs_[2 * place]; }
    [[nodiscard]] std::size_t first_from(double value) const {
        std::size_t low = 0;
        std::size_t high = size();
        while (low < high) {
            const std::size_t middle = low + (high - low) / 2;
            if (similarity(middle) < value) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    std::span<const double> pairs_;
    std::vector<std::uint32_t> n_claims_;  // of each pair, as the first that somebody met
};

// ---- who is trusted --------------------------------------------------------------------------

class TrustedGrid {
  public:
    explicit TrustedGrid(const TrustedTable& table) : table_(table) {
        const std::int64_t n_columns = table.fingerprints.n_columns;
        if (n_columns < 2) refuse("trusted", "at least 2 columns", std::to_string(n_columns));
        check_count("low", "the grid's columns", table.low.size(), 2);
        check_count("step", "the grid's columns", table.step.size(), 2);
        check_at_least("n_cells", table.n_cells, 1);
        // One look at each start would take longer than a query does: ends are cut where they are
        // used.
        const auto n_starts = static_cast<std::size_t>(table.n_cells * table.n_cells + 1);
        check_count("starts", "cells, and one", table.starts.size(), n_starts);
    }

    struct Met {
        std::int64_t first = -1;  // of the table, that the candidate meets
        std::int64_t n = 0;
    };
    [[nodiscard]] Met met(const float* candidate) const {
        Met found;
        const Cells across = cells(static_cast<double>(candidate[0]), 0);
        const Cells along = cells(static_cast<double>(candidate[1]), 1);
        for (std::int64_t a = across.first; a <= across.last; ++a) {
            const auto cell = static_cast<std::size_t>(a * table_.n_cells + along.first);
            const auto after = static_cast<std::size_t>(a * table_.n_cells + along.last + 1);
            const std::int64_t end = std::min(table_.starts[after], table_.fingerprints.n_rows);
            for (std::int64_t row = std::max<std::int64_t>(table_.starts[cell], 0); row < end;
                 ++row) {
                if (!is_near(candidate, table_.fingerprints.row(row))) continue;
                if (found.n++ == 0) found.first = row;
            }
        }
        return found;
    }

  private:
    struct Cells {
        std::int64_t first, last;
    };
    // Those that a value within the tolerance may lie in. The ends keep what lies beyond.
    [[nodiscard]] Cells cells(double value, std::size_t column) const {
        return {cell(value - reach_, column), cell(value + reach_, column)};
    }
    [[nodiscard]] std::int64_t cell(double value, std::size_t column) const {
        const double place = std::floor((value - table_.low[column]) / table_.step[column]);
        if (!(place > 0)) return 0;  // also where it is no number: that is near nothing
        return static_cast<std::int64_t>(std::min(place, static_cast<double>(table_.n_cells - 1)));
    }
    [[nodiscard]] bool is_near(const float* one, const float* other) const {
        bool near = true;
        for (std::int64_t column = 0; column < table_.fingerprints.n_columns; ++column) {
            near &= std::abs(one[column] - other[column]) <= tolerance_;
        }
        return near;
    }

    const TrustedTable& table_;
    float tolerance_ = static_cast<float>(table_.tolerance);
    // Beyond what rounding to float32 may add.
    double reach_ = table_.tolerance * (1 + 1e-3);
};

// ---- who is refused --------------------------------------------------------------------------

class OfSource {
  public:
    explicit OfSource(std::int64_t most) : most_(most) {}
    void clear() { taken_.clear(); }
    [[nodiscard]] bool has_room(std::int64_t source) { return taken_[source]++ < most_; }

  private:
    std::int64_t most_;
    std::unordered_map<std::int64_t, std::int64_t> taken_;
};

}  // namespace

void mark_unchanged(const PoolToRecognize& pool, std::int64_t k,
                    std::span<const double> similarities, std::span<const double> scores,
                    std::span<std::uint8_t> unchanged) {
    check_at_least("k", k, 1);
    check_count("scores", "similarities", pool.scores.size(), pool.similarities.size());
    check_offsets(pool.offsets, std::ssize(unchanged), std::ssize(pool.similarities));
    check_count("mean_similarities", "queries", similarities.size(), unchanged.size());
    check_count("mean_scores", "queries", scores.size(), unchanged.size());
    for (std::size_t query = 0; query < unchanged.size(); ++query) {
        const auto first = static_cast<std::size_t>(pool.offsets[query]);
        const auto n =
            static_cast<std::size_t>(std::min(k, pool.offsets[query + 1] - pool.offsets[query]));
        const auto is_near = [&](std::span<const float> values, double remembered) {
            const auto value = [&](std::size_t i) { return static_cast<double>(values[i]); };
            const double mean = pairwise_sum(value, first, n) / static_cast<double>(n);
            return std::abs(mean - remembered) <= kSameCandidate;
        };
        unchanged[query] = n > 0 && is_near(pool.similarities, similarities[query]) &&
                                   is_near(pool.scores, scores[query])
                               ? 1
                               : 0;
    }
}

void mark_unremembered(const PoolToRecognize& pool,
                       std::span<const RememberedCandidates> remembered,
                       std::span<std::uint8_t> unremembered) {
    check_count("scores", "similarities", pool.scores.size(), pool.similarities.size());
    check_count("unremembered", "similarities", unremembered.size(), pool.similarities.size());
    const std::int64_t n_queries = std::max<std::int64_t>(std::ssize(pool.offsets) - 1, 0);
    check_offsets(pool.offsets, n_queries, std::ssize(pool.similarities));
    RememberedLine line;
    for (const RememberedCandidates& one : remembered) {
        if (one.query < 0 || one.query >= n_queries) {
            refuse("remembered", "queries from 0 to " + std::to_string(n_queries - 1),
                   std::to_string(one.query));
        }
        line.hold(one);
        const auto query = static_cast<std::size_t>(one.query);
        const auto end = static_cast<std::size_t>(pool.offsets[query + 1]);
        for (auto row = static_cast<std::size_t>(pool.offsets[query]); row < end; ++row) {
            const auto similarity = static_cast<double>(pool.similarities[row]);
            const bool known = line.has(similarity, static_cast<double>(pool.scores[row]));
            const bool in_sight = similarity > line.lowest() + kSameCandidate;
            unremembered[row] = !known && in_sight ? 1 : 0;
        }
    }
}

void fingerprints(MatrixView<const float> rows, MatrixView<float> fingerprints) {
    const std::int64_t n_numbers = std::min(kFingerprintNumbers, rows.n_columns);
    if (fingerprints.n_rows != rows.n_rows || fingerprints.n_columns != n_numbers) {
        refuse("fingerprints", "shape " + shape_text(rows.n_rows, n_numbers),
               shape_text(fingerprints.n_rows, fingerprints.n_columns));
    }
    const std::int64_t n_columns = std::min(kFingerprintColumns, rows.n_columns);
    RowReader<float> reader(rows);
    for (std::int64_t row = 0; row < rows.n_rows; ++row) {
        const float* const values = reader.row(row);
        double lanes[kFingerprintNumbers] = {};  // in a fixed order, that a compiler can keep
        std::int64_t column = 0;
        for (; column + kFingerprintNumbers <= n_columns; column += kFingerprintNumbers) {
            for (std::int64_t lane = 0; lane < kFingerprintNumbers; ++lane) {
                const auto value = static_cast<double>(values[column + lane]);
                lanes[lane] += value * value;
            }
        }
        for (; column < n_columns; ++column) {
            const auto value = static_cast<double>(values[column]);
            lanes[column % kFingerprintNumbers] += value * value;
        }
        const double squared = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
                               ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
        if (!(squared > 0 && std::isfinite(squared))) {
            refuse(
                "rows",
                "finite values, not all 0, in the first " + std::to_string(n_columns) + " columns",
                "a length of " + number_text(std::sqrt(squared)) + " (row " + std::to_string(row) +
                    ")");
        }
        const double scale = 1 / std::sqrt(squared);
        float* const numbers = fingerprints.row(row);
        for (std::int64_t number = 0; number < n_numbers; ++number) {
            numbers[number] = static_cast<float>(static_cast<double>(values[number]) * scale);
        }
    }
}

void mark_untrusted(const TrustedTable& table, MatrixView<const float> fingerprints,
                    std::span<const std::int64_t> offsets, std::span<std::uint8_t> untrusted) {
    const TrustedGrid grid(table);
    if (fingerprints.n_columns != table.fingerprints.n_columns) {
        refuse("fingerprints", std::to_string(table.fingerprints.n_columns) + " columns",
               std::to_string(fingerprints.n_columns));
    }
    check_count("untrusted", "fingerprints", untrusted.size(),
                static_cast<std::size_t>(fingerprints.n_rows));
    const std::int64_t n_queries = std::max<std::int64_t>(std::ssize(offsets) - 1, 0);
    check_offsets(offsets, n_queries, fingerprints.n_rows);
    struct Claim {
        std::int64_t first, row, n;
    };
    std::vector<Claim> claims;
    for (std::size_t query = 0; query < static_cast<std::size_t>(n_queries); ++query) {
        claims.clear();
        for (std::int64_t row = offsets[query]; row < offsets[query + 1]; ++row) {
            const TrustedGrid::Met met = grid.met(fingerprints.row(row));
            untrusted[static_cast<std::size_t>(row)] = met.n == 0 ? 1 : 0;
            if (met.n != 0) claims.push_back({met.first, row, met.n});
        }
        std::ranges::sort(claims, [](const Claim& one, const Claim& other) {
            return one.first != other.first ? one.first < other.first : one.row < other.row;
        });
        std::int64_t rank = 0;
        for (std::size_t i = 0; i < claims.size(); ++i) {
            rank = i > 0 && claims[i].first == claims[i - 1].first ? rank + 1 : 0;
            if (rank >= claims[i].n) untrusted[static_cast<std::size_t>(claims[i].row)] = 1;
        }
    }
}

void trusted_records(const PoolToRecognize& pool, std::span<const std::uint8_t> is_new,
                     std::int64_t k, MatrixView<double> records) {
    check_at_least("k", k, 1);
    check_count("scores", "similarities", pool.scores.size(), pool.similarities.size());
    check_count("is_new", "similarities", is_new.size(), pool.similarities.size());
    if (records.n_rows != 3) refuse("records", "3 rows", std::to_string(records.n_rows));
    check_offsets(pool.offsets, records.n_columns, std::ssize(pool.similarities));
    const std::int64_t least = std::max<std::int64_t>(k, 2);
    std::vector<double> scores, similarities;
    for (std::int64_t query = 0; query < records.n_columns; ++query) {
        scores.clear();
        similarities.clear();
        const auto place = static_cast<std::size_t>(query);
        const auto end = static_cast<std::size_t>(pool.offsets[place + 1]);
        for (auto row = static_cast<std::size_t>(pool.offsets[place]); row < end; ++row) {
            if (is_new[row] != 0) continue;
            scores.push_back(static_cast<double>(pool.scores[row]));
            similarities.push_back(static_cast<double>(pool.similarities[row]));
        }
        double* const record = records.data + query;
        const std::int64_t n_columns = records.n_columns;
        if (std::ssize(scores) < least) {
            for (int value = 0; value < 3; ++value) {
                record[value * n_columns] = std::numeric_limits<double>::quiet_NaN();
            }
            continue;
        }
        const auto mean_of = [](const std::vector<double>& values, std::size_t n) {
            const auto value = [&](std::size_t i) { return values[i]; };
            return pairwise_sum(value, 0, n) / static_cast<double>(n);
        };
        const double mean = mean_of(scores, scores.size());
        const auto square = [&](std::size_t i) { return (scores[i] - mean) * (scores[i] - mean); };
        const double sum = pairwise_sum(square, 0, scores.size());
        record[0] = mean_of(scores, static_cast<std::size_t>(k));
        record[n_columns] = std::sqrt(sum / static_cast<double>(scores.size() - 1));
        record[2 * n_columns] = mean_of(similarities, static_cast<std::size_t>(k));
    }
}

void refuse_newcomers(const NewcomersInput& given, std::span<std::uint8_t> refused,
                      std::span<std::int64_t> n_refused) {
    const std::size_t n_candidates = given.is_new.size();
    check_offsets(given.offsets, std::ssize(n_refused), std::ssize(given.is_new));
    check_count("most_in_pool", "queries", given.most_in_pool.size(), n_refused.size());
    check_count("refused", "is_new", refused.size(), n_candidates);
    if (!given.sources.empty()) {
        check_count("sources", "is_new", given.sources.size(), n_candidates);
    }
    OfSource of_source(given.most_of_source);
    for (std::size_t query = 0; query < n_refused.size(); ++query) {
        const auto first = static_cast<std::size_t>(given.offsets[query]);
        const auto end = static_cast<std::size_t>(given.offsets[query + 1]);
        const std::int64_t n_new = std::ranges::count_if(
            given.is_new.subspan(first, end - first), [](std::uint8_t mark) { return mark != 0; });
        const bool is_wave = n_new > given.most_in_pool[query];
        std::int64_t n_passed = 0;
        of_source.clear();
        for (std::size_t row = first; row < end; ++row) {
            bool passes = given.is_new[row] != 0 && !is_wave;
            if (passes && !given.sources.empty()) passes = of_source.has_room(given.sources[row]);
            passes = passes && n_passed < given.most_in_selection;
            n_passed += passes ? 1 : 0;
            refused[row] = given.is_new[row] != 0 && !passes ? 1 : 0;
        }
        n_refused[query] = n_new - n_passed;
    }
}

}  // namespace epibias
