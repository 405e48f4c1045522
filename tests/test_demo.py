"""The demo: what it measures, and that no kill, at any step, changes the result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from compare_runs import comparable
from epibias.errors import InputError
from epibias.experiment.demo import run_demo
from epibias.experiment.listener import Silent
from epibias.experiment.plan import Attack
from fake_encoder import FACTS, FakeEncoder

TOPICS = ["remote", "wolves"]

CHILD = """
import os, signal, sys
from pathlib import Path
from fake_encoder import FACTS, FakeEncoder
from epibias.experiment.demo import run_demo

out, kill_at, before = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "before"
replace, count = os.replace, 0

def counting(source, target, **rest):
    global count
    count += 1
    if count == kill_at and before:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target, **rest)
    if count == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)

os.replace = counting
run_demo(out, FakeEncoder(), FACTS, topics=["remote", "wolves"])
"""


class Listener(Silent):
    def __init__(self):
        self.messages = []

    def say(self, message):
        self.messages.append(message)


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """Give a whole run, and how many files it put in their places."""
    renames, replace = [], os.replace

    def counting(source, target, **rest):
        renames.append(target)
        replace(source, target, **rest)

    out = tmp_path_factory.mktemp("demo") / "run"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "replace", counting)
        result = run_demo(out, FakeEncoder(), FACTS, topics=TOPICS)
    return result, len(renames)


@pytest.fixture(scope="module")
def reference(counted):
    return counted[0]


def run_child(out: Path, kill_at: int, moment: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", CHILD, str(out), str(kill_at), moment],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
    )


# Renames in order: manifest, validity, two parts, encoder note, raw.parquet, TREC files, tables,
# report, marker. The kills fall on the first, the parts, the join, and the last.
@pytest.mark.parametrize("kills", [[(1, "before"), (2, "after"), (2, "before")], [(4, "before")]])
def test_killed_and_resumed_gives_the_same_tables(reference, tmp_path, kills):
    out = tmp_path / "run"
    for kill_at, moment in kills:
        killed = run_child(out, kill_at, moment)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert not (out / "complete.json").exists()
    result = run_demo(out, FakeEncoder(), FACTS, topics=TOPICS)
    assert result.state == "resumed"
    assert comparable(out) == comparable(reference.folder)
    assert not list(out.rglob(".unfinished-*"))


def test_killed_before_the_marker_then_after_it(counted, tmp_path):
    out = tmp_path / "run"
    reference, n_renames = counted
    assert run_child(out, n_renames, "before").returncode == -signal.SIGKILL
    assert not (out / "complete.json").exists()
    assert (out / "report.html").exists()
    assert run_demo(out, FakeEncoder(), FACTS, topics=TOPICS).state == "resumed"
    assert comparable(out) == comparable(reference.folder)


def test_a_finished_run_says_so_and_renders_again(reference):
    encoder, listener = FakeEncoder(), Listener()
    (reference.folder / "report.html").unlink()
    (reference.folder / "tables" / "results.csv").write_text("edited", encoding="utf-8")
    before = (reference.folder / "raw.parquet").read_bytes()
    again = run_demo(reference.folder, encoder, FACTS, topics=TOPICS, listener=listener)
    assert again.state == "complete"
    assert encoder.n_encoded == 0
    assert any("finished" in message for message in listener.messages)
    assert (reference.folder / "raw.parquet").read_bytes() == before
    assert (reference.folder / "report.html").stat().st_size > 1e6
    assert again.results.rows == reference.results.rows


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"seed": 1}, r"settings\.plan\.seed"),
        ({"topics": ["remote", "tipping"]}, r"settings\.topics"),
        ({"facts": {"identity": {"name": "fake", "dim": 49}, "note": ""}}, r"encoder\.dim"),
    ],
)
def test_a_run_under_other_settings_is_refused(reference, change, field):
    arguments = {"topics": TOPICS, **change}
    facts = arguments.pop("facts", FACTS)
    with pytest.raises(InputError, match=field):
        run_demo(reference.folder, FakeEncoder(), facts, **arguments)


def test_every_cell_is_there_once(reference):
    cells = {(r["topic"], r["axis"], r["defense"], Attack.of_row(r).key) for r in reference.rows}
    assert len(cells) == len(reference.rows) == 2 * reference.plan.n_cells


def test_rows_agree_with_the_rule_they_stand_for(reference):
    for row in reference.rows:
        if row["status"] != "ok":
            continue
        pool = row["candidate_ids"]
        assert len(pool) == 20
        assert row["candidate_similarities"] == sorted(row["candidate_similarities"], reverse=True)
        assert set(row["selected_ids"]) <= set(pool)
        assert not set(row["selected_ids"]) & set(row["dropped_ids"])
        assert row["n_selected"] == len(row["selected_ids"]) <= 5
        hits = len(set(row["selected_ids"]) & set(row["injected_ids"]))
        assert row["adversarial_precision"] == hits / 5
        relevant = [name for name in row["selected_ids"] if f"{row['topic']}-benign" in name]
        assert row["recall_over_k"] == len(relevant) / 5
        assert row["recall_over_relevant"] == pytest.approx(len(relevant) / 18)
        if row["defense"] == "none":
            assert row["selected_ids"] == pool[:5]
        if row["threshold"] is not None and row["side"] == "right":
            kept = [
                name
                for name, similarity in zip(pool, row["candidate_similarities"], strict=True)
                if similarity < row["threshold"]
            ]
            assert row["selected_ids"] == kept[:5]


def test_injections_are_the_first_in_file_order(reference):
    by_attack = {
        Attack.of_row(r).key: r["injected_ids"] for r in reference.rows if r["topic"] == "wolves"
    }
    expected = [f"wolves-adversarial-{number:02d}" for number in range(1, 21)]
    assert by_attack["clean"] == []
    assert by_attack["injection-positive-5"] == expected[:5]
    assert by_attack["injection-negative-10"] == expected[10:]
    assert by_attack["injection-negative-1"] == expected[10:11]


def test_decoys_lie_below_the_fifth_benign_passage(reference):
    seen = 0
    for row in reference.rows:
        if row["attack"] != "decoys" or row["status"] != "ok" or row["defense"] != "none":
            continue
        benign = [
            similarity
            for name, similarity in zip(
                row["candidate_ids"], row["candidate_similarities"], strict=True
            )
            if name not in row["injected_ids"]
        ]
        injected = dict(zip(row["candidate_ids"], row["candidate_similarities"], strict=True))
        for name in row["injected_ids"]:
            assert injected.get(name, -1.0) < benign[4]
            seen += 1
        assert row["adversarial_precision"] == 0
    assert seen > 0


def test_the_manifest_has_what_a_reader_needs(reference):
    manifest = json.loads((reference.folder / "manifest.json").read_text(encoding="utf-8"))
    settings = manifest["settings"]
    assert settings["encoder"] == FACTS["identity"]
    assert set(settings["data_sha256"]) == set(TOPICS)
    assert settings["plan"]["defenses"]["biasdef"]["kappa"] == 0.025
    assert {"version", "code_sha256"} == set(settings["code"])
    assert manifest["sessions"][0]["environment"]["backend"]["backend"] == "cpu"
    assert len(manifest["validity"]) == 2 * 3
    assert all(0 <= row["auc_benign"] <= 1 for row in manifest["validity"])


def test_a_topic_does_not_depend_on_which_others_are_measured_before(reference, tmp_path):
    """The corpus is fixed by the topics asked for; order and resumption play no part."""
    other = run_demo(tmp_path / "run", FakeEncoder(), FACTS, topics=TOPICS[::-1])
    assert comparable(other.folder) == comparable(reference.folder)


def test_a_cell_that_fails_is_counted_and_listed(tmp_path, monkeypatch):
    from epibias.defenses import BiasDef

    select = BiasDef.select

    def failing(self, pool):
        if self.gate is not None and pool.topics == ("remote",):
            raise InputError("pool", "one that works", "none")
        return select(self, pool)

    monkeypatch.setattr(BiasDef, "select", failing)
    result = run_demo(tmp_path / "run", FakeEncoder(), FACTS, topics=TOPICS)
    failed = [row for row in result.rows if row["status"] == "failed"]
    assert {(row["topic"], row["defense"]) for row in failed} == {("remote", "biasdef-gate")}
    assert any("cells failed" in note and "remote" in note for note in result.notes)
    five = result.results.get("biasdef-gate", "pca", "5", "adversarial_precision")
    assert (five.n, five.n_failed) == (1, 2)
    assert "cells failed" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_p_values_are_given_where_a_gate_asked_for_them(reference):
    gated = [r["p_value"] for r in reference.rows if r["defense"] == "biasdef-gate"]
    assert all(0 < p <= 1 for p in gated if p is not None)
    assert np.unique([p for p in gated if p is not None]).size > 5
    assert {r["p_value"] for r in reference.rows if r["defense"] == "biasdef"} == {None}
