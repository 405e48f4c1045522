"""`polarization_axis` and `polarization_scores` against float64 numpy, and their invariants."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from epibias import _core

LEVELS = _core.simd_levels()
# Rounding a unit axis to float32 moves it by at most half an ulp a component: 6e-8 in angle.
ANGLE = 1e-6
# Ratios of sums of at most 40 · 384 float64 products, of which an eigenvalue loses a few thousand
# eps at worst.
SUMS = 1e-12
NEAR_TIE_ANGLE = 1e-5  # relative gap below 0.01: the direction itself is ill-conditioned


@pytest.fixture(autouse=True)
def _best_level_afterwards():
    threads = _core.n_threads()
    yield
    _core.set_simd_level(LEVELS[-1])
    _core.set_n_threads(threads)


def angle(left: np.ndarray, right: np.ndarray) -> float:
    """Angle of two vectors, accurate when small; orientation counts."""
    left, right = left / np.linalg.norm(left), right / np.linalg.norm(right)
    return 2 * float(np.arctan2(np.linalg.norm(left - right), np.linalg.norm(left + right)))


def anchors(seed: int, n_topics: int, n_anchors: int, dim: int) -> np.ndarray:
    """Anchors around a common centre, spread along one planted direction."""
    rng = np.random.default_rng(seed)
    centre, direction = rng.normal(size=(2, n_topics, 1, dim))
    spread = rng.normal(size=(n_topics, n_anchors, 1))
    noise = rng.normal(size=(n_topics, n_anchors, dim))
    return (centre + spread * direction + 0.5 * noise).astype(np.float32)


def assert_same_axis(result, topic: int, expected: reference.Axis):
    axes, explained, gap = result
    axis = axes[topic].astype(np.float64)
    assert np.isfinite(axis).all()
    assert abs(np.linalg.norm(axis) - 1) <= 2e-7
    assert abs(explained[topic] - expected.explained) <= SUMS
    assert abs(gap[topic] - expected.relative_gap) <= SUMS
    bound = ANGLE if expected.relative_gap >= 0.01 else NEAR_TIE_ANGLE
    assert angle(axis, expected.axis) <= bound


@pytest.mark.parametrize("n_anchors", [2, 3, 8, 9, 24, 25, 40])
@pytest.mark.parametrize("dim", [2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 97, 384])
def test_every_level_gives_the_oracles_axis(n_anchors, dim):
    topics = anchors(n_anchors * dim, 3, n_anchors, dim)
    results = []
    for level in LEVELS:
        _core.set_simd_level(level)
        for n_threads in (1, 2):
            _core.set_n_threads(n_threads)
            results.append(_core.polarization_axis(topics))
    for topic in range(3):
        assert_same_axis(results[0], topic, reference.polarization_axis(topics[topic]))
    for result in results:
        for got, first in zip(result, results[0], strict=True):
            assert got.tobytes() == first.tobytes()


def test_stances_orient_as_the_oracle():
    rng = np.random.default_rng(3)
    topics = anchors(3, 30, 8, 33)
    stances = rng.choice([-2.0, -1.0, 0.0, 1.0], (30, 8))
    stances[:, 0], stances[:, 1] = 1.0, -1.0
    got = _core.polarization_axis(topics, stances)
    free = _core.polarization_axis(topics)
    flipped = 0
    for topic in range(30):
        expected = reference.polarization_axis(topics[topic], stances[topic])
        assert_same_axis(got, topic, expected)
        flipped += not np.array_equal(got[0][topic], free[0][topic])
    assert 5 < flipped < 25
    opposite = _core.polarization_axis(topics, -stances)
    assert np.array_equal(opposite[0], -got[0])


@pytest.mark.parametrize("offset", [-10.0, 10.0])
def test_stances_of_equal_mean_score_leave_the_sign_to_the_anchors(offset):
    rows = np.zeros((4, 3), np.float32)
    rows[:, 1] = offset + np.array([-3, 3, -3, 3])
    stances = np.array([1.0, 1.0, -1.0, -1.0])
    axes, _, _ = _core.polarization_axis(rows[None], stances[None], normalize=False)
    assert axes[0].tolist() == [0, np.sign(offset), 0]
    for direction in (np.eye(3)[1], -np.eye(3)[1]):
        oriented = reference.orient(direction, rows.astype(float), stances)
        assert oriented.tolist() == axes[0].tolist()


def test_raw_rows_and_one_dimension():
    topics = anchors(4, 5, 6, 5) * np.float32(100)
    got = _core.polarization_axis(topics, normalize=False)
    for topic in range(5):
        expected = reference.polarization_axis(topics[topic], normalize=False)
        assert_same_axis(got, topic, expected)
    single = np.array([[[1.0], [3.0], [-5.0]]], np.float32)
    axis, explained, gap = _core.polarization_axis(single, normalize=False)
    assert (axis[0, 0], explained[0], gap[0]) == (-1.0, 1.0, 1.0)


def test_scale_of_the_rows_does_not_matter():
    topics = anchors(6, 4, 8, 31)
    expected = _core.polarization_axis(topics)
    scales = np.random.default_rng(1).choice([2.0**-60, 0.5, 8.0, 2.0**60], (4, 8, 1))
    got = _core.polarization_axis(topics * scales.astype(np.float32))
    assert np.all(np.abs(got[0] - expected[0]) <= 1e-6)


def test_sign_rule_without_stances():
    """The mean PS of the anchors is positive; around the origin the largest component is."""
    topics = anchors(7, 50, 8, 16)
    axes = _core.polarization_axis(topics)[0]
    for topic in range(50):
        assert reference.polarization_scores(topics[topic], axes[topic]).mean() > 0
    rows = np.array([[[0, 3, -4], [0, -3, 4]], [[0, -1, 1], [0, 1, -1]]], np.float32)
    axes = _core.polarization_axis(rows)[0]
    assert np.allclose(axes[0], [0, -0.6, 0.8], rtol=0, atol=1e-7)
    # A tie in magnitude: the lowest index is positive, whatever rounding says.
    assert np.allclose(axes[1], np.array([0, 1, -1]) / np.sqrt(2), rtol=0, atol=1e-7)


def test_order_of_the_anchors_does_not_matter():
    topics = anchors(8, 10, 9, 64)
    order = np.random.default_rng(0).permutation(9)
    expected = _core.polarization_axis(topics)
    got = _core.polarization_axis(np.ascontiguousarray(topics[:, order]))
    assert np.all(np.abs(got[0] - expected[0]) <= 3e-7)
    assert np.all(np.abs(got[2] - expected[2]) <= SUMS)


@pytest.mark.parametrize(("n_anchors", "dim"), [(8, 40), (30, 40), (60, 40)])
def test_leading_eigenvalues_that_are_equal(n_anchors, dim):
    """The axis is one of the plane's unit vectors: the eigen-residual is what can be asked."""
    rng = np.random.default_rng(2)
    basis = np.linalg.qr(rng.normal(size=(dim, 2)))[0]
    turns = 2 * np.pi * np.arange(n_anchors) / n_anchors
    rows = np.stack([np.cos(turns), np.sin(turns)], axis=1) @ basis.T
    topics = rows[None].astype(np.float32)
    axis, explained, gap = _core.polarization_axis(topics, normalize=False)
    assert gap[0] <= 1e-6
    assert abs(explained[0] - 0.5) <= 1e-6
    centred = topics[0] - topics[0].mean(axis=0, dtype=np.float64)
    product = centred.T @ (centred @ axis[0].astype(np.float64))
    value = axis[0] @ product
    assert np.linalg.norm(product - value * axis[0]) <= 1e-6 * value


