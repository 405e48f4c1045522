"""The cache: right vectors or an error, with several writers, kills, damage and full disks."""

from __future__ import annotations

import hashlib
import os
import random
import re
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from epibias.encoder.cache import EmbeddingCache, default_folder, text_key
from epibias.errors import InputError

IDENTITY = {"name": "m", "revision": "r1", "prompt": "", "normalize": False, "max_length": 256}
DIM = 64

# A vector that can be recomputed from its key, so that any mixed or torn row is noticed.
WORKER = """
import hashlib, sys
import numpy as np
from epibias.encoder.cache import EmbeddingCache
def vector(key):
    seed = int.from_bytes(hashlib.sha256(key).digest()[:8], "little")
    return np.random.default_rng(seed).standard_normal({dim}).astype(np.float32)
def keys_of(numbers):
    return [hashlib.sha256(b"%d" % n).digest() for n in numbers]
"""
exec(WORKER.format(dim=DIM))  # noqa: S102  # the same code here and in the processes


def put(cache, numbers):
    keys = keys_of(numbers)  # noqa: F821
    vectors = np.stack([vector(key) for key in keys])  # noqa: F821
    cache.put(keys, vectors, np.array([n % 2 == 0 for n in numbers]))


def check(cache, numbers):
    """Every vector that is there is the right one; their number."""
    keys = keys_of(numbers)  # noqa: F821
    found = cache.get(keys)
    for position, embedding, truncated in zip(
        found.positions, found.embeddings, found.truncated, strict=True
    ):
        assert np.array_equal(embedding, vector(keys[position]))  # noqa: F821
        assert truncated == (numbers[position] % 2 == 0)
    return len(found.positions)


def start(script, *arguments, **options):
    code = WORKER.format(dim=DIM) + script
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


def test_vectors_come_back_bit_for_bit_in_the_order_asked(tmp_path):
    cache = EmbeddingCache(tmp_path / "new" / "folder", IDENTITY, DIM)
    put(cache, range(1200))
    numbers = [7, 5000, 7, 1199, 0, *range(1200)]
    found = cache.get(keys_of(numbers))  # noqa: F821
    assert found.positions.tolist() == [0, 2, 3, 4, *range(5, 1205)]
    assert found.embeddings.shape == (1204, DIM)
    assert check(cache, numbers) == 1204
    assert len(cache) == 1200
    empty = cache.get([])
    assert (empty.positions.shape, empty.embeddings.shape) == ((0,), (0, DIM))


def test_files_and_folder_are_private_even_the_ones_sqlite_makes(tmp_path):
    old = os.umask(0)
    try:
        cache = EmbeddingCache(tmp_path / "c", IDENTITY, DIM)
        cache.path.chmod(0o644)
        cache = EmbeddingCache(tmp_path / "c", IDENTITY, DIM)  # one of before, narrowed
        with sqlite3.connect(cache.path) as connection:  # holds -wal and -shm open
            connection.execute("SELECT count(*) FROM embeddings").fetchone()
            put(cache, range(3))
            names = sorted(path.name[32:] for path in cache.path.parent.iterdir())
            modes = {stat.S_IMODE(path.stat().st_mode) for path in cache.path.parent.iterdir()}
        connection.close()
    finally:
        os.umask(old)
    assert names == [".sqlite", ".sqlite-shm", ".sqlite-wal"]
    assert modes == {0o600}
    assert stat.S_IMODE(cache.path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"revision": "r2"},
        {"prompt": "query: "},
        {"normalize": True},
        {"max_length": 128},
        {"content_sha256": "f"},
    ],
)
def test_vectors_of_another_encoder_are_never_given(tmp_path, change):
    """Field case 16: same folder, same dimension, same texts, another model."""
    put(EmbeddingCache(tmp_path, IDENTITY, DIM), range(5))
    other = EmbeddingCache(tmp_path, {**IDENTITY, **change}, DIM)
    assert check(other, range(5)) == 0
    assert check(EmbeddingCache(tmp_path, dict(reversed(IDENTITY.items())), DIM), range(5)) == 5


def test_a_file_of_another_identity_under_this_name_is_refused(tmp_path):
    mine = EmbeddingCache(tmp_path / "a", IDENTITY, DIM)
    theirs = EmbeddingCache(tmp_path / "b", {**IDENTITY, "revision": "r2"}, DIM)
    os.replace(theirs.path, mine.path)
    with pytest.raises(InputError, match=r'cache: expected the cache of .*"r1".* that of .*"r2"'):
        EmbeddingCache(tmp_path / "a", IDENTITY, DIM)


