"""Append-only logs whose lines are chained by hashes, in SQLite, with closed segments as files.

Owns the chain: line n holds the SHA-256 of its own content and of line n − 1's hash, so a line that
was changed, removed or moved breaks it at a number that can be named. Whoever may write to the
folder could compute a whole new chain: keep the `head` elsewhere, and `verify(expected_head=…)`
finds that too. A line that was appended is on the disk (WAL, synchronous=FULL). When a log has more
than `lines_per_segment` lines the oldest go to a file of JSON lines; at most `segments_kept` of
those stay, and the hash of the last line that was dropped remains as the beginning of the chain.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epibias import _files, _validate
from epibias.errors import InputError
from epibias.index.database import Database

NOTHING_BEFORE = "0" * 64
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS {name}_lines (number INTEGER PRIMARY KEY, at TEXT NOT NULL, "
    "kind TEXT NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS {name}_segments (number INTEGER PRIMARY KEY, "
    "first INTEGER NOT NULL, last INTEGER NOT NULL, hash TEXT NOT NULL, sha256 TEXT NOT NULL, "
    "dropped INTEGER NOT NULL)",
)


@dataclass(frozen=True)
class Line:
    """One line of a log.

    Attributes
    ----------
    number : int
        1, 2, …
    at : str
        ISO 8601.
    kind : str
    body : mapping
        JSON-able; never a vector.
    hash : str
    """

    number: int
    at: str
    kind: str
    body: Mapping[str, Any]
    hash: str


class AuditLog:
    """One chained log in a database.

    Parameters
    ----------
    database : Database
    name : str
        "writes" or "retrievals".
    lines_per_segment, segments_kept : int
        How much stays: that many lines in the database, that many files beside it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = AuditLog(Database(Path(folder) / "log.sqlite"), "writes")
    ...     n = log.append([("stage", {"source": "wiki"})], at="2026-09-01T00:00:00+00:00")
    ...     log.verify(), [line.kind for line in log.lines()]
    (1, ['stage'])
    """

    def __init__(
        self,
        database: Database,
        name: str,
        *,
        lines_per_segment: int = 100_000,
        segments_kept: int = 50,
    ) -> None:
        self._database = database
        self._name = _validate.choice("name", name, ("writes", "retrievals"))
        self._limit = _validate.integer("lines_per_segment", lines_per_segment, low=1)
        self._kept = _validate.integer("segments_kept", segments_kept, low=0)
        database.create(statement.format(name=name) for statement in _SCHEMA)

    @property
    def head(self) -> tuple[int, str]:
        """Number and hash of the last line; (0, zeros) of an empty log."""
        with self._database.reading() as connection:
            return self._head(connection)

    def append(self, entries: Sequence[tuple[str, Mapping[str, Any]]], at: str) -> int:
        """Append lines, all or none, in a transaction of their own.

        Parameters
        ----------
        entries : sequence of (kind, body)
        at : str
            Time, ISO 8601.

        Returns
        -------
        int
            Number of the last line.
        """
        with self._database.writing() as connection:
            return self.append_in(connection, entries, at)

    def append_in(
        self,
        connection: sqlite3.Connection,
        entries: Sequence[tuple[str, Mapping[str, Any]]],
        at: str,
    ) -> int:
        """Append lines in a transaction that is open: with what they tell of, or not at all."""
        number, previous = self._head(connection)
        rows = []
        for kind, body in entries:
            number += 1
            text = _canonical(body)
            previous = _line_hash(number, at, kind, text, previous)
            rows.append((number, at, kind, text, previous))
        connection.executemany(f"INSERT INTO {self._name}_lines VALUES (?, ?, ?, ?, ?)", rows)  # noqa: S608
        return number

    def lines(
        self,
        kinds: Iterable[str] | None = None,
        *,
        connection: sqlite3.Connection | None = None,
    ) -> Iterator[Line]:
        """Yield the lines that are kept, oldest first, those of some kinds only if asked.

        With a connection: as its transaction sees the log.
        """
        wanted = None if kinds is None else set(kinds)
        for _, line in self._stored(connection):
            if wanted is None or line.kind in wanted:
                yield line

    def verify(self, expected_head: tuple[int, str] | None = None) -> int:
        """Recompute the chain.

        Parameters
        ----------
        expected_head : tuple of (int, str), optional
            A `head` that was noted before: that line must still be there, as it was.

        Returns
        -------
        int
            Number of lines checked.

        Raises
        ------
        InputError
            Log and number of the first line that is missing or not as it was written.
        """
        number, previous = self._start()
        first = number
        for place, line in self._stored():
            number += 1
            where = f"{place}, line {number}"
            if line.number != number:
                raise InputError(
                    f"{self._name} log", f"line {number}", f"line {line.number}", where
                )
            text = _canonical(line.body)
            if _line_hash(number, line.at, line.kind, text, previous) != line.hash:
                expected = "the line that was written"
                raise InputError(f"{self._name} log", expected, "another", where)
            previous = line.hash
            if expected_head is not None and expected_head[0] == number:
                self._compare_head(expected_head, line.hash)
        if expected_head is not None and expected_head[0] > number:
            self._compare_head(expected_head, f"no line after {number}")
        return number - first

    def rotate(self) -> int:
        """Move the oldest lines of a log that is too long to files; the number of files written."""
        written = 0
        while (segment := self._next_segment()) is not None:
            number, lines = segment
            text = "".join(_canonical(vars(line)) + "\n" for line in lines)
            _files.write_text(self._path(number), text)
            digest = hashlib.sha256(text.encode()).hexdigest()
            values = (number, lines[0].number, lines[-1].number, lines[-1].hash, digest)
            with self._database.writing() as connection:
                connection.execute(
                    f"INSERT INTO {self._name}_segments VALUES (?, ?, ?, ?, ?, 0)",  # noqa: S608
                    values,
                )
                connection.execute(
                    f"DELETE FROM {self._name}_lines WHERE number <= ?",  # noqa: S608
                    (lines[-1].number,),
                )
            written += 1
        if written:
            self._drop()
        return written

    def _compare_head(self, expected: tuple[int, str], found: str) -> None:
        if found != expected[1]:
            where = f"line {expected[0]}"
            raise InputError(f"{self._name} log", f"hash {expected[1]}", found, where)

    def _head(self, connection: sqlite3.Connection) -> tuple[int, str]:
        for table, column in (("lines", "number"), ("segments", "last")):
            found = connection.execute(
                f"SELECT {column}, hash FROM {self._name}_{table} ORDER BY number DESC LIMIT 1"  # noqa: S608
            ).fetchone()
            if found is not None:
                return int(found[0]), str(found[1])
        return 0, NOTHING_BEFORE

    def _start(self) -> tuple[int, str]:
        with self._database.reading() as connection:
            found = connection.execute(
                f"SELECT last, hash FROM {self._name}_segments WHERE dropped "  # noqa: S608
                "ORDER BY number DESC LIMIT 1"
            ).fetchone()
        return (int(found[0]), str(found[1])) if found else (0, NOTHING_BEFORE)

    def _stored(self, given: sqlite3.Connection | None = None) -> Iterator[tuple[str, Line]]:
        opened = self._database.reading() if given is None else contextlib.nullcontext(given)
        with opened as connection:
            segments = connection.execute(
                f"SELECT number, sha256 FROM {self._name}_segments WHERE NOT dropped "  # noqa: S608
                "ORDER BY number"
            ).fetchall()
            rows = connection.execute(
                f"SELECT number, at, kind, body, hash FROM {self._name}_lines ORDER BY number"  # noqa: S608
            ).fetchall()
        for number, digest in segments:
            path = self._path(number)
            yield from ((str(path), line) for line in self._read_segment(path, digest))
        place = str(self._database.path)
        for number, at, kind, body, digest in rows:
            yield place, self._line(number, at, kind, body, digest)

    def _read_segment(self, path: Path, digest: str) -> Iterator[Line]:
        try:
            text = path.read_bytes()
        except OSError as error:
            found = error.strerror or str(error)
            raise InputError(f"{self._name} log", "a segment", found, str(path)) from None
        lines: list[Line] = []
        try:
            lines.extend(Line(**json.loads(line)) for line in text.splitlines())
        except (ValueError, TypeError):
            where = f"{path}, line {len(lines) + 1}"
            raise InputError(f"{self._name} log", "a line of JSON", "another", where) from None
        yield from lines  # the chain names the line that was changed; the hash only the file
        if hashlib.sha256(text).hexdigest() != digest:
            raise InputError(f"{self._name} log", "the segment written", "another", str(path))

    def _line(self, number: int, at: str, kind: str, body: str, digest: str) -> Line:
        try:
            return Line(number, at, kind, json.loads(body), digest)
        except ValueError:
            where = f"{self._database.path}, line {number}"
            raise InputError(f"{self._name} log", "a body of JSON", "another", where) from None

    def _next_segment(self) -> tuple[int, list[Line]] | None:
        with self._database.reading() as connection:
            rows = connection.execute(
                f"SELECT number, at, kind, body, hash FROM {self._name}_lines "  # noqa: S608
                "ORDER BY number LIMIT ?",
                (self._limit + 1,),
            ).fetchall()
            number = connection.execute(
                f"SELECT coalesce(max(number), 0) + 1 FROM {self._name}_segments"  # noqa: S608
            ).fetchone()[0]
        if len(rows) <= self._limit:
            return None
        return int(number), [self._line(*row) for row in rows[: self._limit]]

    def _drop(self) -> None:
        """Remove the oldest files beyond those that are kept; the chain then begins later."""
        with self._database.writing() as connection:
            numbers = connection.execute(
                f"SELECT number FROM {self._name}_segments WHERE NOT dropped "  # noqa: S608
                "ORDER BY number DESC LIMIT -1 OFFSET ?",
                (self._kept,),
            ).fetchall()
            connection.executemany(
                f"UPDATE {self._name}_segments SET dropped = 1 WHERE number = ?",  # noqa: S608
                numbers,
            )
        for (number,) in numbers:
            self._path(number).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self._database.path.parent / f"{self._name}-{number:06d}.jsonl"


def _canonical(body: Mapping[str, Any]) -> str:
    return json.dumps(body, sort_keys=True, ensure_ascii=False, allow_nan=False)


def _line_hash(number: int, at: str, kind: str, text: str, previous: str) -> str:
    content = json.dumps([number, at, kind, text, previous], ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()
