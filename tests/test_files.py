"""Atomic writes: whole or not at all, private, and told about when they fail."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
import threading

import pytest

from epibias import _files, _records
from epibias.encoder.cache import EmbeddingCache
from epibias.errors import InputError


def permissions(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_files_and_folders_are_private_whatever_the_umask(tmp_path, umask):
    old = os.umask(umask)
    try:
        folder = _files.make_folder(tmp_path / "a" / "b")
        _files.write_text(folder / "note.txt", "é\n")
    finally:
        os.umask(old)
    assert permissions(folder) == permissions(folder.parent) == 0o700
    assert permissions(folder / "note.txt") == 0o600
    assert (folder / "note.txt").read_bytes() == "é\n".encode()


def test_a_folder_that_exists_is_left_as_it_is(tmp_path):
    tmp_path.chmod(0o755)
    _files.make_folder(tmp_path)
    assert permissions(tmp_path) == 0o755


def test_an_error_in_the_body_leaves_the_old_file_and_no_temporary(tmp_path):
    path = tmp_path / "result.json"
    _files.write_json(path, {"n": 1})

    def write_half():
        with _files.replacing(path) as temporary:
            temporary.write_text('{"n": ')
            raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        write_half()
    assert path.read_text() == '{\n  "n": 1\n}\n'
    assert os.listdir(tmp_path) == ["result.json"]


def test_a_missing_input_of_the_body_is_not_blamed_on_the_output(tmp_path):
    def copy_missing():
        with _files.replacing(tmp_path / "out") as temporary:
            temporary.write_bytes((tmp_path / "missing").read_bytes())

    with pytest.raises(FileNotFoundError, match="missing"):
        copy_missing()
    assert os.listdir(tmp_path) == []


def test_nan_is_not_json(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        _files.write_json(tmp_path / "x.json", float("nan"))
    assert os.listdir(tmp_path) == []


def test_a_name_of_255_bytes_can_be_replaced(tmp_path):
    path = tmp_path / ("n" * 255)
    _files.write_bytes(path, b"whole")
    assert path.read_bytes() == b"whole"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda t: t / "missing" / "x.txt", "No such file or directory"),
        (lambda t: t / "file" / "x.txt", "Not a directory"),
        (lambda t: t, "Is a directory"),
    ],
)
def test_a_path_that_cannot_be_written_is_named(tmp_path, make, reason):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=f"path: expected a path that can be written.*{reason}"):
        _files.write_text(make(tmp_path), "text")


def test_a_folder_below_a_file_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Not a directory"):
        _files.make_folder(tmp_path / "file" / "folder")


def test_no_space_left_keeps_the_old_file(tmp_path):
    """A limit on the file size stands in for a full disk: the write fails half way."""
    path = tmp_path / "big.bin"
    _files.write_bytes(path, b"old")
    script = (
        "import sys; from epibias import _files\n"
        "from epibias.errors import InputError\n"
        "try: _files.write_bytes(sys.argv[1], bytes(100_000))\n"
        "except InputError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "path: expected a path that can be written, with space left" in done.stdout
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["big.bin"]


def test_a_killed_writer_leaves_the_old_file_and_a_removable_temporary(tmp_path):
    path = tmp_path / "result.txt"
    _files.write_text(path, "old")
    script = (
        "import os, signal, sys; from epibias import _files\n"
        "with _files.replacing(sys.argv[1]) as temporary:\n"
        "    temporary.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    assert _files.remove_leftovers(tmp_path) == 1
    assert os.listdir(tmp_path) == ["result.txt"]


def read_in_background(fifo):
    found = []
    reader = threading.Thread(target=lambda: found.append(fifo.read_bytes()), daemon=True)
    reader.start()
    return reader, found


def test_a_fifo_is_written_to_and_stays(tmp_path):
    fifo, elsewhere = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(fifo)
    elsewhere.symlink_to(fifo)
    for path in (fifo, elsewhere):
        reader, found = read_in_background(fifo)
        _files.write_text(path, "whole")
        reader.join(timeout=10)
        assert found == [b"whole"]
        assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]


def test_an_error_in_the_body_sends_nothing_to_a_fifo(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    def write_half():
        with _files.replacing(tmp_path / "pipe") as temporary:
            temporary.write_text("half")
            raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):  # and no wait for a reader
        write_half()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="a system without /proc")
def test_a_file_that_the_shell_opened_to_append_to_is_appended_to(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("before\n")
    with path.open("a") as log:
        _files.write_text(f"/proc/self/fd/{log.fileno()}", "after\n")
    assert path.read_text() == "before\nafter\n"


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_target_is_replaced(tmp_path, there):
    folder = tmp_path / "real"
    folder.mkdir()
    link = tmp_path / "link.txt"
    link.symlink_to(folder / "target.txt")
    if there:
        (folder / "target.txt").write_text("old")
    _files.write_text(link, "new")
    assert link.is_symlink()
    assert (folder / "target.txt").read_text() == "new"
    assert os.listdir(folder) == ["target.txt"]


def test_a_link_in_a_circle_is_told(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(InputError, match="symbolic links"):
        _files.write_text(tmp_path / "a", "text")


def test_a_replaced_file_is_private_whatever_it_was(tmp_path):
    path = tmp_path / "out.jsonl"
    for mode in (0o644, 0o777, 0o400):
        path.touch()
        path.chmod(mode)
        _files.write_text(path, "new")
        assert permissions(path) == 0o600


@pytest.mark.parametrize(("before", "after"), [(0o644, 0o600), (0o666, 0o600), (0o600, 0o600)])
def test_a_file_that_grows_is_made_private(tmp_path, before, after):
    """Files of replies and of embeddings are added to, not replaced."""
    path = tmp_path / "replies.jsonl"
    path.write_text('{"layout": 1}\n', encoding="utf-8")
    path.chmod(before)
    _records.append_lines(path, ["{}"])
    assert permissions(path) == after
    cache = EmbeddingCache(tmp_path / "cache", {"name": "fake"}, 3)
    cache.path.chmod(before)
    again = EmbeddingCache(tmp_path / "cache", {"name": "fake"}, 3)
    assert (again.path, permissions(again.path)) == (cache.path, after)
