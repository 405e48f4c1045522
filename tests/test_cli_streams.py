"""The streams and output files that a shell may give: closed, full, linked, of any encoding."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import warnings

import pytest

from cli_files import ANCHORS, PASSAGES, command_files, write  # noqa: F401 (a fixture)
from epibias.cli import main
from epibias.cli.console import guarded
from epibias.errors import TruncationWarning

LATIN = {"PYTHONIOENCODING": "latin-1"}
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
ONE_LINE = re.compile(r"epibias: [^\n]+\n")


def command(*arguments, redirect="", code="", **variables):
    """Run the command line in a process of its own; `redirect` redirects its streams."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    environment.pop("PYTHONIOENCODING", None) if "PYTHONIOENCODING" not in variables else None
    script = f"import sys\n{code}\nfrom epibias.cli import main\nsys.exit(main(sys.argv[1:]))"
    line = ["sh", "-c", f'"$@" {redirect}', "sh", sys.executable, "-c", script, *arguments]
    return subprocess.run(line, capture_output=True, env=environment, check=False, timeout=120)


@pytest.mark.parametrize("variables", [LATIN, ASCII])
def test_results_are_utf8_whatever_the_locale(files, tmp_path, variables):
    passages = write(tmp_path / "p.jsonl", [{**PASSAGES[0], "id": "日"}])
    done = command("score", passages, "--anchors", files["anchors"], **variables)
    assert done.returncode == 0
    assert json.loads(done.stdout.decode("utf-8"))["id"] == "日"
    assert "日".encode() in done.stdout


@pytest.mark.parametrize("variables", [LATIN, ASCII])
def test_a_message_in_another_encoding_is_still_one_line(files, variables):
    done = command("score", "日.jsonl", "--anchors", files["anchors"], **variables)
    assert done.returncode == 2
    assert ONE_LINE.fullmatch(done.stderr.decode("latin-1"))


def test_the_doctor_speaks_ascii(tmp_path):
    done = command("doctor", **ASCII, EPIBIAS_CACHE=str(tmp_path / "日"))
    assert done.returncode == 0
    assert b"self-check" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "redirect", "message"),
    [
        (["--version"], ">&-", "output: expected an open stdout, got a closed one"),
        (["doctor"], ">&-", "output: expected an open stdout, got a closed one"),
        (["doctor", "--json"], ">&-", "output: expected an open stdout, got a closed one"),
        (
            ["score", "-", "--axis", "a"],
            "<&-",
            "passages: expected an open stdin, got a closed",
        ),
        (
            ["filter", "-", "--axis", "a"],
            "<&-",
            "queries: expected an open stdin, got a closed",
        ),
        (["filter", "-", "--axis", "a"], ">&- <&-", "output: expected an open stdout"),
    ],
)
def test_a_closed_stream_is_one_line_and_exit_2(arguments, redirect, message):
    done = command(*arguments, redirect=redirect)
    assert done.returncode == 2
    assert ONE_LINE.fullmatch(done.stderr.decode())
    assert message in done.stderr.decode()


def test_a_file_can_be_written_with_stdout_closed(files, tmp_path):
    out = tmp_path / "out.jsonl"
    done = command(
        "score", files["passages"], "--anchors", files["anchors"], "-o", str(out), redirect=">&-"
    )
    assert done.returncode == 0
    assert len(out.read_text().splitlines()) == 2


def test_a_closed_stderr_changes_no_result(files):
    done = command("score", files["passages"], "--anchors", files["anchors"], redirect="2>&-")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2  # and no message among them


FULL = """
import errno, io, os
class Full(io.RawIOBase):
    def writable(self): return True
    def write(self, data): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    def fileno(self): return 1
sys.stdout = io.TextIOWrapper(io.BufferedWriter(Full()), encoding="utf-8")
import atexit
atexit.register(setattr, sys, "stdout", None)  # the real stream is not full
"""


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["doctor"], ["doctor", "--json"]])
def test_a_full_device_is_one_line_and_exit_2(arguments):
    done = command(*arguments, code=FULL)
    assert done.returncode == 2
    first, *rest = done.stderr.decode().splitlines()
    assert re.fullmatch("epibias: .*No space left on device", first)
    assert not [line for line in rest if "epibias" in line]
    assert done.stdout == b""


