#include "block_lanczos.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "aligned_buffer.hpp"
#include "epibias/numeric.hpp"

namespace epibias {

namespace {

constexpr std::int64_t kBlock = kernels::kVectorBlock;
constexpr double kAngle = 1e-8;           // of the axis, where the gap allows
constexpr double kSmallestShare = 1e-14;  // of the largest eigenvalue: what float64 can resolve
constexpr double kSecondShare = 1e-11;    // error of the second eigenvalue
constexpr double kRoundingShare = 1e-13;  // of a multiplication by the matrix
// A direction that shrinks to this share when the known ones are taken out is rounding.
constexpr double kDependent = 1e-13;

// Uniform in [-1, 1): value number `counter` of the splitmix64 of `seed`.
double random_value(std::uint64_t seed, std::uint64_t counter) {
    const std::uint64_t bits = mix64(seed + (counter + 1) * 0x9E3779B97F4A7C15ULL);
    return static_cast<double>(bits >> 11) * 0x1p-52 - 1;
}

struct RitzPairs {
    double values[3] = {0, 0, 0};
    std::vector<double> vectors;  // [2, basis size]
    double residuals[2] = {0, 0};
};

class BlockLanczos {
  public:
    BlockLanczos(const kernels::PolarizationAxisKernels& table, const BlockMultiply& multiply,
                 std::int64_t n, std::int64_t stride, std::int64_t most_vectors, bool give_up_early,
                 std::uint64_t seed)
        : table_(table),
          multiply_(multiply),
          n_(n),
          stride_(stride),
          capacity_(most_vectors),
          give_up_early_(give_up_early),
          seed_(seed),
          basis_(basis_buffer_.get((most_vectors + kBlock) * stride)),
          block_(block_buffer_.get(kBlock * stride)),
          projected_(static_cast<std::size_t>(most_vectors * most_vectors)),
          dots_(static_cast<std::size_t>((most_vectors + kBlock) * kBlock)) {}

    bool run(double* vector, LeadingEigenvalues& eigenvalues) {
        fill_randomly(block_, kBlock);
        orthonormalise_block();
        append_block();
        std::int64_t next_look = 3 * kBlock;
        for (;;) {
            multiply_(basis_ + (size_ - kBlock) * stride_, block_);
            project_and_reduce();
            const bool full = size_ + kBlock > std::min(capacity_, n_);
            if (size_ >= next_look || full) {
                next_look = size_ + kBlock + size_ / 6 / kBlock * kBlock;
                const RitzPairs pairs = ritz_pairs();
                const double excess = excess_of(pairs.values, pairs.residuals, 0);
                if (excess <= 1) return confirm(pairs, vector, eigenvalues);
                if (give_up_early_ && is_hopeless(std::log(excess))) return false;
            }
            if (full) return false;
            append_block();
        }
    }

  private:
    void fill_randomly(double* vectors, std::int64_t count) {
        for (std::int64_t v = 0; v < count; ++v) {
            double* vector = vectors + v * stride_;
            for (std::int64_t i = 0; i < n_; ++i) vector[i] = random_value(seed_, n_random_++);
            std::fill(vector + n_, vector + stride_, 0.0);
        }
    }

    void append_block() {
        std::copy_n(block_, kBlock * stride_, basis_ + size_ * stride_);
        size_ += kBlock;
    }

    double norm(const double* vector) const {
        return std::sqrt(table_.dot(vector, vector, stride_));
    }

    void add(double* vector, double amount, const double* other) const {
        for (std::int64_t i = 0; i < stride_; ++i) vector[i] += amount * other[i];
    }

    // block -= basis (basis . block); the dots are left in dots_ [size, kBlock].
    void take_out_basis() {
        table_.dots_with_vectors(basis_, size_, stride_, block_, dots_.data());
        negated_.resize(dots_.size());
        for (std::size_t i = 0; i < dots_.size(); ++i) negated_[i] = -dots_[i];
        table_.add_to_vectors(basis_, size_, stride_, negated_.data(), block_);
    }

