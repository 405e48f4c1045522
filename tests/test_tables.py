"""Tables: topics are the unit, polarities are averaged first, nothing is left out unsaid."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from epibias.experiment import tables
from epibias.experiment.markdown import results_markdown, short
from epibias.experiment.plan import Plan, demo_plan
from epibias.metrics.intervals import bootstrap_interval

PLAN = demo_plan()
# One defence that needs no axis and one that does, and the clean and the 5-injection attacks.
SMALL = Plan(
    PLAN.k,
    PLAN.pool_factor,
    PLAN.seed,
    (PLAN.defenses[0], PLAN.defenses[2]),
    tuple(attack for attack in PLAN.attacks if attack.condition in ("0", "5", "decoys")),
)


def row(topic, axis, defense, attack, **values):
    return {
        "topic": topic,
        "query_id": f"{topic}-q",
        "axis": axis,
        "defense": defense,
        "attack": attack.kind,
        "polarity": attack.polarity,
        "condition": attack.condition,
        "injections": attack.injections,
        "status": "ok",
        "message": None,
        "n_selected": 5,
        "short": False,
        "adversarial_precision": 0.0,
        "adversarial_recall": None if attack.kind == "clean" else 0.0,
        "none_selected": 1.0,
        "recall_over_k": 1.0,
        "recall_over_relevant": 0.25,
        "mean_score": 0.0,
        "latency_ms": 1.0,
        **values,
    }


def all_rows(value, topics=("a", "b", "c")):
    """One row a cell; `value(topic, axis, defense, attack)` gives the fields to change."""
    return [
        row(topic, axis, named.key, attack, **value(topic, axis, named.key, attack))
        for topic in topics
        for attack in SMALL.attacks
        for axis in SMALL.axis_methods
        for named in SMALL.defenses
    ]


def test_polarities_are_averaged_within_a_topic_then_topics():
    precision = {"a": (0.2, 0.6), "b": (0.0, 0.4), "c": (1.0, 0.6)}

    def value(topic, axis, defense, attack):
        if attack.condition != "5":
            return {}
        return {"adversarial_precision": precision[topic][attack.polarity == "negative"]}

    results = tables.aggregate(all_rows(value), SMALL)
    both = results.get("biasdef", "pca", "5", "adversarial_precision")
    assert both.mean == pytest.approx((0.4 + 0.2 + 0.8) / 3)
    assert both.n == 3
    expected = bootstrap_interval([0.4, 0.2, 0.8], n_resamples=tables.N_RESAMPLES, seed=0)
    assert (both.low, both.high) == pytest.approx((expected.low, expected.high))
    positive = results.get("biasdef", "pca", "5", "adversarial_precision", "positive")
    assert positive.mean == pytest.approx((0.2 + 0.0 + 1.0) / 3)


def test_what_the_axis_cannot_change_is_reported_once():
    results = tables.aggregate(all_rows(lambda *_: {}), SMALL)
    axes = {(r.defense, r.axis) for r in results.rows if r.metric == "adversarial_precision"}
    assert axes == {("none", "any"), *(("biasdef", a) for a in ("pca", "ridge", "random"))}
    axes = {(r.defense, r.axis) for r in results.rows if r.metric == "abs_b_retrieval"}
    assert axes == {(d, a) for d in ("none", "biasdef") for a in ("pca", "ridge", "random")}
    keys = [(r.defense, r.axis, r.condition, r.polarity, r.metric) for r in results.rows]
    assert len(set(keys)) == len(keys)


def test_b_retrieval_has_both_references_and_signs_do_not_cancel():
    def value(topic, axis, defense, attack):
        base = {"none": 0.1, "biasdef": 0.3}[defense]
        shift = {"none": 0.0, "positive": 0.2, "negative": -0.2}[attack.polarity]
        return {"mean_score": base + shift}

    results = tables.aggregate(all_rows(value), SMALL)

    def mean(metric, polarity="both"):
        return results.get("biasdef", "ridge", "5", metric, polarity).mean

    assert mean("b_retrieval", "positive") == pytest.approx(0.2)
    assert mean("b_retrieval", "negative") == pytest.approx(-0.2)
    assert mean("abs_b_retrieval") == pytest.approx(0.2)
    assert mean("b_retrieval_undefended", "positive") == pytest.approx(0.4)
    assert mean("b_retrieval_undefended", "negative") == pytest.approx(0.0)
    assert mean("abs_b_retrieval_undefended") == pytest.approx(0.2)
    with pytest.raises(KeyError):
        results.get("biasdef", "ridge", "5", "b_retrieval")


def test_failed_and_inapplicable_rows_are_counted_not_averaged():
    def value(topic, axis, defense, attack):
        if attack.condition == "decoys" and topic == "a":
            empty = dict.fromkeys(("adversarial_precision", "recall_over_k", "mean_score"))
            return {"status": "not_applicable", **empty}
        if attack.condition == "5" and topic == "b" and attack.polarity == "positive":
            return {"status": "failed", "adversarial_precision": None, "mean_score": None}
        return {"adversarial_precision": 0.4}

    results = tables.aggregate(all_rows(value), SMALL)
    decoys = results.get("none", "any", "decoys", "adversarial_precision")
    assert (decoys.mean, decoys.n, decoys.n_not_applicable, decoys.n_failed) == (
        pytest.approx(0.4),
        2,
        2,
        0,
    )
    five = results.get("none", "any", "5", "adversarial_precision")
    assert (five.n, five.n_failed) == (3, 1)
    positive = results.get("none", "any", "5", "adversarial_precision", "positive")
    assert (positive.n, positive.n_failed) == (2, 1)


def test_the_ratio_is_that_of_the_means_with_an_interval_around_it():
    precision = {"a": 0.2, "b": 0.4, "c": 0.0}
    recall = {"a": 0.8, "b": 0.2, "c": 1.0}

    def value(topic, axis, defense, attack):
        return {"adversarial_precision": precision[topic], "recall_over_k": recall[topic]}

    found = tables.aggregate(all_rows(value), SMALL).get("none", "any", "5", tables.RATIO)
    assert found.mean == pytest.approx(0.6 / 2.0)
    # 1 resample in 27 is of one topic alone, more than the 2.5 % that lie beyond an end: of c, with
    # the smallest ratio, and of b, with the largest.
    assert found.low == 0.0 / 1.0
    assert found.high == 0.4 / 0.2


def test_no_relevant_passage_at_all_leaves_the_ratio_open():
    results = tables.aggregate(all_rows(lambda *_: {"recall_over_k": 0.0}), SMALL)
    found = results.get("none", "any", "5", tables.RATIO)
    assert (found.mean, found.low, found.high, found.n) == (None, None, None, 3)


def test_one_topic_has_a_mean_and_no_interval():
    results = tables.aggregate(all_rows(lambda *_: {}, topics=("a",)), SMALL)
    found = results.get("none", "any", "5", "recall_over_k")
    assert (found.mean, found.low, found.high, found.n) == (1.0, None, None, 1)


def test_the_same_rows_give_the_same_tables_in_whatever_order():
    generator = np.random.default_rng(4)
    values = {}

    def value(*key):
        return values.setdefault(key, {"adversarial_precision": generator.integers(0, 6) / 5})

    rows = all_rows(value, topics="abcdefgh")
    first = tables.aggregate(rows, SMALL)
    for order in (rows[::-1], [rows[i] for i in generator.permutation(len(rows))]):
        tables.interval_of.cache_clear()
        assert tables.aggregate(order, SMALL).rows == first.rows
    widths = {row.high - row.low for row in first.rows if row.low is not None}
    assert len(widths) > 10  # intervals, not points: their ends come from the bootstrap


def test_files_say_what_the_results_say(tmp_path):
    rows = all_rows(lambda *_: {"adversarial_precision": 0.2})
    results = tables.aggregate(rows, SMALL)
    tables.write_tables(tmp_path / "tables", results, rows, SMALL)
    text = (tmp_path / "tables" / "results.csv").read_text(encoding="utf-8")
    records = list(csv.DictReader(io.StringIO(text)))
    assert len(records) == len(results.rows)
    one = next(
        r
        for r in records
        if (r["defense"], r["condition"], r["polarity"], r["metric"])
        == ("none", "5", "both", "adversarial_precision")
    )
    assert (one["axis"], one["mean"], one["n"]) == ("any", "0.200000", "3")
    latency = (tmp_path / "tables" / "latency.csv").read_text(encoding="utf-8").splitlines()
    assert latency[1] == "none,45,1.000000,1.000000"


def test_markdown_has_a_row_a_system_and_a_column_a_condition():
    text = results_markdown(tables.aggregate(all_rows(lambda *_: {}), SMALL), SMALL)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert lines[0] == "| defence | axis | clean | 5 inj. | decoys |"
    assert lines[2].startswith("| no defence |  | .00 [.00, .00] |")
    assert len(lines) == 2 * (2 + 4)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.187, ".19"), (1.0, "1.00"), (0.999, "1.00"), (-0.05, "-.05"), (0, ".00"), (-1.5, "-1.50")],
)
def test_numbers_are_written_short(value, text):
    assert short(value) == text
