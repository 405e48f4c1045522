"""The rows of governance against the write log: what was changed behind its back.

Owns the fingerprint of a row and the comparison. Whoever changes a governed table through epibias
logs, in the same transaction, the fingerprints of the rows as they then are; the log is chained.
So a row that was changed, added or removed with other means differs from its last fingerprint, and
is named. Where old lines of the log were dropped, rows without a fingerprint are not judged.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from epibias.index.audit import Line

# Tables whose rows decide something, and the columns that name a row.
KEYS = {
    "settings": ("name",),
    "versions": ("id",),
    "promotions": ("number",),
    "golden": ("id",),
    "baselines": ("query", "number"),
    "reference_embeddings": ("key",),
    "elevations": ("passage", "content", "topic"),
    "holds": ("version",),
    "newcomers": ("query", "account", "version"),
}
Key = Sequence[str | int]


def fingerprints(
    connection: sqlite3.Connection, touched: Iterable[tuple[str, Key]]
) -> list[list[Any]]:
    """Fingerprint rows as they are in an open transaction, for the line that tells of them.

    Parameters
    ----------
    connection : sqlite3.Connection
    touched : iterable of (table, key)

    Returns
    -------
    list of [table, key, SHA-256 or None]
        None: there is no such row (any more).
    """
    found = []
    for table, key in touched:
        where = " AND ".join(f"{column} = ?" for column in KEYS[table])
        query = f"SELECT * FROM {table} WHERE {where}"  # noqa: S608  names of ours
        row = connection.execute(query, tuple(key)).fetchone()
        found.append([table, list(key), None if row is None else _fingerprint(row)])
    return found


def last_fingerprints(lines: Iterable[Line]) -> tuple[dict[tuple[Any, ...], str | None], bool]:
    """Collect the last fingerprint of each row; and whether the log goes back to its first line."""
    known: dict[tuple[Any, ...], str | None] = {}
    first = 0
    for line in lines:
        first = first or line.number
        for table, key, digest in line.body.get("rows", ()):
            row = (table, *key)  # a star in an index is newer than our oldest Python
            known[row] = digest
    return known, first <= 1


def changed_rows(connection: sqlite3.Connection, lines: Iterable[Line]) -> Iterator[str]:
    """Name the rows that are not as the write log has them.

    Parameters
    ----------
    connection : sqlite3.Connection
    lines : iterable of Line
        Of the write log, oldest first.

    Yields
    ------
    str
        One line a row.
    """
    known, whole = last_fingerprints(lines)
    there: set[tuple[Any, ...]] = set()
    for table, columns in KEYS.items():
        rows = connection.execute(f"SELECT * FROM {table}")  # noqa: S608
        names = [one[0] for one in rows.description]
        for row in rows:
            key = (table, *(row[names.index(column)] for column in columns))
            there.add(key)
            name = _named(key)
            if key not in known:
                if whole:
                    yield f"catalogue: {name} is not in the write log"
            elif known[key] is None:
                yield f"catalogue: {name} is there, and was removed in the write log"
            elif known[key] != _fingerprint(row):
                yield f"catalogue: {name} was changed outside the write log"
    for key, digest in known.items():
        if digest is not None and key not in there:
            yield f"catalogue: {_named(key)} is gone, and not in the write log"


def _fingerprint(row: Sequence[Any]) -> str:
    values = [one.hex() if isinstance(one, bytes) else one for one in row]
    return hashlib.sha256(json.dumps(values, ensure_ascii=False).encode()).hexdigest()


def _named(key: Sequence[Any]) -> str:
    table, *parts = key
    return f"row {', '.join(str(part)[:40] for part in parts)} of {table}"
