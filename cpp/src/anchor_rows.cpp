#include "anchor_rows.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "epibias/parallel.hpp"
#include "refuse.hpp"

namespace epibias {

namespace {

constexpr std::int64_t kMostTasks = 64;
constexpr std::int64_t kLeastTaskRows = 256;
constexpr std::int64_t kPanelsAtOnce = 4;
constexpr std::int64_t kRowsAtHand = 16;  // go through the caches once for all that is done to them

struct RowRange {
    std::int64_t first, end;
};

// parallel_for, but without its preparations where this thread does it all.
template <typename Run>
void for_tasks(std::int64_t n_tasks, const Run& run, int n_threads) {
    if (n_tasks > 1 && n_threads > 1) return parallel_for(n_tasks, run, n_threads);
    for (std::int64_t task = 0; task < n_tasks; ++task) run(task, 0);
}

class RowTasks {
  public:
    explicit RowTasks(std::int64_t n_rows)
        : n_rows_(n_rows),
          task_rows_(std::max(kLeastTaskRows, (n_rows + kMostTasks - 1) / kMostTasks)) {}

    [[nodiscard]] std::int64_t count() const { return (n_rows_ + task_rows_ - 1) / task_rows_; }

    // Calls run(task, range, thread) with at most kRowsAtHand rows, in ascending order in each
    // task.
    template <typename Run>
    void run(int n_threads, const Run& run) const {
        const auto one_task = [&](std::int64_t task, int thread) {
            const std::int64_t end = std::min(n_rows_, (task + 1) * task_rows_);
            for (std::int64_t first = task * task_rows_; first < end; first += kRowsAtHand) {
                run(task, RowRange{first, std::min(end, first + kRowsAtHand)}, thread);
            }
        };
        for_tasks(count(), one_task, n_threads);
    }

  private:
    std::int64_t n_rows_, task_rows_;
};

// sums[0 … size) += those of all other tasks.
void add_tasks(double* sums, std::int64_t n_tasks, std::int64_t size) {
    for (std::int64_t task = 1; task < n_tasks; ++task) {
        for (std::int64_t i = 0; i < size; ++i) sums[i] += sums[task * size + i];
    }
}

// One-to-one in `word` and in `state`: a change of either is never lost.
std::uint64_t mixed(std::uint64_t state, std::uint64_t word) {
    state = (state ^ word) * 0x9E3779B97F4A7C15ULL;
    return state ^ (state >> 32);
}

std::uint64_t fingerprint_of_row(const float* row, std::int64_t dim) {
    constexpr std::int64_t kStates = 4;  // side by side: one would wait for its own multiplications
    std::uint64_t states[kStates] = {1, 2, 3, 4};
    const auto bits = [row](std::int64_t i) {
        return static_cast<std::uint64_t>(std::bit_cast<std::uint32_t>(row[i]));
    };
    std::int64_t i = 0;
    for (; i + 2 * kStates <= dim; i += 2 * kStates) {
        for (std::int64_t s = 0; s < kStates; ++s) {
            states[s] = mixed(states[s], bits(i + 2 * s) | bits(i + 2 * s + 1) << 32);
        }
    }
    for (; i < dim; ++i) states[0] = mixed(states[0], bits(i));
    for (std::int64_t s = 1; s < kStates; ++s) states[0] = mixed(states[0], states[s]);
    return states[0];
}

[[noreturn]] void refuse_anchor(const AnchorRows& anchors, bool normalize, std::int64_t row,
                                bool finite) {
    const std::string place =
        std::to_string(row) + " (topic " + std::to_string(anchors.topic) + ")";
    refuse("anchors", normalize ? "finite rows of non-zero norm" : "finite rows",
           (finite ? "a zero row " : "NaN or Inf in row ") + place);
}

// Centred rows [kRowsAtHand, stride], a buffer a thread.
class CentredRows {
  public:
    CentredRows(const AnchorRows& anchors, int n_threads)
        : anchors_(anchors), buffers_(static_cast<std::size_t>(n_threads)) {}

