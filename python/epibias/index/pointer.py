"""`CURRENT`: the name of the version that production reads, and the lock of who may change it.

Owns one small file, replaced whole (temporary name, fsync, rename, fsync of the folder). It says
which version, the hash of its manifest and the number of the promotion, so that a pointer that was
changed, or put back from an older day, differs from what the catalogue says.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from epibias import _files
from epibias.errors import InputError

CURRENT = "CURRENT"
LOCK = "lock"


@dataclass(frozen=True)
class Pointer:
    """What `CURRENT` says.

    Attributes
    ----------
    version, manifest_sha256 : str
    promotion : int
        Number of the promotion or rollback that put it there.
    """

    version: str
    manifest_sha256: str
    promotion: int


def read_pointer(store: Path) -> Pointer | None:
    """Read the pointer; None where nothing was promoted yet.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_pointer(Path(folder), Pointer("000001-ab", "ab", 1))
    ...     read_pointer(Path(folder)).version
    '000001-ab'
    """
    path = store / CURRENT
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        pointer = Pointer(**json.loads(content))
        kinds = [type(value) for value in vars(pointer).values()]
    except (ValueError, TypeError):
        kinds = []
    if kinds != [str, str, int]:
        expected = "version, manifest_sha256 and promotion"
        raise InputError("pointer", expected, f"{content[:80]!r}", str(path))
    return pointer


def write_pointer(store: Path, pointer: Pointer) -> None:
    """Replace the pointer in one step; when this returns, the new one is on the disk."""
    _files.write_bytes(store / CURRENT, json.dumps(asdict(pointer)).encode() + b"\n")


@contextlib.contextmanager
def writer_lock(store: Path) -> Iterator[None]:
    """Wait until no other process changes the store, and keep others out; a kill lets go."""
    descriptor = os.open(store / LOCK, os.O_CREAT | os.O_RDWR, _files.PRIVATE_FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
