"""The shipped text sets: what their data cards promise, and what is said when they are damaged."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from epibias.data_sets import debates, load_debates, load_opswiki, opswiki
from epibias.errors import InputError

DATA = Path(__file__).parents[1] / "python" / "epibias" / "data"


def test_debates_are_what_the_card_says():
    topics = load_debates()
    assert len(topics) == 16
    assert [t.topic for t in topics] == sorted(t.topic for t in topics)
    for topic in topics:
        assert topic.query.endswith("?")
        assert topic.query_id == f"{topic.topic}-query-01"
        assert topic.stances == (-3, -2, -2, -1, 1, 2, 2, 3)
        assert [p.extra["stance"] for p in topic.anchors] == list(topic.stances)
        assert {side: len(p) for side, p in topic.adversarial.items()} == {
            "positive": 10,
            "negative": 10,
        }
        assert all(p.extra["stance"] > 0 for p in topic.adversarial["positive"])
        assert all(p.extra["stance"] < 0 for p in topic.adversarial["negative"])
        assert len(topic.benign) == 18
    texts = [
        p.text
        for t in topics
        for p in (*t.anchors, *t.benign, *t.adversarial["positive"], *t.adversarial["negative"])
    ]
    assert len(texts) == len(set(texts)) == 16 * 46


def test_opswiki_is_what_the_card_says():
    wiki = load_opswiki()
    counts = [len(wiki.pages), len(wiki.sources), len(wiki.golden_queries)]
    assert counts == [91, 15, 24]
    assert [len(wiki.poison), len(wiki.legitimate_updates)] == [36, 10]
    tiers = {source.id: source.tier for source in wiki.sources}
    assert all(page.tier == tiers[page.source] for page in wiki.pages)
    assert Counter(page.kind for page in wiki.poison) == {
        "natural": 12,
        "verbatim": 12,
        "spread": 12,
    }
    assert all(page.passage.tier == 3 for page in wiki.poison)
    for update in wiki.legitimate_updates:
        replaced = wiki.pages[wiki.pages.index_of(update.replaces)]
        assert update.passage.tier == replaced.tier
        assert update.passage.time > replaced.time
        assert update.passage.extra["topic"] == replaced.extra["topic"]
    assert set(wiki.pages.metadata("topic")) >= {query.topic for query in wiki.golden_queries}


def change(folder, name, line, **fields):
    path = folder / name
    lines = path.read_text(encoding="utf-8").splitlines()
    row = {**json.loads(lines[line - 1]), **fields}
    lines[line - 1] = json.dumps({k: v for k, v in row.items() if v is not ...})
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("line", "fields", "message"),
    [
        (2, {"stance": 4}, r"stance: expected an integer from -3 to 3, got 4 \(rail.jsonl, line 2"),
        (2, {"stance": True}, "stance: expected an integer from -3 to 3, got True"),
        (2, {"role": "bystander"}, r"role: expected query, anchor, .* \(rail.jsonl, line 2\)"),
        (1, {"role": "benign"}, "role: expected at least one passage of 'query', got none"),
        (2, {"role": "query"}, "queries: expected 1, got 2"),
        (20, {"stance": 1}, "stance: expected one on the negative side, got 1"),
        (3, {"text": ...}, r"text: expected the field 'text', .* \(rail.jsonl, line 3\)"),
        (4, {"topic": "roads"}, "topic: expected 'rail', got 'roads'"),
        (20, {"id": "rail-anchor-01"}, "_id: expected each id once, got 'rail-anchor-01'"),
        (12, {"text": " "}, "text: expected a text that is not blank"),
    ],
)
def test_damaged_debates_are_told(tmp_path, line, fields, message):
    folder = shutil.copytree(DATA / "debates", tmp_path / "debates")
    change(folder, "rail.jsonl", line, **fields)
    with pytest.raises(InputError, match=message):
        load_debates(folder)


def test_missing_and_truncated_debates_are_told(tmp_path):
    folder = shutil.copytree(DATA / "debates", tmp_path / "debates")
    content = (folder / "rail.jsonl").read_bytes()
    (folder / "rail.jsonl").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="is it cut off"):
        load_debates(folder)
    for path in folder.glob("*.jsonl"):
        path.unlink()
    with pytest.raises(InputError, match="debates: expected a folder of"):
        load_debates(folder)


def test_a_folder_of_the_same_layout_may_have_other_counts(tmp_path):
    for name in ("debates", "opswiki"):
        shutil.copytree(DATA / name, tmp_path / name)
    for path in sorted((tmp_path / "debates").glob("*.jsonl"))[2:]:
        path.unlink()
    path = tmp_path / "debates" / "basicincome.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join(lines[:4] + lines[7:]), encoding="utf-8")
    topics = load_debates(tmp_path / "debates")
    assert [len(topic.anchors) for topic in topics] == [5, 8]
    path = tmp_path / "opswiki" / "poison.jsonl"
    path.write_text(path.read_text(encoding="utf-8").splitlines()[0], encoding="utf-8")
    wiki = load_opswiki(tmp_path / "opswiki")
    assert (len(wiki.pages), len(wiki.poison)) == (91, 1)
    for check, read in ((debates.check_card, topics), (opswiki.check_card, wiki)):
        with pytest.raises(InputError, match=r"(topics: expected 16|poison: expected 36), got"):
            check(read)


def test_what_the_card_promises_is_checked_of_each_topic(tmp_path):
    folder = shutil.copytree(DATA / "debates", tmp_path / "debates")
    change(folder, "rail.jsonl", 2, stance=3)
    with pytest.raises(InputError, match=r"stance: expected anchors of .* \(rail\)"):
        debates.check_card(load_debates(folder))


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("pages.jsonl", {"source_id": "gossip"}, "source_id: expected an id that is known"),
        (
            "poison.jsonl",
            {"target_query_id": "GQ-0"},
            "target_query_id: expected an id that is kno",
        ),
        ("golden_queries.jsonl", {"expected_page_ids": ["AR-99"]}, "got 'AR-99'"),
        (
            "legit_updates.jsonl",
            {"replaces": "AR-99"},
            r"got 'AR-99' \(legit_updates.jsonl, line 1",
        ),
        ("poison.jsonl", {"page_id": "AR-01"}, "each id once"),
        ("pages.jsonl", {"page_id": "AR-02"}, "each id once"),
    ],
)
def test_damaged_opswiki_is_told(tmp_path, name, fields, message):
    folder = shutil.copytree(DATA / "opswiki", tmp_path / "opswiki")
    change(folder, name, 1, **fields)
    with pytest.raises(InputError, match=message):
        load_opswiki(folder)


def test_the_cards_say_what_the_sets_are_and_are_not_for():
    for name in ("debates", "opswiki"):
        card = (DATA / name / "README.md").read_text(encoding="utf-8")
        for needed in ("language model", "must not be used", "Apache-2.0", "Fields"):
            assert needed in card
