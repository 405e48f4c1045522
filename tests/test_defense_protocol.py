"""The protocol of the defence evaluation: splits, parts, attacks and what it measures."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from epibias.polarization.validity_report import best_threshold, validity_report

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import defense_figures
import defense_frontier
import defense_protocol as protocol
import defense_run
import defense_texts as texts
import defense_trials
from defense_protocol import Condition
from epibias.defenses import NoDefense
from pools import quietly_fitted

DIM = 6


@pytest.fixture(scope="module")
def cases():
    """Two questions, ten passages of each kind; no data set."""
    return [
        texts.Case(
            "debates",
            name,
            f"Should {name} be allowed?",
            tuple(f"{name} benign {i}." for i in range(10)),
            tuple(float(i % 7 - 3) for i in range(10)),
            tuple(f"{name} anchor {i}." for i in range(4)),
            (2.0, -2.0, 1.0, -1.0),
            {
                side: tuple(f"{name} {side} {i}. Should {name} be allowed?" for i in range(10))
                for side in texts.POLARITIES
            },
            ((f"{name} no",), (f"{name} yes",)),
        )
        for name in ("drones", "masks")
    ]


@pytest.fixture(scope="module")
def rows(cases):
    rng = np.random.default_rng(0)
    found = {}
    for text in dict.fromkeys(text for case in cases for text in case.texts()):
        row = rng.standard_normal(DIM)
        found[text] = (row / np.linalg.norm(row)).astype(np.float32)
    return found


def test_folds_are_disjoint_and_cover_every_topic():
    names = [case.name for case in texts.debates()]
    found = protocol.folds(names)
    assert sorted(name for fold in found for name in fold) == sorted(names)
    assert [len(fold) for fold in found] == [4, 4, 4, 4]
    half = protocol.development(names)
    assert len(half) == 8
    assert set(half) == set(found[0]) | set(found[1])
    assert protocol.folds(names[::-1]) == found


def test_a_text_plays_one_part(tmp_path):
    claims = [{"query_id": f"c{i}", "text": f"Claim {i} holds"} for i in range(2)]
    meta = [{"query_id": "c0", "split": "train"}, {"query_id": "c1", "split": "dev"}]
    corpus = [
        {"query_id": f"c{i}", "text": f"claim {i} argument {j}", "stance": 1.0 if j < 20 else -1.0}
        for i in range(2)
        for j in range(30)
    ]
    for name, lines in (("queries", claims), ("queries_meta", meta), ("corpus", corpus)):
        content = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"{name}.jsonl").write_text(content, encoding="utf-8")
    train, dev = (texts.perspectrum(tmp_path, split) for split in ("train", "dev"))
    assert [case.name for case in train + dev] == ["c0", "c1"]
    for case in train + dev:
        adversarial = [text for side in case.adversarial.values() for text in side]
        parts = [*case.passages, *case.anchors, *adversarial]
        assert len(parts) == len(set(parts)) == 30
        assert set(case.adversarial) == {"positive"}  # the other side has too few to give away
        assert len(adversarial) == 8
    assert texts.perspectrum(tmp_path, "dev") == dev


def case_of(name, question, passages, *, anchors=(), positive=()):
    signs = tuple(1.0 if i % 2 else -1.0 for i in range(len(anchors)))
    held_out = {"positive": positive} if positive else {}
    stances = (1.0,) * len(passages)
    return texts.Case("f", name, question, passages, stances, anchors, signs, held_out)


def test_a_text_that_questions_share_plays_one_part_in_the_whole_index():
    first = case_of("a", "Ban meat", ("x", "both"), positive=("shared", "own"))
    second = case_of("b", "Ban fish", ("shared", "both", "y"), anchors=("own", "c", "d", "e"))
    third = case_of("c", "Ban eggs", ("c", "z"), anchors=("own", "shared"))
    one, two, three = texts.one_part_each([first, second, third])
    assert (one.passages, one.adversarial["positive"]) == (("x", "both"), ("shared", "own"))
    assert (two.passages, two.stances) == (("y",), (1.0,))
    assert (two.anchors, two.anchor_stances) == (("c", "d", "e"), (1.0, -1.0, 1.0))
    assert (three.passages, three.anchors) == (("z",), ())  # anchors of one side are none
    benign = [text for case in (one, two, three) for text in case.passages]
    injected = set(one.adversarial["positive"])
    anchors = {text for case in (one, two, three) for text in case.anchors}
    assert len(set(benign)) == len(benign)
    assert injected.isdisjoint(benign)
    assert anchors.isdisjoint({*benign, *injected})
    assert [case.name for case in texts.one_part_each([first, case_of("d", "?", ("own",))])] == [
        "a"
    ]


def test_nothing_is_learnt_from_a_question_that_is_about_the_same():
    reported = [case_of("r", "Everyone should go vegetarian", ("meat is costly",))]
    same_text = case_of("t", "People should eat plants", ("q",), positive=("meat is costly",))
    same_words = case_of("w", "Should everyone become vegetarian?", ("p",))
    other = case_of("o", "Everyone should own a bicycle", ("wheels",))
    assert texts.unrelated([same_text, same_words, other], reported) == [other]


def test_axes_of_a_family_learn_from_unrelated_questions_alone(cases, rows, monkeypatch):
    learnt = []

    def pooled_from(found, _):
        learnt.append([case.name for case in found])

    monkeypatch.setattr(defense_frontier.methods, "pooled_from", pooled_from)
    monkeypatch.setattr(defense_frontier.methods, "axes_of", lambda case, *_: {})
    copy = replace(cases[0], name="copy", question="Ban small aircraft")
    alone = case_of("alone", "Ban bridges", ("b",))
    setting = defense_frontier.setting_of("other", "e", cases, rows, [copy, alone], [])
    # Groups are (drones,), (masks,) and two without a question; "copy" has the texts of drones.
    assert learnt == [["alone"], ["copy", "alone"], ["copy", "alone"], ["copy", "alone"]]
    assert setting.related == ["copy"]


def test_what_an_attack_injects(cases, rows):
    for attack, needle in (("ebi", "positive"), ("poisoned", "Should drones be allowed? drones")):
        trial = protocol.trials(cases, rows, Condition(attack, 5, 100))[0]
        injected = [trial.texts[i] for i in np.flatnonzero(trial.adversarial)]
        assert len(injected) == 5
        assert all(needle in text for text in injected)
        assert len(trial.texts) == 25
    mixed = protocol.trials(cases, rows, Condition("mixed", 4, 100))[0]
    injected = [mixed.texts[i] for i in np.flatnonzero(mixed.adversarial)]
    assert sum("positive" in text for text in injected) == 2
    spread = protocol.trials(cases, rows, Condition("spread", 5, 100))[0]
    sources = [spread.sources[i] for i in np.flatnonzero(spread.adversarial)]
    assert len(set(sources)) == 5
    assert "attacker" not in sources
    stripped = protocol.trials(cases, rows, Condition("stripped", 5, 100))[0]
    assert not any("allowed?" in stripped.texts[i] for i in np.flatnonzero(stripped.adversarial))
    assert len(protocol.trials(cases, rows, Condition("ebi", 5))) == 2 * 2 * protocol.DRAWS


def test_draws_do_not_depend_on_what_else_is_run(cases, rows):
    together = protocol.trials(cases, rows, Condition("ebi", 3))
    alone = protocol.trials(cases, rows, Condition("ebi", 3), only=["masks"])
    expected = [trial.texts for trial in together if trial.case.name == "masks"]
    assert [trial.texts for trial in alone] == expected
    assert len({trial.texts for trial in alone}) > 2


def test_an_adaptive_attacker_gives_relevance_away_for_a_smaller_score(cases, rows):
    axis = np.eye(DIM)[0]
    known = {case.name: axis for case in cases}
    found = []
    for strength in (0.0, 8.0):
        condition = Condition("adaptive", 5, 100, strength)
        trial = protocol.trials(cases, rows, condition, scores=known)[0]
        own = trial.rows[trial.adversarial].astype(float)
        centre = np.stack([rows[text] for text in trial.case.passages]) @ axis
        found.append(((own @ trial.query).mean(), np.abs(own @ axis - centre.mean()).mean()))
    assert found[0][0] > found[1][0]
    assert found[0][1] > found[1][1]
    with pytest.raises(ValueError, match="axis"):
        protocol.trials(cases, rows, Condition("adaptive", 5))


def test_without_an_attack_nothing_is_lost_and_nothing_tilts(cases, rows):
    axes = {
        case.name: quietly_fitted(
            np.stack([rows[text] for text in case.anchors]), case.anchor_stances, "ridge"
        )
        for case in cases
    }
    clean = protocol.trials(cases, rows, protocol.CLEAN)
    reference = defense_trials.references(clean, axes, rows)
    none = NoDefense(protocol.K)
    for outcome in defense_trials.run(clean, axes, lambda _: none, reference):
        assert (outcome.a_recall, outcome.kept, outcome.n_selected) == (0.0, 1.0, 5)
        assert abs(outcome.tilt) < 1e-6
        assert abs(outcome.stance_tilt) < 1e-12
    attacked = protocol.trials(cases, rows, Condition("verbatim", 5))
    outcomes = defense_trials.run(attacked, axes, lambda _: none, reference)
    assert all(outcome.a_recall == 1.0 and outcome.kept == 0.0 for outcome in outcomes)


def test_paired_bootstrap_draws_questions():
    values = np.repeat([1.0, 0.0], 50)
    mean, low, high = protocol.paired_bootstrap(values, np.zeros(100), ["a"] * 50 + ["b"] * 50)
    assert mean == 0.5
    assert (low, high) == (0.0, 1.0)  # of two questions; over pools it would be ±.1
    assert protocol.paired_bootstrap(values, values, ["a"] * 100) == (0.0, 0.0, 0.0)


def test_validity_threshold_is_judged_on_topics_it_was_not_chosen_on():
    validity = np.array([0.1, 0.2, 0.3, 0.6, 0.7, 0.8])
    works = validity > 0.5
    assert best_threshold(validity, works) == pytest.approx(0.45)
    report = validity_report(validity, np.where(works, 0.9, 0.5))
    assert (report.precision, report.recall, report.base_rate) == (1.0, 1.0, 0.5)
    rng = np.random.default_rng(1)
    noise = [validity_report(rng.random(20), rng.random(20)) for _ in range(40)]
    gain = [report.precision - report.base_rate for report in noise]
    assert abs(np.nanmean(gain)) < 0.05  # chosen and judged on the same topics it would be above


def test_stripping_takes_the_question_out():
    question = "Should shops close on Sundays?"
    text = "Rest matters. Shops should close on Sundays! Nobody loses."
    assert texts.stripped(question, text) == "Rest matters. Nobody loses."
    assert texts.stripped(question, question) == question  # something stays
    assert texts.triples_shared(question, question) == 1.0


def test_a_table_has_intervals_and_says_how_many_pools_a_tilt_is_of():
    where = {"family": "f", "encoder": "e", "part": "held out"}
    row = {
        **where, "method": "none", "pool": protocol.POOL, "n_pools": 9,
        "kept": [0.9, 0.8, 1.0], "a_recall": [0.25, 0.1, 0.4], "tilt": [0.5, 0.4, 0.6],
        "stance_tilt": None, "strength": 0.0,
    }  # fmt: skip
    clean = {**row, "attack": "clean", "injected": 0, "n_known": {"tilt": 4, "stance_tilt": 0}}
    attacked = [{**row, "attack": "ebi", "injected": n} for n in protocol.GOAL_LEVELS]
    table = defense_figures._main_table({"results": [clean, *attacked]}, where, ["none"])
    assert "| none | .100 [.000, .200] | .250 [.100, .400] |" in table
    assert "Clean pools with a tilt in 4 of 9, a stance tilt in 0 of 9" in table


def test_a_mean_over_pools_tells_of_those_that_have_no_value(cases, rows):
    only_one = replace(cases[1], passages=cases[1].passages[:1], stances=cases[1].stances[:1])
    some = [cases[0], only_one]
    axes = {
        case.name: quietly_fitted(
            np.stack([rows[text] for text in case.anchors]), case.anchor_stances, "ridge"
        )
        for case in some
    }
    setting = defense_frontier.Setting(
        "f", "e", some, rows, [("drones",), ("masks",)], {"held out": ["drones", "masks"]}, {}
    )
    clean = protocol.trials(some, rows, protocol.CLEAN)
    reference = defense_trials.references(clean, axes, rows)
    none = NoDefense(protocol.K)
    values = defense_trials.columns(defense_trials.run(clean, axes, lambda _: none, reference))
    found = defense_run._rows(setting, protocol.CLEAN, clean, {"none": values, "biasdef": values})
    assert [row["n_known"]["tilt"] for row in found] == [1, 1]
    assert [row["n_pools"] for row in found] == [2, 2]
    assert all("a_recall" not in row["n_known"] for row in found)


def test_figures_need_no_script():
    svg = defense_figures.chart("a < b", "x", "y", {"one": [(0.0, 0.5), (0.1, 0.2)], "two": []})
    assert svg.count("<circle") == 4
    assert "<script" not in svg
    assert "a &lt; b" in svg
