"""PolarizationAxis: each method by its definition, orientation, validity, scores, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from epibias.errors import InputError, ValidityWarning
from epibias.polarization import PolarizationAxis, validity
from pools import TwoWordEncoder, opposed_anchors, quietly_fitted, unit_rows

EPS = np.finfo(np.float64).eps
# Rounding a unit axis to float32 turns it by at most half an ulp of each component; a score of a
# unit row moves by no more than that. The fits are float64 and lose nothing beside it.
HALF_ULP = 2.0**-24


def naive_direction(rows, stances, method, penalty=1.0):
    if method == "pca":
        return reference.polarization_axis(rows, stances).axis
    unit = reference.unit_rows(rows)
    if method == "mean_difference":
        weights = unit[stances > 0].mean(axis=0) - unit[stances < 0].mean(axis=0)
    else:
        # The primal form, where the module solves the dual one.
        centred = unit - unit.mean(axis=0)
        left = centred.T @ centred + penalty * np.eye(unit.shape[1])
        weights = np.linalg.solve(left, centred.T @ (stances - stances.mean())) * penalty
    return weights / np.linalg.norm(weights)


def angle(left, right):
    """Between unit vectors, exact for small angles too; the sign counts."""
    return 2 * np.arcsin(min(1.0, np.linalg.norm(left.astype(float) - right) / 2))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("method", ["pca", "mean_difference", "ridge"])
def test_axis_is_the_definition(method, seed):
    rng = np.random.default_rng(seed)
    rows, stances = opposed_anchors(seed, int(rng.integers(4, 30)), int(rng.integers(3, 80)))
    fitted = quietly_fitted(rows, stances, method)
    expected = naive_direction(rows, stances, method)
    assert angle(fitted.axis, expected) <= 2 * HALF_ULP
    assert fitted.axis.dtype == np.float32
    unit = reference.unit_rows(rows)
    centred = unit - unit.mean(axis=0)
    explained = ((centred @ expected) ** 2).sum() / (centred**2).sum()
    assert fitted.explained_variance_ratio == pytest.approx(explained, abs=rows.size * EPS)
    scores = unit @ expected
    assert scores[stances > 0].mean() > scores[stances < 0].mean()
    middle = (scores[stances > 0].mean() + scores[stances < 0].mean()) / 2
    assert fitted.neutral_centre == pytest.approx(middle, abs=HALF_ULP)
    assert fitted.n_anchors == len(rows)


def test_ridge_is_scikit_learns():
    linear_model = pytest.importorskip("sklearn.linear_model")
    rows, stances = opposed_anchors(1)
    for penalty in (0.1, 1.0, 10.0):
        model = linear_model.Ridge(alpha=penalty).fit(reference.unit_rows(rows), stances)
        expected = model.coef_ / np.linalg.norm(model.coef_)
        axis = quietly_fitted(rows, stances, "ridge", penalty=penalty).axis
        assert angle(axis, expected) <= 2 * HALF_ULP


def naive_validity(rows, stances, method, penalty=1.0):
    """Refit everything without each fold, score the fold, and correlate the ranks."""
    from scipy.stats import spearmanr

    fold_of_anchor = np.arange(len(rows)) % min(len(rows), 200)
    scores = np.empty(len(rows))
    for fold in np.unique(fold_of_anchor):
        rest, out = fold_of_anchor != fold, fold_of_anchor == fold
        axis = naive_direction(rows[rest], stances[rest], method, penalty)
        scores[out] = reference.unit_rows(rows[out]) @ axis
    return spearmanr(scores, stances).statistic


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("method", ["pca", "mean_difference", "ridge"])
@pytest.mark.parametrize(("n_anchors", "dim"), [(7, 12), (12, 7), (9, 9)])
def test_validity_leaves_one_out_and_refits_everything(method, seed, n_anchors, dim):
    rows, stances = opposed_anchors(seed, n_anchors, dim, noise=0.8)
    expected = naive_validity(rows, stances, method)
    # The same ranks; the correlation is a quotient of their sums.
    validity = quietly_fitted(rows, stances, method).validity
    assert validity == pytest.approx(expected, abs=8 * EPS)


@pytest.mark.parametrize(
    ("method", "n_anchors", "dim"),
    [
        ("pca", 203, 6),
        ("pca", 401, 9),
        ("mean_difference", 203, 6),
        ("mean_difference", 401, 450),
        ("ridge", 203, 6),
        ("ridge", 401, 9),
        ("ridge", 203, 210),
    ],
)
def test_validity_of_many_anchors_refits_every_fold(method, n_anchors, dim):
    rows, stances = opposed_anchors(1, n_anchors, dim, noise=0.8)
    validity = quietly_fitted(rows, stances, method).validity
    # Scores that agree to 1e-12 may change places where two are that near: none are here.
    assert validity == pytest.approx(naive_validity(rows, stances, method), abs=1e-12)


@pytest.mark.parametrize("penalty", [1e-6, 1e-2, 1e3, 1e100])
@pytest.mark.parametrize(("n_anchors", "dim"), [(7, 12), (12, 7), (203, 60)])
def test_validity_of_ridge_at_any_penalty(penalty, n_anchors, dim):
    rows, stances = opposed_anchors(2, n_anchors, dim, noise=0.8)
    validity = quietly_fitted(rows, stances, "ridge", penalty=penalty).validity
    expected = naive_validity(rows, stances, "ridge", penalty)
    assert validity == pytest.approx(expected, abs=1e-12)


def test_validity_of_noise_is_low_and_of_stance_is_high():
    rng = np.random.default_rng(0)
    found = [
        quietly_fitted(unit_rows(rng, 8, 64), [1, -1, 2, -2, 3, -3, 1, -1], "ridge").validity
        for _ in range(60)
    ]
    assert np.mean(found) < 0.1
    assert quietly_fitted(*opposed_anchors(0), "ridge").validity > 0.8


def test_many_anchors_are_left_out_by_folds():
    folds = validity.fold_of_anchors(2 * validity.MAX_FOLDS + 7)
    assert np.bincount(folds).tolist() == [3] * 7 + [2] * (validity.MAX_FOLDS - 7)
    rows, many = opposed_anchors(2, 240, 6)
    for method in ("pca", "ridge"):
        assert quietly_fitted(rows, many, method).validity > 0.8


@pytest.mark.parametrize("method", ["pca", "mean_difference", "ridge"])
def test_a_batch_equals_one_by_one_to_the_bit(method):
    cases = [opposed_anchors(seed) for seed in range(6)]
    anchors = np.stack([rows for rows, _ in cases])
    labels = np.stack([stances for _, stances in cases])
    batch = quietly_fitted(anchors, labels, method)
    assert (batch.n_topics, batch.dim, batch.is_batch) == (6, 16, True)
    for number in range(6):
        alone = quietly_fitted(anchors[number], labels[number], method)
        one = batch.topic(number)
        assert one.axis.tobytes() == alone.axis.tobytes()
        for name in ("explained_variance_ratio", "validity", "neutral_centre", "n_anchors"):
            assert getattr(one, name) == getattr(alone, name)
        assert np.array_equal(one.relative_gap, alone.relative_gap, equal_nan=True)
    assert alone.topic(0) is alone


@pytest.mark.parametrize("method", ["pca", "mean_difference", "ridge"])
def test_ragged_topics_equal_one_by_one_to_the_bit(method):
    sizes = [4, 9, 4, 6]
    cases = [opposed_anchors(seed, n) for seed, n in enumerate(sizes)]
    batch = quietly_fitted([rows for rows, _ in cases], [list(s) for _, s in cases], method)
    assert batch.n_anchors.tolist() == sizes
    for number, (rows, stances) in enumerate(cases):
        assert batch.axis[number].tobytes() == quietly_fitted(rows, stances, method).axis.tobytes()


def test_orientation_by_rule_whatever_the_order_of_the_anchors():  # field case 9
    rng = np.random.default_rng(3)
    for seed in range(30):
        rows, stances = opposed_anchors(seed, noise=0.05)
        order = rng.permutation(len(rows))
        moved = np.ascontiguousarray(rows[order])
        unlabelled = quietly_fitted(rows)
        assert reference.polarization_scores(rows, unlabelled.axis).mean() >= 0
        assert angle(quietly_fitted(moved).axis, unlabelled.axis.astype(float)) <= 2 * HALF_ULP
        labelled = quietly_fitted(rows, stances)
        same = quietly_fitted(moved, stances[order]).axis
        assert angle(same, labelled.axis.astype(float)) <= 2 * HALF_ULP
        opposite = quietly_fitted(rows, -stances)
        np.testing.assert_array_equal(opposite.axis, -labelled.axis)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.floats(1e-3, 1e3))
def test_scale_does_not_matter_and_scores_are_locally_consistent(seed, scale):
    rows, stances = opposed_anchors(seed)
    axis = quietly_fitted(rows, stances, "ridge")
    scaled = quietly_fitted((rows * np.float32(scale)).astype(np.float32), stances, "ridge")
    # Scaled rows are rounded: each turns by half an ulp, and a spread of 0.2 makes five of it.
    assert angle(scaled.axis, axis.axis.astype(float)) <= 8 * HALF_ULP
    embeddings = np.random.default_rng(seed).standard_normal((12, 16)).astype(np.float32)
    scores = axis.score(embeddings).astype(float)
    assert (np.abs(scores) <= 1).all()
    unit = reference.unit_rows(embeddings)
    distances = np.linalg.norm(unit[:, None] - unit[None], axis=2)
    # Equation 3 of the paper; 4 eps of float32 for the rounding of two scores.
    assert (np.abs(scores[:, None] - scores[None]) <= distances + 4 * 2**-24).all()


@pytest.mark.parametrize("normalize", [True, False])
def test_scores_are_projections(normalize):
    rows, stances = opposed_anchors(5)
    axis = quietly_fitted(rows, stances, normalize=normalize)
    embeddings = (7 * np.random.default_rng(1).standard_normal((30, 16))).astype(np.float32)
    expected = reference.polarization_scores(embeddings, axis.axis, normalize)
    scores = axis.score(embeddings)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=HALF_ULP * np.abs(expected).max())
    indices = np.random.default_rng(2).integers(0, 30, (4, 7))
    np.testing.assert_array_equal(axis.score(embeddings, indices), scores[indices])


def test_scores_of_several_topics():
    anchors = np.stack([opposed_anchors(seed)[0] for seed in range(3)])
    batch = quietly_fitted(anchors)
    embeddings = np.random.default_rng(1).standard_normal((10, 16)).astype(np.float32)
    everything = batch.score(embeddings)
    assert everything.shape == (3, 10)
    for number in range(3):
        np.testing.assert_array_equal(everything[number], batch.topic(number).score(embeddings))
    indices = np.arange(9).reshape(3, 3)
    by_query = batch.score(embeddings, indices)
    np.testing.assert_array_equal(by_query, everything[np.arange(3)[:, None], indices])
    topics = np.array([2, 0, 2])
    np.testing.assert_array_equal(
        batch.score(embeddings, indices, topics=topics), everything[topics[:, None], indices]
    )
    with pytest.raises(InputError, match=r"topics: expected one axis a query .*3 axes, got None"):
        batch.score(embeddings, indices[:2].copy())
    with pytest.raises(InputError, match=r"topics: expected axes from 0 to 2, got 3 \(row 1\)"):
        batch.score(embeddings, indices, topics=np.array([0, 3, 1]))
    with pytest.raises(InputError, match=r"topics: expected None without indices"):
        batch.score(embeddings, topics=topics)


def test_one_topic_given_as_a_batch_keeps_its_shape():
    anchors = opposed_anchors(0)[0][None]
    batch = quietly_fitted(anchors)
    embeddings = np.eye(16, dtype=np.float32)
    assert batch.score(embeddings).shape == (1, 16)
    assert batch.score(embeddings, np.arange(6).reshape(2, 3)).shape == (2, 3)
    assert quietly_fitted(anchors[0]).score(embeddings).shape == (16,)


def test_center_subtracts_the_anchors_mean_score_from_everything():
    cases = [opposed_anchors(seed) for seed in range(3)]
    anchors, labels = (np.stack(part) for part in zip(*cases, strict=True))
    plain, centred = quietly_fitted(anchors, labels), quietly_fitted(anchors, labels, center=True)
    np.testing.assert_array_equal(plain.axis, centred.axis)
    embeddings = np.random.default_rng(1).standard_normal((10, 16)).astype(np.float32)
    for number in range(3):
        mean = plain.topic(number).score(anchors[number]).astype(float).mean()
        assert centred.mean_anchor_score[number] == pytest.approx(mean, abs=HALF_ULP)
        shift = plain.neutral_centre[number] - centred.neutral_centre[number]
        assert shift == pytest.approx(mean, abs=HALF_ULP)
        one, other = plain.topic(number), centred.topic(number)
        difference = one.score(embeddings) - other.score(embeddings)  # of two rounded scores
        np.testing.assert_allclose(difference, mean, rtol=0, atol=3 * HALF_ULP)
    topics = np.array([2, 1])
    indices = np.arange(8).reshape(2, 4)
    got = centred.score(embeddings, indices, topics=topics)
    wanted = centred.score(embeddings)[topics[:, None], indices]
    np.testing.assert_array_equal(got, wanted)


def test_neutral_centre_without_labels_is_between_the_extremes():
    rows, _ = opposed_anchors(4)
    axis = quietly_fitted(rows)
    scores = reference.polarization_scores(rows, axis.axis)
    assert axis.neutral_centre == pytest.approx((scores.min() + scores.max()) / 2, abs=16 * EPS)
    assert axis.validity is None


def test_from_poles_is_the_mean_difference_of_the_statements():
    supporting, opposing = ["yes", "oh yes", "yes yes"], ["no", "oh no"]
    axis = PolarizationAxis.from_poles(TwoWordEncoder(), supporting, opposing)
    rows = TwoWordEncoder().encode(supporting + opposing)
    expected = naive_direction(rows, np.array([1, 1, 1, -1, -1]), "mean_difference")
    assert angle(axis.axis, expected) <= 2 * HALF_ULP
    assert axis.method == "mean_difference"
    assert axis.validity > 0.8
    statement = TwoWordEncoder().encode(["I say yes", "I say no"])
    assert axis.score(statement)[0] > axis.score(statement)[1]


def test_structureless_anchors_are_warned_of_with_their_numbers():
    rng = np.random.default_rng(0)
    anchors = unit_rows(rng, 3, 8, 256)
    anchors[1] = opposed_anchors(0, 8, 256, noise=0.02)[0]
    with pytest.warns(ValidityWarning) as caught:
        axis = PolarizationAxis.fit(anchors)
    assert len(caught) == 1
    message = str(caught[0].message)
    first = axis.topic(0)
    assert f"topic 0, relative gap {first.relative_gap:.3f}" in message
    assert f"explained variance {first.explained_variance_ratio:.3f}" in message
    assert message.endswith("2 of 3 topics")
    assert caught[0].filename == __file__


def two_equal_directions(stances):
    """Anchors spread as far along their stances as across them: no gap, yet stances are heard."""
    across = np.tile([1.0, 1.0, -1.0, -1.0], len(stances) // 4)
    along = stances * np.sqrt((across**2).sum() / (stances**2).sum())
    return np.stack([np.full(len(stances), 20.0), along, across], axis=1).astype(np.float32)


def test_a_pca_axis_without_a_gap_is_warned_of_with_labels_too():
    stances = np.tile([1.0, -1.0], 8)
    rows = two_equal_directions(stances)
    with pytest.warns(ValidityWarning, match=r"relative gap 0\.0\d\d and explained variance 0\.\d"):
        axis = PolarizationAxis.fit(rows, stances, "pca")
    assert axis.relative_gap < 0.1
    # The labelled methods have no gap to lack.
    for method in ("mean_difference", "ridge"):
        assert PolarizationAxis.fit(rows, stances, method).validity > 0.8


def test_a_labelled_pca_axis_that_explains_little_is_warned_of_though_stances_are_heard():
    rows, stances = opposed_anchors(1, 24, 400, noise=1.5)
    with pytest.warns(ValidityWarning) as caught:
        axis = PolarizationAxis.fit(np.stack([rows, rows]), [stances, stances], "pca")
    assert (axis.explained_variance_ratio < 0.2).all()
    message = str(caught[0].message)
    assert f"explained variance {axis.explained_variance_ratio[0]:.3f}" in message
    assert message.startswith("the axis may be undetermined: topic 0, relative gap")
    assert "rank correlation" not in message
    assert axis.validity[0] > 0.3
    assert message.endswith("2 of 2 topics")


def test_labels_that_the_scores_do_not_follow_are_warned_of_with_the_number():
    rng = np.random.default_rng(4)
    anchors = unit_rows(rng, 8, 64)
    with pytest.warns(ValidityWarning, match=r"rank correlation with the stances -?0\.\d\d\d "):
        axis = PolarizationAxis.fit(anchors, [1, -1, 1, -1, 1, -1, 1, -1], "mean_difference")
    assert axis.validity <= 0.3


@pytest.mark.parametrize("method", ["pca", "mean_difference", "ridge"])
def test_validity_that_cannot_be_had_is_nan_and_warned_of(method):
    rows, _ = opposed_anchors(0, 4)
    with pytest.warns(ValidityWarning, match=r"nan"):
        axis = PolarizationAxis.fit(rows, [1, -1, -1, -2], method)
    assert np.isnan(axis.validity)


def test_good_anchors_are_not_warned_of():
    rows, stances = opposed_anchors(0, noise=0.05)
    PolarizationAxis.fit(rows)  # warnings are errors here
    for method in ("pca", "mean_difference", "ridge"):
        PolarizationAxis.fit(rows, stances, method)


def test_equal_scores_rank_nothing():
    stances = np.array([[1.0, 2, -1, -2]])
    assert validity.rank_correlations(np.ones((1, 4)), stances).tolist() == [0.0]


def test_fitting_and_scoring_change_nothing():
    rows, stances = opposed_anchors(0)
    before = rows.copy(), stances.copy()
    for method in ("pca", "mean_difference", "ridge"):
        quietly_fitted(rows, stances, method).score(rows)
    np.testing.assert_array_equal(rows, before[0])
    np.testing.assert_array_equal(stances, before[1])
    assert repr(quietly_fitted(rows)) == "PolarizationAxis(pca, n_topics=1, dim=16)"


def test_two_unlabelled_anchors_are_no_evidence():
    anchors = np.array([[1, 0, 0.5], [0, 1, 0.5]], np.float32)
    with pytest.warns(ValidityWarning, match="two anchors always lie on one axis"):
        PolarizationAxis.fit(anchors)
