"""Axes made of more than one question's anchors: poles, pooled, combined, several components."""

from __future__ import annotations

import numpy as np
import pytest

import reference_tilt
from epibias.errors import InputError
from epibias.polarization.combined import combined_axis, valid_components
from epibias.polarization.poles import CLAIM_TEMPLATES, QUESTION_TEMPLATES, pole_statements
from epibias.polarization.pooled import PooledStance
from pools import opposed_anchors, quietly_fitted, unit_rows


def many_topics(seed, n_topics=5, dim=7, context_dim=3):
    """Passages of topics that share one direction of stance beside one of their own."""
    rng = np.random.default_rng(seed)
    passages, stances = [], []
    for _ in range(n_topics):
        n = int(rng.integers(3, 9))
        labels = rng.choice([-2.0, -1.0, 1.0, 3.0], n)
        labels[:2] = [1, -1]
        rows = rng.standard_normal(dim) + 0.3 * rng.standard_normal((n, dim))
        rows[:, 0] += 0.5 * labels
        passages.append(rows.astype(np.float32))
        stances.append(labels.tolist())
    return passages, stances, rng.standard_normal((n_topics, context_dim)).astype(np.float32)


@pytest.mark.parametrize("shared", [0.0, 0.5, 4.0])
@pytest.mark.parametrize("penalty", [0.1, 3.0])
def test_pooled_axis_is_the_ridge_regression_on_explicit_features(shared, penalty):
    passages, stances, contexts = many_topics(1)
    pooled = PooledStance.fit(passages, stances, contexts, shared=shared, penalty=penalty)
    for context in many_topics(2)[2]:
        got = pooled.axis(context).axis
        expected = reference_tilt.pooled_axis(passages, stances, contexts, context, shared, penalty)
        # float32 rounding of the axis, and of nothing else: 1e-6 of unit length.
        assert np.linalg.norm(got - expected) < 1e-6
        assert abs(float(np.linalg.norm(got.astype(float))) - 1) < 1e-6


def test_pooled_axis_finds_what_topics_share_on_a_new_topic():
    passages, stances, contexts = many_topics(3, n_topics=30)
    pooled = PooledStance.fit(passages, stances, contexts)
    rows = unit_rows(np.random.default_rng(4), 40, 7)
    axis = pooled.axis(np.ones(3, np.float32))
    assert np.corrcoef(axis.score(rows), rows[:, 0])[0, 1] > 0.9


def test_pooled_axis_does_not_depend_on_the_order_of_topics():
    passages, stances, contexts = many_topics(5)
    first = PooledStance.fit(passages, stances, contexts).axis(contexts[0]).axis
    turned = PooledStance.fit(passages[::-1], stances[::-1], contexts[::-1].copy())
    assert np.allclose(first, turned.axis(contexts[0]).axis, atol=1e-6)


def test_anchors_give_a_pooled_axis_evidence_and_change_no_bit_of_it():
    passages, stances, contexts = many_topics(6)
    pooled = PooledStance.fit(passages, stances, contexts)
    anchors, labels = opposed_anchors(7, dim=7)
    plain, judged = pooled.axis(contexts[0]), pooled.axis(contexts[0], anchors, labels)
    assert np.array_equal(plain.axis, judged.axis)
    assert plain.validity is None
    assert np.isnan(plain.neutral_centre)
    scores = judged.score(anchors).astype(float)
    expected = (scores[labels > 0].mean() + scores[labels < 0].mean()) / 2
    assert abs(judged.neutral_centre - expected) < 1e-6
    assert -1 <= judged.validity <= 1


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"contexts": np.ones((4, 3), np.float32)}, "contexts"),
        ({"contexts": np.zeros((5, 3), np.float32)}, "contexts"),
        ({"penalty": 0.0}, "penalty"),
        ({"shared": -1.0}, "shared"),
        ({"stances": [[1] * 20] * 5}, "labels"),
    ],
)
def test_pooled_fit_refuses(change, argument):
    passages, stances, contexts = many_topics(8)
    given = {"passages": passages, "stances": stances, "contexts": contexts, **change}
    with pytest.raises(InputError) as refused:
        PooledStance.fit(**given)
    assert refused.value.argument == argument


