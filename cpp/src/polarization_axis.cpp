#include "epibias/polarization_axis.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "aligned_buffer.hpp"
#include "anchor_rows.hpp"
#include "block_lanczos.hpp"
#include "epibias/numeric.hpp"
#include "epibias/parallel.hpp"
#include "epibias/simd_level.hpp"
#include "epibias/symmetric_eigen.hpp"
#include "kernels/polarization_axis_kernels.hpp"
#include "kernels/symmetric_eigen_kernels.hpp"
#include "refuse.hpp"

namespace epibias {

namespace {

// Below this mean PS the anchors say nothing about the sign.
constexpr double kMeanTolerance = 1e-6;
// Components this near to the largest count as equal to it, so that rounding does not choose.
constexpr double kLargestTolerance = 1e-6;
// Anchors whose squared spread is below this share of their squared norms are equal.
constexpr double kEqualAnchors = 1e-14;

constexpr std::int64_t kLanes = kernels::kEigenLanes;
// Up to this many anchors, or dimensions if they are fewer, the products are made and
// tridiagonalised; above, Lanczos multiplies by the anchors themselves, and the products are made
// only where it gives up.
constexpr std::int64_t kProductsLimit = 256;
static_assert(kJacobiLimit <= kernels::kSmallGramRows);

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

std::string of_topic(std::int64_t topic) {
    return " (topic " + std::to_string(topic) + ")";
}

// What one thread needs. Sizes are those of one topic, times eight where topics go by lanes.
struct Scratch {
    std::vector<double> scales, scores;
    AlignedBuffer means, sums, products, panels, matrices, vectors, rotations, axis;
};

// The call, as every topic sees it.
struct Call {
    const kernels::PolarizationAxisKernels& table;
    std::int64_t n_anchors, dim, stride;
    const PolarizationAxisResult& result;
    bool normalize;

