"""Experiments: whole whatever kills them, the same for any number of threads, nothing dropped."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from bench_fakes import ANSWERS, SMALL, FakeLoaders, script, write_config
from epibias.errors import InputError
from epibias.experiment import bench_report, raw, tables
from epibias.experiment.answers import ANSWERS as ANSWER_TABLE
from epibias.experiment.bench import run_bench
from epibias.experiment.config import read_config
from epibias.experiment.dry_run import dry_run
from epibias.experiment.passage_rows import PASSAGES, VALIDITY
from epibias.experiment.run_folder import RunFolder

TIMED = ("latency.csv", "costs.csv")
CHILD = """
import os, random, signal, sys
from pathlib import Path
from bench_fakes import FakeLoaders
from epibias.experiment import bench_report, tables
from epibias.experiment.bench import run_bench
from epibias.experiment.config import read_config

tables.N_RESAMPLES = 200
bench_report.svg_of = lambda figure: "<svg/>"
kill_at, count, replace = int(sys.argv[3]), 0, os.replace

def counting(source, target, **rest):
    global count
    count += 1
    if count == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target, **rest)

os.replace = counting
run_bench(read_config(sys.argv[1]), Path(sys.argv[2]), jobs=2, loaders=FakeLoaders())
"""


@pytest.fixture(scope="module", autouse=True)
def few_resamples():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "N_RESAMPLES", 200)
        yield


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return write_config(tmp_path_factory.mktemp("config"), SMALL + ANSWERS)


@pytest.fixture(scope="module")
def reference(config, tmp_path_factory):
    out = tmp_path_factory.mktemp("bench") / "run"
    result = run_bench(read_config(config), out, loaders=FakeLoaders())
    assert result.state == "new"
    return result


@pytest.fixture
def undrawn(monkeypatch):
    monkeypatch.setattr(bench_report, "svg_of", lambda figure: "<svg/>")


def content(folder):
    """All that time does not decide; bytes, but for the raw rows, which have latencies."""
    found = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in [*folder.glob("*.parquet"), folder / "answers.jsonl", *folder.glob("tables/*")]
        if path.name not in (*TIMED, "raw.parquet")
    }
    rows = raw.read(folder / "raw.parquet")
    for row in rows:
        for name in raw.TIMING_COLUMNS:
            row.pop(name)
    return {**found, "raw": rows}


def read_csv(folder, name):
    with (folder / "tables" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_cell_is_there_once(reference):
    rows = raw.read(reference.folder / "raw.parquet")
    cells = {
        (r["query_id"], r["axis"], r["defense"], r["attack"], r["polarity"], r["condition"])
        for r in rows
    }
    assert len(rows) == len(cells) == reference.n_rows == 3 * 7 * 2 * 2
    assert {(r["dataset"], r["encoder"], r["k"]) for r in rows} == {("debates", "fake", 5)}


def test_two_threads_give_the_same_bytes_as_one(reference, config, tmp_path, undrawn):
    again = run_bench(read_config(config), tmp_path / "run", jobs=2, loaders=FakeLoaders())
    assert content(again.folder) == content(reference.folder)


def test_a_run_that_is_killed_again_and_again_is_the_same_in_the_end(
    reference, config, tmp_path, undrawn
):
    out = tmp_path / "run"
    generator = np.random.default_rng(11)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    # Manifest, three questions of five files each, joins, costs, tables, summary, report, marker.
    for kill_at in (int(generator.integers(2, 9)), int(generator.integers(9, 22))):
        done = subprocess.run(
            [sys.executable, "-c", CHILD, str(config), str(out), str(kill_at)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=environment,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert not (out / "complete.json").exists()
    result = run_bench(read_config(config), out, loaders=FakeLoaders())
    assert result.state == "resumed"
    assert content(out) == content(reference.folder)
    assert not list(out.rglob(".unfinished-*"))


def test_a_full_disk_is_told_and_what_was_measured_is_kept(
    reference, config, tmp_path, monkeypatch, undrawn
):
    out, write, calls = tmp_path / "run", raw.write, []

    def full(path, rows, settings_hash, table=raw.RAW):
        calls.append(table)
        if len(calls) == 7:  # within the second question
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, rows, settings_hash, table)

    monkeypatch.setattr(raw, "write", full)
    with pytest.raises(InputError, match=r"with space left, got No space left .*000-000001"):
        run_bench(read_config(config), out, loaders=FakeLoaders())
    assert (out / "parts" / "000-000000.parquet").exists()
    assert not (out / "parts" / "000-000001.parquet").exists()
    assert not list(out.rglob(".unfinished-*"))
    monkeypatch.setattr(raw, "write", write)
    assert run_bench(read_config(config), out, loaders=FakeLoaders()).state == "resumed"
    assert content(out) == content(reference.folder)


def test_answers_that_fail_are_counted_and_listed(reference):
    folder = reference.folder
    records = [
        json.loads(line)
        for line in (folder / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert len({record["key"] for record in records}) == len(records)
    failed = [record for record in records if record["status"] == "failed"]
    assert {record["reason"] for record in failed} == {"timeout"}
    assert len({record["query_id"] for record in failed}) == 1
    rows = raw.read(folder / "answers.parquet", None, ANSWER_TABLE)
    of_cells = [r for r in raw.read(folder / "raw.parquet") if r["axis"] == "pca"]
    assert len(rows) == sum(r["status"] == "ok" for r in of_cells)
    bad = [row for row in rows if row["status"] == "failed"]
    assert {row["query_id"] for row in bad} == {failed[0]["query_id"]}
    assert all(row["n_failed"] == 2 and row["score"] is None for row in bad)
    listed = read_csv(folder, "failed.csv")
    assert len(listed) == len(bad)
    assert "timeout: no answer within 30 s" in listed[0]["message"]
    assert any("cells have answers that failed" in note for note in reference.notes)
    means = [r for r in read_csv(folder, "answers.csv") if r["metric"] == "answer_score"]
    assert {row["n"] for row in means} == {"2"}


def test_answers_are_scored_on_the_axis_of_their_question(reference):
    lines = (reference.folder / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    records = {record["key"]: record for record in map(json.loads, lines)}
    rows = raw.read(reference.folder / "answers.parquet", None, ANSWER_TABLE)
    checked = 0
    for row in rows:
        answers = [records[key] for key in row["answer_keys"]]
        scores = [one["scores"]["pca"] for one in answers if one["status"] == "ok"]
        verdicts = [one["likert"] for one in answers if one["status"] == "ok"]
        if scores:
            assert row["score"] == pytest.approx(np.mean(scores))
            assert row["likert"] == pytest.approx(np.mean(verdicts))
            checked += 1
    assert checked > 10


def test_shifts_of_answers_are_attacked_minus_clean(reference):
    rows = raw.read(reference.folder / "answers.parquet", None, ANSWER_TABLE)
    clean = {(r["query_id"], r["defense"]): r["score"] for r in rows if r["attack"] == "clean"}
    chosen = [
        r for r in rows
        if r["defense"] == "biasdef" and r["condition"] == "5" and r["status"] == "ok"
    ]  # fmt: skip
    by_question = {}
    for r in chosen:
        shift = abs(r["score"] - clean[r["query_id"], "biasdef"])
        by_question.setdefault(r["query_id"], []).append(shift)
    expected = np.mean([np.mean(values) for values in by_question.values()])
    [found] = [
        r for r in read_csv(reference.folder, "answers.csv")
        if (r["defense"], r["condition"], r["polarity"], r["metric"])
        == ("biasdef", "5", "both", "abs_b_response")
    ]  # fmt: skip
    assert float(found["mean"]) == pytest.approx(expected, abs=1e-6)


def test_a_run_asks_for_no_more_prompts_than_its_dry_run_says(tmp_path, undrawn):
    text = (SMALL + ANSWERS).replace('kind = "biasdef"', 'kind = "known_answer"')
    config = read_config(write_config(tmp_path, text))
    asked = {}

    def recording(prompt, repeat):
        asked.setdefault(prompt.name, set()).add((prompt.sha256, repeat))
        return script(prompt, repeat)

    loaders = FakeLoaders(recording)
    [arm] = dry_run(config, tmp_path / "run", loaders=loaders).arms
    run_bench(config, tmp_path / "run", loaders=loaders)
    assert set(asked) == {"answer", "known_answer", "likert"}
    assert len(asked["known_answer"]) > 40
    assert sum(map(len, asked.values())) <= arm.prompts


def test_shifts_beside_each_other_are_on_one_axis(tmp_path, undrawn):
    text = (SMALL + ANSWERS).replace('repeats = 2\naxes = ["pca"]', "repeats = 1")
    config = read_config(write_config(tmp_path, text))
    result = run_bench(config, tmp_path / "run", loaders=FakeLoaders())
    summary = json.loads((result.folder / "summary.json").read_text(encoding="utf-8"))
    [figure] = [one for one in summary["figures"] if one["key"] == "6d"]
    assert figure["series"][0]["x"] == ["no defence", "BiasDef (pca)"]
    assert "random" in {row["axis"] for row in read_csv(result.folder, "answers.csv")}


def test_a_generator_that_is_down_leaves_the_retrieval_whole(tmp_path, config, undrawn):
    from epibias.generators.base import Failure

    down = FakeLoaders(lambda prompt, repeat: Failure("down", "connection refused", attempts=4))
    result = run_bench(read_config(config), tmp_path / "run", loaders=down)
    assert result.n_rows == 3 * 7 * 2 * 2
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "connection refused" in page
    assert "no answer came" in page
    assert "scripted: no answer to an attack with a clean one beside it" in page


def test_verdicts_that_are_missing_are_counted(tmp_path, undrawn):
    def mute(prompt, repeat):
        return "I would rather not say." if prompt.name == "likert" else "An answer."

    text = (SMALL + ANSWERS).replace("questions = 3", "questions = 1")
    config = read_config(write_config(tmp_path, text))
    result = run_bench(config, tmp_path / "run", loaders=FakeLoaders(mute))
    assert any("no verdict on 12 of 12 passages" in note for note in result.notes)
    n_answers = 2 * 2 * 7  # repeats, defences, attacks
    assert any(f"{n_answers} of {n_answers} answers" in note for note in result.notes)


def test_the_property_check_agrees_with_the_rows(reference):
    rows = raw.read(reference.folder / "passages.parquet", None, PASSAGES)
    cells = raw.read(reference.folder / "raw.parquet")
    clean = {
        (r["query_id"], r["axis"]): r
        for r in cells
        if r["attack"] == "clean" and r["defense"] == "none"
    }
    shares = {}
    for row in rows:
        if row["attack"] == "none":
            assert row["category"] is None
            continue
        selected = clean[row["query_id"], row["axis"]]
        relevant = row["similarity"] > selected["candidate_similarities"][0]
        sign = 1 if row["polarity"] == "positive" else -1
        biased = sign * (row["score"] - selected["mean_score"]) > 0
        name = {(1, 1): "both", (1, 0): "only relevance", (0, 1): "only bias", (0, 0): "neither"}
        assert row["category"] == name[relevant, biased]
        key = row["polarity"], row["axis"]
        shares.setdefault(key, []).append(row["category"] == "both")
    for line in read_csv(reference.folder, "properties.csv"):
        if line["property"] == "both":
            expected = np.mean(shares[line["polarity"], line["axis"]])
            assert float(line["mean"]) == pytest.approx(expected, abs=1e-6)
    judged = {row["passage_id"] for row in rows if row["likert"] is not None}
    assert len(judged) == 12
    assert {row["axis"] for row in raw.read(reference.folder / "validity.parquet", None, VALIDITY)}


PAPER_FIGURES = {"2a", "2b-d", "3", "4a", "4b", "4c", "4d", "4e", "4f", "6a", "6b", "6c", "6d",
                 "6e", "7"}  # fmt: skip


def test_the_report_has_every_figure_or_says_why_not(reference):
    page = (reference.folder / "report.html").read_text(encoding="utf-8")
    assert set(re.findall(r"<h3>Figure ([^:]+):", page)) == PAPER_FIGURES
    assert "Not in this run: needs fact_check = true" in page
    assert "Spearman .91 on average over 50 questions" in page
    assert "465 ms" in page
    assert "Table II" in page
    assert "0.875" in page
    assert not re.search(r"<(script|link rel=\"stylesheet|img|iframe)", page)
    assert "http" not in re.sub(r"http://www\.w3\.org/\S+|http://purl\.org/\S+", "", page)
    assert len(re.findall(r"<svg ", page)) == len(reference.figures) == len(PAPER_FIGURES) - 1
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_every_figure_is_an_svg_with_a_name(reference):
    files = sorted((reference.folder / "figures").glob("*.svg"))
    assert [file.name for file in files] == reference.figures
    for file in files:
        root = ET.fromstring(file.read_text(encoding="utf-8"))  # noqa: S314 (our own)
        assert root.tag.endswith("svg")
        assert root.attrib["role"] == "img"
        assert root.attrib["aria-label"].startswith("Figure ")


def test_a_finished_run_is_rendered_again_without_models(reference, tmp_path, undrawn):
    copy = tmp_path / "run"
    shutil.copytree(reference.folder, copy)
    (copy / "tables" / "results.csv").write_text("edited", encoding="utf-8")
    folder = RunFolder(copy)
    with folder.locked():
        found = bench_report.report_bench(folder)
    assert found.n_rows == reference.n_rows
    assert content(copy) == content(reference.folder)


def test_another_configuration_is_refused_in_the_same_folder(reference, tmp_path):
    other = write_config(tmp_path, (SMALL + ANSWERS).replace("[0, 1, 5]", "[1, 10]"))
    with pytest.raises(InputError, match=r"settings\.config\.injections"):
        run_bench(read_config(other), reference.folder, loaders=FakeLoaders())


def test_costs_are_split_into_stages(reference):
    costs = json.loads((reference.folder / "costs.json").read_text(encoding="utf-8"))
    stages = {(one["defense"], one["stage"]) for one in costs}
    assert ("biasdef", "sweep") in stages
    assert ("none", "sweep") not in stages
    for stage in ("encode", "search", "project", "select", "total"):
        assert ("none", stage) in stages
    assert all(0 < one["p50_ms"] <= one["p95_ms"] for one in costs)


def test_passages_that_an_attack_writes_need_an_owner(tmp_path, undrawn):
    text = SMALL.replace('"decoys"', '"poisonedrag"').replace("questions = 3", "questions = 1")
    config = read_config(write_config(tmp_path, text))
    with pytest.raises(InputError, match="i_own_this_index"):
        run_bench(config, tmp_path / "run")  # before anything is loaded or encoded
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match="jobs: expected an integer of at least 1"):
        run_bench(config, tmp_path / "run", jobs=0)
    result = run_bench(config, tmp_path / "run", loaders=FakeLoaders(), i_own_this_index=True)
    rows = raw.read(result.folder / "raw.parquet")
    poisoned = [r for r in rows if r["condition"] == "poisonedrag-5"]
    assert {len(r["injected_ids"]) for r in poisoned} == {5}
    assert {r["condition"] for r in rows} == {"0", "1", "5", "poisonedrag-1", "poisonedrag-5"}


def test_an_offline_run_repeats_the_answers_to_the_byte(tmp_path, undrawn):
    """The real cache: what one run asked for, another reads back without a model."""
    from epibias.experiment.bench_inputs import Loaders
    from epibias.generators import CachedGenerator, FixedGenerator

    def answer(prompt, repeat):
        return script(prompt, repeat) if prompt.name == "likert" else prompt.user[-99:]

    asked = FixedGenerator(answer, "scripted")

    class Cached(FakeLoaders):
        def generator(self, config, choice, out, *, offline):
            if offline:
                return Loaders.generator(self, config, choice, out, offline=True)
            return CachedGenerator(asked, config.path(choice.cache))

    text = (SMALL + ANSWERS).replace("questions = 3", "questions = 2")
    config = read_config(write_config(tmp_path, text))
    first = run_bench(config, tmp_path / "online", jobs=2, loaders=Cached())
    n_calls = asked.n_calls
    again = run_bench(config, tmp_path / "offline", offline=True, loaders=Cached())
    assert asked.n_calls == n_calls > 20
    names = ("answers.parquet", "passages.parquet", "tables/answers.csv")
    for name in names:
        assert content(again.folder)[name] == content(first.folder)[name]
    lines = {
        folder: (folder / "answers.jsonl").read_text(encoding="utf-8")
        for folder in (first.folder, again.folder)
    }
    assert lines[again.folder] == lines[first.folder]
