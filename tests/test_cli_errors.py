"""The command line gone wrong: exit codes, one clean line an error, nothing half-written."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from cli_files import command_files, fake_in_commands  # noqa: F401 (fixtures)
from epibias.cli import main
from fake_encoder import FakeEncoder

BAD_LINES = [
    ("", "passages: expected at least one JSON object, got an empty file"),
    ('{"id": "a"}\n', "text: expected a text, got no such field"),
    ('{"id": "a", "vector": [1, 2, 3]}\n{"id": "b"\n', r"expected a JSON object, got .*line 2\)"),
    ("[1, 2]\n", r"passages: expected a JSON object, got list of length 2 \(.*line 1\)"),
    ('{"id": "a", "vector": []}\n', "passages.vector: expected at least one number"),
    ('{"id": "a", "vector": [1, "x", 2]}\n', "list of numbers, got str at place 1"),
    ('{"id": "a", "vector": [1, NaN, 2]}\n', "NaN, which JSON does not have"),
    ('{"id": "a", "vector": [1, 1e39, 2]}\n', "finite float32 numbers, got another at place 1"),
    ('{"id": "a", "vector": [0, 0, 0]}\n', "a vector that is not zero"),
    ('{"id": "a", "vector": [1, 2]}\n', r"embeddings: expected 3 columns.*got shape \(1, 2\)"),
    (
        '{"id": "a", "vector": [1, 2, 3]}\n{"id": "b", "vector": [1, 2]}\n',
        r"expected 3 numbers, as in the first line, got 2 \(.*line 2\)",
    ),
    (
        '{"id": "a", "vector": [1, 2, 3]}\n{"id": "a", "vector": [1, 2, 3]}\n',
        r"id: expected each id once, got 'a' again \(.*line 1; .*line 2\)",
    ),
    (
        '{"id": "a", "vector": [1, 2, 3]}\n{"id": "b", "text": "x"}\n',
        "'vector' on every line or on none",
    ),
    ('{"id": 7, "vector": [1, 2, 3]}\n', "id: expected an id that is a text, got 7"),
    (
        '{"id": "a", "vector": [1, 2, 3], "vector": [3, 2, 1]}\n',
        "each field once, got 'vector' twice",
    ),
    ('{"id": "a", "text": "x", "title": 5}\n', r"title: expected a text, got 5 \(.*line 1\)"),
    ('{"id": "a", "text": "x"}\n', "passages: expected vectors, as in anchors, got texts"),
    (f'{{"id": "a", "vector": [1, {"9" * 400}, 3]}}\n', "finite float32 numbers"),
    ('{"id": "a", "text": "   "}\n', "passages.text: expected a text that is not blank"),
    ('{"id": "a", "text": "\\udbc0"}\n', r"passages.text: expected valid Unicode.*line 1\)"),
    (
        b'{"id": "a", "text": "\xff"}\n',
        r"passages: expected text in UTF-8, got byte 0xff .*\(.*line 1\)",
    ),
]


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(("content", "message"), BAD_LINES)
def test_a_bad_line_is_one_clean_message_and_exit_2(files, tmp_path, capsys, content, message):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    output = tmp_path / "out.jsonl"
    output.write_text("before", encoding="utf-8")
    assert main(["score", str(path), "--anchors", files["anchors"], "-o", str(output)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(rf"epibias: .*{message}.*\n", captured.err)
    assert output.read_text(encoding="utf-8") == "before"
    assert not list(tmp_path.glob(".unfinished-*"))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("score nowhere.jsonl --anchors {anchors}", "passages: expected a file that can be read"),
        ("score {passages}", "--anchors, --axis: expected one of the two, got neither"),
        ("score {passages} --anchors {anchors} --method svd", "--method: expected 'pca' or"),
        ("score {passages} --axis {passages}", "axis: expected an axis file"),
        ("score {passages} --anchors {anchors} -o no/x", "output: expected a folder that exists"),
        ("score {passages} --anchors {anchors} --method ridge --penalty 0", "penalty: expected"),
        ("filter {queries} --anchors {anchors} --k 0", "k: expected an integer"),
        ("filter {queries} --anchors {anchors} --gate 2", "gate: expected"),
        ("filter {queries} --anchors {anchors} --side top", "side: expected"),
        ("filter {queries} --anchors {anchors} --tau .1", "--tau: expected no such option"),
        (
            "filter {queries} --anchors {anchors} --preset printed --gate .1",
            "--gate: expected no such option with --preset printed",
        ),
        (
            "filter {queries} --anchors {anchors} --kappa 1 --kappa-points 1",
            "--kappa, --kappa-points: expected one of the two",
        ),
        ("filter {queries} --anchors {anchors} --preset x", "--preset: expected"),
        (
            "filter {queries} --anchors {anchors} --gate .1 --permutations 9223372036854775807",
            "--permutations: expected an integer from 1 to 1000000",
        ),
        (
            "filter {queries} --anchors {anchors} --permutations 99",
            "--permutations: expected no such option without --gate",
        ),
        (
            "filter {queries} --anchors {anchors} --seed 1",
            "--seed: expected no such option without --gate",
        ),
        ("filter {queries} --anchors {anchors} --k 99999999999999999999", "k: expected an integer"),
        (
            "filter {queries} --anchors {anchors} --min-kept 99999999999999999999",
            "min_kept: expected an integer",
        ),
        (
            "score {passages} --anchors {anchors} --penalty 2",
            "--penalty: expected no such option with --method pca",
        ),
        ("score {passages} --axis a.json --method pca", "--method: expected no such option"),
        ("filter {passages} --anchors {anchors}", "candidates: expected a list"),
        ("demo --topic cats --out {out}", "topics: expected 'basicincome' or"),
        ("demo --encoder no-such-model-anywhere --out {out}", "no-such-model-anywhere"),
        ("demo --seed -1 --out {out}", "seed: expected an integer"),
        ("demo --out {passages}", "out: expected a folder, got a file"),
    ],
)
def test_wrong_use_is_one_clean_message_and_exit_2(
    files, tmp_path, capsys, monkeypatch, command, message
):
    from epibias.cli import demo_encoder

    if "no-such-model-anywhere" not in command:

        class Loaded(FakeEncoder):
            pass

        monkeypatch.setattr(demo_encoder, "load_encoder", lambda _: Loaded())
    filled = command.format(**files, out=tmp_path / "run").split()
    assert main(filled) == 2
    captured = capsys.readouterr()
    last = captured.err.splitlines()[-1]
    assert last.startswith("epibias: ")
    assert message in last
    assert "Traceback" not in captured.err
    assert not (tmp_path / "run" / "manifest.json").exists()


@pytest.mark.parametrize("arguments", [["nope"], ["score"], ["filter", "--k", "x"], ["--nope"]])
def test_usage_errors_exit_2(capsys, arguments):
    assert main(arguments) == 2
    assert "Usage: epibias" in capsys.readouterr().err


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_its_extra_the_command_line_says_so(package):
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from epibias.cli import main; sys.exit(main(['doctor']))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 2
    assert done.stderr.strip().splitlines() == [
        f"epibias: epibias (the command line): expected the package '{package}' "
        "(pip install '.[cli]' in a clone), got none"
    ]


@pytest.mark.parametrize(("package", "extra"), [("plotly", "report"), ("pyarrow", "parquet")])
def test_a_missing_extra_is_said_before_any_work(tmp_path, capsys, monkeypatch, package, extra):
    from epibias.cli import demo_encoder

    encoder = FakeEncoder()
    monkeypatch.setattr(demo_encoder, "load_encoder", lambda _: encoder)
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["demo", "--out", str(tmp_path / "run")]) == 2
    assert f"pip install '.[{extra}]'" in capsys.readouterr().err
    assert encoder.n_encoded == 0
    assert not (tmp_path / "run").exists()


def test_ctrl_c_exits_130_and_leaves_nothing_half_written(files, tmp_path, capsys, monkeypatch):
    from epibias import _files

    def interrupted(source, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(_files.os, "replace", interrupted)
    output = tmp_path / "out.jsonl"
    arguments = ["score", files["passages"], "--anchors", files["anchors"], "-o", str(output)]
    assert main(arguments) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "epibias: interrupted"
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "anchors.jsonl",
        "passages.jsonl",
        "queries.jsonl",
    ]


def test_a_polite_kill_unwinds_too(files, tmp_path):
    code = (
        "import os, signal, sys\n"
        "from epibias import _files\n"
        "_files.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGTERM)\n"
        "from epibias.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = ["score", files["passages"], "--anchors", files["anchors"]]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments, "-o", str(tmp_path / "o.jsonl")],
        capture_output=True,
        env=environment,
        check=False,
        timeout=60,
    )
    assert done.returncode == 128 + signal.SIGTERM
    assert not list(tmp_path.glob(".unfinished-*"))
    assert not (tmp_path / "o.jsonl").exists()


def test_a_caller_in_python_keeps_its_own_handler(capsys):
    before = signal.getsignal(signal.SIGTERM)
    assert main(["--version"]) == 0
    assert signal.getsignal(signal.SIGTERM) is before
