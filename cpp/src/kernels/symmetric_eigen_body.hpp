// What: symmetric_eigen_kernels.hpp on eight lanes; compiled once per SIMD level by
// symmetric_eigen_<level>.cpp. No inline function of a library: see lanes.hpp.
//
// Jacobi's method on eight matrices, one a lane. A sweep turns every pair of indices once, in the
// order of a round-robin tournament: the pairs of a round have no index in common, so that their
// rotations, whose divisions and roots are slow, do not wait for each other. Only the matrix is
// turned. The rotations are kept, and applied backwards to one unit vector at the end: that costs n
// values a rotation less than turning all vectors.
#pragma once

#include "kernels/lanes.hpp"
#include "kernels/symmetric_eigen_kernels.hpp"

namespace epibias::kernels::EPIBIAS_LEVEL {
namespace {

static_assert(kEigenLanes == kLanes);
constexpr std::int64_t kRotationValues = 2 * kEigenLanes;  // cosine and sine

EPIBIAS_INLINE RegisterDoubles where_greater(RegisterDoubles left, RegisterDoubles right,
                                             RegisterDoubles yes, RegisterDoubles no) {
    return left > right ? yes : no;
}
template <typename Half>
EPIBIAS_INLINE Pair<Half> where_greater(const Pair<Half>& left, const Pair<Half>& right,
                                        const Pair<Half>& yes, const Pair<Half>& no) {
    return {where_greater(left.low, right.low, yes.low, no.low),
            where_greater(left.high, right.high, yes.high, no.high)};
}

EPIBIAS_INLINE RegisterDoubles square_root(RegisterDoubles values) {
    RegisterDoubles roots;
    for (int lane = 0; lane < kRegisterLanes; ++lane) roots[lane] = __builtin_sqrt(values[lane]);
    return roots;
}
template <typename Half>
EPIBIAS_INLINE Pair<Half> square_root(const Pair<Half>& values) {
    return {square_root(values.low), square_root(values.high)};
}

struct IndexPair {
    std::int64_t low, high;
};

// Match `number` of a round among `n_players` (even): the last player stays, the others move on.
EPIBIAS_INLINE IndexPair match(std::int64_t n_players, std::int64_t round, std::int64_t number) {
    const std::int64_t moving = n_players - 1;
    std::int64_t one = number == 0 ? moving : round + number;
    std::int64_t other = number == 0 ? round : round - number + moving;
    if (number != 0 && one >= moving) one -= moving;
    if (other >= moving) other -= moving;
    return one < other ? IndexPair{one, other} : IndexPair{other, one};
}

// Where element (i, j) stands; the lower triangle alone is kept.
EPIBIAS_INLINE std::int64_t place(std::int64_t n, std::int64_t i, std::int64_t j) {
    return (i > j ? i * n + j : j * n + i) * kLanes;
}

// The rotation of indices p and q that makes their common element zero, with the smaller angle,
// the one for which the method converges; none where the element is nothing. Turns the elements of
// p and q among themselves. Gives the cosine and sine, and what was turned (1 or 0) in `active`.
EPIBIAS_INLINE void make_rotation(double* matrices, std::int64_t n, IndexPair pair,
                                  const Lanes& nothing, double* rotation, Lanes& active) {
    const Lanes zero = broadcast(0.0);
    const Lanes one = broadcast(1.0);
    double* p_place = matrices + place(n, pair.low, pair.low);
    double* q_place = matrices + place(n, pair.high, pair.high);
    double* element_place = matrices + place(n, pair.high, pair.low);
    const Lanes element = load(static_cast<const double*>(element_place));
    const Lanes p_value = load(static_cast<const double*>(p_place));
    const Lanes q_value = load(static_cast<const double*>(q_place));
    const Lanes square = element * element;
    // tan = e / (d + sign(d) sqrt(d^2 + e^2)), d the difference of the diagonal, e twice the
    // element
    const Lanes difference = q_value - p_value;
    const Lanes twice = element + element;
    const Lanes root = square_root(difference * difference + twice * twice);
    const Lanes divisor = where_greater(zero, difference, difference - root, difference + root);
    const Lanes turned = where_greater(square, nothing, one, zero);
    const Lanes tangent =
        where_greater(square, nothing, twice / where_greater(square, nothing, divisor, one), zero);
    const Lanes cosine = one / square_root(tangent * tangent + one);
    store(p_place, p_value - tangent * element);
    store(q_place, q_value + tangent * element);
    store(element_place, where_greater(square, nothing, zero, element));
    store(rotation, cosine);
    store(rotation + kLanes, tangent * cosine);
    active = maximum(active, turned);
}

// Rows and columns p and q at every other index.
EPIBIAS_INLINE void apply_rotation(double* matrices, std::int64_t n, IndexPair pair,
                                   const double* rotation) {
    const Lanes cosine = load(rotation);
    const Lanes sine = load(rotation + kLanes);
    for (std::int64_t i = 0; i < n; ++i) {
        if (i == pair.low || i == pair.high) continue;
        double* p_place = matrices + place(n, i, pair.low);
        double* q_place = matrices + place(n, i, pair.high);
        const Lanes p_value = load(static_cast<const double*>(p_place));
        const Lanes q_value = load(static_cast<const double*>(q_place));
        store(p_place, cosine * p_value - sine * q_value);
        store(q_place, sine * p_value + cosine * q_value);
    }
}

EPIBIAS_INLINE bool any_lane(const Lanes& flags) {
    double lane[kLanes];
    store(lane, flags);
    double sum = 0;
    for (const double flag : lane) sum += flag;
    return sum != 0;
}

// Elements whose square is at most this are nothing: a thousandth of the rounding error of the
// norm.
EPIBIAS_INLINE Lanes negligible_square(const double* matrices, std::int64_t n) {
    Lanes squares = broadcast(0.0);
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j <= i; ++j) {
            const Lanes element = load(matrices + place(n, i, j));
            const Lanes square = element * element;
            squares = squares + (i == j ? square : square + square);
        }
    }
    return squares * broadcast(1e-38);
}

