"""`epibias bench`: exit codes, one JSON document, one clean message."""

from __future__ import annotations

import json
import re

import pytest

from bench_fakes import ANSWERS, SMALL, FakeLoaders, write_config
from epibias.cli import main
from epibias.experiment import bench_report, dry_run, tables
from epibias.generators.base import Failure


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Put fakes where the command loads models; draw and resample little."""
    monkeypatch.setattr("epibias.experiment.bench.Loaders", FakeLoaders)
    monkeypatch.setattr("epibias.experiment.dry_run.Loaders", FakeLoaders)
    monkeypatch.setattr(tables, "N_RESAMPLES", 50)
    monkeypatch.setattr(bench_report, "svg_of", lambda figure: "<svg/>")
    return write_config(tmp_path, SMALL.replace("questions = 3", "questions = 1"))


def test_run_then_report_then_finished(small, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["bench", "run", str(small), "--out", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["n_rows"]) == ("new", 7 * 2 * 2)
    assert found["report"] == str(out / "report.html")
    assert main(["bench", "report", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_rows"] == 28
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "the polarization score" in page[: page.index('id="validity"')]
    assert main(["bench", "run", str(small), "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "finished" in shown
    assert "28 cells" in shown
    for name in ("validity.parquet", "raw.parquet"):
        content = (out / name).read_bytes()
        (out / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        for command in (["report", str(out)], ["run", str(small), "--out", str(out)]):
            assert main(["bench", *command]) == 2
            assert f"{name}: expected the file this run finished with" in capsys.readouterr().err
        (out / name).write_bytes(content)
    assert main(["bench", "report", str(out)]) == 0


def test_a_run_to_which_no_answer_came_ends_with_1(small, tmp_path, monkeypatch, capsys):
    def down():
        return FakeLoaders(lambda prompt, repeat: Failure("down", "refused", attempts=4))

    monkeypatch.setattr("epibias.experiment.bench.Loaders", down)
    text = (SMALL + ANSWERS).replace("questions = 3", "questions = 1")
    config, out = write_config(tmp_path, text), tmp_path / "run"
    assert main(["bench", "run", str(config), "--out", str(out)]) == 1
    assert "every cell's answers failed" in " ".join(capsys.readouterr().out.split())
    assert main(["bench", "report", str(out), "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["all_failed"]) == 1


def test_a_dry_run_tells_and_touches_nothing(small, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["bench", "run", str(small), "--out", str(out), "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["n_cells"], found["n_prompts"], found["ready"]) == (28, 0, True)
    assert not out.exists()
    assert main(["bench", "run", str(small), "--out", str(out), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "Cells: 28" in shown
    assert "cells, 40 texts" in shown.replace("\n", " ")
    assert re.search(r"Estimate: about \d+ s,", shown)  # not "0.0 h"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 s"), (89, "89 s"), (90, "2 min"), (5400, "1.5 h")]
)
def test_a_time_is_told_in_the_unit_that_people_take(seconds, words):
    assert dry_run._duration(seconds) == words


def test_a_dry_run_says_how_many_rows_it_could_not_count():
    known = dry_run.ArmCount("a", "e", 5, 2, 10, 40, 50, 0)
    unknown = dry_run.ArmCount("b", "e", 5, None, None, None, None, None)
    [counts] = dry_run.DryRun("x", [known, unknown], [], [], []).lines()
    assert counts.startswith("Cells: 40 (1 of 2 rows above not counted). Texts to encode: 50 (1 of")


def test_a_run_that_writes_passages_wants_the_word_before_it_begins(small, tmp_path, capsys):
    text = small.read_text(encoding="utf-8").replace('"decoys"', '"verbatim"')
    small.write_text(text, encoding="utf-8")
    out = tmp_path / "run"
    arguments = ["bench", "run", str(small), "--out", str(out)]
    assert main([*arguments, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "verbatim: passages are written, so the run wants --i-own-this-index" in shown
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("epibias: --i-own-this-index: expected the option")
    assert not out.exists()


def test_what_stands_in_the_way_is_exit_code_1(small, tmp_path, capsys):
    text = small.read_text(encoding="utf-8") + '[[generator]]\nname = "g"\ncache = "none.jsonl"\n'
    small.write_text(text, encoding="utf-8")
    assert main(["bench", "run", str(small), "--dry-run", "--out", str(tmp_path / "r")]) == 1
    assert "In the way: generator 'g': cache is not there" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nowhere.toml"], "configuration: expected a file that can be read, got No such"),
        (
            ["run", "debate", "--dry-run"],
            "configuration: expected a TOML file that exists, or one of debates, debates_mpnet, "
            "debates_nli, debates_answers, "
            "paper, got 'debate'",
        ),
        (["report", "nowhere"], "folder: expected a finished run (complete.json), got none"),
        (["run", "debates", "--jobs", "0"], "jobs"),
    ],
)
def test_wrong_use_is_one_clean_message_and_exit_2(capsys, arguments, message):
    assert main(["bench", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