def test_a_reader_that_went_away_is_exit_1_without_a_word(files):
    read, write_end = os.pipe()
    os.close(read)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    line = [sys.executable, "-m", "epibias", "score", files["passages"], "--anchors"]
    try:
        done = subprocess.run(
            [*line, files["anchors"]],
            stdout=write_end,
            stderr=subprocess.PIPE,
            env=environment,
            check=False,
        )
    finally:
        os.close(write_end)
    assert done.returncode == 1
    assert done.stderr == b""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_the_imports_last_is_heard(number, code):
    """A finder sends it when the commands are being imported: no clock decides."""
    finder = f"""
import os, signal
# Whoever starts the tests in a shell's background starts them deaf to it.
signal.signal(signal.SIGINT, signal.default_int_handler)
class Sender:
    def find_spec(self, name, *rest):
        if name == "epibias.cli.app":
            os.kill(os.getpid(), {int(number)})
sys.meta_path.insert(0, Sender())
"""
    done = command("doctor", code=finder)
    assert done.returncode == code
    assert done.stderr == (b"epibias: interrupted\n" if number == signal.SIGINT else b"")


def score(files, *arguments):
    return main(["score", files["passages"], "--anchors", files["anchors"], *arguments])


def test_output_goes_through_fifos_and_links(files, tmp_path):
    fifo, link = tmp_path / "pipe", tmp_path / "link.json"
    os.mkfifo(fifo)
    link.symlink_to(tmp_path / "axis.json")
    found = []
    reader = threading.Thread(target=lambda: found.append(fifo.read_bytes()), daemon=True)
    reader.start()
    assert score(files, "-o", str(fifo), "--save-axis", str(link)) == 0
    reader.join(timeout=10)
    assert len(found[0].splitlines()) == 2
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert link.is_symlink()
    assert json.loads((tmp_path / "axis.json").read_text())["n_anchors"] == len(ANCHORS)


def test_every_output_is_private_whatever_stood_there(files, tmp_path):
    for name, before in (("old", 0o644), ("wide", 0o666), ("new", None)):
        path, axis = tmp_path / name, tmp_path / f"{name}.json"
        for one in (path, axis) if before is not None else ():
            one.touch()
            one.chmod(before)
        assert score(files, "-o", str(path), "--save-axis", str(axis)) == 0
        assert [stat.S_IMODE(one.stat().st_mode) for one in (path, axis)] == [0o600] * 2


@pytest.mark.parametrize(
    ("output", "axis", "message"),
    [
        ("", "a.json", "output: expected a file, or - for stdout, got an empty name"),
        (".", "a.json", "output: expected a file, got a folder"),
        ("missing/out", "a.json", "output: expected a folder that exists, got 'missing'"),
        ("out", "", "--save-axis: expected a file, or - for stdout, got an empty name"),
        ("out", "-", "--save-axis: expected a file, got '-'"),
        ("out", ".", "--save-axis: expected a file, got a folder"),
        ("out", "missing/axis", "--save-axis: expected a folder that exists"),
        ("x", "./x", "--save-axis: expected another file than --output, got './x'"),
        ("loop", "a.json", "output: expected a file that can be written, got Too many levels"),
    ],
)
def test_places_are_checked_before_anything_is_read_or_written(
    files, tmp_path, capsys, monkeypatch, output, axis, message
):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "loop").symlink_to("loop")
    assert main(["score", "no-such-file", "--axis", "b", "-o", output, "--save-axis", axis]) == 2
    assert message in capsys.readouterr().err
    assert os.listdir(folder) == ["loop"]
    if axis == "a.json":
        assert main(["filter", "no-such-file", "--axis", "b", "-o", output]) == 2
        assert message in capsys.readouterr().err
    assert score(files, "-o", "out", "--save-axis", "axis") == 0


def test_when_the_output_fails_no_axis_is_saved(files, tmp_path, capsys, monkeypatch):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())
    assert score(files, "--save-axis", str(tmp_path / "axis.json")) == 2
    message = (
        "epibias: output: expected a stdout that takes the result, got No space left on device"
    )
    assert capsys.readouterr().err.splitlines() == [message]
    assert not (tmp_path / "axis.json").exists()
    assert not list(tmp_path.glob(".unfinished-*"))


@pytest.mark.parametrize("variable", [{"EPIBIAS_SIMD": "avx9"}, {"EPIBIAS_THREADS": "0"}])
def test_the_doctor_tells_of_a_wrong_variable(variable):
    (name,) = variable
    done = command("doctor", **variable)
    assert done.returncode == 2
    assert re.fullmatch(rf"epibias: {name}: expected .*, got .*\n", done.stderr.decode())


def test_a_model_that_cuts_every_batch_says_so_once_and_how_often(capsys):
    @guarded
    def command_that_judges():
        for cut in (3, 64, 2):
            warnings.warn(f"{cut} of 64 pairs are longer", TruncationWarning, stacklevel=1)
        warnings.warn("1 of 9 texts are longer", TruncationWarning, stacklevel=1)

    command_that_judges()
    assert capsys.readouterr().err.splitlines() == [
        "epibias: warning: 3 of 64 pairs are longer",
        "epibias: warning: 1 of 9 texts are longer",
        "epibias: warning: so in 2 more batches: 3 of 64 pairs are longer",
    ]
