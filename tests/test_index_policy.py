"""Policy: what TOML may say, who may answer what, and the selection against a naive one."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epibias.errors import InputError
from epibias.index import parse_policy
from epibias.index.authority import authority_scores, select_context
from epibias.index.policy import SelectionRule
from epibias.index.topics import place_query, topic_by_keyword
from fake_encoder import FakeEncoder
from index_stores import POLICY, QUERIES, add, make_store, page


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"x = ", "policy: expected TOML"),
        (b"", "sources: expected tables [sources"),
        (b"speed = 3", "policy: expected one of sources, topics"),
        (POLICY + b"[gate]\nfast = true", "gate: expected one of false_alarm_rate"),
        (POLICY + b"[gate]\nfalse_alarm_rate = 1.5", "gate.false_alarm_rate: expected"),
        (POLICY + b"[gate]\nfalse_alarm_rate = nan", "gate.false_alarm_rate: expected"),
        (POLICY + b"[selection]\nk = 0", "selection.k: expected an integer of at least 1"),
        (POLICY + b"[selection]\nk = true", "selection.k: expected an integer"),
        (POLICY + b"[selection.tier_weights]\n4 = 0.1", "selection.tier_weights: expected tiers"),
        (POLICY.replace(b"tier = 1", b"tier = 7"), "sources.handbook.tier: expected 1, 2 or 3"),
        (POLICY.replace(b"tier = 1\n", b""), "sources.handbook: expected the keys tier, owner"),
        (
            POLICY.replace(b'["handbook", "desk"]', b'["book"]'),
            "topics.recovery.sources: expected a source",
        ),
        (
            POLICY.replace(b'["handbook", "desk"]', b'"desk"'),
            "topics.recovery.sources: expected a list",
        ),
        (b'unmatched = "ajar"\n' + POLICY, "unmatched: expected 'open' or 'closed'"),
        (
            POLICY + b'follow = ["do", "ask"]\nshortcut = ["skip"]',
            "topics.refunds.shortcut: expected 2 statements, one for each of follow, got 1",
        ),
        (POLICY + b'follow = ["do"]', "topics.refunds.shortcut: expected statements of both"),
    ],
)
def test_a_wrong_policy_is_refused_with_table_and_key(text, message):
    with pytest.raises(InputError, match=re.escape(message)):
        parse_policy(text)


def naive_selection(scores, tiers, sources, k, rule):
    order = sorted(range(len(scores)), key=lambda n: (-scores[n], n))
    chosen, taken = [], Counter()
    for n in order:
        if len(chosen) < k and (
            tiers[n] in rule.exempt_tiers or taken[sources[n]] < rule.cap_per_source
        ):
            chosen.append(n)
            taken[sources[n]] += tiers[n] not in rule.exempt_tiers
    return chosen


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, 3), st.integers(0, 3)), min_size=1, max_size=25
    ),
    st.integers(1, 6),
    st.integers(1, 3),
)
def test_selection_equals_the_naive_one(rows, k, cap):
    similarities = np.array(sorted((row[0] / 5 for row in rows), reverse=True), np.float32)
    tiers = np.array([row[1] for row in rows], np.int8)
    sources = np.array([row[2] for row in rows], np.int32)
    rule = SelectionRule(cap_per_source=cap)
    scores = authority_scores(similarities, tiers, rule)
    found = select_context(scores, tiers, sources, k, rule)
    assert found.tolist() == naive_selection(scores, tiers, sources, k, rule)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("policy") / "store")


def reference_select(reader, query, topic, k):
    """Rank every allowed row, without any index."""
    rows, rule = reader.files.rows, reader.policy.selection
    vectors = np.asarray(reader.files.vectors, np.float64)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similarity = unit @ (query / np.linalg.norm(query))
    allowed = [
        row
        for row in range(len(rows))
        if topic is None or rows.source(row) in reader.policy.topics[topic].sources
    ]
    weights = np.array([rule.tier_weights[int(rows.tiers[row])] for row in allowed])
    scores = similarity[allowed] + weights
    chosen = naive_selection(scores, rows.tiers[allowed], rows.source_codes[allowed], k, rule)
    return [allowed[n] for n in chosen]


@pytest.mark.parametrize("topic", [None, "recovery", "refunds"])
@pytest.mark.parametrize("k", [1, 2, 5, 50])
def test_what_a_reader_selects_equals_the_naive_ranking(store, topic, k):
    reader = store.reader(everything=True)
    for text in ("recover a locked account", "parking note 21", "large refund"):
        query = FakeEncoder().encode([text])
        (found,) = reader.select(query, [topic], k)
        assert found.rows.tolist() == reference_select(reader, query[0].astype(float), topic, k)
        assert found.short == (len(found.rows) < k)


def test_a_part_too_large_to_copy_is_filtered_with_the_same_answer(store, monkeypatch):
    from epibias.index import reader as module

    query = FakeEncoder().encode(["recover a locked account"])
    expected = store.reader(everything=True).select(query, ["recovery"], 4)[0]
    monkeypatch.setattr(module, "MOST_BYTES_COPIED", 0)
    found = store.reader(everything=True).select(query, ["recovery"], 4)[0]
    assert found.rows.tolist() == expected.rows.tolist()
    np.testing.assert_array_equal(found.similarities, expected.similarities)


def test_an_owner_elevates_a_page_as_it_is(tmp_path):
    store = make_store(tmp_path / "store")
    add(store, page("n1", "recover a locked account in the new portal"))
    query = "recover a locked account in the new portal"
    assert "n1" not in {one.passage for one in store.search(query, topic="recovery").passages}
    with pytest.raises(InputError, match="by: expected 'Trust', who owns the topic"):
        store.elevate("n1", "recovery", by="ann", reason="mine")
    store.elevate("n1", "recovery", by="Trust", reason="reviewed")
    found = {one.passage: one.tier for one in store.search(query, topic="recovery").passages}
    assert found["n1"] == 2
    store.withdraw("n1", "recovery", by="Trust", reason="outdated")
    assert "n1" not in {one.passage for one in store.search(query, topic="recovery").passages}
    with pytest.raises(InputError, match="a page elevated for 'recovery'"):
        store.withdraw("n1", "recovery", by="Trust", reason="outdated")
    store.elevate("n1", "recovery", by="Trust", reason="reviewed again")
    # Edited afterwards it is another page, and has to be reviewed again.
    add(store, page("n1", "recover a locked account without any check", replaces="n1"))
    assert "n1" not in {one.passage for one in store.search(query, topic="recovery").passages}
    assert [line.body["by"] for line in store.catalogue.writes.lines(["elevate"])] == ["Trust"] * 2


def test_a_tier_is_what_the_policy_says_now(tmp_path):
    store = make_store(tmp_path / "store", golden=False)
    row = int(store.reader().files.rows.find(["w1"])[0])
    assert store.reader().all_tiers[row] == 3
    store.set_policy(POLICY.replace(b"tier = 3", b"tier = 2"), by="ops")
    assert store.reader().all_tiers[row] == 2


def test_a_query_finds_its_topic_by_keyword_by_golden_query_or_by_its_caller(store):
    policy = store.policy
    golden = FakeEncoder().encode([query.text for query in QUERIES])
    assert topic_by_keyword("May I RECOVER it?", policy) == "recovery"
    assert topic_by_keyword("recovered", policy) is None
    rows = FakeEncoder().encode(["who signs a large refund please"])
    placed = place_query("who signs", rows, policy, QUERIES, golden)
    assert (placed.topic, placed.how) == ("refunds", "nearest golden query")
    nothing = FakeEncoder().encode(["bicycles"])
    assert place_query("bicycles", nothing, policy, QUERIES, golden).topic is None
    assert store.search("bicycles", topic="refunds").how == "caller"
    with pytest.raises(InputError, match="topic: expected"):
        store.search("bicycles", topic="gardening")


def test_a_query_of_no_topic_meets_what_the_policy_says(tmp_path):
    store = make_store(tmp_path / "store")
    answer = store.search("parking and plants")
    assert answer.topic is None
    assert "wiki" in {one.source for one in answer.passages}
    store.set_policy(b'unmatched = "closed"\n' + POLICY, by="ops")
    answer = store.search("parking and plants")
    assert (answer.topic, answer.how) == (None, "none")
    assert {one.source for one in answer.passages} <= {"handbook", "desk"}
    assert answer.short  # 4 pages have authority over some topic
    assert answer.threshold is None
    # What drift and the gate look at stays the plain order of all pages.
    query = FakeEncoder().encode(["parking and plants"])
    (found,) = store.reader(everything=True).similar(query, 5)
    assert "wiki" in {store.reader().files.rows.source(row) for row in found.rows.tolist()}
    store.elevate("w1", "recovery", by="Trust", reason="reviewed")
    assert "w1" in {one.passage for one in store.search("parking and plants").passages}


def test_the_threshold_is_the_least_score_that_was_selected(store):
    answer = store.search("who signs a large refund", k=2)
    weights = store.policy.selection.tier_weights
    scores = [one.similarity + weights[one.tier] for one in answer.passages]
    assert answer.threshold == pytest.approx(min(scores))
    line = list(store.retrievals.lines(["answer"]))[-1]
    assert line.body["threshold"] == answer.threshold
    query = FakeEncoder().encode(["who signs a large refund"])
    (deeper,) = store.reader().select(query, ["refunds"], 3)
    assert deeper.short or deeper.scores[2] <= answer.threshold


def test_a_changed_policy_is_noticed_and_a_new_one_is_logged(tmp_path):
    import sqlite3

    store = make_store(tmp_path / "store", golden=False)
    store.set_policy(POLICY + b"\n[selection]\nk = 2\n", by="ops")
    assert store.policy.selection.k == 2
    assert [line.body["by"] for line in store.catalogue.writes.lines(["policy"])] == ["ops", "ops"]
    with sqlite3.connect(tmp_path / "store" / "catalogue.sqlite") as connection:
        connection.execute("UPDATE settings SET value = value || ' ' WHERE name = 'policy'")
    connection.close()
    with pytest.raises(InputError, match="policy: expected the policy that was set"):
        _ = store.policy
