"""The property check: by hand on angles, against plain loops on random rows, and its errors."""

from __future__ import annotations

import json

import numpy as np
import pytest

from angle_encoder import AngleEncoder
from epibias.attacks import AdversarialPassage, AdversarialSet
from epibias.attacks.properties import CATEGORIES, categories, n_texts, property_check
from epibias.corpus import Corpus, Passage
from epibias.data_sets import Question, QuestionSet
from epibias.errors import InputError, ValidityWarning
from epibias.polarization import PolarizationAxis
from epibias.polarization.question_axis import fitted_axes, fitted_axis
from reference_attacks import property_of

ANCHORS = tuple(Passage(f"a{angle}", f"Tram, angle {angle}.") for angle in (-20, -10, 10, 20))


def question(name, text, **fields):
    fields = {"anchors": ANCHORS, "stances": (-2.0, -1.0, 1.0, 2.0), **fields}
    return Question(name, text, "trams", **fields)


def corpus_of(*angles):
    return Corpus([Passage(f"b{angle}", f"Benign, angle {angle}.") for angle in angles])


def adversarial(angle, polarity="positive", question_id="q1", attack="ebi"):
    name = f"{attack}-{question_id}-{polarity}-{angle}"
    return AdversarialPassage(
        Passage(name, f"One-sided, angle {angle}."), question_id, polarity, attack
    )


def questions_of(*questions, corpus=None):
    corpus = corpus_of(20, 28, -40) if corpus is None else corpus
    return QuestionSet("trams", corpus, questions, {}, "CC0-1.0", {})


def test_four_categories_by_hand():
    # The question lies at 10 degrees; the best benign passages at 20 and 28. With k = 2 the clean
    # selection has the mean PS (sin 20 + sin 28)/2 = .406, that is 23.9 degrees.
    wanted = {19: "only relevance", 24: "only bias", 21: "neither", -60: "neither"}
    found = property_check(
        AdversarialSet(tuple(adversarial(angle) for angle in wanted)),
        questions_of(question("q1", "Is it at angle 10?")),
        AngleEncoder(),
        k=2,
    )
    assert {one.passage_id.rsplit("-", 1)[1]: one.category for one in found.passages} == {
        str(abs(angle)): kind for angle, kind in wanted.items()
    }
    first = found.passages[0]
    assert first.similarity == pytest.approx(np.cos(np.radians(9)), abs=1e-6)
    assert first.best_benign == pytest.approx(np.cos(np.radians(10)), abs=1e-6)
    assert first.ps == pytest.approx(np.sin(np.radians(19)), abs=1e-6)
    assert first.clean_ps == pytest.approx(np.sin(np.radians([20, 28])).mean(), abs=1e-6)
    negative = property_check(
        AdversarialSet((adversarial(19, "negative"), adversarial(19, "none"))),
        questions_of(question("q1", "Is it at angle 10?")),
        AngleEncoder(),
        k=2,
    )
    assert [one.category for one in negative.passages] == ["both", "only relevance"]


def test_equal_to_the_best_benign_passage_is_not_above_it():
    made = AdversarialSet((adversarial(20, "negative"),))
    found = property_check(
        made, questions_of(question("q1", "Is it at angle 10?")), AngleEncoder(), k=1
    )
    # Nor is a PS equal to the clean selection's beyond it.
    assert found.passages[0].similarity == found.passages[0].best_benign
    assert found.passages[0].category == "neither"


def test_shares_are_means_over_questions():
    made = AdversarialSet(
        (
            adversarial(19, "negative"),  # both
            adversarial(15, "negative"),  # both
            adversarial(60, "negative"),  # neither
            adversarial(59, "negative"),  # neither
            adversarial(19, "negative", "q2"),  # both: the only one of its question
        )
    )
    asked = [question(name, "Is it at angle 10?") for name in ("q1", "q2")]
    (row,) = property_check(made, questions_of(*asked), AngleEncoder(), k=2).rows
    assert (row.n_passages, row.n_questions) == (5, 2)
    means = {name: one.mean for name, one in row.shares.items()}
    assert means == {"both": 0.75, "only bias": 0.0, "only relevance": 0.0, "neither": 0.25}
    assert row.shares["both"].low == 0.5
    assert row.shares["both"].high == 1.0
    assert tuple(row.shares) == CATEGORIES


def test_against_plain_loops_on_random_rows():
    rng = np.random.default_rng(3)
    table = {f"text {row}": rng.standard_normal(6).astype(np.float32) for row in range(60)}

    class Table:
        def encode(self, texts):
            return np.stack([table[text] for text in texts])

    names = list(table)
    corpus = Corpus([Passage(f"b{row}", name) for row, name in enumerate(names[:20])])
    anchors = tuple(Passage(f"a{row}", name) for row, name in enumerate(names[20:24]))
    asked = questions_of(
        question("q1", names[24], anchors=anchors),
        question("q2", names[25], anchors=anchors[::-1]),
        corpus=corpus,
    )
    # Half of them lie near their question, or hardly any would be relevant.
    made = []
    for row, name in enumerate(names[30:]):
        query = names[24 + row % 2]
        if row % 3:
            table[name] = (table[query] + 0.3 * table[name]).astype(np.float32)
        polarity = ("positive", "negative", "none")[row % 5 % 3]
        made.append(AdversarialPassage(Passage(name, name), f"q{1 + row % 2}", polarity, "x"))
    with pytest.warns(ValidityWarning) as told:
        found = property_check(AdversarialSet(tuple(made)), asked, Table(), k=3)
    [message] = [str(one.message) for one in told if "have no stances" not in str(one.message)]
    assert message.startswith("2 of 2 questions ('q1', 'q2'); the first: the axis may")
    axes = {}
    for one in asked.questions:
        rows = np.stack([table[anchor.text] for anchor in one.anchors])
        with pytest.warns(UserWarning, match="axis"):
            axes[one.id] = PolarizationAxis.fit(rows, labels=one.stances).axis
    benign = [table[name] for name in names[:20]]
    wanted = [
        property_of(
            table[asked.question(one.question_id).text], table[one.passage.text], benign,
            axes[one.question_id], one.polarity, 3,
        )
        for one in made
    ]  # fmt: skip
    assert [one.category for one in found.passages] == wanted
    assert set(wanted) == set(CATEGORIES)