def test_a_batch_is_its_topics_one_by_one_to_the_bit():
    for n_anchors, dim in ((8, 97), (30, 17), (40, 64)):
        topics = anchors(dim, 12, n_anchors, dim)
        batch = _core.polarization_axis(topics)
        for topic in range(12):
            one = _core.polarization_axis(topics[topic : topic + 1])
            for got, expected in zip(one, batch, strict=True):
                assert got[0].tobytes() == expected[topic].tobytes()


def test_unaligned_and_empty_input():
    topics = anchors(5, 3, 4, 9)
    stances = np.tile([1.0, -1.0], (3, 2))
    unaligned = [
        np.frombuffer(b"\0" + values.tobytes(), values.dtype, offset=1).reshape(values.shape)
        for values in (topics, stances)
    ]
    assert not unaligned[0].flags.aligned
    got = _core.polarization_axis(*unaligned)
    expected = _core.polarization_axis(topics, stances)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(got, expected, strict=True))
    assert [len(values) for values in _core.polarization_axis(topics[:0])] == [0, 0, 0]


# ---- scores --------------------------------------------------------------------------------


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("dim", [1, 2, 7, 8, 9, 31, 33, 97, 384])
def test_scores_are_the_oracles(dim, normalize):
    rng = np.random.default_rng(dim)
    rows = rng.normal(size=(50, dim)).astype(np.float32)
    axes = reference.unit_rows(rng.normal(size=(3, dim))).astype(np.float32)
    results = []
    for level in LEVELS:
        _core.set_simd_level(level)
        results.append(_core.polarization_scores(rows, axes, normalize=normalize))
    assert all(result.tobytes() == results[0].tobytes() for result in results)
    for topic in range(3):
        expected = reference.polarization_scores(rows, axes[topic], normalize)
        # Half an ulp of float32 at the largest score.
        assert np.all(np.abs(results[0][topic] - expected) <= 6e-8 * np.abs(expected).max())


