"""Small anchors, passages and queries for the tests of the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fake_encoder import FakeEncoder

ANCHORS = [
    {"vector": [1.0, 0.9, 0.0], "stance": 3},
    {"vector": [1.0, 0.6, 0.1], "stance": 1},
    {"vector": [1.0, -0.5, 0.1], "stance": -1},
    {"vector": [1.0, -0.8, 0.0], "stance": -3},
]
PASSAGES = [{"id": "p1", "vector": [0.9, 0.4, 0.1]}, {"id": "p2", "vector": [0.8, -0.7, 0.3]}]


def candidates(n=12, seed=0):
    generator = np.random.default_rng(seed)
    rows = generator.normal((3, 0, 0), size=(n, 3)).round(2)
    return [{"id": f"c{i}", "vector": row.tolist()} for i, row in enumerate(rows)]


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


@pytest.fixture(name="files")
def command_files(tmp_path):
    return {
        "anchors": write(tmp_path / "anchors.jsonl", ANCHORS),
        "passages": write(tmp_path / "passages.jsonl", PASSAGES),
        "queries": write(
            tmp_path / "queries.jsonl",
            [
                {"query_id": "q1", "query_vector": [1, 0.1, 0], "candidates": candidates()},
                {"query_id": "q2", "query_vector": [1, 0, 0.2], "candidates": candidates(8, 1)},
            ],
        ),
    }


@pytest.fixture(name="fake")
def fake_in_commands(monkeypatch):
    """Put the fake encoder where the commands load the real one."""
    from epibias.cli import axis_source

    monkeypatch.setattr(axis_source, "SentenceTransformerEncoder", lambda *_, **__: FakeEncoder())
