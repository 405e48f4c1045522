"""`polarization_axis` around every switch of method, and with many anchors, against float64 numpy.

Few anchors go to Jacobi's method by lanes, more to a tridiagonal form, many to block Lanczos, which
gives up where the spectrum has no gap to speak of.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import reference
from epibias import _core
from pools import quietly_fitted
from test_polarization_axis import angle

LEVELS = _core.simd_levels()
ANGLE = 1e-6  # as in test_polarization_axis
NEAR_TIE_ANGLE = 1e-5  # relative gap below 0.01
# Lanczos stops when the second eigenvalue is right to 1e-11 of the first; the rest is rounding.
EIGENVALUES = 2e-11


@pytest.fixture(autouse=True)
def _best_level_afterwards():
    threads = _core.n_threads()
    yield
    _core.set_simd_level(LEVELS[-1])
    _core.set_n_threads(threads)


def planted(seed: int, n_anchors: int, dim: int) -> np.ndarray:
    """Around a common centre, spread along directions of falling variance."""
    rng = np.random.default_rng(seed)
    spectrum = np.arange(1, dim + 1) ** -0.5
    rows = rng.normal(size=(n_anchors, dim)) * spectrum + rng.normal(size=dim) * spectrum
    return rows.astype(np.float32)


def with_variances(seed: int, n_anchors: int, dim: int, variances: list[float]) -> np.ndarray:
    """Rows whose leading variances are these and whose others are small."""
    rng = np.random.default_rng(seed)
    rank = min(n_anchors - 1, dim)
    left = rng.normal(size=(n_anchors, rank))
    left = np.linalg.qr(left - left.mean(axis=0))[0]
    right = np.linalg.qr(rng.normal(size=(dim, rank)))[0]
    every = np.sort(rng.random(rank) * 0.5)[::-1]
    every[: len(variances)] = variances
    return ((left * np.sqrt(every)) @ right.T).astype(np.float32)


def residual(rows: np.ndarray, axis: np.ndarray, normalize: bool) -> float:
    unit = reference.unit_rows(rows) if normalize else rows.astype(np.float64)
    centred = unit - unit.mean(axis=0)
    product = centred.T @ (centred @ axis)
    value = axis @ product
    return float(np.linalg.norm(product - value * axis) / value)


def assert_the_oracles(rows: np.ndarray, normalize: bool = True) -> float:
    """At every level and two numbers of threads, to the same bits. Returns the relative gap."""
    results = []
    for level in LEVELS:
        _core.set_simd_level(level)
        for n_threads in (1, 3) if level == LEVELS[-1] else (1,):
            _core.set_n_threads(n_threads)
            results.append(_core.polarization_axis(rows[None], normalize=normalize))
    for result in results[1:]:
        for got, first in zip(result, results[0], strict=True):
            assert got.tobytes() == first.tobytes()
    expected = reference.polarization_axis(rows, normalize=normalize)
    axis, explained, gap = (values[0] for values in results[0])
    axis = axis.astype(np.float64)
    assert np.isfinite(axis).all()
    assert abs(np.linalg.norm(axis) - 1) <= 2e-7
    assert abs(explained - expected.explained) <= EIGENVALUES
    assert abs(gap - expected.relative_gap) <= EIGENVALUES
    assert residual(rows, axis, normalize) <= 1e-6
    if expected.relative_gap >= 1e-6:
        bound = ANGLE if expected.relative_gap >= 0.01 else NEAR_TIE_ANGLE
        assert angle(axis, expected.axis) <= bound
    return float(gap)


@pytest.mark.parametrize("n_anchors", [15, 16, 17, 18, 255, 256, 257, 258])
@pytest.mark.parametrize("dim", [15, 16, 17, 255, 256, 257, 300])
def test_around_every_switch(n_anchors, dim):
    assert_the_oracles(planted(n_anchors + dim, n_anchors, dim))


@pytest.mark.parametrize(
    ("n_anchors", "dim"), [(8, 4096), (40, 2048), (300, 1000), (700, 300), (1500, 257), (300, 4096)]
)
def test_many_anchors_or_dimensions(n_anchors, dim):
    assert_the_oracles(planted(1, n_anchors, dim))


@pytest.mark.parametrize("dim", [1, 2, 3, 7, 8, 9])
def test_many_anchors_of_few_dimensions(dim):
    assert_the_oracles(planted(2, 1000, dim), normalize=False)


@pytest.mark.parametrize(("n_anchors", "dim"), [(300, 300), (600, 280), (290, 700)])
def test_structureless_anchors(n_anchors, dim):
    """The spectrum falls slowly: Lanczos gives up, and the direct method takes over."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(n_anchors, dim)).astype(np.float32)
    assert assert_the_oracles(rows) < 0.1


