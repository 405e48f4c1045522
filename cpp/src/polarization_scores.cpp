#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "epibias/numeric.hpp"
#include "epibias/parallel.hpp"
#include "epibias/polarization_axis.hpp"
#include "refuse.hpp"

namespace epibias {

namespace {

void check_axes(const std::string& argument, MatrixView<const float> rows,
                MatrixView<const float> axes) {
    if (axes.n_columns != rows.n_columns) {
        refuse("axes", "dim " + std::to_string(rows.n_columns) + ", as " + argument,
               "dim " + std::to_string(axes.n_columns));
    }
}

// Axes are few: all of them are checked first, and copied where their address is not aligned.
class CheckedAxes {
  public:
    CheckedAxes(const std::string& argument, MatrixView<const float> rows,
                MatrixView<const float> axes)
        : reader_(axes) {
        check_axes(argument, rows, axes);
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

constexpr std::int64_t kTaskFloats = 65'536;  // 256 KiB of rows a task

// 1 / norm, or 1; refuses a row that has no score.
double checked_scale(const std::string& argument, const float* row, std::int64_t dim,
                     std::int64_t number, bool normalize) {
    const double squared = canonical_dot(row, row, dim);
    if (normalize) {
        const bool good = squared > 0 && std::isfinite(squared);
        if (!good) refuse_row(argument, row, dim, number);
        return 1 / std::sqrt(squared);
    }
    if (!std::isfinite(squared)) {
        refuse(argument, "finite rows", "NaN or Inf in row " + std::to_string(number));
    }
    return 1;
}

int threads_for(const PolarizationAxisOptions& options, double operations) {
    return options.n_threads > 0 ? options.n_threads : threads_worth_waking(operations);
}

}  // namespace

void anchor_scores(MatrixView<const float> anchors, MatrixView<const float> axes,
                   MatrixView<double> scores, const PolarizationAxisOptions& options) {
    const CheckedAxes checked("anchors", anchors, axes);
    if (axes.n_rows != scores.n_rows) {
        refuse("axes", std::to_string(scores.n_rows) + " axes, one a topic",
               std::to_string(axes.n_rows));
    }
    const std::int64_t dim = anchors.n_columns;
    const std::int64_t task_rows = std::max<std::int64_t>(1, kTaskFloats / (dim + 1));
    const auto project = [&](std::int64_t task, int) {
        RowReader<float> reader(anchors);
        const std::int64_t end = std::min(anchors.n_rows, (task + 1) * task_rows);
        for (std::int64_t number = task * task_rows; number < end; ++number) {
            const float* row = reader.row(number);
            const double scale = checked_scale("anchors", row, dim, number, options.normalize);
            const float* axis = checked.data() + number / scores.n_columns * dim;
            scores.data[number] = canonical_dot(row, axis, dim) * scale;
        }
    };
    parallel_for((anchors.n_rows + task_rows - 1) / task_rows, project,
                 threads_for(options, static_cast<double>(2 * anchors.n_rows * (dim + 1))));
}

void polarization_scores(MatrixView<const float> rows, MatrixView<const float> axes,
                         MatrixView<float> scores, const PolarizationAxisOptions& options) {
    const CheckedAxes checked("rows", rows, axes);
    const std::int64_t dim = rows.n_columns;
    const std::int64_t task_rows = std::max<std::int64_t>(1, kTaskFloats / (dim + 1));
    const auto project = [&](std::int64_t task, int) {
        RowReader<float> reader(rows);
        const std::int64_t end = std::min(rows.n_rows, (task + 1) * task_rows);
        for (std::int64_t number = task * task_rows; number < end; ++number) {
            const float* row = reader.row(number);
            const double scale = checked_scale("rows", row, dim, number, options.normalize);
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
    const CheckedAxes checked("rows", rows, axes);
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
            const double scale = checked_scale("rows", row, dim, number, options.normalize);
            scores.row(query)[j] = static_cast<float>(canonical_dot(row, axis, dim) * scale);
        }
    };
    const auto operations = static_cast<double>(2 * n_queries * indices.n_columns * (dim + 1));
    parallel_for(n_queries, project, threads_for(options, operations));
}

}  // namespace epibias
