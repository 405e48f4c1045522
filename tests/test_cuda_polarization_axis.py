"""`polarization_axis` and its scores on the emulated device, through the public kernels.

Against the float64 oracle, and where bits or words must agree, against the CPU's core.
"""

from __future__ import annotations

import numpy as np
import pytest

import reference
from epibias import _core, kernels, kernels_polarization
from epibias.errors import InputError

# Half an ulp of float32 a component is 6e-8; what the eigenpair adds is 2e-16 · n / relative gap.
ANGLE = 1e-7
NEAR_TIE_ANGLE = 1e-5  # relative gap from 1e-6 to 0.01
UNDEFINED_GAP, NEAR_TIE_GAP, RESIDUAL = 1e-6, 1e-2, 1e-6
SUMS = 1e-12


def angle(left, right):
    """Angle of two vectors, accurate when small; orientation counts."""
    left, right = left / np.linalg.norm(left), right / np.linalg.norm(right)
    return 2 * float(np.arctan2(np.linalg.norm(left - right), np.linalg.norm(left + right)))


def planted(seed, n_topics, n_anchors, dim):
    """Anchors around a common centre, spread along one planted direction."""
    rng = np.random.default_rng(seed)
    centre, direction = rng.normal(size=(2, n_topics, 1, dim))
    spread = rng.normal(size=(n_topics, n_anchors, 1))
    noise = rng.normal(size=(n_topics, n_anchors, dim))
    return (centre + spread * direction + 0.5 * noise).astype(np.float32)


def with_gap(seed, n_anchors, dim, gap):
    """One topic whose two leading variances differ by a chosen share."""
    rng = np.random.default_rng(seed)
    rank = min(n_anchors - 1, dim)
    left = rng.normal(size=(n_anchors, rank))
    left = np.linalg.qr(left - left.mean(axis=0))[0]
    right = np.linalg.qr(rng.normal(size=(dim, rank)))[0]
    variances = np.sort(rng.random(rank) * 0.5)[::-1]
    variances[:2] = 1, 1 - gap
    return ((left * np.sqrt(variances)) @ right.T).astype(np.float32)[None]


def residual(rows, axis):
    """|A v - (v A v) v| / (v A v) for the covariance A of raw rows."""
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    product = centred.T @ (centred @ axis)
    value = axis @ product
    return np.linalg.norm(product - value * axis) / value


def assert_is_the_oracles(topics, stances=None, normalize=True):
    axes, explained, gaps = kernels.polarization_axis(topics, stances, normalize=normalize)
    assert (axes.dtype, explained.dtype, gaps.dtype) == (np.float32, np.float64, np.float64)
    for topic, rows in enumerate(topics):
        signs = None if stances is None else stances[topic]
        expected = reference.polarization_axis(rows, signs, normalize)
        axis = axes[topic].astype(np.float64)
        assert abs(np.linalg.norm(axis) - 1) <= 2e-7
        assert abs(explained[topic] - expected.explained) <= SUMS
        assert abs(gaps[topic] - expected.relative_gap) <= SUMS
        if expected.relative_gap < UNDEFINED_GAP:
            assert residual(rows, axis) <= RESIDUAL
        else:
            near = expected.relative_gap < NEAR_TIE_GAP
            assert angle(axis, expected.axis) <= (NEAR_TIE_ANGLE if near else ANGLE)


@pytest.mark.parametrize("n_anchors", [2, 3, 8, 9, 16, 17, 32, 33, 40])
@pytest.mark.parametrize("dim", [2, 7, 31, 33, 97])
def test_axis_is_the_oracles(n_anchors, dim):
    assert_is_the_oracles(planted(n_anchors * dim, 3, n_anchors, dim))


@pytest.mark.parametrize("dim", [1, 2, 3, 15, 16, 17, 64, 65, 255, 384, 768, 1024])
def test_eight_anchors_of_any_dimension(dim):
    assert_is_the_oracles(planted(dim, 2, 8, dim), normalize=dim > 1)


