"""SHA-256 of what a set was read from: files, or rows that a hub gave."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from epibias._files import sha256_of


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
