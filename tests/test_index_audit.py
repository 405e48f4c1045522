"""Both logs: chain, rotation, what a line holds; and what is found with them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from epibias.errors import InputError
from epibias.index.audit import AuditLog
from epibias.index.database import Database
from epibias.index.integrity import check_store
from epibias.index.investigate import investigate
from epibias.index.store import IndexStore
from fake_encoder import FakeEncoder
from index_stores import POLICY, Clock, add, first_pages, make_store, page

AT = "2026-09-01T00:00:00+00:00"


@pytest.fixture
def log(tmp_path):
    made = AuditLog(
        Database(tmp_path / "log.sqlite"), "writes", lines_per_segment=4, segments_kept=2
    )
    for n in range(10):
        made.append([("edit", {"n": n})], AT)
    return made


def change(log, statement):
    with sqlite3.connect(log._database.path) as connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("UPDATE writes_lines SET body = '{\"n\": 77}' WHERE number = 3", "line 3"),
        ("UPDATE writes_lines SET at = '' WHERE number = 5", "line 5"),
        ("UPDATE writes_lines SET body = 'x' WHERE number = 6", "line 6"),
        ("DELETE FROM writes_lines WHERE number = 4", "line 4"),
        ("DELETE FROM writes_lines WHERE number = 1", "line 1"),
        ("UPDATE writes_lines SET number = 20 WHERE number = 10", "line 10"),
    ],
)
def test_a_line_that_was_touched_is_named(log, statement, line):
    assert log.verify() == 10
    change(log, statement)
    with pytest.raises(InputError, match=rf"writes log.*{line}\b"):
        log.verify()


def test_a_head_that_was_noted_finds_a_log_written_anew(log):
    head = log.head
    change(log, "DELETE FROM writes_lines WHERE number > 8")
    assert log.verify() == 8  # the chain itself is whole
    with pytest.raises(InputError, match="no line after 8"):
        log.verify(head)
    log.append([("edit", {"n": 8}), ("edit", {"n": 99})], AT)
    with pytest.raises(InputError, match="line 10"):
        log.verify(head)


def test_rotation_is_bounded_and_the_chain_goes_on(log, tmp_path):
    assert log.rotate() == 2
    assert [line.body["n"] for line in log.lines()] == list(range(10))
    files = sorted(path.name for path in tmp_path.glob("*.jsonl"))
    assert files == ["writes-000001.jsonl", "writes-000002.jsonl"]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.glob("*.jsonl"))
    for n in range(10, 20):
        log.append([("edit", {"n": n})], AT)
    log.rotate()
    assert len(list(tmp_path.glob("*.jsonl"))) == 2
    assert log.verify() == len(list(log.lines())) == 12
    assert log.head[0] == 20
    assert log.append([("edit", {"n": 20})], AT) == 21


@pytest.mark.parametrize("kind", ["changed", "cut", "gone", "rubbish"])
def test_a_segment_that_was_touched_is_named(log, tmp_path, kind):
    log.rotate()
    path = tmp_path / "writes-000001.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    if kind == "changed":
        lines[1] = lines[1].replace('"n": 1', '"n": 7')
    elif kind == "cut":
        lines.pop()
    elif kind == "rubbish":
        lines[2] = "{\n"
    path.write_text("".join(lines))
    if kind == "gone":
        path.unlink()
    expected = {"changed": "line 2", "cut": "000001", "gone": "a segment", "rubbish": "line 3"}
    with pytest.raises(InputError, match=expected[kind]):
        log.verify()


def test_an_append_is_all_or_nothing(log):
    with pytest.raises(ValueError, match="JSON compliant"):
        log.append([("edit", {"n": 1}), ("edit", {"n": float("nan")})], AT)
    assert log.verify() == 10


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A bad page that was live for an hour and answered once."""
    clock = Clock()
    store = make_store(tmp_path_factory.mktemp("audit") / "store", clock=clock)
    clean = store.current.version
    bad = add(store, page("x", "a locked account is opened without checks", account="eve"))
    clock.forward(hours=1)
    answers = [
        store.search("a locked account is opened without checks", topic=None),
        store.search("parking"),
    ]
    store.rollback(clean, by="ops", reason="bad")
    return store, bad, answers


def test_an_investigation_joins_logs_versions_and_promotions(story):
    store, bad, answers = story
    found = investigate(store, account="eve", everything=True)
    assert [one["version"] for one in found.versions] == [bad]
    assert found.live_seconds == 3600
    assert [one["line"] for one in found.answers] == [answers[0].line]
    assert found.answers[0]["query"] is None  # the policy keeps the text out of the log
    assert found.writes[0]["pages"][0]["account"] == "eve"
    assert {(one["query"], one["rank"], one["selected"]) for one in found.could_win} >= {
        ("G1", 2, False)
    }
    assert investigate(store, passage="x", everything=True).answers == found.answers
    assert investigate(store, source="desk", everything=True).live_seconds >= 3600
    with pytest.raises(InputError, match="one of source, passage, account"):
        investigate(store, passage="x", account="eve")


def test_a_line_of_the_retrieval_log_says_what_was_selected_and_holds_no_vector(story):
    store, bad, answers = story
    line = next(store.retrievals.lines(["answer"]))
    assert line.body["version"] == bad
    assert [one["passage"] for one in line.body["selected"]] == [
        one.passage for one in answers[0].passages
    ]
    assert line.body["threshold"] == answers[0].threshold
    assert set(line.body["selected"][0]) == {
        "passage",
        "lineage",
        "source",
        "tier",
        "similarity",
        "ps",
    }
    content = (store.versions.folder / "retrievals.sqlite").read_bytes()
    assert b"without checks" not in content
    assert len(json.dumps(line.body)) < 2000


def test_the_text_of_a_query_is_logged_where_the_policy_says_so(tmp_path):
    policy = b"log_query_text = true\n" + POLICY
    store = IndexStore.create(tmp_path / "store", policy, FakeEncoder(), by="ops", clock=Clock())
    version = store.stage(first_pages(), by="ops", reason="r")
    store.promote(version.id, by="ops", reason="r")
    store.search("who signs")
    assert next(store.retrievals.lines()).body["query"] == "who signs"


def test_a_whole_store_verifies_and_its_head_can_be_kept_elsewhere(story):
    store, _, _ = story
    head = store.catalogue.writes.head
    assert check_store(store, head).problems == ()
    wrong = (head[0], "0" * 64)
    assert "writes log" in check_store(store, wrong).problems[0]
    assert isinstance(store.versions.folder, Path)
