#include "epibias/polarization_axis.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "aligned_buffer.hpp"
#include "epibias/numeric.hpp"
#include "epibias/parallel.hpp"
#include "epibias/simd_level.hpp"
#include "epibias/symmetric_eigen.hpp"
#include "kernels/polarization_axis_kernels.hpp"
#include "refuse.hpp"

namespace epibias {

namespace {

// Below this mean PS the anchors say nothing about the sign.
constexpr double kMeanTolerance = 1e-6;
// Components this near to the largest count as equal to it, so that rounding does not choose.
constexpr double kLargestTolerance = 1e-6;
// Anchors whose squared spread is below this share of their squared norms are equal.
constexpr double kEqualAnchors = 1e-14;

const kernels::PolarizationAxisKernels& active_kernels() {
#if defined(EPIBIAS_X86_LEVELS)
    switch (active_simd_level()) {
        case SimdLevel::kAvx512:
            return kernels::avx512::kPolarizationAxis;
        case SimdLevel::kAvx2:
            return kernels::avx2::kPolarizationAxis;
        case SimdLevel::kScalar:
            break;
    }
#endif
    return kernels::scalar::kPolarizationAxis;
}

std::int64_t padded(std::int64_t n_columns) {
    return (n_columns + kernels::kRowBlock - 1) / kernels::kRowBlock * kernels::kRowBlock;
}

std::string of_topic(std::int64_t topic) {
    return " (topic " + std::to_string(topic) + ")";
}

// What one thread needs for one topic.
struct Scratch {
    std::vector<double> scales, stances, scores;
    AlignedBuffer mean, centred, transposed, products, vector, axis;
};

// The anchors of one topic, checked, scaled and centred.
struct Topic {
    std::int64_t number = 0;
    std::int64_t n_anchors = 0;
    std::int64_t dim = 0;
    std::int64_t stride = 0;
    double squared_norms = 0;
    double* mean = nullptr;     // [stride]
    double* centred = nullptr;  // [n_anchors, stride]
};

Topic centre_topic(const kernels::PolarizationAxisKernels& table, const float* rows,
                   std::int64_t number, std::int64_t n_anchors, std::int64_t dim, bool normalize,
                   Scratch& scratch) {
    Topic topic{number, n_anchors, dim, padded(dim)};
    scratch.scales.resize(static_cast<std::size_t>(n_anchors));
    for (std::int64_t i = 0; i < n_anchors; ++i) {
        const double squared = canonical_dot(rows + i * dim, rows + i * dim, dim);
        // Not finite: NaN or Inf somewhere in the row; squares of float32 do not overflow.
        if (!std::isfinite(squared) || (normalize && squared == 0)) {
            refuse("anchors", normalize ? "finite rows of non-zero norm" : "finite rows",
                   std::isfinite(squared)
                       ? "a zero row " + std::to_string(i) + of_topic(number)
                       : "NaN or Inf in row " + std::to_string(i) + of_topic(number));
        }
        scratch.scales[static_cast<std::size_t>(i)] = normalize ? 1 / std::sqrt(squared) : 1;
        topic.squared_norms += normalize ? 1 : squared;
    }
    topic.mean = scratch.mean.get(topic.stride);
    topic.centred = scratch.centred.get(n_anchors * topic.stride);
    table.centre(rows, scratch.scales.data(), n_anchors, dim, topic.mean, topic.centred,
                 topic.stride);
    return topic;
}

struct Spectrum {
    double first, second, trace;
};

double trace_of(const double* products, std::int64_t size) {
    double trace = 0;
    for (std::int64_t i = 0; i < size; ++i) trace += products[i * size + i];
    return trace;
}

void require_different(const Topic& topic, double trace) {
    if (trace > kEqualAnchors * topic.squared_norms) return;
    refuse("anchors", "anchors that differ", "equal ones" + of_topic(topic.number));
}

// The unit axis [stride] in float64, not yet oriented.
Spectrum leading_axis(const kernels::PolarizationAxisKernels& table, const Topic& topic,
                      double* axis, Scratch& scratch) {
    const bool by_gram = topic.n_anchors < topic.dim;
    const std::int64_t size = by_gram ? topic.n_anchors : topic.dim;
    double* products = scratch.products.get(size * size);
    double* vector = scratch.vector.get(size);
    if (by_gram) {
        table.gram(topic.centred, size, topic.stride, products);
    } else {
        const std::int64_t stride = padded(topic.n_anchors);
        double* transposed = scratch.transposed.get(topic.dim * stride);
        std::fill_n(transposed, topic.dim * stride, 0.0);
        for (std::int64_t i = 0; i < topic.n_anchors; ++i) {
            for (std::int64_t column = 0; column < topic.dim; ++column) {
                transposed[column * stride + i] = topic.centred[i * topic.stride + column];
            }
        }
        table.gram(transposed, size, stride, products);
    }
    const double trace = trace_of(products, size);
    require_different(topic, trace);
    const LeadingEigenvalues eigenvalues = leading_eigenpair(products, size, vector);
    if (by_gram) {
        table.combine(topic.centred, vector, size, topic.stride, axis);
        const double norm = std::sqrt(table.dot(axis, axis, topic.stride));
        for (std::int64_t column = 0; column < topic.stride; ++column) axis[column] /= norm;
    } else {
        std::fill_n(axis, topic.stride, 0.0);
        std::copy_n(vector, topic.dim, axis);
    }
    return {eigenvalues.first, eigenvalues.second, trace};
}

// The sign that the anchors alone give.
bool points_backwards(const kernels::PolarizationAxisKernels& table, const Topic& topic,
                      const double* axis) {
    const double mean_score = table.dot(topic.mean, axis, topic.stride);
    if (std::abs(mean_score) > kMeanTolerance) return mean_score < 0;
    double largest = 0;
    for (std::int64_t i = 0; i < topic.dim; ++i) largest = std::max(largest, std::abs(axis[i]));
    std::int64_t deciding = 0;
    while (std::abs(axis[deciding]) < (1 - kLargestTolerance) * largest) ++deciding;
    return axis[deciding] < 0;
}

double mean_score_difference(const kernels::PolarizationAxisKernels& table, const Topic& topic,
                             const std::vector<double>& stances, const double* axis) {
    double sums[2] = {0, 0};
    double counts[2] = {0, 0};
    for (std::int64_t i = 0; i < topic.n_anchors; ++i) {
        const double stance = stances[static_cast<std::size_t>(i)];
        if (stance == 0) continue;
        const int side = stance > 0 ? 1 : 0;
        sums[side] += table.dot(topic.centred + i * topic.stride, axis, topic.stride);
        counts[side] += 1;
    }
    return sums[1] / counts[1] - sums[0] / counts[0];
}

void check_stances(std::int64_t topic, const std::vector<double>& stances) {
    bool supporting = false;
    bool opposing = false;
    for (std::size_t i = 0; i < stances.size(); ++i) {
        if (!std::isfinite(stances[i])) {
            refuse("stances", "finite values",
                   number_text(stances[i]) + " for anchor " + std::to_string(i) + of_topic(topic));
        }
        supporting = supporting || stances[i] > 0;
        opposing = opposing || stances[i] < 0;
    }
    if (supporting && opposing) return;
    refuse("stances", "positive and negative ones",
           (supporting ? std::string("none that is negative")
            : opposing ? std::string("none that is positive")
                       : std::string("zeros only")) +
               of_topic(topic));
}

void fit_topic(const kernels::PolarizationAxisKernels& table, const float* rows,
               std::int64_t number, std::int64_t n_anchors, const std::vector<double>* stances,
               bool normalize, const PolarizationAxisResult& result, Scratch& scratch) {
    const std::int64_t dim = result.axes.n_columns;
    if (stances != nullptr) check_stances(number, *stances);
    const Topic topic = centre_topic(table, rows, number, n_anchors, dim, normalize, scratch);
    double* axis = scratch.axis.get(topic.stride);
    const Spectrum spectrum = leading_axis(table, topic, axis, scratch);
    bool flip = points_backwards(table, topic, axis);
    if (stances != nullptr) {
        const double difference = mean_score_difference(table, topic, *stances, axis);
        // A difference of exactly 0 decides nothing: the anchors' own sign stays.
        if (difference != 0) flip = difference < 0;
    }
    float* axis_out = result.axes.row(number);
    for (std::int64_t i = 0; i < dim; ++i) {
        axis_out[i] = static_cast<float>(flip ? -axis[i] : axis[i]);
    }
    const auto place = static_cast<std::size_t>(number);
    result.explained_variance_ratio[place] = spectrum.first / spectrum.trace;
    // The second eigenvalue is not negative; rounding may make it so.
    const double second = std::max(spectrum.second, 0.0);
    result.relative_gap[place] = (spectrum.first - second) / spectrum.first;
}

// ---- scores --------------------------------------------------------------------------------

void check_axes(MatrixView<const float> rows, MatrixView<const float> axes) {
    if (axes.n_columns != rows.n_columns) {
        refuse("axes", "dim " + std::to_string(rows.n_columns) + ", as rows",
               "dim " + std::to_string(axes.n_columns));
    }
}

// Axes are few: all of them are checked first, and copied where their address is not aligned.
class CheckedAxes {
  public:
    CheckedAxes(MatrixView<const float> rows, MatrixView<const float> axes) : reader_(axes) {
        check_axes(rows, axes);
        data_ = reader_.rows(0, axes.n_rows);
        for (std::int64_t topic = 0; topic < axes.n_rows; ++topic) {
            const float* axis = data_ + topic * axes.n_columns;
            if (std::isfinite(canonical_dot(axis, axis, axes.n_columns))) continue;
            refuse("axes", "finite rows", "NaN or Inf in row " + std::to_string(topic));
        }
    }
    [[nodiscard]] const float* data() const { return data_; }

