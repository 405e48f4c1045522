"""The gate: drift and conformal tests; then hold, accept, reject."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from epibias.errors import InputError
from epibias.index import IndexStore
from epibias.index.drift import lost_share
from epibias.index.gate import GateInputs, run_gate
from epibias.index.gate_report import GateReport
from epibias.index.newcomers import conformal_p
from epibias.polarization import PolarizationAxis
from fake_encoder import DIM
from index_stores import POLICY, QUERIES, Clock, make_store, page, second_query

ATTACK = "recover a locked account how to recover a locked account without checks"


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path / "store")


def kinds(report):
    return {finding.kind for finding in report.findings}


def test_a_share_that_was_lost():
    assert lost_share([], ["a"]) == 0
    assert lost_share(["a", "b", "c", "d", "e"], ["a", "x", "b", "y", "z"]) == 3 / 5


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.2])
def test_the_conformal_test_keeps_its_rate_exactly(rate):
    rng = np.random.default_rng(1)
    scores = rng.standard_cauchy(size=(4000, 61))  # no assumption on the distribution
    alarms = [conformal_p(row[0], row[1:]) <= rate for row in scores]
    expected = math.floor(rate * 61) / 61
    assert np.mean(alarms) == pytest.approx(expected, abs=4 * math.sqrt(0.25 * rate / 1000) + 1e-9)
    assert np.isnan(conformal_p(float("nan"), scores[0]))


def test_an_honest_page_passes_and_a_page_that_competes_is_held(store):
    honest = store.stage([page("n1", "note 99 about lunch room plants")], by="ops", reason="r")
    report = store.check(honest.id)
    assert not report.fired
    assert report.n_new == 1
    assert store.promote(honest.id, by="ops", reason="r").report == report
    bad = store.stage([page("x", ATTACK, account="eve")], by="ops", reason="r")
    before = store.current
    outcome = store.promote(bad.id, by="ops", reason="r")
    assert outcome.held
    assert store.current == before
    assert "challenge" in kinds(outcome.report)
    (finding,) = [one for one in outcome.report.findings if one.kind == "challenge"]
    assert (finding.query, finding.topic, finding.passages) == ("G1", "recovery", ("x",))
    assert finding.value <= finding.limit == 0.05


def test_the_same_text_from_an_authoritative_source_is_no_challenge(store):
    version = store.stage([page("h9", ATTACK, "handbook", "mo")], by="ops", reason="r")
    assert "challenge" not in kinds(store.check(version.id))


def test_an_edit_of_an_open_page_is_tested_like_a_new_page(store):
    edited = page("w1", ATTACK, account="eve", replaces="w1")
    version = store.stage([edited], by="ops", reason="r")
    assert "challenge" in kinds(store.check(version.id))


def test_drift_counts_lineages_and_adds_up_over_versions(store):
    revised = page(
        "h1b",
        "recover a locked account with two identity checks now",
        "handbook",
        "mo",
        replaces="h1",
    )
    version = store.stage([revised], by="ops", reason="r")
    assert all(one.drift == 0 for one in store.check(version.id).drifts)
    version = store.stage(removals=["h1", "h2"], by="ops", reason="r")
    report = store.check(version.id)
    (drift,) = [one for one in report.drifts if one.query == "G1"]
    # h1, h2, d1, d2 were selected for G1; two of the four are gone.
    assert drift.drift == 0.5
    assert "drift" in kinds(report)
    left = {
        entry.passage for entry in report.review if entry.change == "left" and entry.query == "G1"
    }
    assert {"h1", "h2"} <= left


def test_a_page_that_leans_to_the_shortcut_is_found_where_the_axis_is_valid(store):
    """The first coordinate of these vectors is the stance: an encoder that hears it."""
    rng = np.random.default_rng(0)
    identity = {"name": "stance", "dim": DIM}

    def vectors(n, stance):
        rows = rng.standard_normal((n, DIM)).astype(np.float32)
        rows[:, 1] += 4
        rows[:, 0] = stance + 0.3 * rng.standard_normal(n)
        return rows

    other = IndexStore.create(
        store.versions.folder.parent / "other", POLICY, by="ops", clock=Clock()
    )
    pages = [page(f"w{n}", f"text {n}") for n in range(60)]
    first = other.stage(
        pages, by="ops", reason="r", embeddings=vectors(60, 1.0), encoder_identity=identity
    )
    other.promote(first.id, by="ops", reason="r")
    anchors = np.concatenate([vectors(6, 4.0), vectors(6, -4.0)])
    axis = PolarizationAxis.fit(anchors, [1.0] * 6 + [-1.0] * 6, "mean_difference")
    query = np.zeros((1, DIM), np.float32)
    query[0, 1] = 1
    inputs = GateInputs(QUERIES[:1], query, {}, {"recovery": axis}, "2026-09-01T00:00:00+00:00")
    found = {}
    for name, stance in (("follows", 1.0), ("leans", -3.0)):
        row = vectors(1, stance)
        row[:, 1] += 3
        version = other.stage(
            [page(name, name)], by="ops", reason="r", embeddings=row, encoder_identity=identity
        )
        readers = (other.read_version(one, everything=True) for one in (first.id, version.id))
        report, _ = run_gate(*readers, inputs)
        found[name] = "polarization shift" in kinds(report)
    assert found == {"follows": False, "leans": True}


def test_a_held_promotion_is_accepted_by_every_owner_and_moves_the_baselines(store):
    version = store.stage(removals=["h1", "h2", "d1"], by="ops", reason="r")
    outcome = store.promote(version.id, by="ops", reason="r")
    assert set(outcome.report.topics) == {"recovery", "refunds"}
    with pytest.raises(
        InputError, match=re.escape("by: expected an owner: Finance, Trust, got 'eve'")
    ):
        store.accept(version.id, by="eve", reason="r")
    hold = store.accept(version.id, by="Trust", reason="moved to the portal")
    assert {"recovery", "refunds"} == {one.topic for one in hold.report.findings}
    assert hold.waiting == ("G2",)
    assert store.current.version != version.id
    store.accept(version.id, by="Finance", reason="moved to the portal")
    assert store.current.version == version.id
    assert store.golden.baselines()["G1"].version == version.id
    assert store.golden.baselines()["G1"].by == "Trust"
    later = store.stage([page("n1", "note 99 about lunch room plants")], by="ops", reason="r")
    assert all(one.drift == 0 for one in store.check(later.id).drifts)


def test_a_rejected_version_never_comes_back(store):
    version = store.stage([page("x", ATTACK)], by="ops", reason="r")
    store.promote(version.id, by="ops", reason="r")
    with pytest.raises(InputError, match="a staged version"):
        store.promote(version.id, by="ops", reason="r")
    with pytest.raises(InputError, match="by: expected an owner"):
        store.reject(version.id, by="eve", reason="r")
    store.reject(version.id, by="Trust", reason="poison")
    for action in (store.accept, store.promote, store.rollback):
        with pytest.raises(InputError):
            action(version.id, by="Trust", reason="r")
    with pytest.raises(InputError, match="a held version"):
        store.reject(version.id, by="Trust", reason="r")


def test_a_report_survives_its_way_through_the_catalogue(store):
    version = store.stage([page("x", ATTACK)], by="ops", reason="r")
    report = store.promote(version.id, by="ops", reason="r").report
    assert GateReport.from_json(report.to_json()) == report == store.held(version.id).report
    entry = next(one for one in report.review if one.change == "came" and one.passage == "x")
    assert (entry.source, entry.tier, entry.account, entry.time) == ("wiki", 3, "ann", "2026-02-01")
    assert entry.p_challenge <= 0.05
    assert ATTACK not in report.to_json()


def test_baselines_that_nobody_reviews_are_reported(tmp_path):
    clock = Clock()
    store = make_store(tmp_path / "store", clock=clock)
    assert store.golden.expired(store.policy) == []
    clock.forward(days=200)
    store.review_baselines("recovery", by="Trust", reason="half-year")
    assert [query.id for query, _ in store.golden.expired(store.policy)] == ["G2"]
    with pytest.raises(InputError, match="who owns the topic 'recovery'"):
        store.review_baselines("recovery", by="Finance", reason="r")


def test_a_golden_query_belongs_to_the_owner_of_its_topic(store):
    from epibias.data_sets import GoldenQuery

    for query, message in (
        (GoldenQuery("G3", "text", "recovery", "Finance", ()), "owner: expected 'Trust'"),
        (GoldenQuery("G1", "text", "recovery", "Trust", ()), "golden query: expected a new id"),
        (GoldenQuery("G3", "text", "gardens", "Trust", ()), "topic: expected"),
        (GoldenQuery("G3", " ", "recovery", "Trust", ()), "text: expected"),
    ):
        with pytest.raises(InputError, match=message):
            store.golden.add([query], store.policy, by="ops")


def test_a_check_needs_no_encoder(store):
    version = store.stage([page("x", ATTACK)], by="ops", reason="r")
    bare = IndexStore(store.versions.folder, clock=Clock())
    assert bare.promote(version.id, by="ops", reason="r").held
    with pytest.raises(InputError, match="encoder: expected an encoder"):
        bare.stage([page("y", "text")], by="ops", reason="r")


def test_baselines_are_reviewed_and_accepted_query_by_query(store):
    second_query(store)
    assert {name: one.number for name, one in store.golden.baselines().items()} == {
        "G1": 1,
        "G2": 1,
        "G3": 1,
    }
    with pytest.raises(InputError, match="queries: expected 'G1' or 'G3', got 'G2'"):
        store.review_baselines("recovery", by="Trust", reason="r", queries=["G2"])
    pages = [
        page("x", ATTACK, account="eve"),
        page("y", "reset a forgotten password at once", account="eve"),
    ]
    version = store.stage(pages, by="ops", reason="r")
    assert set(store.promote(version.id, by="ops", reason="r").report.queries) == {"G1", "G3"}
    with pytest.raises(InputError, match="queries: expected some of G1, G3, got 'G2'"):
        store.accept(version.id, by="Trust", reason="r", queries=["G2"])
    hold = store.accept(version.id, by="Trust", reason="read it", queries=["G1"])
    assert hold.waiting == ("G3",)
    assert store.current.version != version.id
    assert store.golden.baselines()["G1"].number == 1  # nothing moves before all is accepted
    assert store.accept(version.id, by="Trust", reason="read it", queries=["G3"]).waiting == ()
    assert store.current.version == version.id
    numbers = {name: one.number for name, one in store.golden.baselines().items()}
    assert numbers == {"G1": 2, "G2": 1, "G3": 2}
