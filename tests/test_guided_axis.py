"""The ridge regression that other axes guide, and what a threshold on its evidence is worth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from epibias.errors import InputError
from epibias.polarization.guided import guided_axis
from epibias.polarization.validity_report import AIMS, best_threshold, validity_report
from pools import opposed_anchors, quietly_fitted, unit_rows

LABELS = np.array([2.0, 1, 3, -1, -3, -2, 1, -1])


def by_definition(others, anchors, labels, weights, trust, penalty):
    """Minimise |y - Xw|² + penalty (w - m)ᵀ M⁻¹ (w - m) by its normal equations, all of dim²."""
    rows = anchors.astype(float)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows -= rows.mean(axis=0)
    stances = np.asarray(labels, float) / np.abs(labels).max()
    stances -= stances.mean()
    directions = np.stack([axis.axis.astype(float) for axis in others])
    mean = np.asarray(weights) @ directions
    spread = np.eye(rows.shape[1]) + trust * directions.T @ directions
    inverse = np.linalg.inv(spread)
    found = np.linalg.solve(
        rows.T @ rows + penalty * inverse, rows.T @ stances + penalty * inverse @ mean
    )
    return found / np.linalg.norm(found)


def given(seed, dim=12, n_axes=2):
    rng = np.random.default_rng(seed)
    anchors = (2 * rng.standard_normal((8, dim))).astype(np.float32)
    return [quietly_fitted(unit_rows(rng, 4, dim)) for _ in range(n_axes)], anchors


PAIRS = np.repeat(np.eye(12, dtype=np.float32)[:4], 2, axis=0)


@pytest.mark.parametrize("penalty", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("trust", [0.0, 2.0, 50.0])
@pytest.mark.parametrize("n_axes", [1, 3])
def test_the_axis_minimises_what_its_notes_say(penalty, trust, n_axes):
    others, anchors = given(n_axes, n_axes=n_axes)
    weights = [0.5, 0.25, 0.0][:n_axes]
    got = guided_axis(others, anchors, LABELS, weights=weights, trust=trust, penalty=penalty)
    expected = by_definition(others, anchors, LABELS, weights, trust, penalty)
    # The float32 rounding of a unit vector of 12 columns.
    np.testing.assert_allclose(got.axis, expected, rtol=0, atol=1e-6)
    assert (got.method, got.n_anchors) == ("guided", 8)


def test_validity_is_of_anchors_left_out():
    others, anchors = given(4)
    got = guided_axis(others, anchors, LABELS, weights=[0.5, 0.25])
    scores = []
    for out in range(8):
        rest = np.arange(8) != out
        peak = np.abs(LABELS[rest]).max() / np.abs(LABELS).max()  # scaled by all anchors' largest
        axis = by_definition(
            others, anchors[rest], LABELS[rest], np.array([0.5, 0.25]) / peak, 2.0, 1.0
        )
        scores.append(anchors[out] @ axis / np.linalg.norm(anchors[out]))
    assert abs(got.validity - spearmanr(scores, LABELS)[0]) < 1e-12
    alone = guided_axis(others, anchors[:4], [1, -1, -1, -2])
    assert np.isnan(alone.validity)


def test_a_large_penalty_gives_the_guides_and_no_guide_the_ridge():
    others, anchors = given(5)
    far = guided_axis(others, anchors, LABELS, weights=[1, 2], penalty=1e9)
    mean = others[0].axis.astype(float) + 2 * others[1].axis.astype(float)
    np.testing.assert_allclose(far.axis, mean / np.linalg.norm(mean), atol=1e-6)
    near = guided_axis(others, anchors, LABELS, weights=[1e-9, 0], trust=0)
    plain = quietly_fitted(anchors, LABELS, "ridge")
    np.testing.assert_allclose(near.axis, plain.axis, atol=1e-6)


def test_anchors_turn_a_guide_around_that_hears_stance_backwards():
    rng = np.random.default_rng(6)
    side = np.zeros(64)
    side[0] = 1
    stances = np.array([1.0] * 4 + [-1.0] * 4)
    anchors = np.ones(64) / 8 + 0.3 * stances[:, None] * side + 0.1 * rng.standard_normal((8, 64))
    backwards = quietly_fitted(np.stack([-side, side] * 2).astype(np.float32), [1, -1] * 2)
    got = guided_axis([backwards], anchors.astype(np.float32), stances, trust=50.0)
    assert got.axis[0] > 0.9
    assert got.validity > 0.8


def test_the_scale_of_stances_and_rows_changes_nothing():
    others, anchors = given(7)
    first = guided_axis(others, anchors, LABELS)
    again = guided_axis(others, 5 * anchors, 8 * LABELS)
    np.testing.assert_allclose(first.axis, again.axis, atol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"others": []},
        {"weights": [1.0]},
        {"weights": [0.0, 0.0]},
        {"weights": [-1.0, 1.0]},
        {"trust": -1.0},
        {"penalty": 0.0},
        {"labels": [1.0] * 8},
        {"anchors": np.ones((8, 12), np.float32)},
        {"anchors": PAIRS, "penalty": 1e-300},
        {"others": [quietly_fitted(np.stack([opposed_anchors(1)[0]] * 2))]},
        {"others": [quietly_fitted(opposed_anchors(1, dim=5)[0])]},
    ],
)
def test_a_guided_axis_refuses(change):
    others, anchors = given(8)
    with pytest.raises(InputError):
        guided_axis(**{"others": others, "anchors": anchors, "labels": LABELS, **change})


def test_a_balanced_threshold_does_not_rely_on_every_topic_where_most_work():
    values = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    works = np.array([0, 1, 0, 1, 1, 1, 1, 1], bool)
    assert best_threshold(values, works) == pytest.approx(0.15)  # F1 12/13: one of two mistakes
    assert best_threshold(values, works, "balanced") == pytest.approx(0.35)
    report = validity_report(values, np.where(works, 0.9, 0.5), aim="balanced")
    pairs = [(a > b) + (a == b) / 2 for a in values[works] for b in values[~works]]
    assert report.discrimination == pytest.approx(np.mean(pairs))
    assert report.precision >= report.base_rate
    assert np.isnan(validity_report(values, [0.9] * 8).discrimination)
    with pytest.raises(InputError):
        validity_report(values, [0.9] * 8, aim="best")
    assert AIMS == ("f1", "balanced")
