"""`epibias data`: what is shown of a set, and its conversion to one file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from epibias._files import sha256_of
from epibias.cli import main
from epibias.data_sets import load_questions

DATA = Path(__file__).parent / "fixtures" / "data"


def test_show_says_counts_licence_checksums_and_an_example(capsys):
    assert main(["data", "show", str(DATA / "perspectrum"), "--split", "dev", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["counts"] == {
        "questions": 1,
        "passages": 4,
        "anchors": 3,
        "adversarial": 0,
        "topics": 1,
        "judgements": 3,
        "questions_with_relevant": 1,
        "questions_with_anchors": 1,
        "questions_with_stances": 1,
    }
    assert found["licence"] == "CC BY-SA 4.0"
    assert found["files"] == dict(load_questions(DATA / "perspectrum", split="dev").files)
    assert found["example"]["relevant"] == ["e501", "e502", "e503"]
    assert found["example"]["passage"].startswith("A study followed pupils")
    assert "contradict their label" in found["notes"][0]
    assert main(["data", "show", "debates"]) == 0
    shown = capsys.readouterr().out
    for text in ("questions", "288", "Apache-2.0", "SHA-256", "wolves.jsonl", "basic income"):
        assert text in shown


def test_convert_writes_a_file_that_loads_and_never_replaces_one_unasked(capsys, tmp_path):
    out = tmp_path / "flat.jsonl"
    command = ["data", "convert", str(DATA / "flat"), "--out", str(out), "--labelled-anchors", "1"]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sha256"] == sha256_of(out)
    assert load_questions(out).questions[0].stances == pytest.approx((-2.4999, 3.0))
    before = out.read_bytes()
    assert main(command) == 2
    assert "--out: expected a new file, or --overwrite" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert main([*command, "--overwrite"]) == 0
    assert "SHA-256" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["convert", "debates", "--out", "-"], "--out: expected a file, got '-'"),
        (["show", "no such set"], "expected a folder or file that exists, or one of debates"),
        (["show", str(DATA / "procon"), "--split", "dev"], "no split for the layout 'procon'"),
        (["convert", "debates"], "--out: expected a file, got none"),
        (["convert", "debates", "--out", "/no/such/folder/a.jsonl"], "--out: expected a folder th"),
    ],
)
def test_wrong_use_is_told_with_exit_code_2(capsys, arguments, message):
    assert main(["data", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_broken_file_leaves_nothing_behind(capsys, tmp_path):
    broken, out = tmp_path / "broken.jsonl", tmp_path / "out.jsonl"
    broken.write_text('{"kind": "set", "name": "a", "licence": "b"}\n{"kind": "pass', "utf-8")
    assert main(["data", "convert", str(broken), "--out", str(out)]) == 2
    assert "line 2" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["broken.jsonl"]


def test_a_blank_passage_is_told_with_the_option_that_leaves_it_out(capsys, tmp_path):
    rows = ['{"_id": "p1", "text": "Yes."}', '{"_id": "p2", "text": " "}']
    (tmp_path / "corpus.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "Is it?"}\n', encoding="utf-8")
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tp1\t1\n")
    assert main(["data", "show", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "not blank (where the layout allows it, --blank skip leaves it out), got" in said
    assert "line 2, id 'p2'" in said
    assert main(["data", "show", str(tmp_path), "--blank", "skip"]) == 0
