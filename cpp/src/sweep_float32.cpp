#include "sweep_float32.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace epibias::sweep {

namespace {

constexpr double kUnit = 0x1p-24;  // relative error of one float32 rounding
constexpr double kLeastKappa = 1e-6, kMostKappa = 1e3;
constexpr std::int64_t kMostCandidates = 1'000'000;  // beyond, the bound would be of no use
using kernels::kFewRows;

// With few candidates a tile has several blocks: sums stay in registers from block to block.
int most_blocks(const Query& query) {
    return query.n <= kFewRows ? kernels::kMostTileBlocks : 1;
}

// Beyond this many bandwidths a candidate is left out of a block. What is dropped moves the
// divergence by at most 2 Q(reach) n / m (r + 64) <= 2e-7, as 2 Q(x) <= exp(-x^2 / 2). r is the
// largest ratio of the densities, 1 / kappa. Mutual information, whose total is the sum of its
// sides, moves by what is dropped times logarithms alone, and kappa may be any number there.
double reach_of(const Query& query, const ThresholdSweepOptions& options) {
    const bool kl = options.criterion == SweepCriterion::kKullbackLeibler;
    const double share = static_cast<double>(query.n) / static_cast<double>(options.min_kept);
    const double largest_ratio = kl ? 1 / options.kappa : 0;
    return std::sqrt(2 * std::log(5e6 * share * (largest_ratio + 64)));
}

double scaled_step(const Query& query) {
    return query.step * query.scale;
}

// ---- weights -------------------------------------------------------------------------------

void set_weights_by_number(const Query& query, const ThresholdSweepOptions& options,
                           Float32Scratch& scratch) {
    if (scratch.n == query.n && scratch.kappa == options.kappa &&
        scratch.criterion == options.criterion) {
        return;
    }
    scratch.n = query.n;
    scratch.kappa = options.kappa;
    scratch.criterion = options.criterion;
    const bool kl = options.criterion == SweepCriterion::kKullbackLeibler;
    const auto size = static_cast<std::size_t>(query.n) + 1;
    scratch.left_log2_of.assign(size, 0);
    scratch.right_log2_of.assign(size, 0);
    scratch.left_log_of.assign(size, 0);
    scratch.divisor_of.assign(size, 0);
    const auto n = static_cast<double>(query.n);
    for (std::size_t place = 1; place + 1 < size; ++place) {
        const auto m = static_cast<double>(place);
        const double left_log = std::log(kl ? (n - m + options.kappa * n) / m : n / m);
        scratch.left_log_of[place] = left_log;
        scratch.left_log2_of[place] = static_cast<float>(left_log * std::numbers::log2e);
        scratch.right_log2_of[place] = static_cast<float>(std::log2(n / (n - m)));
        scratch.divisor_of[place] = 1 / (kl ? m : n);
    }
}

kernels::TileSplits choose_weights(const std::vector<std::int32_t>& n_left,
                                   Float32Scratch& scratch) {
    const auto n_splits = static_cast<std::int64_t>(n_left.size());
    if (n_left.back() - n_left.front() + 1 == n_splits) {  // no ties: as they lie in the table
        const std::int32_t first = n_left.front();
        return {n_left.data(), scratch.left_log2_of.data() + first,
                scratch.right_log2_of.data() + first, n_splits, false};
    }
    scratch.left_log2.resize(n_left.size());
    scratch.right_log2.resize(n_left.size());
    for (std::size_t split = 0; split < n_left.size(); ++split) {
        const auto m = static_cast<std::size_t>(n_left[split]);
        scratch.left_log2[split] = scratch.left_log2_of[m];
        scratch.right_log2[split] = scratch.right_log2_of[m];
    }
    return {n_left.data(), scratch.left_log2.data(), scratch.right_log2.data(), n_splits, false};
}

// ---- tiles ---------------------------------------------------------------------------------

struct GridTile {
    std::int64_t first_block;
    int n_blocks;
    double centre;  // in units of the scores
};

template <typename Run>
void for_each_tile(const Query& query, int lanes, const Run& run) {
    const double step = query.step;
    const std::int64_t n_blocks = query.n_grid / lanes;
    for (std::int64_t first = 0; first < n_blocks; first += most_blocks(query)) {
        const auto size = std::min<std::int64_t>(most_blocks(query), n_blocks - first);
        const auto middle =
            static_cast<double>(first * lanes) + 0.5 * static_cast<double>(size * lanes - 1);
        run(GridTile{first, static_cast<int>(size), query.low + middle * step});
    }
}

// scratch.float32.places: the candidates whose kernels reach each block of `lanes` points, block
// after block, ascending; scratch.float32.first_listed [n_blocks + 1] says where each begins.
void list_candidates(const Query& query, const ThresholdSweepOptions& options, int lanes,
                     Scratch& scratch) {
    const auto n_blocks = static_cast<std::int32_t>(query.n_grid / lanes);
    const double width = query.step * lanes;
    const double reach = reach_of(query, options) * query.bandwidth;
    const double blocks_a_unit = 1 / width;
    struct Range {
        std::int32_t first, end;
    };
    const auto blocks_of = [&](double score) {
        const double first = (score - query.low - reach) * blocks_a_unit;
        const double last = (score - query.low + reach) * blocks_a_unit;
        return Range{static_cast<std::int32_t>(std::max(first, 0.0)),
                     std::min(static_cast<std::int32_t>(last) + 1, n_blocks)};
    };
    std::vector<std::int32_t>& first_listed = scratch.float32.first_listed;
    first_listed.assign(static_cast<std::size_t>(n_blocks) + 2, 0);
    for (const double score : scratch.sorted_scores) {
        const auto range = blocks_of(score);
        for (std::int32_t block = range.first; block < range.end; ++block) {
            ++first_listed[static_cast<std::size_t>(block) + 2];
        }
    }
    for (std::size_t block = 2; block < first_listed.size(); ++block) {
        first_listed[block] += first_listed[block - 1];
    }
    scratch.float32.places.resize(static_cast<std::size_t>(first_listed.back()));
    for (std::size_t i = 0; i < scratch.sorted_scores.size(); ++i) {
        const auto range = blocks_of(scratch.sorted_scores[i]);
        for (std::int32_t block = range.first; block < range.end; ++block) {
            // Counts up to where the next block begins, which is what is left there afterwards.
            const std::int32_t place = first_listed[static_cast<std::size_t>(block) + 1]++;
            scratch.float32.places[static_cast<std::size_t>(place)] = static_cast<std::int32_t>(i);
        }
    }
}

void scale_scores(const GridTile& tile, const Query& query, std::span<const std::int32_t> places,
                  Scratch& scratch) {
    const double scale = query.scale;
    if (places.empty()) {
        scratch.float32.scores.resize(scratch.sorted_scores.size());
        for (std::size_t i = 0; i < scratch.sorted_scores.size(); ++i) {
            scratch.float32.scores[i] =
                static_cast<float>((scratch.sorted_scores[i] - tile.centre) * scale);
        }
        return;
    }
    scratch.float32.scores.resize(places.size());
    for (std::size_t j = 0; j < places.size(); ++j) {
        const double score = scratch.sorted_scores[static_cast<std::size_t>(places[j])];
        scratch.float32.scores[j] = static_cast<float>((score - tile.centre) * scale);
    }
}

auto add_terms_of(const kernels::SweepFloat32Kernels& table, SweepCriterion criterion) {
    return criterion == SweepCriterion::kKullbackLeibler ? table.add_floored_kl
                                                         : table.add_mutual_information;
}

void fold_divergences(const kernels::SweepFloat32Kernels& table, const Query& query,
                      const float* sums, const std::vector<std::int32_t>& n_left,
                      Float32Scratch& scratch) {
    scratch.totals.resize(n_left.size());
    scratch.divergences.resize(n_left.size());
    table.fold(sums, static_cast<std::int64_t>(n_left.size()), scratch.totals.data());
    const double share = query.share * std::numbers::ln2;
    for (std::size_t split = 0; split < n_left.size(); ++split) {
        scratch.divergences[split] = static_cast<double>(scratch.totals[split]) * share *
                                     scratch.divisor_of[static_cast<std::size_t>(n_left[split])];
    }
}

}  // namespace