def test_gathered_scores_are_the_same_numbers():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(30, 33)).astype(np.float32)
    axes = rng.normal(size=(4, 33)).astype(np.float32)
    everything = _core.polarization_scores(rows, axes)
    indices = rng.integers(0, 30, (9, 5))
    axis_of_query = rng.integers(0, 4, 9)
    got = _core.polarization_scores(rows, axes, indices, axis_of_query)
    assert np.array_equal(got, everything[axis_of_query[:, None], indices])
    own = _core.polarization_scores(rows, axes, indices[:4])
    assert np.array_equal(own, everything[np.arange(4)[:, None], indices[:4]])
    single = _core.polarization_scores(rows, axes[:1], indices)
    assert np.array_equal(single, everything[0][indices])


def test_only_the_rows_that_are_gathered_are_read():
    rows = np.ones((3, 4), np.float32)
    rows[1] = np.nan
    axes = np.full((1, 4), 0.5, np.float32)
    assert _core.polarization_scores(rows, axes, np.array([[0, 2]])).tolist() == [[1.0, 1.0]]


def test_scores_are_locally_consistent():
    """Eq. 3 of arXiv 2512.00804: |PS(a) - PS(b)| <= |E(a) - E(b)|, for unit rows and axes."""
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(60, 20)).astype(np.float32)
    axes = reference.unit_rows(rng.normal(size=(5, 20))).astype(np.float32)
    scores = _core.polarization_scores(rows, axes)
    unit = reference.unit_rows(rows)
    distances = np.linalg.norm(unit[:, None] - unit[None], axis=2)
    differences = np.abs(scores[:, :, None] - scores[:, None, :])
    assert np.all(differences <= distances + 2e-7)
    assert np.all(np.abs(scores) <= 1 + 2e-7)


# ---- wrong input ---------------------------------------------------------------------------

TOPICS = anchors(0, 3, 4, 5)
STANCES = np.tile([1.0, -1.0], (3, 2))


