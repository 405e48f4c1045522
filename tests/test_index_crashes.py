"""Ten kills at random moments, and readers while the pointer moves; more of both in bench/."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.fixture
def folder():
    """A kill loses no page that the system has; a disk that is waited for proves nothing more."""
    memory = Path("/dev/shm")  # noqa: S108
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made) / "store"


def run(script, *arguments):
    command = [sys.executable, str(TESTS / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_ten_kills_leave_a_whole_store_and_lose_nothing_acknowledged(folder):
    result = run("index_kills.py", folder, 10)
    assert result["problems"] == []
    assert result["acknowledged"] >= 10


def test_readers_see_one_whole_version_while_the_pointer_moves(folder):
    result = run("index_readers.py", folder, 2, 40)
    assert result["mixed"] == []
    assert min(result["n_read"]) >= 1