bool float32_applies(const Query& query, const ThresholdSweepOptions& options) {
    const bool kl = options.criterion == SweepCriterion::kKullbackLeibler;
    return query.n <= kMostCandidates && query.grid_step <= 2 * query.bandwidth &&
           (!kl || (options.kappa >= kLeastKappa && options.kappa <= kMostKappa));
}

ErrorBound error_bound(const kernels::SweepFloat32Kernels& table, const Query& query) {
    const auto n = static_cast<double>(query.n);
    const double n_summed = query.n <= kFewRows ? n : kernels::kRowsOfASum + 2.0;
    const double n_blocks = static_cast<double>(query.n_grid) / table.lanes;
    const double half_width = 0.5 * most_blocks(query) * table.lanes * scaled_step(query);
    return {kUnit * (n_summed + n_blocks + 25 + 3 * half_width)};
}

void evaluate_float32(const kernels::SweepFloat32Kernels& table, const Query& query,
                      const ThresholdSweepOptions& options, const std::vector<std::int32_t>& n_left,
                      Scratch& scratch) {
    Float32Scratch& own = scratch.float32;
    set_weights_by_number(query, options, own);
    kernels::TileSplits splits = choose_weights(n_left, own);
    float* sums = own.sums.get(splits.n_splits * table.lanes);
    const bool windowed = most_blocks(query) == 1;
    if (windowed) list_candidates(query, options, table.lanes, scratch);
    const std::int64_t width = std::int64_t{most_blocks(query)} * table.lanes;
    float* rows = own.rows.get(query.n * width);
    float* suffixes = own.suffixes.get((query.n + 1) * width);
    const auto spacing = static_cast<float>(scaled_step(query));
    for_each_tile(query, table.lanes, [&](const GridTile& grid_tile) {
        std::span<const std::int32_t> places;
        if (windowed) {
            const auto block = static_cast<std::size_t>(grid_tile.first_block);
            const auto first = static_cast<std::size_t>(own.first_listed[block]);
            const auto end = static_cast<std::size_t>(own.first_listed[block + 1]);
            if (first == end) return;  // no kernel reaches this block
            places = std::span(own.places).subspan(first, end - first);
        }
        scale_scores(grid_tile, query, places, scratch);
        const auto n_rows = static_cast<std::int64_t>(own.scores.size());
        table.kernel_rows(own.scores.data(), n_rows, grid_tile.n_blocks, spacing, rows, suffixes);
        const kernels::TileRows tile{rows,    suffixes,
                                     nullptr, windowed ? places.data() : nullptr,
                                     n_rows,  grid_tile.n_blocks};
        add_terms_of(table, options.criterion)(tile, splits, static_cast<float>(options.kappa),
                                               sums);
        splits.accumulate = true;
    });
    fold_divergences(table, query, sums, n_left, own);
}