@pytest.mark.parametrize("gap", [1e-3, 1e-4, 1e-5, 1e-6])
@pytest.mark.parametrize(("n_anchors", "dim"), [(12, 100), (100, 384), (300, 400), (700, 300)])
def test_leading_eigenvalues_that_are_near(gap, n_anchors, dim):
    rows = with_variances(4, n_anchors, dim, [1.0, 1.0 - gap])
    found = assert_the_oracles(rows, normalize=False)
    assert found == pytest.approx(gap, abs=2e-6)  # float32 rows


@pytest.mark.parametrize("multiplicity", [2, 3, 4, 5, 9])
@pytest.mark.parametrize(("n_anchors", "dim"), [(12, 100), (300, 400), (700, 300)])
def test_clusters_of_leading_eigenvalues(multiplicity, n_anchors, dim):
    """More equal eigenvalues than Lanczos has vectors in a block, too."""
    rows = with_variances(5, n_anchors, dim, [1.0] * multiplicity)
    assert assert_the_oracles(rows, normalize=False) <= 1e-5


def test_an_eigenvalue_that_occurs_twice_exactly():
    """Integers: rotations by 90 degrees in two planes. One vector would see each value once."""
    for n_planes in (1, 2):
        rows = np.zeros((600, 400), np.float32)
        for row in range(600):
            plane, turn = divmod(row % (4 * n_planes), 4)
            rows[row, 2 * plane + turn % 2] = 1 if turn < 2 else -1
        _, explained, gap = _core.polarization_axis(rows[None], normalize=False)
        assert gap[0] <= 1e-13
        assert explained[0] == pytest.approx(1 / (2 * n_planes), abs=1e-13)


def uniform_from_splitmix(n_vectors: int, dim: int) -> np.ndarray:
    """What block Lanczos starts from with a seed of 0."""
    counters = np.arange(1, n_vectors * dim + 1, dtype=np.uint64)
    bits = counters * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    values = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1
    return values.reshape(n_vectors, dim)