    // Takes the earlier vectors of the block out of each and gives it unit length. What each was
    // made of goes to `triangle` (column = vector), if wanted. A vector that is nothing but
    // rounding is replaced by a random one; `replaced` says whether there was one.
    bool orthonormalise_block(double (*triangle)[kBlock] = nullptr, double scale = 0) {
        bool replaced = false;
        for (std::int64_t v = 0; v < kBlock; ++v) {
            double* vector = block_ + v * stride_;
            const double before = norm(vector);
            for (int pass = 0; pass < 2; ++pass) {
                for (std::int64_t u = 0; u < v; ++u) {
                    const double amount = table_.dot(block_ + u * stride_, vector, stride_);
                    add(vector, -amount, block_ + u * stride_);
                    if (triangle != nullptr) triangle[u][v] += amount;
                }
            }
            double length = norm(vector);
            if (length <= kDependent * std::max(before, scale)) {
                replaced = true;
                fill_randomly(vector, 1);
                length = norm(vector);
            } else if (triangle != nullptr) {
                triangle[v][v] = length;
            }
            for (std::int64_t i = 0; i < stride_; ++i) vector[i] /= length;
        }
        return replaced;
    }

    // Newest columns of the projected matrix; block becomes the orthonormal next block and
    // triangle_ what the multiplied one was made of.
    void project_and_reduce() {
        std::vector<double> total(static_cast<std::size_t>(size_ * kBlock));
        for (int pass = 0; pass < 2; ++pass) {  // twice is enough
            take_out_basis();
            for (std::size_t i = 0; i < total.size(); ++i) total[i] += dots_[i];
        }
        const std::int64_t first = size_ - kBlock;
        for (std::int64_t i = 0; i < size_; ++i) {
            for (std::int64_t v = 0; v < kBlock; ++v) {
                const double value = total[static_cast<std::size_t>(i * kBlock + v)];
                element(i, first + v) = value;
                if (i < first) element(first + v, i) = value;
            }
        }
        for (auto& row : triangle_) std::fill(std::begin(row), std::end(row), 0.0);
        double scale = 0;
        for (std::int64_t i = 0; i < size_; ++i) scale = std::max(scale, element(i, i));
        bool again = orthonormalise_block(triangle_, scale);
        // Dividing by a short length, and every random vector, brings the basis back in.
        for (int pass = 0; pass < (again ? 2 : 1); ++pass) {
            take_out_basis();
            again = orthonormalise_block() || again;
        }
    }

    double& element(std::int64_t i, std::int64_t j) {
        return projected_[static_cast<std::size_t>(i * capacity_ + j)];
    }

    RitzPairs ritz_pairs() {
        RitzPairs pairs;
        std::vector<double> matrix(static_cast<std::size_t>(size_ * size_));
        for (std::int64_t i = 0; i < size_; ++i) {
            for (std::int64_t j = 0; j <= i; ++j) {
                matrix[static_cast<std::size_t>(i * size_ + j)] =
                    (element(i, j) + element(j, i)) / 2;
            }
        }
        pairs.vectors.resize(static_cast<std::size_t>(2 * size_));
        leading_eigenpairs_tridiagonal(matrix.data(), size_, 3, 2, pairs.values,
                                       pairs.vectors.data());
        for (int pair = 0; pair < 2; ++pair) {
            // A q of the last block alone leaves the basis, by block * triangle.
            const double* last = pairs.vectors.data() + (pair + 1) * size_ - kBlock;
            double squares = 0;
            for (const auto& row : triangle_) {
                double sum = 0;
                for (std::int64_t v = 0; v < kBlock; ++v) sum += row[v] * last[v];
                squares += sum * sum;
            }
            pairs.residuals[pair] = std::sqrt(squares);
        }
        return pairs;
    }

