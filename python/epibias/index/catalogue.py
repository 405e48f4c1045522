"""Which versions there are, in what state, and which of them was promoted when; the settings.

Owns the tables of versions, promotions and settings, and sees to it that a change of state and the
line of the write log that tells of it are one transaction. The pointer file is `pointer`'s; that
both agree is checked whenever the store is opened.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from epibias.errors import InputError
from epibias.index.audit import AuditLog
from epibias.index.database import Database
from epibias.index.ledger import Key, fingerprints

GONE = ("retired", "destroyed")  # versions without files
PENDING, DONE, ABANDONED = "pending", "done", "abandoned"
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS versions (id TEXT PRIMARY KEY, ordinal INTEGER UNIQUE NOT NULL, "
    "parent TEXT, manifest_sha256 TEXT NOT NULL, reason TEXT NOT NULL, author TEXT NOT NULL, "
    "time TEXT NOT NULL, n_passages INTEGER NOT NULL, state TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS promotions (number INTEGER PRIMARY KEY, version TEXT NOT NULL, "
    "previous TEXT, kind TEXT NOT NULL, by TEXT NOT NULL, reason TEXT NOT NULL, "
    "time TEXT NOT NULL, state TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) "
    "WITHOUT ROWID",
)
_VERSION = "id, ordinal, parent, manifest_sha256, reason, author, time, n_passages, state"
_PROMOTION = "number, version, previous, kind, by, reason, time, state"


@dataclass(frozen=True)
class Version:
    """What the catalogue knows of a version.

    `state` is "staged", "held", "rejected", "trusted" (it was current once), or, without files,
    "retired" or "destroyed".
    """

    id: str
    ordinal: int
    parent: str | None
    manifest_sha256: str
    reason: str
    author: str
    time: str
    n_passages: int
    state: str


@dataclass(frozen=True)
class Promotion:
    """A move of the pointer: by promotion or rollback, pending until the pointer has moved."""

    number: int
    version: str
    previous: str | None
    kind: str
    by: str
    reason: str
    time: str
    state: str


def utc_now() -> datetime:
    """Give the time that is written down: UTC, to the microsecond."""
    return datetime.now(timezone.utc)


class Catalogue:
    """The tables of versions and promotions, with the write log beside them.

    Parameters
    ----------
    folder : Path
        The store.
    clock : callable
        Gives the time with its zone.

    Attributes
    ----------
    database : Database
    writes : AuditLog
    """

    def __init__(self, folder: Path, clock: Callable[[], datetime] = utc_now) -> None:
        self.database = Database(folder / "catalogue.sqlite")
        self.database.create(_SCHEMA)
        self.writes = AuditLog(self.database, "writes")
        self._clock = clock

    def now(self) -> str:
        """Time, ISO 8601 with its zone."""
        return self._clock().isoformat()

    def log(
        self,
        connection: sqlite3.Connection,
        kind: str,
        body: Mapping[str, Any],
        touched: Iterable[tuple[str, Key]] = (),
    ) -> int:
        """Append to the write log in a transaction that is open.

        Parameters
        ----------
        connection : sqlite3.Connection
        kind : str
        body : mapping
        touched : iterable of (table, key)
            Rows that the transaction has changed; the line says how they are now.
        """
        rows = fingerprints(connection, touched)
        body = {**body, "rows": rows} if rows else body
        return self.writes.append_in(connection, [(kind, body)], self.now())

    def setting(self, name: str) -> str | None:
        """Give a setting; None where there is none."""
        with self.database.reading() as connection:
            query = "SELECT value FROM settings WHERE name = ?"
            row = connection.execute(query, (name,)).fetchone()
        return None if row is None else str(row[0])

    def next_ordinal(self) -> int:
        """Give the number of the next version."""
        with self.database.reading() as connection:
            query = "SELECT coalesce(max(ordinal), 0) + 1 FROM versions"
            return int(connection.execute(query).fetchone()[0])

    def add(self, version: Version, body: Mapping[str, Any]) -> None:
        """Register a version whose folder is whole, and log who brought what."""
        with self.database.writing() as connection:
            marks = ", ".join("?" * len(vars(version)))
            connection.execute(
                f"INSERT INTO versions ({_VERSION}) VALUES ({marks})",  # noqa: S608
                tuple(vars(version).values()),
            )
            touched = [("versions", (version.id,))]
            self.log(connection, "stage", {"version": version.id, **body}, touched)

    def version(self, name: str) -> Version:
        """Look a version up, by its id or by its number."""
        for one in self.versions():
            if name in (one.id, str(one.ordinal)):
                return one
        raise InputError("version", "the id or number of a version", repr(name))

    def versions(self) -> list[Version]:
        """All versions, also those without files, oldest first."""
        with self.database.reading() as connection:
            rows = connection.execute(f"SELECT {_VERSION} FROM versions ORDER BY ordinal")  # noqa: S608
            return [Version(*row) for row in rows]

    def set_state(
        self,
        connection: sqlite3.Connection,
        name: str,
        state: str,
        body: Mapping[str, Any],
        touched: Iterable[tuple[str, Key]] = (),
    ) -> None:
        """Change a version's state, and log it, with other rows that were changed."""
        connection.execute("UPDATE versions SET state = ? WHERE id = ?", (state, name))
        rows = [("versions", (name,)), *touched]
        self.log(connection, state, {"version": name, **body}, rows)

    def begin_promotion(
        self, version: str, previous: str | None, kind: str, by: str, reason: str
    ) -> int:
        """Write down that the pointer is about to move; the number of the promotion."""
        with self.database.writing() as connection:
            query = "SELECT coalesce(max(number), 0) + 1 FROM promotions"
            number = int(connection.execute(query).fetchone()[0])
            values = (number, version, previous, kind, by, reason, self.now(), PENDING)
            connection.execute(
                f"INSERT INTO promotions ({_PROMOTION}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
                values,
            )
            body = {"version": version, "previous": previous, "by": by, "reason": reason}
            touched = [("promotions", (number,))]
            self.log(connection, kind, {"number": number, **body}, touched)
        return number

    def end_promotion(self, number: int, state: str) -> None:
        """Write down that the pointer moved, or that it did not."""
        with self.database.writing() as connection:
            connection.execute("UPDATE promotions SET state = ? WHERE number = ?", (state, number))
            touched: list[tuple[str, Key]] = [("promotions", (number,))]
            if state == DONE:
                query = "SELECT version FROM promotions WHERE number = ?"
                (version,) = connection.execute(query, (number,)).fetchone()
                connection.execute("UPDATE versions SET state = 'trusted' WHERE id = ?", (version,))
                touched.append(("versions", (version,)))
            self.log(connection, f"pointer {state}", {"number": number}, touched)

    def promotions(self) -> list[Promotion]:
        """All moves of the pointer, oldest first."""
        with self.database.reading() as connection:
            rows = connection.execute(f"SELECT {_PROMOTION} FROM promotions ORDER BY number")  # noqa: S608
            return [Promotion(*row) for row in rows]

    def newest_promotions(self) -> tuple[Promotion | None, Promotion | None]:
        """Give the newest promotion that is done, and one that is pending after it, if any."""
        with self.database.reading() as connection:
            query = f"SELECT {_PROMOTION} FROM promotions WHERE state = ? ORDER BY number DESC"  # noqa: S608
            found = [
                connection.execute(f"{query} LIMIT 1", (state,)).fetchone()
                for state in (DONE, PENDING)
            ]
        done, pending = (None if row is None else Promotion(*row) for row in found)
        if pending is not None and done is not None and pending.number < done.number:
            pending = None
        return done, pending
