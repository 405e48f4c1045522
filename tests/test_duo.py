"""DUO against an oracle that tries every order, and against cases worked by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import reference_duo
from epibias import PolarizationAxis
from epibias.errors import InputError
from epibias.metrics.duo import (
    centred_scores,
    discounted_variance,
    duo,
    prefix_variances,
    variance_range,
)
from pools import opposed_anchors, unit_rows


def draws(n, seed):
    """Scores of several kinds: smooth, of two sides, with an outlier, with ties, far from 0."""
    rng = np.random.default_rng(seed)
    yield rng.normal(size=n)
    yield rng.choice([-1.0, 1.0], n)
    yield rng.standard_t(1.5, n)
    yield rng.integers(0, 3, n).astype(np.float64)
    yield 1e3 + rng.normal(size=n)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("depth", [None, 1, 2, 4])
def test_all_of_it_is_what_trying_every_order_gives(n, depth):
    seeds = range(1 if n == 6 else 3)
    for scores in (one for seed in seeds for one in draws(n, 100 * n + seed)):
        scale = max(float(np.var(scores)), 1e-30)
        tolerance = 1e-12 * scale + 1e-14 * float((scores**2).max())
        expected = reference_duo.discounted_variance(scores, depth)
        assert discounted_variance(scores, depth) == pytest.approx(expected, abs=tolerance)
        found = variance_range(scores, depth)
        assert found == pytest.approx(reference_duo.variance_range(scores, depth), abs=tolerance)
        assert duo(scores, depth=depth) == pytest.approx(reference_duo.duo(scores, depth), abs=1e-7)


def test_the_extremes_of_eight_passages_are_those_of_all_40320_orders():
    orders = np.array(list(itertools.permutations(range(8))))
    counts = np.arange(1, 9)
    for scores in draws(8, 8):
        shifted = scores - scores.mean()
        rows = shifted[orders]
        variances = (rows**2).cumsum(1) / counts - (rows.cumsum(1) / counts) ** 2
        values = (variances[:, 1:] / np.log2(counts[1:])).sum(1)
        expected = (values.min(), values.max())
        assert variance_range(scores) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_three_passages_by_hand():
    third = (8 / 9) / math.log2(3)  # the variance of all three, discounted, in whatever order
    assert prefix_variances([1.0, -1.0, 1.0]) == pytest.approx([0, 1, 8 / 9], abs=1e-15)
    assert discounted_variance([1.0, -1.0, 1.0]) == pytest.approx(1 + third, abs=1e-15)
    assert variance_range([1.0, 1.0, -1.0]) == pytest.approx((third, 1 + third), abs=1e-15)
    assert duo([1.0, -1.0, 1.0]) == pytest.approx(0, abs=1e-15)
    assert duo([1.0, 1.0, -1.0]) == pytest.approx(1, abs=1e-15)
    ideal = duo([1.0, 1.0, -1.0], normalization="ideal")
    assert ideal == pytest.approx(1 - third / (1 + third), abs=1e-15)
    # 0, 1, 3: first two 0 and 1 (variance ¼), at best 0 and 3 (9/4); all: 14/9.
    assert duo([1.0, 3.0, 0.0]) == pytest.approx(1 - (1 - 1 / 4) / (9 / 4 - 1 / 4), abs=1e-12)


def test_depth_looks_at_the_top_but_knows_the_rest():
    one_sided = [1.0, 1.0, -1.0, -1.0]
    assert duo(one_sided, depth=2) == pytest.approx(1.0, abs=1e-15)
    assert duo([1.0, -1.0, 1.0, -1.0], depth=2) == pytest.approx(0.0, abs=1e-15)
    assert duo(one_sided, depth=1) == 0.5  # one rank has no order
    assert duo(one_sided, depth=9) == duo(one_sided)


def test_a_shift_or_a_scale_of_the_scores_changes_nothing():
    rng = np.random.default_rng(1)
    scores = rng.normal(size=20)
    for normalization in ("range", "ideal"):
        found = duo(scores, normalization=normalization)
        for other in (scores + 5, -3 * scores):
            assert duo(other, normalization=normalization) == pytest.approx(found, abs=1e-11)
        assert 0 <= found <= 1


def test_a_hundred_passages_lie_between_the_ends():
    rng = np.random.default_rng(2)
    scores = rng.normal(size=100)
    least, largest = variance_range(scores)
    sampled = [discounted_variance(rng.permutation(scores)) for _ in range(200)]
    assert least < min(sampled)
    assert max(sampled) < largest
    ends = np.sort(scores)
    alternating = np.stack([ends[:50], ends[::-1][:50]], 1).ravel()
    assert discounted_variance(alternating) <= largest + 1e-9
    assert duo(alternating) < 0.01
    assert duo(ends) > 0.5


@pytest.mark.parametrize(
    ("scores", "normalization", "expected"),
    [
        ([], "range", float("nan")),
        ([0.3], "range", 0.5),
        ([0.3, 0.3, 0.3], "range", 0.5),
        ([0.3, 0.3, 0.3], "ideal", float("nan")),
        ([0.3], "ideal", float("nan")),
        ([1.0, -1.0], "range", 0.5),  # two passages: both orders are alike
        ([1.0, -1.0], "ideal", 0.0),
    ],
)
def test_what_has_no_order_is_told_as_such(scores, normalization, expected):
    found = duo(scores, normalization=normalization)
    assert found == pytest.approx(expected, nan_ok=True, abs=0)


def test_centred_scores_are_those_of_a_centred_axis():
    anchors, stances = opposed_anchors(0, noise=0.05)
    rows = unit_rows(np.random.default_rng(3), 30, anchors.shape[-1])
    plain = PolarizationAxis.fit(anchors, stances)
    centred = PolarizationAxis.fit(anchors, stances, center=True)
    found = centred_scores(plain.score(rows), plain.score(anchors))
    np.testing.assert_allclose(found, centred.score(rows), atol=2e-6)
    assert duo(found) == pytest.approx(duo(plain.score(rows)), abs=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: duo([[1.0]]), "ranked_scores: expected one number a passage, got shape"),
        (lambda: duo(["a"]), "ranked_scores: expected one number a passage"),
        (lambda: duo([1.0, float("nan")]), "ranked_scores: expected finite values, got nan"),
        (lambda: duo([1.0], depth=0), "depth: expected an integer of at least 1, got 0"),
        (lambda: duo([1.0], normalization="z"), "normalization: expected 'range' or 'ideal'"),
        (lambda: centred_scores([1.0], []), "anchor_scores: expected at least one anchor"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