@pytest.mark.parametrize(
    ("n_anchors", "dim"), [(600, 3), (600, 70), (100, 384), (64, 1024), (150, 200), (200, 150)]
)
def test_many_anchors(n_anchors, dim):
    assert_is_the_oracles(planted(n_anchors + dim, 1, n_anchors, dim))


def test_hundreds_of_topics():
    assert_is_the_oracles(planted(1, 300, 8, 16))
    assert_is_the_oracles(planted(2, 40, 33, 5))


@pytest.mark.parametrize("n_anchors", [8, 30, 70])
@pytest.mark.parametrize("gap", [0.5, 1e-2, 1e-3, 1e-5, 3e-6, 1e-7, 0.0])
def test_leading_eigenvalues_that_are_nearly_equal(n_anchors, gap):
    assert_is_the_oracles(with_gap(3, n_anchors, 48, gap), normalize=False)


@pytest.mark.parametrize("n_anchors", [8, 24, 48])
def test_constant_columns_and_rows_of_any_norm(n_anchors):
    topics = planted(5, 4, n_anchors, 40)
    topics[0, :, ::2] = 3
    topics[1, :, 1:] = topics[1, :1, 1:]  # one column varies
    topics[2] *= 2.0**-140  # denormal
    topics[3] *= np.float32(2.0) ** np.random.default_rng(0).integers(-120, 120, (n_anchors, 1))
    assert_is_the_oracles(topics)
    assert_is_the_oracles(topics[:3] * np.float32(2.0**100), normalize=False)


@pytest.mark.parametrize("n_anchors", [4, 12, 20, 50])
def test_stances_orient(n_anchors):
    rng = np.random.default_rng(n_anchors)
    topics = planted(n_anchors, 20, n_anchors, 21)
    stances = rng.choice([-2.0, -1.0, 0.0, 1.0], (20, n_anchors))
    stances[:, 0], stances[:, 1] = 1.0, -1.0
    assert_is_the_oracles(topics, stances)
    axes = kernels.polarization_axis(topics, stances)[0]
    assert np.array_equal(kernels.polarization_axis(topics, -stances)[0], -axes)
    flipped = [not np.array_equal(*pair) for pair in zip(axes, free_axes(topics), strict=True)]
    assert 2 < sum(flipped) < 18


def free_axes(topics):
    return kernels.polarization_axis(topics)[0]


def test_a_run_is_the_same_to_the_bit_and_a_batch_its_topics():
    for n_anchors in (8, 20, 40):
        topics = planted(7, 6, n_anchors, 33)
        batch = kernels.polarization_axis(topics)
        again = kernels.polarization_axis(topics)
        for topic in range(6):
            one = kernels.polarization_axis(topics[topic : topic + 1])
            for values, others, single in zip(batch, again, one, strict=True):
                assert values[topic].tobytes() == others[topic].tobytes() == single[0].tobytes()


def test_no_topics_and_no_rows():
    assert [len(v) for v in kernels.polarization_axis(planted(1, 2, 8, 4)[:0])] == [0, 0, 0]
    rows = np.ones((3, 4), np.float32)
    assert kernels.polarization_scores(rows[:0], rows).shape == (3, 0)
    assert kernels.polarization_scores(rows, rows[:0]).shape == (0, 3)
    assert kernels.polarization_scores(rows, rows, np.empty((3, 0), np.int64)).shape == (3, 0)


# ---- scores: the CPU's bits ----------------------------------------------------------------------


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("dim", [1, 2, 31, 33, 97, 384])
def test_scores_have_the_bits_of_the_cpu(dim, normalize):
    rng = np.random.default_rng(dim)
    rows = (rng.normal(size=(40, dim)) * 10.0 ** rng.integers(-38, 38, (40, 1))).astype(np.float32)
    rows[:, 0] += np.float32(1e-38)
    axes = rng.normal(size=(5, dim)).astype(np.float32)
    indices, axis_of_query = rng.integers(0, 40, (7, 6)), rng.integers(0, 5, 7)
    for given in ((), (indices[:5],), (indices, axis_of_query)):
        got = kernels.polarization_scores(rows, axes, *given, normalize=normalize)
        expected = _core.polarization_scores(rows, axes, *given, normalize=normalize)
        assert got.tobytes() == expected.tobytes()
    anchors = rows.reshape(5, 8, dim)
    got = kernels_polarization.anchor_scores(anchors, axes, normalize=normalize)
    assert got.tobytes() == _core.anchor_scores(anchors, axes, normalize).tobytes()