// Unit vector of the largest diagonal element (the lowest index of equal ones) and both values.
void choose_leading(const double* matrices, std::int64_t n, double* vectors, double* values) {
    for (int lane = 0; lane < kLanes; ++lane) {
        std::int64_t first = 0;
        const auto diagonal = [&](std::int64_t i) { return matrices[place(n, i, i) + lane]; };
        for (std::int64_t i = 1; i < n; ++i) {
            if (diagonal(i) > diagonal(first)) first = i;
        }
        double second = 0;
        bool found = false;
        for (std::int64_t i = 0; i < n; ++i) {
            vectors[i * kLanes + lane] = i == first ? 1.0 : 0.0;
            if (i == first || (found && diagonal(i) <= second)) continue;
            second = diagonal(i);
            found = true;
        }
        values[lane] = diagonal(first);
        values[kLanes + lane] = second;
    }
}

void jacobi(double* matrices, std::int64_t n, double* rotations, double* vectors, double* values) {
    const Lanes nothing = negligible_square(matrices, n);
    const std::int64_t n_players = n + n % 2;  // the last of an even number may not exist
    double* rotation = rotations;
    int n_sweeps = 0;
    for (bool turned = true; turned && n_sweeps < kMaxSweeps; ++n_sweeps) {
        Lanes active = broadcast(0.0);
        for (std::int64_t round = 0; round + 1 < n_players; ++round) {
            double* const first_rotation = rotation;
            for (std::int64_t number = 0; number < n_players / 2; ++number) {
                const IndexPair pair = match(n_players, round, number);
                if (pair.high == n) continue;
                make_rotation(matrices, n, pair, nothing, rotation, active);
                rotation += kRotationValues;
            }
            const double* made = first_rotation;
            for (std::int64_t number = 0; number < n_players / 2; ++number) {
                const IndexPair pair = match(n_players, round, number);
                if (pair.high == n) continue;
                apply_rotation(matrices, n, pair, made);
                made += kRotationValues;
            }
        }
        turned = any_lane(active);
    }
    choose_leading(matrices, n, vectors, values);
    for (int sweep = 0; sweep < n_sweeps; ++sweep) {  // everything backwards
        for (std::int64_t round = n_players - 1; round-- > 0;) {
            for (std::int64_t number = n_players / 2; number-- > 0;) {
                const IndexPair pair = match(n_players, round, number);
                if (pair.high == n) continue;
                rotation -= kRotationValues;
                const Lanes cosine = load(static_cast<const double*>(rotation));
                const Lanes sine = load(static_cast<const double*>(rotation + kLanes));
                double* p_place = vectors + pair.low * kLanes;
                double* q_place = vectors + pair.high * kLanes;
                const Lanes p_value = load(static_cast<const double*>(p_place));
                const Lanes q_value = load(static_cast<const double*>(q_place));
                store(p_place, cosine * p_value + sine * q_value);
                store(q_place, cosine * q_value - sine * p_value);
            }
        }
    }
    Lanes squares = broadcast(0.0);
    for (std::int64_t i = 0; i < n; ++i) {
        const Lanes value = load(static_cast<const double*>(vectors + i * kLanes));
        squares = squares + value * value;
    }
    const Lanes norm = square_root(squares);
    for (std::int64_t i = 0; i < n; ++i) {
        double* value = vectors + i * kLanes;
        // A turn by nothing may change the sign of a zero, and whether a lane waits for others with
        // such turns depends on them: adding 0 makes every zero positive.
        store(value, load(static_cast<const double*>(value)) / norm + broadcast(0.0));
    }
}

