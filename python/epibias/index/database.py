"""SQLite as the index uses it: private files, WAL, synced before a write counts.

Owns opening, transactions and what their errors say. A thread of a process keeps one connection:
to close the last one would fold the log into the file, which takes longer than a commit. Several
processes may read while one writes; after a fork a child opens its own.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from epibias import _files
from epibias.errors import InputError

SECONDS_TO_WAIT = 60.0  # for another process's transaction, which takes milliseconds


class _Kept:
    """A connection that a thread keeps, closed when the thread or the database goes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection, self.process = connection, os.getpid()

    def __del__(self) -> None:
        if self.process == os.getpid():  # a child must not touch its parent's
            with contextlib.suppress(sqlite3.Error):
                self.connection.close()


class Database:
    """One SQLite file, made with mode 0600 if it is not there.

    Parameters
    ----------
    path : Path
        In a folder that exists.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     database = Database(Path(folder) / "one.sqlite")
    ...     database.create(["CREATE TABLE IF NOT EXISTS t (n INTEGER)"])
    ...     with database.writing() as connection:
    ...         _ = connection.execute("INSERT INTO t VALUES (3)")
    ...     with database.reading() as connection:
    ...         connection.execute("SELECT n FROM t").fetchall()
    [(3,)]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._kept = threading.local()
        with self._told():
            # SQLite gives its -wal and -shm files the mode of this one.
            os.close(_files.open_private(path, os.O_CREAT | os.O_RDWR))

    def create(self, statements: Iterable[str]) -> None:
        """Make what is missing, in one transaction; several processes may do so at once."""
        statements = list(statements)
        deadline = time.monotonic() + SECONDS_TO_WAIT
        while True:
            try:
                with contextlib.closing(self._connect()) as connection:
                    # Turning WAL on does not wait for other processes that do the same.
                    connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise self._unusable(str(error)) from error
                time.sleep(0.01)
            except sqlite3.DatabaseError as error:
                raise self._unusable(str(error)) from error
        with self.writing() as connection:
            for statement in statements:
                connection.execute(statement)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open for reading: everything inside sees one state."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Open one transaction: when it ends well it is on the disk, else it never was."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._told():
            own: _Kept | None = getattr(self._kept, "own", None)
            if own is None or own.process != os.getpid():
                own = self._kept.own = _Kept(self._connect())
            kept = own.connection
            # Inside another transaction of this thread only a connection of its own will do.
            connection = self._connect() if kept.in_transaction else kept
            try:
                connection.execute(begin)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            finally:
                if connection is not kept:
                    connection.close()

    def _connect(self) -> sqlite3.Connection:
        address = f"{self.path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(
            address, uri=True, timeout=SECONDS_TO_WAIT, isolation_level=None
        )
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # what was deleted is not left in the file
        return connection

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            if isinstance(error, sqlite3.IntegrityError):
                raise
            found = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise self._unusable(found) from error

    def _unusable(self, found: str) -> InputError:
        return InputError("store", "a database that can be read and written", found, str(self.path))