// ---- shuffled ------------------------------------------------------------------------------

ShuffledQuery::ShuffledQuery(const kernels::SweepFloat32Kernels& table, const Query& query,
                             const ThresholdSweepOptions& options,
                             const std::vector<std::int32_t>& n_left, Scratch& scratch)
    : table_(table),
      query_(query),
      options_(options),
      n_left_(n_left),
      scratch_(scratch),
      bound_(error_bound(table, query)) {
    Float32Scratch& own = scratch.float32;
    set_weights_by_number(query, options, own);
    float* rows = own.rows.get(query.n * query.n_grid);
    float* totals = own.row_totals.get(query.n_grid);
    const std::int64_t width = std::int64_t{most_blocks(query)} * table.lanes;
    float* suffixes = own.suffixes.get((query.n + 1) * width);
    const auto spacing = static_cast<float>(scaled_step(query));
    for_each_tile(query, table.lanes, [&](const GridTile& tile) {
        scale_scores(tile, query, {}, scratch);
        const std::int64_t first = tile.first_block * table.lanes;
        table.kernel_rows(own.scores.data(), query.n, tile.n_blocks, spacing,
                          rows + first * query.n, suffixes);
        std::copy_n(suffixes, tile.n_blocks * table.lanes, totals + first);
    });
    if (options.criterion != SweepCriterion::kKullbackLeibler) return;
    // The right sum as a difference is off by about n roundings of the total, of which the floor
    // alone is the share kappa / (1 + kappa).
    const double sum_error = static_cast<double>(query.n) * kUnit;
    const double right_error = 1.2 * sum_error * (1 + options.kappa) / options.kappa;
    // The weight is added afterwards, as if sums over the grid were integrals.
    if (right_error > 0.02 || query.grid_step > query.bandwidth) return;
    rough_error_ = kernels::kRoughLog2Error * std::numbers::ln2 + right_error + 8 * sum_error +
                   2e-5 + bound_.of(50);  // of a divergence of any size there is
}

