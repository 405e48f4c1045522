"""Baselines of the defence evaluation: made for a trial, on NLI scores, and trials not run."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import defense_baselines as baselines
import defense_protocol as protocol
import defense_texts as texts
import defense_trials
from defense_protocol import Condition
from epibias.defenses import BRRA, NoDefense
from epibias.nli import CachedNLI, FixedNLI
from pools import make_pool, quietly_fitted

DIM = 12


@pytest.fixture(scope="module")
def case():
    return texts.Case(
        "debates",
        "drones",
        "Should drones be allowed?",
        tuple(f"They are loud, {i} say." for i in range(8)),
        tuple(float(i % 5 - 2) for i in range(8)),
        adversarial={side: tuple(f"Some {side} view {i}." for i in range(3)) for side in
                     texts.POLARITIES},
    )  # fmt: skip


@pytest.fixture(scope="module")
def found(case):
    rng = np.random.default_rng(1)
    rows = {}
    for text in dict.fromkeys(case.texts()):
        row = rng.standard_normal(DIM)
        rows[text] = (row / np.linalg.norm(row)).astype(np.float32)
    axis = quietly_fitted(rng.standard_normal((4, DIM)).astype(np.float32))
    return protocol.trials([case], rows, Condition("ebi", 1)), {case.name: axis}, rows


def test_scattered_words_stand_in_order_and_apart():
    passage = " ".join(f"word{i}" for i in range(12))
    made = texts.scattered("Ban all cars?", passage).split()
    assert [made.index(word) for word in ("Ban", "all", "cars")] == [0, 5, 10]
    assert [word for word in made if word.startswith("word")] == passage.split()


def test_brra_searches_the_attacked_index_of_its_trial(found):
    some, _, _ = found
    made = baselines.brra().make(some[0])
    assert isinstance(made, BRRA)
    assert made.index.n_passages == 9  # eight benign, one injected
    np.testing.assert_array_equal(some[0].corpus()[some[0].numbers], some[0].rows)


def test_a_trial_that_is_not_run_has_no_outcome(case, found):
    some, axes, rows = found
    clean = protocol.trials([case], rows, protocol.CLEAN)
    reference = defense_trials.references(clean, axes, rows)
    first = baselines.OfTrial(lambda trial: NoDefense(5) if trial.draw == 0 else None)
    values = defense_trials.columns(defense_trials.run(some, axes, lambda _: first, reference))
    ran = np.array([trial.draw == 0 for trial in some])
    for name in ("a_recall", "kept", "touched", "n_selected"):
        assert (np.isfinite(values[name]) == ran).all(), name
    plain = defense_trials.columns(
        defense_trials.run(some, axes, lambda _: NoDefense(5), reference)
    )
    np.testing.assert_array_equal(values["a_recall"][ran], plain["a_recall"][ran])


def test_nli_scores_take_the_place_of_ps():
    def judge(premise, hypothesis):
        return (0.0, 0.2, 0.8) if ("loud" in premise) == ("favour" in hypothesis) else (0, 1, 0)

    texts_of = ("They are loud.", "They are quiet.")
    scores = baselines.stances(FixedNLI(judge), "Should drones be allowed?", texts_of)
    assert scores.tolist() == pytest.approx([-0.8, 0.8])

    class Seen(NoDefense):
        def select(self, pool):
            seen.append(pool.scores.tolist())
            return super().select(pool)

    seen = []
    pool = replace(
        make_pool([[0.9, 0.8]], [[0.0, 0.0]]),
        query_texts=("Should drones be allowed?",),
        passage_texts=texts_of,
    )
    chosen = baselines.NLIScored(FixedNLI(judge), Seen(2)).select(pool)
    assert seen[0] == pytest.approx([-0.8, 0.8])
    assert chosen[0].tolist() == [0, 1]


def test_what_was_not_judged_is_not_run(found, tmp_path):
    some, _, _ = found
    nli = CachedNLI(FixedNLI(lambda *_: (0.1, 0.2, 0.7)), tmp_path / "nli.jsonl")
    pairs = baselines.pairs_of_stances(some[0])
    assert len(pairs) == 2 * len(some[0].texts)
    nli.probabilities([one for one, _ in pairs], [other for _, other in pairs])
    methods = baselines.nli_methods(tmp_path / "nli.jsonl")
    assert methods["biasdef nli"].make(some[0]) is not None
    assert methods["smart"].make(some[0]) is None
    pairs = baselines.pairs_of_smart(some[0])
    nli.probabilities([one for one, _ in pairs], [other for _, other in pairs])
    assert baselines.nli_methods(tmp_path / "nli.jsonl")["smart"].make(some[0]) is not None