// ---- one large matrix: rows four at a time --------------------------------------------------

constexpr int kRowsAtOnce = 4;

// Rows j … j + kRows - 1 times u, and their transpose into product, before column j; the corner
// behind it element by element.
template <int kRows>
EPIBIAS_INLINE void multiply_rows(const double* matrix, std::int64_t stride, std::int64_t j,
                                  const double* u, double* product) {
    const double* rows = matrix + j * stride;
    Lanes sums[kRows];
    for (auto& sum : sums) sum = broadcast(0.0);
    std::int64_t k = 0;
    for (; k + kLanes <= j; k += kLanes) {
        const Lanes other = load(u + k);
        Lanes total = load(static_cast<const double*>(product + k));
        for (int row = 0; row < kRows; ++row) {
            const Lanes values = load(rows + row * stride + k);
            sums[row] = sums[row] + values * other;
            total = total + values * broadcast(u[j + row]);
        }
        store(product + k, total);
    }
    for (int row = 0; row < kRows; ++row) {
        const double* values = rows + row * stride;
        double sum = sum_of_lanes(sums[row]);
        for (std::int64_t column = k; column < j + row; ++column) {
            sum += values[column] * u[column];
            product[column] += values[column] * u[j + row];
        }
        product[j + row] += sum + values[j + row] * u[j + row];
    }
}

void multiply_lower(const double* matrix, std::int64_t stride, std::int64_t n, const double* u,
                    double* product) {
    for (std::int64_t i = 0; i < n; ++i) product[i] = 0;
    std::int64_t j = 0;
    for (; j + kRowsAtOnce <= n; j += kRowsAtOnce) {
        multiply_rows<kRowsAtOnce>(matrix, stride, j, u, product);
    }
    for (; j < n; ++j) multiply_rows<1>(matrix, stride, j, u, product);
}

template <int kRows>
EPIBIAS_INLINE void subtract_from_rows(double* matrix, std::int64_t stride, std::int64_t j,
                                       const double* u, const double* w) {
    double* rows = matrix + j * stride;
    std::int64_t k = 0;
    for (; k + kLanes <= j; k += kLanes) {
        const Lanes u_values = load(u + k);
        const Lanes w_values = load(w + k);
        for (int row = 0; row < kRows; ++row) {
            double* place = rows + row * stride + k;
            store(place, load(static_cast<const double*>(place)) -
                             (broadcast(u[j + row]) * w_values + broadcast(w[j + row]) * u_values));
        }
    }
    for (int row = 0; row < kRows; ++row) {
        for (std::int64_t column = k; column <= j + row; ++column) {
            rows[row * stride + column] -= u[j + row] * w[column] + w[j + row] * u[column];
        }
    }
}

void subtract_outer(double* matrix, std::int64_t stride, std::int64_t n, const double* u,
                    const double* w) {
    std::int64_t j = 0;
    for (; j + kRowsAtOnce <= n; j += kRowsAtOnce) {
        subtract_from_rows<kRowsAtOnce>(matrix, stride, j, u, w);
    }
    for (; j < n; ++j) subtract_from_rows<1>(matrix, stride, j, u, w);
}

}  // namespace

const SymmetricEigenKernels kSymmetricEigen{jacobi, multiply_lower, subtract_outer};

}  // namespace epibias::kernels::EPIBIAS_LEVEL