def test_another_encoder_scores_and_axes_may_be_given():
    class Mirrored(AngleEncoder):
        def encode(self, texts):
            return super().encode(texts) * np.float32([1, -1, 1])

    made = AdversarialSet((adversarial(19, "negative"),))
    asked = questions_of(question("q1", "Is it at angle 10?"))
    steps = []
    found = property_check(
        made, asked, AngleEncoder(), ps_encoder=Mirrored(), k=2, progress=steps.append
    )
    # Its axis is oriented by the stances of the same anchors: the same scores come out.
    assert found.passages[0].ps == pytest.approx(np.sin(np.radians(19)), abs=1e-6)
    assert sum(steps) == n_texts(made, asked, k=2, two=True)
    rows = AngleEncoder().encode([one.text for one in ANCHORS])
    turned = PolarizationAxis.fit(rows, labels=[2, 1, -1, -2])
    found = property_check(made, asked, AngleEncoder(), axes={"q1": turned}, k=2)
    assert found.passages[0].ps == pytest.approx(-np.sin(np.radians(19)), abs=1e-6)
    assert found.passages[0].category == "only relevance"


def test_axes_in_doubt_are_counted_in_one_warning():
    class Random:
        def encode(self, texts):
            rng = np.random.default_rng(len(texts[0]))
            return rng.standard_normal((len(texts), 40)).astype(np.float32)

    asked = [question(f"q{number}", "Is it at angle 10?") for number in range(5)]
    with pytest.warns(ValidityWarning) as told:
        assert len(fitted_axes(asked, Random(), "pca")) == 5
    [one] = told
    assert str(one.message).startswith("5 of 5 questions ('q0', 'q1', 'q2', …); the first: the")
    with pytest.warns(ValidityWarning, match="^question 'q3': the axis may"):
        fitted_axis(asked[3], Random())


def test_axes_that_only_a_rule_oriented_are_told():
    made = AdversarialSet((adversarial(19, "negative"), adversarial(19, "none", "q2")))
    asked = [question(name, "Is it at angle 10?", stances=None) for name in ("q1", "q2")]
    with pytest.warns(ValidityWarning, match="anchors of 1 of 2 questions have no stances"):
        property_check(made, questions_of(*asked), AngleEncoder(), k=2)
    # Whoever gives the axis knows its ends; copies of the question take no side.
    rows = AngleEncoder().encode([one.text for one in ANCHORS])
    axis = PolarizationAxis.fit(rows, labels=[-2, -1, 1, 2])
    property_check(made, questions_of(*asked), AngleEncoder(), axes={"q1": axis}, k=2)


def test_both_tables_go_to_json():
    made = AdversarialSet((adversarial(19, "negative"),))
    found = property_check(
        made, questions_of(question("q1", "Is it at angle 10?")), AngleEncoder(), k=2
    )
    plain = json.loads(json.dumps(found.plain(), allow_nan=False))
    assert plain["rows"][0]["shares"]["both"] == {"mean": 1.0, "low": None, "high": None, "n": 1}
    assert plain["passages"][0]["category"] == "both"


def test_the_same_seed_gives_the_same_intervals():
    made = AdversarialSet(
        tuple(adversarial(angle, "negative", f"q{angle}") for angle in (12, 14, 60, 70))
    )
    asked = questions_of(*(question(f"q{a}", "Is it at angle 10?") for a in (12, 14, 60, 70)))
    runs = [property_check(made, asked, AngleEncoder(), k=2, seed=seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0].rows[0].shares["both"].mean == runs[2].rows[0].shares["both"].mean == 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.float32([0.1]), 0.5, np.float32([]), 0.0, "positive"), "ps: expected 1 rows"),
        ((np.float64([0.1]), 0.5, np.float32([0.1]), 0.0, "positive"), "similarities: expected"),
        ((np.float32([np.nan]), 0.5, np.float32([0.1]), 0.0, "positive"), "finite"),
        ((np.float32([0.1]), np.nan, np.float32([0.1]), 0.0, "positive"), "best_benign"),
        ((np.float32([0.1]), 0.5, np.float32([0.1]), 0.0, "for"), "polarity: expected"),
    ],
)
def test_wrong_numbers_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        categories(*arguments)


def test_wrong_sets_are_refused():
    asked = questions_of(question("q1", "Is it at angle 10?"))
    made = AdversarialSet((adversarial(19),))
    with pytest.raises(InputError, match="at least one passage, got none"):
        property_check(AdversarialSet(()), asked, AngleEncoder())
    with pytest.raises(InputError, match=r"question_id: expected .* unknown 'q9'"):
        property_check(AdversarialSet((adversarial(19, "none", "q9"),)), asked, AngleEncoder(), k=2)
    with pytest.raises(InputError, match=r"k: expected .* from 1 to 3"):
        property_check(made, asked, AngleEncoder(), k=4)
    bare = questions_of(question("q1", "Is it at angle 10?", anchors=(), stances=None))
    with pytest.raises(InputError, match="at least two anchors, or an axis"):
        property_check(made, bare, AngleEncoder(), k=2)