def changed(array: np.ndarray, place: object, value: object) -> np.ndarray:
    copy = array.copy()
    copy[place] = value
    return copy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"anchors": TOPICS[:, :1].copy()}, r"anchors: expected at least 2 anchors a topic, got 1"),
        ({"anchors": TOPICS[0]}, r"anchors: expected a 3-d array, got shape \(4, 5\)"),
        ({"anchors": TOPICS.astype(np.float16)}, r"anchors: expected dtype float32; call anchors."),
        (
            {"anchors": changed(TOPICS, (1, 2, 3), np.nan)},
            r"anchors: expected finite rows .* got NaN or Inf in row 2 \(topic 1\)",
        ),
        (
            {"anchors": changed(TOPICS, (2, 1), 0)},
            r"anchors: expected finite rows of non-zero norm, got a zero row 1 \(topic 2\)",
        ),
        (
            {"anchors": changed(TOPICS, 1, TOPICS[0, 0])},
            r"anchors: expected anchors that differ, got equal ones \(topic 1\)",
        ),
        ({"stances": STANCES[:2].copy()}, r"stances: expected shape \(3, 4\), got shape \(2, 4\)"),
        ({"stances": np.abs(STANCES)}, r"stances: expected positive and negative .* \(topic 0\)"),
        ({"stances": changed(STANCES, 2, 0.0)}, r"stances: .* got zeros only \(topic 2\)"),
        ({"stances": changed(STANCES, (1, 1), np.nan)}, r"stances: .* anchor 1 \(topic 1\)"),
    ],
)
def test_wrong_anchors_are_named(change, message):
    arguments = {"anchors": TOPICS, **change}
    with pytest.raises(ValueError, match=message):
        _core.polarization_axis(**arguments)


def test_equal_anchors_up_to_their_length_are_equal():
    rows = np.outer(np.arange(1, 9), np.arange(1, 6)).astype(np.float32)[None]
    with pytest.raises(ValueError, match=r"anchors: expected anchors that differ, got equal ones"):
        _core.polarization_axis(rows)
    assert _core.polarization_axis(rows, normalize=False)[1][0] > 0.999


ROWS, AXES = TOPICS[0], TOPICS[1, :2].copy()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": changed(ROWS, 3, 0)}, r"rows: expected finite rows .* got a zero row 3"),
        ({"rows": changed(ROWS, (2, 1), np.nan)}, r"rows: expected finite rows .* NaN in row 2"),
        ({"axes": changed(AXES, (1, 1), np.inf)}, r"axes: expected finite .* Inf in row 1"),
        ({"axes": AXES[:, :4].copy()}, r"axes: expected dim 5, as rows, got dim 4"),
        ({"indices": np.array([[0, 4], [1, 2]])}, r"indices: .* got 4 \(row 0, column 1\)"),
        ({"indices": np.array([[0, 3], [-1, 2]])}, r"indices: .* got -1 \(row 1, column 0\)"),
        ({"indices": np.zeros((3, 1), np.int64)}, r"axis_of_query: expected the axis of every q"),
        ({"axis_of_query": np.zeros(2, np.int64)}, r"axis_of_query: expected None where indices"),
        (
            {"indices": np.zeros((3, 1), np.int64), "axis_of_query": np.array([0, 1, 2])},
            r"axis_of_query: expected 0 to 1 .* got 2 \(query 2\)",
        ),
        (
            {"indices": np.zeros((3, 1), np.int64), "axis_of_query": np.array([0, 1])},
            r"axis_of_query: expected 3 axes, one a row of indices, got 2",
        ),
        ({"indices": np.zeros((2, 1), np.int32)}, r"indices: expected dtype int64"),
    ],
)
def test_wrong_arguments_of_the_scores_are_named(change, message):
    arguments = {"rows": ROWS, "axes": AXES, **change}
    with pytest.raises(ValueError, match=message):
        _core.polarization_scores(**arguments)