  private:
    RowReader<float> reader_;
    const float* data_;
};

// 1 / norm, or 1; refuses a row that has no score.
double checked_scale(const float* row, std::int64_t dim, std::int64_t number, bool normalize) {
    const double squared = canonical_dot(row, row, dim);
    if (normalize) {
        const bool good = squared > 0 && std::isfinite(squared);
        if (!good) refuse_row("rows", row, dim, number);
        return 1 / std::sqrt(squared);
    }
    if (!std::isfinite(squared)) {
        refuse("rows", "finite rows", "NaN or Inf in row " + std::to_string(number));
    }
    return 1;
}

int threads_for(const PolarizationAxisOptions& options, double operations) {
    return options.n_threads > 0 ? options.n_threads : threads_worth_waking(operations);
}

}  // namespace

void polarization_axis(MatrixView<const float> anchors, std::int64_t n_anchors,
                       MatrixView<const double> stances, const PolarizationAxisResult& result,
                       const PolarizationAxisOptions& options) {
    const std::int64_t dim = anchors.n_columns;
    if (n_anchors < 2) {
        refuse("anchors", "at least 2 anchors a topic", std::to_string(n_anchors));
    }
    if (dim < 1) refuse("anchors", "at least 1 dimension", std::to_string(dim));
    const std::int64_t n_topics = anchors.n_rows / n_anchors;
    if (stances.data != nullptr && (stances.n_rows != n_topics || stances.n_columns != n_anchors)) {
        refuse("stances", "shape " + shape_text(n_topics, n_anchors),
               "shape " + shape_text(stances.n_rows, stances.n_columns));
    }
    const auto& table = active_kernels();
    const auto small = static_cast<double>(std::min(n_anchors, dim));
    const double a_topic = small * static_cast<double>(n_anchors * dim) / 2 + 50 * small * small;
    const int threads = threads_for(options, a_topic * static_cast<double>(n_topics));
    std::vector<Scratch> scratch(static_cast<std::size_t>(threads));
    const auto fit = [&](std::int64_t number, int thread) {
        Scratch& own = scratch[static_cast<std::size_t>(thread)];
        RowReader<float> anchor_reader(anchors);
        if (stances.data != nullptr) {
            RowReader<double> stance_reader(stances);
            const double* row = stance_reader.row(number);
            own.stances.assign(row, row + n_anchors);
        }
        fit_topic(table, anchor_reader.rows(number * n_anchors, n_anchors), number, n_anchors,
                  stances.data != nullptr ? &own.stances : nullptr, options.normalize, result, own);
    };
    parallel_for(n_topics, fit, threads);
}

void polarization_scores(MatrixView<const float> rows, MatrixView<const float> axes,
                         MatrixView<float> scores, const PolarizationAxisOptions& options) {
    const CheckedAxes checked(rows, axes);
    const std::int64_t dim = rows.n_columns;
    constexpr std::int64_t kTaskFloats = 65'536;  // 256 KiB of rows a task
    const std::int64_t task_rows = std::max<std::int64_t>(1, kTaskFloats / (dim + 1));
    const auto project = [&](std::int64_t task, int) {
        RowReader<float> reader(rows);
        const std::int64_t end = std::min(rows.n_rows, (task + 1) * task_rows);
        for (std::int64_t number = task * task_rows; number < end; ++number) {
            const float* row = reader.row(number);
            const double scale = checked_scale(row, dim, number, options.normalize);
            for (std::int64_t topic = 0; topic < axes.n_rows; ++topic) {
                const double product = canonical_dot(row, checked.data() + topic * dim, dim);
                scores.row(topic)[number] = static_cast<float>(product * scale);
            }
        }
    };
    const auto operations = static_cast<double>((axes.n_rows + 1) * rows.n_rows * (dim + 1));
    parallel_for((rows.n_rows + task_rows - 1) / task_rows, project,
                 threads_for(options, operations));
}

void gathered_polarization_scores(MatrixView<const float> rows, MatrixView<const float> axes,
                                  MatrixView<const std::int64_t> indices,
                                  std::span<const std::int64_t> axis_of_query,
                                  MatrixView<float> scores,
                                  const PolarizationAxisOptions& options) {
    const CheckedAxes checked(rows, axes);
    const std::int64_t dim = rows.n_columns;
    const std::int64_t n_queries = indices.n_rows;
    const auto n_given = static_cast<std::int64_t>(axis_of_query.size());
    if (n_given != 0 && n_given != n_queries) {
        refuse("axis_of_query", std::to_string(n_queries) + " axes, one a row of indices",
               std::to_string(n_given));
    }
    if (n_given == 0 && axes.n_rows != 1 && axes.n_rows != n_queries) {
        refuse("axis_of_query",
               "the axis of every query, as there are " + std::to_string(axes.n_rows) +
                   " axes and " + std::to_string(n_queries) + " rows of indices",
               "none");
    }
    const auto axis_of = [&](std::int64_t query) {
        if (n_given == 0) return axes.n_rows == 1 ? 0 : query;
        const std::int64_t topic = axis_of_query[static_cast<std::size_t>(query)];
        if (topic < 0 || topic >= axes.n_rows) {
            refuse("axis_of_query",
                   "0 to " + std::to_string(axes.n_rows - 1) + " (the number of axes less 1)",
                   std::to_string(topic) + " (query " + std::to_string(query) + ")");
        }
        return topic;
    };
    const auto project = [&](std::int64_t query, int) {
        RowReader<float> reader(rows);
        RowReader<std::int64_t> index_reader(indices);
        const std::int64_t* row_numbers = index_reader.row(query);
        const float* axis = checked.data() + axis_of(query) * dim;
        for (std::int64_t j = 0; j < indices.n_columns; ++j) {
            const std::int64_t number = row_numbers[j];
            if (number < 0 || number >= rows.n_rows) {
                refuse("indices",
                       "0 to " + std::to_string(rows.n_rows - 1) + " (the number of rows less 1)",
                       std::to_string(number) + " (row " + std::to_string(query) + ", column " +
                           std::to_string(j) + ")");
            }
            const float* row = reader.row(number);
            const double scale = checked_scale(row, dim, number, options.normalize);
            scores.row(query)[j] = static_cast<float>(canonical_dot(row, axis, dim) * scale);
        }
    };
    const auto operations = static_cast<double>(2 * n_queries * indices.n_columns * (dim + 1));
    parallel_for(n_queries, project, threads_for(options, operations));
}

}  // namespace epibias