void ShuffledQuery::sum_tiles(const std::vector<std::int32_t>& order,
                              const std::vector<std::int32_t>& n_left, bool rough) {
    Float32Scratch& own = scratch_.float32;
    kernels::TileSplits splits =
        rough ? kernels::TileSplits{n_left.data(), nullptr, nullptr,
                                    static_cast<std::int64_t>(n_left.size()), false}
              : choose_weights(n_left, own);
    float* sums = own.sums.get(splits.n_splits * table_.lanes);
    const float* rows = own.rows.get(query_.n * query_.n_grid);
    const float* totals = own.row_totals.get(query_.n_grid);
    const std::int64_t width = std::int64_t{most_blocks(query_)} * table_.lanes;
    float* suffixes = own.suffixes.get((query_.n + 1) * width);
    const auto kappa = static_cast<float>(options_.kappa);
    for_each_tile(query_, table_.lanes, [&](const GridTile& grid_tile) {
        const std::int64_t first = grid_tile.first_block * table_.lanes;
        kernels::TileRows tile{
            rows + first * query_.n, totals + first, order.data(), nullptr, query_.n,
            grid_tile.n_blocks};
        if (rough) {
            table_.add_rough_kl(tile, splits, kappa, sums);
        } else {
            table_.sum_suffixes(tile, suffixes);
            tile.suffixes = suffixes;
            add_terms_of(table_, options_.criterion)(tile, splits, kappa, sums);
        }
        splits.accumulate = true;
    });
    fold_divergences(table_, query_, sums, n_left, own);
}

ShuffledQuery::Verdict ShuffledQuery::compare(const std::vector<std::int32_t>& order, double low,
                                              double high) {
    Float32Scratch& own = scratch_.float32;
    const std::vector<std::int32_t>* listed = &n_left_;
    if (rough_error_ > 0) {
        sum_tiles(order, n_left_, true);
        candidates_.clear();
        for (std::size_t split = 0; split < n_left_.size(); ++split) {
            const auto m = static_cast<std::size_t>(n_left_[split]);
            const double rough = own.divergences[split] * 0x1p-23 + own.left_log_of[m];
            if (rough - rough_error_ >= high) return Verdict::kReaches;
            if (rough + rough_error_ >= low) candidates_.push_back(n_left_[split]);
        }
        if (candidates_.empty()) return Verdict::kFallsShort;
        listed = &candidates_;
    }
    sum_tiles(order, *listed, false);
    own.open.clear();
    for (std::size_t split = 0; split < listed->size(); ++split) {
        const double divergence = own.divergences[split];
        const double error = bound_.of(divergence);
        if (divergence - error >= high) return Verdict::kReaches;
        if (divergence + error >= low) own.open.push_back((*listed)[split]);
    }
    return own.open.empty() ? Verdict::kFallsShort : Verdict::kOpen;
}

}  // namespace epibias::sweep