    // How many times too large the residuals are.
    static double excess_of(const double (&values)[3], const double (&residuals)[2],
                            double rounding) {
        const double largest = values[0];
        const double slack = rounding * largest;
        const double axis_bound =
            std::max(kAngle * (values[0] - values[1]), kSmallestShare * largest) + slack;
        const double second_gap = std::max(values[1] - values[2], residuals[1]);
        const double second_bound = std::sqrt(kSecondShare * largest * second_gap) + slack;
        return std::max(residuals[0] / axis_bound, residuals[1] / second_bound);
    }

    // Whether the residuals, falling as they did since the last look, stay too large for the
    // capacity. They fall ever faster, so this is asked from the eighth block on.
    bool is_hopeless(double log_excess) {
        const double fall =
            (last_log_excess_ - log_excess) / static_cast<double>(size_ - last_size_);
        last_log_excess_ = log_excess;
        last_size_ = size_;
        const auto left = static_cast<double>(capacity_ - size_);
        return size_ >= 8 * kBlock && log_excess > fall * left;
    }

    // The Ritz vectors in full, and whether their residuals from one more multiplication are small.
    // A larger eigenvalue that the whole basis is orthogonal to is not seen here either.
    bool confirm(const RitzPairs& pairs, double* vector, LeadingEigenvalues& eigenvalues) {
        std::fill_n(block_, kBlock * stride_, 0.0);
        for (std::int64_t i = 0; i < size_; ++i) {
            double* weights = dots_.data() + i * kBlock;
            for (std::int64_t v = 0; v < kBlock; ++v) {
                weights[v] = v < 2 ? pairs.vectors[static_cast<std::size_t>(v * size_ + i)] : 0;
            }
        }
        table_.add_to_vectors(basis_, size_, stride_, dots_.data(), block_);
        for (std::int64_t v = 0; v < 2; ++v) {
            double* ritz = block_ + v * stride_;
            const double length = norm(ritz);
            for (std::int64_t i = 0; i < stride_; ++i) ritz[i] /= length;
        }
        double* products = basis_;  // has served
        multiply_(block_, products);
        double values[3] = {0, 0, pairs.values[2]};
        double residuals[2];
        for (std::int64_t v = 0; v < 2; ++v) {
            double* product = products + v * stride_;
            values[v] = table_.dot(block_ + v * stride_, product, stride_);
            add(product, -values[v], block_ + v * stride_);
            residuals[v] = norm(product);
        }
        if (!(excess_of(values, residuals, kRoundingShare) <= 1)) return false;
        std::copy_n(block_, stride_, vector);
        eigenvalues = {values[0], values[1]};
        return true;
    }

    const kernels::PolarizationAxisKernels& table_;
    const BlockMultiply& multiply_;
    std::int64_t n_, stride_, capacity_;
    bool give_up_early_;
    std::uint64_t seed_;
    double last_log_excess_ = 0;
    std::int64_t last_size_ = 0;
    AlignedBuffer basis_buffer_, block_buffer_;
    double* basis_;  // [size_, stride], orthonormal
    double* block_;  // [kBlock, stride], the next of it
    std::int64_t size_ = 0;
    std::uint64_t n_random_ = 0;
    double triangle_[kBlock][kBlock] = {};
    std::vector<double> projected_;  // [capacity, capacity]: basis . A . basis
    std::vector<double> dots_, negated_;
};

}  // namespace

bool leading_eigenpair_lanczos(const kernels::PolarizationAxisKernels& table,
                               const BlockMultiply& multiply, std::int64_t n, std::int64_t stride,
                               std::int64_t most_vectors, bool give_up_early, std::uint64_t seed,
                               double* vector, LeadingEigenvalues& eigenvalues) {
    BlockLanczos lanczos(table, multiply, n, stride, most_vectors / kBlock * kBlock, give_up_early,
                         seed);
    return lanczos.run(vector, eigenvalues);
}

}  // namespace epibias
