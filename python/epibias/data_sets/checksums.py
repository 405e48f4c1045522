"""SHA-256 of what a set was read from: files, or rows that a hub gave."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from epibias.errors import InputError


def sha256_of(path: Path | str) -> str:
    r"""Give the SHA-256 of a file, in hexadecimal.

    Raises
    ------
    InputError
        A file that cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.txt").write_bytes(b"abc")
    ...     sha256_of(Path(folder, "a.txt"))[:16]
    'ba7816bf8f01cfea'
    """
    digest = hashlib.sha256()
    try:
        with Path(path).open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        expected = "a file that can be read"
        raise InputError("path", expected, str(error.strerror), str(path)) from error
    return digest.hexdigest()


def checksums(folder: Path, paths: Iterable[Path]) -> dict[str, str]:
    """Give the SHA-256 of files, by their names from the folder on."""
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in sorted(paths)}


def sha256_of_rows(rows: Iterable[Mapping[str, object]]) -> str:
    """Give the SHA-256 of rows as JSON lines with sorted keys: what a hub gave, not how it came.

    Examples
    --------
    >>> sha256_of_rows([{"b": 1, "a": "x"}]) == sha256_of_rows([{"a": "x", "b": 1}])
    True
    """
    digest = hashlib.sha256()
    for row in rows:
        line = json.dumps(row, sort_keys=True, ensure_ascii=False, allow_nan=False)
        digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()