def test_pooled_axis_refuses_what_gives_no_direction():
    rows = np.array([[1, 1], [1, -1]], np.float32)
    pooled = PooledStance.fit([rows], [[1, -1]], np.array([[1, 0]], np.float32), shared=0)
    with pytest.raises(InputError, match="direction"):
        pooled.axis(np.array([0, 1], np.float32))
    with pytest.raises(InputError, match="columns"):
        pooled.axis(np.ones(3, np.float32))
    with pytest.raises(InputError, match="labels"):
        pooled.axis(np.array([1, 0], np.float32), rows)


def test_combined_axis_is_the_unit_vector_along_the_weighted_sum():
    anchors, labels = opposed_anchors(9)
    poles = quietly_fitted(opposed_anchors(10)[0], [1, -1] * 4, "mean_difference")
    ridge = quietly_fitted(anchors, labels, "ridge")
    got = combined_axis([poles], anchors, labels, weights=[2, 1])
    expected = 2 * poles.axis.astype(float) + ridge.axis.astype(float)
    assert np.allclose(got.axis, expected / np.linalg.norm(expected), atol=1e-7)


def test_validity_of_a_combination_is_of_anchors_left_out():
    rng = np.random.default_rng(11)
    seen, held = [], []
    for _ in range(40):  # anchors without any structure: whatever is fitted on them is noise
        anchors = unit_rows(rng, 8, 64)
        labels = np.array([3, 2, 2, 1, -1, -2, -2, -3.0])
        other = quietly_fitted(unit_rows(rng, 4, 64))
        axis = combined_axis([other], anchors, labels, weights=[0.2, 1])
        held.append(axis.validity)
        seen.append(np.corrcoef(axis.score(anchors), labels)[0, 1])
    assert np.mean(seen) > 0.8
    assert np.mean(held) < 0.2


def test_combination_without_a_fit_takes_its_evidence_from_all_anchors():
    anchors, labels = opposed_anchors(12)
    poles = quietly_fitted(opposed_anchors(12)[0], labels, "mean_difference")
    axis = combined_axis([poles], anchors, labels, method=None)
    assert np.allclose(axis.axis, poles.axis, atol=1e-7)
    assert axis.validity > 0.9


@pytest.mark.parametrize(
    "given",
    [
        {"others": [], "method": None},
        {"weights": [1.0]},
        {"weights": [0.0, 0.0]},
        {"weights": [-1.0, 1.0]},
        {"method": "pca"},
        {"others": [quietly_fitted(np.stack([opposed_anchors(1)[0]] * 2))]},
        {"others": [quietly_fitted(opposed_anchors(1, dim=8)[0])]},
    ],
)
def test_combined_axis_refuses(given):
    anchors, labels = opposed_anchors(13)
    others = [quietly_fitted(opposed_anchors(1)[0])]
    with pytest.raises(InputError):
        combined_axis(**{"others": others, "anchors": anchors, "labels": labels, **given})


def test_components_that_carry_no_stance_are_left_out():
    rng = np.random.default_rng(14)
    stances = np.array([3, 2, 2, 1, -1, -2, -2, -3.0])
    rows = np.ones((8, 6)) * [2, 0, 0, 0, 0, 0]
    rows[:, 1] = np.array([1, -1, -1, 1, 1, -1, -1, 1]) * 0.8  # the largest variance says nothing
    rows[:, 2] = stances * 0.15
    rows += 0.01 * rng.standard_normal(rows.shape)
    kept = valid_components(rows.astype(np.float32), stances, most=2)
    assert kept.n_topics == 1
    assert abs(kept.axis[0, 2]) > 0.95
    assert kept.validity[0] > 0.9
    assert valid_components(unit_rows(rng, 8, 64), stances, least_validity=0.99) is None


def test_pole_statements_differ_in_the_answer_alone():
    for text, templates in (
        ("Should shops close?", QUESTION_TEMPLATES),
        ("Shops must close.", CLAIM_TEMPLATES),
    ):
        opposing, supporting = pole_statements(text)
        assert len(opposing) == len(supporting) == len(templates)
        assert not set(opposing) & set(supporting)
        assert all("hops" in statement for statement in opposing + supporting)
    assert "must close?" in pole_statements("Shops must close.")[0][2]
    with pytest.raises(InputError):
        pole_statements("  ")