    [[nodiscard]] bool by_gram() const { return n_anchors < dim; }
    [[nodiscard]] std::int64_t size() const { return std::min(n_anchors, dim); }
    [[nodiscard]] bool by_lanes() const { return size() <= kJacobiLimit; }
};

struct Spectrum {
    LeadingEigenvalues eigenvalues;
    double trace = 0;
};

void check_stances(std::int64_t topic, const double* stances, std::int64_t n_anchors) {
    bool supporting = false;
    bool opposing = false;
    for (std::int64_t i = 0; i < n_anchors; ++i) {
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

void require_different(const AnchorRows& anchors, double trace) {
    if (trace > kEqualAnchors * anchors.sum_of_squares) return;
    refuse("anchors", "anchors that differ", "equal ones" + of_topic(anchors.topic));
}

double trace_of(const double* products, std::int64_t size) {
    double trace = 0;
    for (std::int64_t i = 0; i < size; ++i) trace += products[i * size + i];
    return trace;
}

// ---- from the leading vector to the result -------------------------------------------------

// The sign that the anchors alone give to an axis of length `norm`.
bool points_backwards(const AnchorRows& anchors, const double* axis, double norm) {
    const double mean_score = anchors.table->dot(anchors.mean, axis, anchors.stride) / norm;
    if (std::abs(mean_score) > kMeanTolerance) return mean_score < 0;
    double largest = 0;
    for (std::int64_t i = 0; i < anchors.dim; ++i) largest = std::max(largest, std::abs(axis[i]));
    std::int64_t deciding = 0;
    while (std::abs(axis[deciding]) < (1 - kLargestTolerance) * largest) ++deciding;
    return axis[deciding] < 0;
}

double mean_score_difference(const AnchorRows& anchors, const double* stances, const double* axis,
                             std::vector<double>& scores) {
    scores.resize(static_cast<std::size_t>(anchors.n_anchors));
    anchors.table->project(anchors.rows, anchors.scales, anchors.mean, anchors.n_anchors,
                           anchors.dim, axis, scores.data());
    double sums[2] = {0, 0};
    double counts[2] = {0, 0};
    for (std::int64_t i = 0; i < anchors.n_anchors; ++i) {
        if (stances[i] == 0) continue;
        const int side = stances[i] > 0 ? 1 : 0;
        sums[side] += scores[static_cast<std::size_t>(i)];
        counts[side] += 1;
    }
    return sums[1] / counts[1] - sums[0] / counts[0];
}

// `vector`: weights of the anchors where `of_anchors`, else the axis itself [stride].
void write_result(const Call& call, const AnchorRows& anchors, const double* vector,
                  bool of_anchors, const Spectrum& spectrum, const double* stances,
                  Scratch& scratch) {
    const double* axis = vector;
    if (of_anchors) {
        double* combination = scratch.axis.get(anchors.stride);
        anchors.table->combine(anchors.rows, anchors.scales, anchors.mean, vector,
                               anchors.n_anchors, anchors.dim, combination, anchors.stride);
        axis = combination;
    }
    const double norm = std::sqrt(anchors.table->dot(axis, axis, anchors.stride));
    bool flip = points_backwards(anchors, axis, norm);
    if (stances != nullptr) {
        const double difference = mean_score_difference(anchors, stances, axis, scratch.scores);
        // A difference of exactly 0 decides nothing: the anchors' own sign stays.
        if (difference != 0) flip = difference < 0;
    }
    anchors.table->narrow(axis, flip ? -norm : norm, anchors.dim,
                          call.result.axes.row(anchors.topic));
    const auto place = static_cast<std::size_t>(anchors.topic);
    const double first = spectrum.eigenvalues.first;
    call.result.explained_variance_ratio[place] = first / spectrum.trace;
    // The second eigenvalue is not negative; rounding may make it so.
    call.result.relative_gap[place] = (first - std::max(spectrum.eigenvalues.second, 0.0)) / first;
}

// ---- topics of few anchors or dimensions: eight at a time ----------------------------------

// Centres the anchors and makes their products [size, size], the lower triangle of them.
const double* small_products(const Call& call, AnchorRows& anchors, Scratch& scratch) {
    if (!call.by_gram()) {
        centre_anchors(anchors, scratch.sums, 1);
        return anchor_products(anchors, false, scratch.products, scratch.panels, 1);
    }
    double* products = scratch.products.get(call.n_anchors * call.n_anchors);
    double* work = scratch.panels.get(kernels::small_gram_values(call.n_anchors));
    call.table.small_gram(anchors.rows, anchors.scales, call.n_anchors, call.dim, anchors.mean,
                          work, products);
    return products;
}

void fit_by_lanes(const Call& call, const float* rows, std::int64_t first_topic,
                  std::int64_t n_topics, const double* stances, Scratch& scratch) {
    const std::int64_t size = call.size();
    AnchorRows topics[kLanes];
    double traces[kLanes];
    scratch.scales.resize(static_cast<std::size_t>(kLanes * call.n_anchors));
    double* means = scratch.means.get(kLanes * call.stride);
    double* matrices = scratch.matrices.get(size * size * kLanes);
    std::fill_n(matrices, size * size * kLanes, 0.0);
    for (std::int64_t lane = 0; lane < n_topics; ++lane) {
        const std::int64_t number = first_topic + lane;
        if (stances != nullptr) {
            check_stances(number, stances + lane * call.n_anchors, call.n_anchors);
        }
        AnchorRows& anchors = topics[lane];
        anchors = {.table = &call.table,
                   .rows = rows + lane * call.n_anchors * call.dim,
                   .topic = number,
                   .n_anchors = call.n_anchors,
                   .dim = call.dim,
                   .stride = call.stride,
                   .mean = means + lane * call.stride};
        scale_anchors(anchors, call.normalize, scratch.scales.data() + lane * call.n_anchors, 1);
        const double* products = small_products(call, anchors, scratch);
        traces[lane] = trace_of(products, size);
        require_different(anchors, traces[lane]);
        for (std::int64_t i = 0; i < size; ++i) {
            for (std::int64_t j = 0; j <= i; ++j) {
                matrices[(i * size + j) * kLanes + lane] = products[i * size + j];
            }
        }
    }
    double values[2 * kLanes];
    double* vectors = scratch.vectors.get(size * kLanes);
    double* rotations = scratch.rotations.get(kernels::rotation_values(size));
    kernels::symmetric_eigen_kernels().jacobi(matrices, size, rotations, vectors, values);
    for (std::int64_t lane = 0; lane < n_topics; ++lane) {
        double vector[padded(kJacobiLimit)] = {};
        for (std::int64_t i = 0; i < size; ++i) vector[i] = vectors[i * kLanes + lane];
        write_result(call, topics[lane], vector, call.by_gram(),
                     {{values[lane], values[kLanes + lane]}, traces[lane]},
                     stances == nullptr ? nullptr : stances + lane * call.n_anchors, scratch);
    }
}

// ---- topics of many anchors: one at a time, by several threads where it is alone -----------

// The leading pair of products that are there. Large ones: Lanczos again, with more patience, for
// a multiplication costs much less now; where that fails too, the direct method.
LeadingEigenvalues pair_of_products(const Call& call, double* products, std::uint64_t seed,
                                    double* vector, Scratch& scratch) {
    const std::int64_t size = call.size();
    if (size > kProductsLimit) {
        const std::int64_t stride = padded(size);
        double* matrix = scratch.matrices.get(size * stride);
        std::fill_n(matrix, size * stride, 0.0);
        for (std::int64_t i = 0; i < size; ++i) {
            for (std::int64_t j = 0; j <= i; ++j) {
                matrix[i * stride + j] = matrix[j * stride + i] = products[i * size + j];
            }
        }
        std::vector<double> dots(static_cast<std::size_t>(size * kernels::kVectorBlock));
        const auto multiply = [&](const double* block, double* results) {
            call.table.dots_with_vectors(matrix, size, stride, block, dots.data());
            for (std::int64_t v = 0; v < kernels::kVectorBlock; ++v) {
                double* result = results + v * stride;
                for (std::int64_t i = 0; i < size; ++i) {
                    result[i] = dots[static_cast<std::size_t>(i * kernels::kVectorBlock + v)];
                }
            }
        };
        LeadingEigenvalues found;
        if (leading_eigenpair_lanczos(call.table, multiply, size, stride, size / 2, false, seed,
                                      vector, found)) {
            return found;
        }
    }
    return leading_eigenpair_tridiagonal(products, size, vector);
}

void fit_alone(const Call& call, const float* rows, std::int64_t number, const double* stances,
               int n_threads, Scratch& scratch) {
    if (stances != nullptr) check_stances(number, stances, call.n_anchors);
    AnchorRows anchors{.table = &call.table,
                       .rows = rows,
                       .topic = number,
                       .n_anchors = call.n_anchors,
                       .dim = call.dim,
                       .stride = call.stride,
                       .mean = scratch.means.get(call.stride)};
    scratch.scales.resize(static_cast<std::size_t>(call.n_anchors));
    scale_anchors(anchors, call.normalize, scratch.scales.data(), n_threads);
    centre_anchors(anchors, scratch.sums, n_threads);
    double* vector = scratch.vectors.get(std::max(call.stride, padded(call.size())));
    Spectrum spectrum;
    std::uint64_t seed = 0;
    if (call.size() > kProductsLimit) {
        seed = fingerprint(anchors, n_threads);
        spectrum.trace = total_variance(anchors, scratch.sums, n_threads);
        require_different(anchors, spectrum.trace);
        const auto multiply = [&](const double* block, double* results) {
            covariance_times(anchors, block, results, scratch.sums, n_threads);
        };
        if (leading_eigenpair_lanczos(call.table, multiply, call.dim, call.stride, call.size() / 4,
                                      true, seed, vector, spectrum.eigenvalues)) {
            write_result(call, anchors, vector, false, spectrum, stances, scratch);
            return;
        }
    }
    double* products =
        anchor_products(anchors, call.by_gram(), scratch.products, scratch.panels, n_threads);
    spectrum.trace = trace_of(products, call.size());
    require_different(anchors, spectrum.trace);
    std::fill_n(vector, std::max(call.stride, padded(call.size())), 0.0);
    spectrum.eigenvalues = pair_of_products(call, products, seed, vector, scratch);
    write_result(call, anchors, vector, call.by_gram(), spectrum, stances, scratch);
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
    const Call call{active_kernels(), n_anchors, dim, padded(dim), result, options.normalize};
    const auto small = static_cast<double>(call.size());
    const double a_topic = small * static_cast<double>(n_anchors * dim) / 2 + 50 * small * small;
    const int n_threads = options.n_threads > 0
                              ? options.n_threads
                              : threads_worth_waking(a_topic * static_cast<double>(n_topics));
    const std::int64_t task_topics = call.by_lanes() ? kLanes : 1;
    const std::int64_t n_tasks = (n_topics + task_topics - 1) / task_topics;
    std::vector<Scratch> scratch(static_cast<std::size_t>(n_threads));
    const auto fit = [&](std::int64_t task, int thread) {
        const std::int64_t first = task * task_topics;
        const std::int64_t count = std::min(task_topics, n_topics - first);
        RowReader<float> anchor_reader(anchors);
        RowReader<double> stance_reader(stances);
        const float* rows = anchor_reader.rows(first * n_anchors, count * n_anchors);
        const double* signs = stances.data == nullptr ? nullptr : stance_reader.rows(first, count);
        Scratch& own = scratch[static_cast<std::size_t>(thread)];
        if (call.by_lanes()) {
            fit_by_lanes(call, rows, first, count, signs, own);
        } else {
            fit_alone(call, rows, first, signs, n_tasks == 1 ? n_threads : 1, own);
        }
    };
    if (n_tasks == 1) {  // not as a task: its own tasks would then run on one thread
        const DefaultFloatEnvironment environment;
        fit(0, 0);
    } else {
        parallel_for(n_tasks, fit, n_threads);
    }
}

}  // namespace epibias
