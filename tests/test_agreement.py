"""Agreement of axes, and stances by an NLI model, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from epibias.corpus.sentences import sentences
from epibias.errors import InputError, ValidityWarning
from epibias.nli import FixedNLI
from epibias.nli.stances import axis_from_nli, nli_stances
from epibias.polarization.agreement import agreement, coverage
from pools import opposed_anchors, quietly_fitted, unit_rows

TEXTS = ["Fares fall. Queues grow.", "Buses are late.", "A third one. With two. And three."]


def judged(premise, hypothesis):
    """Some probabilities that depend on both texts and on their order."""
    first, second = len(premise) % 7, len(hypothesis) % 5
    total = first + 2 * second + 3
    return ((first + 1) / total, (second + 1) / total, (second + 1) / total)


def stance_by_hand(text, supporting, opposing, most=4):
    of_sentence = []
    for sentence in sentences(text)[:most]:
        sides = []
        for sign, side in ((1, supporting), (-1, opposing)):
            if side:
                judgements = [judged(sentence, statement) for statement in side]
                sides.append(sign * np.mean([yes - no for yes, _, no in judgements]))
        of_sentence.append(np.mean(sides))
    return np.mean(of_sentence)


@pytest.mark.parametrize("most", [1, 2, 4])
@pytest.mark.parametrize(
    ("supporting", "opposing"),
    [(["Good."], []), ([], ["Bad thing."]), (["Good."], ["Bad thing.", "No", "It is."])],
)
def test_stances_are_means_of_what_sentences_entail_less_what_they_contradict(
    supporting, opposing, most
):
    got = nli_stances(FixedNLI(judged), TEXTS, supporting, opposing, most_sentences=most)
    expected = [stance_by_hand(text, supporting, opposing, most) for text in TEXTS]
    # float32 probabilities, at most 1 and rounded once each.
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-7)


def test_each_sentence_is_asked_about_once_and_in_its_order():
    asked = []

    def judge(premise, hypothesis):
        asked.append((premise, hypothesis))
        return (1, 0, 0)

    assert nli_stances(FixedNLI(judge), TEXTS[:2], ["Yes."], ["No."]).tolist() == [0, 0]
    assert asked == [
        (sentence, statement)
        for sentence in ("Fares fall.", "Queues grow.", "Buses are late.")
        for statement in ("Yes.", "No.")
    ]
    assert nli_stances(FixedNLI(judge), [], ["Yes."]).shape == (0,)


def test_an_axis_from_nli_is_the_ridge_on_stances_less_their_median():
    rows = unit_rows(np.random.default_rng(1), 3, 5)
    with pytest.warns(ValidityWarning):  # three texts are no evidence
        got = axis_from_nli(FixedNLI(judged), TEXTS, rows, ["Good."], penalty=0.5)
    stances = np.array([stance_by_hand(text, ["Good."], []) for text in TEXTS])
    labels = stances - stances.mean()  # less the median or the mean: the rows are centred
    centred = rows.astype(float) - rows.astype(float).mean(axis=0)
    expected = centred.T @ np.linalg.solve(centred @ centred.T + 0.5 * np.eye(3), labels)
    assert np.linalg.norm(got.axis - expected / np.linalg.norm(expected)) < 1e-5
    assert got.method == "ridge"


def test_an_axis_hears_what_the_model_hears_where_most_texts_stand_at_one_end():
    nli = FixedNLI(lambda premise, _: (1, 0, 0) if "good" in premise else (0, 0, 1))
    texts = ["bad", "bad too", "bad as well", "good"]
    rows = np.array([[1, -1, 0], [1, -1, 0.1], [1, -1, -0.1], [1, 1, 0]], np.float32)
    with pytest.warns(ValidityWarning):
        axis = axis_from_nli(nli, texts, rows, ["It is so."])
    assert axis.axis[1] > 0.99


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"supporting": []}, "supporting"),
        ({"supporting": "one"}, "supporting"),
        ({"opposing": [" "]}, "opposing"),
        ({"texts": "one"}, "texts"),
        ({"texts": ["a", " ", "c"]}, "texts"),
        ({"texts": ["a", "b"]}, "embeddings"),
        ({"texts": ["same"] * 3}, "texts"),
        ({"most_sentences": 0}, "most_sentences"),
    ],
)
def test_an_axis_from_nli_refuses(given, argument):
    rows = unit_rows(np.random.default_rng(2), 3, 5)
    usual = {"texts": TEXTS, "supporting": ["Good."], "opposing": []}
    with pytest.raises(InputError) as refused:
        axis_from_nli(FixedNLI(judged), embeddings=rows, **{**usual, **given})
    assert refused.value.argument == argument


def test_agreement_is_the_mean_spearman_correlation_of_pairs():
    axes = [quietly_fitted(opposed_anchors(seed)[0], [1, -1] * 4, "ridge") for seed in range(4)]
    passages = unit_rows(np.random.default_rng(3), 30, axes[0].dim)
    scores = [axis.score(passages) for axis in axes]
    pairs = [(i, j) for i in range(4) for j in range(i)]
    expected = np.mean([spearmanr(scores[i], scores[j])[0] for i, j in pairs])
    assert abs(agreement(axes, passages) - expected) < 1e-12
    assert agreement([axes[0], axes[0]], passages) == pytest.approx(1, abs=1e-12)


def test_a_score_that_does_not_differ_agrees_with_nothing():
    axes = [quietly_fitted(opposed_anchors(seed)[0], [1, -1] * 4, "ridge") for seed in range(2)]
    same = np.repeat(unit_rows(np.random.default_rng(4), 1, axes[0].dim), 5, axis=0)
    assert agreement(axes, same) == 0


def test_axes_that_hear_noise_agree_by_chance_alone():
    rng = np.random.default_rng(5)
    found = []
    for seed in range(60):
        axes = [quietly_fitted(unit_rows(rng, 8, 64), [1, -1] * 4, "ridge") for _ in range(2)]
        found.append(agreement(axes, unit_rows(np.random.default_rng(seed), 30, 64)))
    assert abs(np.mean(found)) < 4 / np.sqrt(29 * 60)  # four standard errors
    assert np.std(found) < 2 / np.sqrt(29)


@pytest.mark.parametrize("case", ["one", "batch", "columns", "few", "dtype"])
def test_agreement_refuses(case):
    axis = quietly_fitted(opposed_anchors(1)[0], [1, -1] * 4, "ridge")
    passages = unit_rows(np.random.default_rng(6), 5, axis.dim)
    axes = [axis, axis]
    if case == "one":
        axes = [axis]
    elif case == "batch":
        axes = [axis, quietly_fitted(np.stack([opposed_anchors(1)[0]] * 2))]
    elif case == "columns":
        passages = passages[:, 1:].copy()
    elif case == "few":
        passages = passages[:2]
    else:
        passages = passages.astype(np.float64)
    with pytest.raises(InputError):
        agreement(axes, passages)


def test_coverage_is_the_mean_cosine_with_the_nearest_anchor():
    rng = np.random.default_rng(7)
    anchors = (3 * rng.standard_normal((4, 9))).astype(np.float32)
    passages = rng.standard_normal((11, 9)).astype(np.float32)
    nearest = [
        max(a @ p / (np.linalg.norm(a) * np.linalg.norm(p)) for a in anchors.astype(float))
        for p in passages.astype(float)
    ]
    assert abs(coverage(anchors, passages) - np.mean(nearest)) < 1e-12
    assert coverage(anchors, anchors) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("anchors", "passages", "argument"),
    [
        (np.ones((0, 2), np.float32), np.ones((1, 2), np.float32), "anchors"),
        (np.ones((1, 2), np.float32), np.ones((0, 2), np.float32), "passages"),
        (np.ones((1, 2), np.float32), np.ones((1, 3), np.float32), "passages"),
        (np.zeros((1, 2), np.float32), np.ones((1, 2), np.float32), "anchors"),
        (np.ones((1, 2)), np.ones((1, 2), np.float32), "anchors"),
    ],
)
def test_coverage_refuses(anchors, passages, argument):
    with pytest.raises(InputError) as refused:
        coverage(anchors, passages)
    assert refused.value.argument == argument