def test_wrong_vectors_are_not_stored(tmp_path):
    cache = EmbeddingCache(tmp_path, IDENTITY, 2)
    keys, flags = [text_key("a"), text_key("b")], np.zeros(2, np.bool_)
    bad = np.array([[1, 2], [3, np.nan]], np.float32)
    for vectors, message in (
        (bad, r"embeddings: expected finite values, got NaN or infinity \(row 1\)"),
        (bad.astype(np.float64), "embeddings: expected dtype float32"),
        (np.ones((1, 2), np.float32), r"expected shape \(2, 2\), got shape \(1, 2\)"),
        (np.ones((2, 3), np.float32), r"expected shape \(2, 2\), got shape \(2, 3\)"),
    ):
        with pytest.raises(InputError, match=message):
            cache.put(keys, vectors, flags)
    assert len(cache) == 0


def test_three_processes_may_create_and_write_at_once(tmp_path):
    """All make the file, and write overlapping keys in small transactions."""
    script = (
        "first = int(sys.argv[2])\n"
        f"cache = EmbeddingCache(sys.argv[1], {IDENTITY!r}, {DIM})\n"
        "for start in range(first, first + 400, 8):\n"
        "    numbers = range(start, start + 8)\n"
        "    keys = keys_of(numbers)\n"
        "    flags = np.array([n % 2 == 0 for n in numbers])\n"
        "    cache.put(keys, np.stack([vector(key) for key in keys]), flags)\n"
        "    assert len(cache.get(keys).positions) == 8\n"
    )
    processes = [start(script, tmp_path, first) for first in (0, 200, 100)]
    for process in processes:
        process.communicate(timeout=120)
    assert [process.returncode for process in processes] == [0, 0, 0]
    cache = EmbeddingCache(tmp_path, IDENTITY, DIM)
    assert check(cache, range(700)) == len(cache) == 600


def test_a_killed_writer_leaves_whole_batches(tmp_path):
    """Killed at eight random moments; each time another process opens and checks the file."""
    script = (
        f"cache = EmbeddingCache(sys.argv[1], {IDENTITY!r}, {DIM})\n"
        "first = int(sys.argv[2])\n"
        "batches = []\n"
        "for start in range(first, first + 1600, 16):\n"
        "    keys = keys_of(range(start, start + 16))\n"
        "    flags = np.array([n % 2 == 0 for n in range(start, start + 16)])\n"
        "    batches.append((keys, np.stack([vector(key) for key in keys]), flags))\n"
        "for batch in batches:\n"
        "    cache.put(*batch)\n"
        "    print(flush=True)\n"
    )
    rng = random.Random(0)  # noqa: S311
    cache = EmbeddingCache(tmp_path, IDENTITY, DIM)
    committed = 0
    for round_number in range(8):
        process = start(script, tmp_path, round_number * 1600)
        wanted = rng.randrange(1, 60)
        for _ in range(wanted):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        numbers = range(round_number * 1600, (round_number + 1) * 1600)
        present = check(cache, numbers)
        assert process.returncode == -signal.SIGKILL
        assert present % 16 == 0
        assert present >= wanted * 16
        committed += present
    assert len(cache) == committed
    with sqlite3.connect(cache.path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_damage_is_noticed_and_the_file_to_delete_is_named(tmp_path):
    """Single bits flipped all over the file: an error, or the right vectors; never wrong ones."""
    cache = EmbeddingCache(tmp_path, IDENTITY, DIM)
    put(cache, range(200))
    whole = cache.path.read_bytes()
    rng = random.Random(1)  # noqa: S311
    n_noticed = 0
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        cache.path.write_bytes(damaged)
        try:
            check(EmbeddingCache(tmp_path, IDENTITY, DIM), range(200))
        except InputError as error:
            n_noticed += str(cache.path) in str(error)
        for name in ("-wal", "-shm"):
            Path(f"{cache.path}{name}").unlink(missing_ok=True)
    assert n_noticed >= 15  # the others hit unused bytes, or an index entry: a row not found


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to be read as one" * 30, None]
)
def test_a_file_that_is_no_cache_is_told(tmp_path, content):
    cache = EmbeddingCache(tmp_path, IDENTITY, DIM)
    put(cache, range(200))
    cache.path.write_bytes(content or cache.path.read_bytes()[:20_000])
    message = rf"cache: expected .* \(delete {re.escape(str(cache.path))} to start it afresh\)"
    with pytest.raises(InputError, match=message):
        check(EmbeddingCache(tmp_path, IDENTITY, DIM), range(200))


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE embeddings SET vector = 'text'",
        "UPDATE embeddings SET truncated = 'text'",
        "UPDATE embeddings SET digest = 'text'",
        "UPDATE embeddings SET vector = x'00'",
        "DROP TABLE embeddings",
        "ALTER TABLE embeddings RENAME COLUMN vector TO other",
        "DROP TABLE about; CREATE TABLE about (other)",
    ],
)
def test_tables_of_another_kind_are_told_with_the_file_to_delete(tmp_path, damage):
    cache = EmbeddingCache(tmp_path, IDENTITY, DIM)
    put(cache, range(9))
    connection = sqlite3.connect(cache.path)
    try:
        connection.executescript(damage)
    finally:
        connection.close()
    message = re.escape(f"(delete {cache.path} to start it afresh)")
    with pytest.raises(InputError, match=message):
        check(EmbeddingCache(tmp_path, IDENTITY, DIM), range(9))
    if "TABLE embeddings" in damage:
        with pytest.raises(InputError, match=message):
            put(cache, range(9, 12))