    const double* make(RowRange range, int thread) {
        double* centred =
            buffers_[static_cast<std::size_t>(thread)].get(kRowsAtHand * anchors_.stride);
        anchors_.table->centre(anchors_.rows + range.first * anchors_.dim,
                               anchors_.scales + range.first, range.end - range.first, anchors_.dim,
                               anchors_.mean, centred, anchors_.stride);
        return centred;
    }

  private:
    const AnchorRows& anchors_;
    std::vector<AlignedBuffer> buffers_;
};

}  // namespace

void scale_anchors(AnchorRows& anchors, bool normalize, double* scales, int n_threads) {
    const RowTasks tasks(anchors.n_anchors);
    double sums[kMostTasks] = {};
    tasks.run(n_threads, [&](std::int64_t task, RowRange range, int) {
        for (std::int64_t i = range.first; i < range.end; ++i) {
            const float* row = anchors.rows + i * anchors.dim;
            const double squared = anchors.table->squared_norm(row, anchors.dim);
            // Not finite: NaN or Inf somewhere in the row; squares of float32 do not overflow.
            const bool finite = std::isfinite(squared);
            if (!finite || (normalize && squared == 0)) {
                refuse_anchor(anchors, normalize, i, finite);
            }
            scales[i] = normalize ? 1 / std::sqrt(squared) : 1;
            sums[task] += normalize ? 1 : squared;
        }
    });
    add_tasks(sums, tasks.count(), 1);
    anchors.scales = scales;
    anchors.sum_of_squares = sums[0];
}

void centre_anchors(AnchorRows& anchors, AlignedBuffer& partial_sums, int n_threads) {
    const RowTasks tasks(anchors.n_anchors);
    double* sums = partial_sums.get(tasks.count() * anchors.stride);
    std::fill_n(sums, tasks.count() * anchors.stride, 0.0);
    tasks.run(n_threads, [&](std::int64_t task, RowRange range, int) {
        anchors.table->add_rows(anchors.rows + range.first * anchors.dim,
                                anchors.scales + range.first, range.end - range.first, anchors.dim,
                                sums + task * anchors.stride, anchors.stride);
    });
    add_tasks(sums, tasks.count(), anchors.stride);
    const double share = 1 / static_cast<double>(anchors.n_anchors);
    for (std::int64_t i = 0; i < anchors.stride; ++i) anchors.mean[i] = sums[i] * share;
}

double* anchor_products(const AnchorRows& anchors, bool by_gram, AlignedBuffer& products,
                        AlignedBuffer& panels, int n_threads) {
    constexpr std::int64_t kTaskSums = 32;  // rows of products a task
    // Threads meet after every few panels: a panel is ~0.4 ms of work at 384 columns, and waking
    // a thread may cost 70 µs.
    const std::int64_t n_panels = n_threads == 1 ? 1 : kPanelsAtOnce;
    const std::int64_t size = by_gram ? anchors.n_anchors : anchors.dim;
    const std::int64_t n_terms = by_gram ? anchors.dim : anchors.n_anchors;
    const std::int64_t stride = padded(size);
    double* sums = products.get(stride * stride);
    double* values = panels.get(n_panels * kernels::panel_values(stride));
    std::fill_n(sums, stride * stride, 0.0);
    for (std::int64_t start = 0; start < n_terms; start += n_panels * kernels::kPanelTerms) {
        const auto panel_terms = [&](std::int64_t panel) {
            const std::int64_t first = start + panel * kernels::kPanelTerms;
            return std::clamp<std::int64_t>(n_terms - first, 0, kernels::kPanelTerms);
        };
        const auto fill = [&](std::int64_t panel, int) {
            const std::int64_t first = start + panel * kernels::kPanelTerms;
            double* place = values + panel * kernels::panel_values(stride);
            if (by_gram) {
                anchors.table->panel_of_columns(anchors.rows, anchors.scales, anchors.n_anchors,
                                                anchors.dim, first, panel_terms(panel),
                                                anchors.mean, place);
            } else {
                anchors.table->panel_of_rows(anchors.rows + first * anchors.dim,
                                             anchors.scales + first, panel_terms(panel),
                                             anchors.dim, anchors.mean, place);
            }
        };
        const auto add = [&](std::int64_t task, int) {
            const std::int64_t end = std::min(stride, (task + 1) * kTaskSums);
            for (std::int64_t panel = 0; panel < n_panels; ++panel) {
                anchors.table->add_products(values + panel * kernels::panel_values(stride),
                                            panel_terms(panel), task * kTaskSums, end, sums,
                                            stride);
            }
        };
        const std::int64_t n_used =
            std::min(n_panels, (n_terms - start + kernels::kPanelTerms - 1) / kernels::kPanelTerms);
        const std::int64_t n_tasks = (stride + kTaskSums - 1) / kTaskSums;
        for_tasks(n_used, fill, n_threads);
        for_tasks(n_tasks, add, n_threads);
    }
    for (std::int64_t i = 1; i < size; ++i) {
        std::copy_n(sums + i * stride, i + 1, sums + i * size);  // forwards, to lower addresses
    }
    return sums;
}

std::uint64_t fingerprint(const AnchorRows& anchors, int n_threads) {
    const RowTasks tasks(anchors.n_anchors);
    std::vector<std::uint64_t> of_tasks(static_cast<std::size_t>(tasks.count()), 0);
    tasks.run(n_threads, [&](std::int64_t task, RowRange range, int) {
        std::uint64_t& state = of_tasks[static_cast<std::size_t>(task)];
        for (std::int64_t i = range.first; i < range.end; ++i) {
            state = mixed(state, fingerprint_of_row(anchors.rows + i * anchors.dim, anchors.dim));
        }
    });
    auto state = static_cast<std::uint64_t>(anchors.dim);
    for (const std::uint64_t of_task : of_tasks) state = mixed(state, of_task);
    return state;
}

double total_variance(const AnchorRows& anchors, AlignedBuffer& partial_sums, int n_threads) {
    const RowTasks tasks(anchors.n_anchors);
    double* sums = partial_sums.get(tasks.count());
    std::fill_n(sums, tasks.count(), 0.0);
    CentredRows centred(anchors, n_threads);
    tasks.run(n_threads, [&](std::int64_t task, RowRange range, int thread) {
        const double* row = centred.make(range, thread);
        for (std::int64_t i = range.first; i < range.end; ++i, row += anchors.stride) {
            sums[task] += anchors.table->dot(row, row, anchors.stride);
        }
    });
    add_tasks(sums, tasks.count(), 1);
    return sums[0];
}

void covariance_times(const AnchorRows& anchors, const double* vectors, double* results,
                      AlignedBuffer& partial_sums, int n_threads) {
    const RowTasks tasks(anchors.n_anchors);
    const std::int64_t size = kernels::kVectorBlock * anchors.stride;
    double* sums = partial_sums.get(tasks.count() * size);
    std::fill_n(sums, tasks.count() * size, 0.0);
    CentredRows centred(anchors, n_threads);
    tasks.run(n_threads, [&](std::int64_t task, RowRange range, int thread) {
        double dots[kRowsAtHand * kernels::kVectorBlock];
        const double* rows = centred.make(range, thread);
        const std::int64_t n_rows = range.end - range.first;
        anchors.table->dots_with_vectors(rows, n_rows, anchors.stride, vectors, dots);
        anchors.table->add_to_vectors(rows, n_rows, anchors.stride, dots, sums + task * size);
    });
    add_tasks(sums, tasks.count(), size);
    std::copy_n(sums, size, results);
}

}  // namespace epibias
