"""Sets by hub name, with a stand-in for the package that fetches them: no network here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from epibias.data_sets import load_questions
from epibias.errors import InputError, MissingExtraError

DATA = Path(__file__).parent / "fixtures" / "data"


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def judgements_of(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    cells = [line.split("\t") for line in lines[1:]]
    return [{"query-id": q, "corpus-id": p, "score": int(grade)} for q, p, grade in cells]


@pytest.fixture
def hub(monkeypatch):
    """Give the rows that the stand-in hands out, by name, config and split, and what was asked."""
    natural, synthetic = DATA / "wiki_balance" / "natural", DATA / "wiki_balance" / "synthetic"
    start = "SALT-NLP/wiki-balance"
    rows = {
        (f"{start}-natural", "corpus", "corpus"): rows_of(natural / "corpus.jsonl"),
        (f"{start}-natural", "queries", "queries"): rows_of(natural / "queries.jsonl"),
        (f"{start}-natural-qrels", "test", "test"): judgements_of(natural / "qrels" / "test.tsv"),
        (f"{start}-synthetic", "corpus", "corpus"): rows_of(synthetic / "corpus.jsonl"),
        (f"{start}-synthetic", "queries", "queries"): rows_of(synthetic / "queries.jsonl"),
    }
    asked = []
    module = ModuleType("datasets")

    def load_dataset(name, config, *, split, revision):
        asked.append((name, revision))
        if (name, config, split) not in rows:
            message = f"Couldn't reach '{name}' on the Hub (ConnectionError)"
            raise ConnectionError(message)
        return rows[name, config, split]

    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)
    return rows, asked


def test_wiki_balance_from_the_hub_is_what_the_files_hold(hub):
    found = load_questions("wiki-balance", revision="abc")
    local = load_questions(DATA / "wiki_balance")
    for name in ("corpus", "questions", "relevant", "licence", "notes"):
        assert getattr(found, name) == getattr(local, name), name
    assert set(hub[1]) == {
        (f"SALT-NLP/wiki-balance-{one}", "abc") for one in ("natural", "natural-qrels", "synthetic")
    }
    assert len(found.files) == 5
    assert "SALT-NLP/wiki-balance-natural/corpus/corpus" in found.files
    hub[0]["SALT-NLP/wiki-balance-natural", "corpus", "corpus"][0]["text"] += "!"
    again = load_questions("wiki-balance").files
    assert [name for name in again if again[name] != found.files[name]] == [
        "SALT-NLP/wiki-balance-natural/corpus/corpus"
    ]


def test_hotpotqa_from_the_hub_has_columns_of_pairs(hub):
    path = DATA / "hotpotqa" / "hotpot_dev_distractor_v1.json"
    published = json.loads(path.read_text(encoding="utf-8"))
    hub[0]["hotpotqa/hotpot_qa", "distractor", "validation"] = [
        {
            "id": row["_id"],
            "question": row["question"],
            "supporting_facts": {
                "title": [title for title, _ in row["supporting_facts"]],
                "sent_id": [number for _, number in row["supporting_facts"]],
            },
            "context": {
                "title": [title for title, _ in row["context"]],
                "sentences": [sentences for _, sentences in row["context"]],
            },
        }
        for row in published
    ]
    found, local = load_questions("hotpotqa"), load_questions(path)
    for name in ("corpus", "questions", "relevant", "licence"):
        assert getattr(found, name) == getattr(local, name), name
    with pytest.raises(InputError, match=r"ConnectionError: .*\(hotpotqa/hotpot_qa, distractor, t"):
        load_questions("hotpotqa", split="train")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query-id": "q9"}, r"query-id: .*unknown 'q9' \(SALT-NLP/wiki-balance-natural, qrels, r"),
        ({"corpus-id": "w9"}, "corpus-id: expected an id that is known, got unknown 'w9'"),
        ({"score": 4.5}, "score: expected an integer, got 4.5"),
        ({"query-id": "-7001_0", "corpus-id": "w1"}, "qrels: expected each pair once"),
    ],
)
def test_a_row_of_the_hub_that_is_wrong_is_named(hub, change, message):
    hub[0]["SALT-NLP/wiki-balance-natural-qrels", "test", "test"][1].update(change)
    with pytest.raises(InputError, match=message):
        load_questions("wiki-balance")


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[hub\]'"):
        load_questions("wiki-balance")