def test_a_full_disk_is_told_and_keeps_what_was_there(tmp_path):
    """A limit on the file size stands in for a full disk."""
    script = (
        "from epibias.errors import InputError\n"
        f"cache = EmbeddingCache(sys.argv[1], {IDENTITY!r}, {DIM})\n"
        "for n in range(0, 4000, 16):\n"
        "    keys = keys_of(range(n, n + 16))\n"
        "    flags = np.array([k % 2 == 0 for k in range(n, n + 16)])\n"
        "    try: cache.put(keys, np.stack([vector(key) for key in keys]), flags)\n"
        "    except InputError as error: print(error); print(n); break\n"
    )
    limit = (200_000, 200_000)
    process = start(
        script, tmp_path, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    )
    message, n_written = process.communicate()[0].splitlines()
    assert "cache: expected a folder that can be read and written, with space left" in message
    assert str(tmp_path) in message
    cache = EmbeddingCache(tmp_path, IDENTITY, DIM)
    assert check(cache, range(4000)) == int(n_written) > 0


def test_a_folder_that_cannot_be_written_is_told():
    script = (
        "import os; from epibias.errors import InputError\n"
        "if os.geteuid() == 0: os.setuid(65534)  # permissions do not bind root\n"
        f"try: EmbeddingCache(sys.argv[1], {IDENTITY!r}, {DIM})\n"
        "except InputError as error: print(error)\n"
    )
    with tempfile.TemporaryDirectory() as folder:  # not below pytest's own, which is private
        os.chmod(folder, 0o555)  # noqa: S103
        told = start(script, folder).communicate()[0]
    assert f"Permission denied ({folder}" in told


def test_a_folder_that_is_a_file_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Not a directory"):
        EmbeddingCache(tmp_path / "file", IDENTITY, DIM)


def test_the_default_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("EPIBIAS_CACHE", str(tmp_path))
    assert default_folder() == tmp_path / "embeddings"
    monkeypatch.delenv("EPIBIAS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert default_folder() == tmp_path / "epibias" / "embeddings"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_folder() == Path.home() / ".cache" / "epibias" / "embeddings"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_folder() == Path.home() / "Library" / "Caches" / "epibias" / "embeddings"


def test_a_home_that_does_not_exist_is_told(monkeypatch):
    monkeypatch.setenv("EPIBIAS_CACHE", "~nosuchuser/x")
    for wrong in (default_folder, lambda: EmbeddingCache(None, IDENTITY, DIM)):
        with pytest.raises(
            InputError, match="EPIBIAS_CACHE: expected a folder, got '~nosuchuser/x'"
        ):
            wrong()


def test_an_unusable_folder_is_blamed_on_who_named_it(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EPIBIAS_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"^EPIBIAS_CACHE: expected .*Not a directory"):
        EmbeddingCache(None, IDENTITY, DIM)
    with pytest.raises(InputError, match=r"^cache: expected .*Not a directory"):
        EmbeddingCache(tmp_path / "file", IDENTITY, DIM)


def test_keys_are_the_sha256_of_the_text():
    assert text_key("é") == hashlib.sha256("é".encode()).digest()