@pytest.mark.parametrize("normalize", [False, True])
def test_anchors_orthogonal_to_a_start_that_ignores_them(normalize):
    """The leading direction is orthogonal, to rounding, to the block of seed 0, and shares no
    coordinate with the others: from that start, the second eigenpair has no residual to show."""
    n_anchors, dim, hidden = 600, 300, 64
    rng = np.random.default_rng(0)
    start = uniform_from_splitmix(4, dim)
    leading = np.zeros(dim)
    basis = np.linalg.qr(start[:, :52].T)[0]
    direction = rng.normal(size=52)
    direction -= basis @ (basis.T @ direction)
    leading[:52] = (direction / np.linalg.norm(direction)).astype(np.float32)
    for first in range(52, hidden, 4):  # each four mend what float32 broke before
        rest = np.linalg.solve(start[:, first : first + 4], -start @ leading)
        leading[first : first + 4] = rest.astype(np.float32)
    assert np.abs(start @ leading).max() <= 1e-15
    half = n_anchors // 2
    others = np.linalg.qr(rng.normal(size=(dim - hidden, 2)))[0].T
    noise = rng.normal(size=(half, dim - hidden)) * 0.12
    noise -= noise @ others.T @ others
    signs = np.repeat([1.0, -1.0], half // 2)
    topic = np.zeros((half, dim))
    topic[:, hidden:] = noise
    for other, size in zip(others, (0.9, 0.7), strict=True):
        topic[:, hidden:] += size * rng.permuted(signs)[:, None] * other
    rows = np.concatenate([topic + leading, topic - leading]).astype(np.float32)
    assert_the_oracles(rows, normalize=normalize)


@pytest.mark.parametrize(("n_anchors", "dim"), [(16, 60), (60, 384), (400, 384), (300, 900)])
@pytest.mark.parametrize("n_different", [2, 3, 5])
def test_duplicates_leave_few_directions(n_anchors, dim, n_different):
    """Rank one with two different rows; the gap is then 1, and Lanczos runs out of directions."""
    different = planted(6, n_different, dim)
    rows = np.ascontiguousarray(different[np.arange(n_anchors) % n_different])
    gap = assert_the_oracles(rows)
    assert (gap == pytest.approx(1, abs=1e-12)) == (n_different == 2)


def test_anchors_that_differ_by_little():
    """Nearly equal anchors: centring before the products is what keeps their difference."""
    for n_anchors, dim in ((8, 300), (40, 300), (300, 400), (500, 270)):
        rng = np.random.default_rng(7)
        spread = rng.normal(size=(n_anchors, 1)) * rng.normal(size=dim)
        noise = 0.3 * rng.normal(size=(n_anchors, dim))
        rows = (rng.normal(size=dim) + 1e-4 * (spread + noise)).astype(np.float32)
        assert_the_oracles(rows)


@pytest.mark.parametrize(("n_anchors", "dim"), [(16, 40), (40, 64), (300, 320)])
def test_a_batch_is_its_topics_one_by_one_to_the_bit(n_anchors, dim):
    """Eleven topics: a group of eight and one of three. Zeros, so that their sign would show."""
    topics = np.stack([planted(seed, n_anchors, dim) for seed in range(11)])
    topics[:, :, 1::3] = 0
    topics[3] = np.round(topics[3] * 2)
    topics[3, :, 0] += 1
    stances = np.where(np.arange(n_anchors) % 2, 1.0, -1.0) * np.ones((11, 1))
    for n_threads in (1, 2):
        _core.set_n_threads(n_threads)
        for labels in (None, stances):
            batch = _core.polarization_axis(topics, labels)
            for topic in range(11):
                one = slice(topic, topic + 1)
                alone = _core.polarization_axis(
                    topics[one], None if labels is None else labels[one]
                )
                for got, expected in zip(alone, batch, strict=True):
                    assert got[0].tobytes() == expected[topic].tobytes()


def test_many_anchors_are_oriented_by_their_stances():
    rows = planted(8, 400, 300)
    stances = np.where(np.arange(400) % 3, 1.0, -2.0)
    expected = reference.polarization_axis(rows, stances)
    for sign in (1.0, -1.0):
        axis = _core.polarization_axis(rows[None], sign * stances[None])[0][0].astype(np.float64)
        assert angle(axis, sign * expected.axis) <= ANGLE


@pytest.mark.parametrize(("row", "value"), [(0, np.nan), (399, np.inf), (300, 0.0)])
def test_a_broken_row_among_many_is_named(row, value):
    rows = planted(9, 400, 300)
    rows[row] = value
    what = "a zero row" if value == 0 else "NaN or Inf in row"
    for n_threads in (1, 2):
        _core.set_n_threads(n_threads)
        with pytest.raises(ValueError, match=rf"got {what} {row} \(topic 0\)"):
            _core.polarization_axis(rows[None])
    equal = np.ones((400, 300), np.float32)
    with pytest.raises(ValueError, match=r"got equal ones \(topic 0\)"):
        _core.polarization_axis(equal[None])


def test_memory_mapped_anchors_are_not_copied(tmp_path):
    rows = planted(10, 20_000, 64)
    np.save(tmp_path / "anchors.npy", rows)
    mapped = np.load(tmp_path / "anchors.npy", mmap_mode="r")
    expected = quietly_fitted(rows)
    quietly_fitted(mapped)  # numpy imports what it needs for mapped arrays
    tracemalloc.start()
    try:
        axis = quietly_fitted(mapped)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert axis.axis.tobytes() == expected.axis.tobytes()
    assert axis.neutral_centre == expected.neutral_centre
    assert peak < rows.nbytes / 4  # the anchors' scores in float64 are a 32nd of it


@pytest.mark.parametrize("normalize", [True, False])
def test_anchor_scores_are_the_oracles(normalize):
    topics = np.stack([planted(seed, 9, 33) for seed in range(3)])
    axes = _core.polarization_axis(topics)[0]
    results = []
    for level in LEVELS:
        _core.set_simd_level(level)
        results.append(_core.anchor_scores(topics, axes, normalize))
    assert all(result.tobytes() == results[0].tobytes() for result in results)
    for topic in range(3):
        expected = reference.polarization_scores(topics[topic], axes[topic], normalize)
        # 33 products of at most |row| each.
        assert np.abs(results[0][topic] - expected).max() <= 33 * 2.3e-16 * 10
    topics[1, 4, 2] = np.nan
    with pytest.raises(ValueError, match=r"anchors: expected finite rows.* in row 13"):
        _core.anchor_scores(topics, axes, normalize)
    with pytest.raises(ValueError, match=r"axes: expected 3 axes, one a topic, got 2"):
        _core.anchor_scores(topics, axes[:2].copy(), normalize)
    with pytest.raises(ValueError, match=r"axes: expected dim 33, as anchors, got dim 32"):
        _core.anchor_scores(topics, axes[:, :32].copy(), normalize)