# ---- faults: the CPU's words ---------------------------------------------------------------------


def changed(array, *changes):
    copy = array.copy()
    for place, value in changes:
        copy[place] = value
    return copy


def words_of(call, *arguments, **options):
    with pytest.raises(ValueError, match=": expected ") as caught:
        call(*arguments, **options)
    return str(caught.value)


def assert_same_words(function, core, arguments, options):
    said = words_of(function, *arguments, **options)
    assert said == words_of(core, *arguments, **options)
    with pytest.raises(InputError):
        function(*arguments, **options)


@pytest.mark.parametrize("n_anchors", [6, 40])
def test_faulty_topics_are_refused_in_the_words_of_the_cpu(n_anchors):
    topics = planted(8, 4, n_anchors, 9)
    stances = np.tile([1.0, -1.0], (4, n_anchors // 2))
    equal = ((2,), topics[0, 0])
    for anchors, signs in (
        (topics[:, :1].copy(), None),
        (topics, stances[:2].copy()),
        (changed(topics, equal), None),
        (changed(topics, equal, ((1, 4, 3), np.nan)), stances),
        (changed(topics, ((1, 4, 3), -np.inf), ((1, 2), 0)), None),
        (changed(topics, ((3, n_anchors - 1), 0)), stances),
        (changed(topics, ((1, 0), 0)), changed(stances, ((2, 1), np.nan))),
        (changed(topics, ((2, 0), 0)), changed(stances, ((2, 1), np.inf), ((2, 3), np.nan))),
        (topics, changed(stances, ((3, 5), -np.inf))),
        (topics, changed(stances, ((1,), 0))),
        (topics, np.abs(stances)),
        (changed(topics, equal), changed(stances, ((2,), -1))),
    ):
        assert_same_words(kernels.polarization_axis, _core.polarization_axis, (anchors, signs), {})
    raw = changed(topics, ((1, 2, 3), np.inf), ((0, 1), 0))
    options = {"normalize": False}
    assert_same_words(kernels.polarization_axis, _core.polarization_axis, (raw,), options)


def test_faulty_scores_are_refused_in_the_words_of_the_cpu():
    rows = planted(1, 1, 6, 9)[0]
    axes = planted(2, 1, 3, 9)[0]
    nothing = np.zeros((3, 0), np.int64)
    two = np.array([[0, 1], [2, 3], [4, 5]])
    for arguments in (
        (changed(rows, (4, 0)), axes),
        (changed(rows, (4, 0), ((2, 8), np.nan)), axes),
        (changed(rows, ((5, 3), np.inf), ((5, 4), np.nan)), axes),
        (changed(rows, (0, 0)), changed(axes, ((1, 1), np.inf))),
        (rows, axes[:, :4].copy()),
        (rows, axes, two[:2].copy()),
        (rows, axes, changed(two, ((1, 0), 6))),
        (rows, axes, changed(two, ((1, 1), -1), ((2, 0), 99))),
        (rows, axes, two, np.array([0, 3, -1])),
        (rows, axes, nothing, np.array([0, 1, -2])),
        (rows, axes, two, np.array([0, 1])),
        (rows, axes, None, np.array([0, 1])),
        (changed(rows, (3, 0)), axes, two, np.array([0, 1, 7])),
        (changed(rows, (4, 0)), axes, two, np.array([0, 3, 1])),
    ):
        assert_same_words(kernels.polarization_scores, _core.polarization_scores, arguments, {})
    raw = (changed(rows, ((3, 1), np.nan), (1, 0)), axes)
    options = {"normalize": False}
    assert_same_words(kernels.polarization_scores, _core.polarization_scores, raw, options)
    anchors = changed(planted(3, 3, 4, 9), ((1, 2), 0))
    assert_same_words(kernels_polarization.anchor_scores, _core.anchor_scores, (anchors, axes), {})
