"""Embeddings on disk, so that no text is encoded twice by the same encoder.

Owns one SQLite file for each encoder identity (model, revision, weights, prompt, normalisation,
length limit): two encoders never share a file, so vectors of another model cannot be taken for
one's own. Key: SHA-256 of the text. Safe when several processes write, and when one is killed:
a batch is there whole or not at all. Every row carries a digest that is checked when it is read.
Holds vectors, never texts; files have mode 0600.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epibias import _files, _validate
from epibias._dispatch import renamed
from epibias._validate import Float32Array, Int64Array
from epibias.errors import InputError

VARIABLE = "EPIBIAS_CACHE"
LAYOUT = 1
SECONDS_TO_WAIT = 60.0  # for another process's transaction, which takes milliseconds
KEYS_PER_QUERY = 500  # older SQLite takes at most 999 parameters
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS embeddings (key BLOB PRIMARY KEY, vector BLOB NOT NULL, "
    "truncated INTEGER NOT NULL, digest BLOB NOT NULL)",
)
_WRONG_TABLES = ("no such table", "no such column", "table embeddings has")
_INSERT = "INSERT OR IGNORE INTO embeddings (key, vector, truncated, digest) VALUES (?, ?, ?, ?)"
_SELECT = "SELECT key, vector, truncated, digest FROM embeddings WHERE key IN"


@dataclass(frozen=True, eq=False)
class CachedEmbeddings:
    """What a cache knew of the keys it was asked for.

    Parameters
    ----------
    positions : int64 [n_found]
        Positions among the keys asked for, ascending.
    embeddings : float32 [n_found, dim]
        Their vectors, bit for bit as they were put.
    truncated : bool [n_found]
        Whether the encoder read only the beginning of the text.
    """

    positions: Int64Array
    embeddings: Float32Array
    truncated: NDArray[np.bool_]

    def __repr__(self) -> str:
        return f"CachedEmbeddings({len(self.positions)} found)"


class EmbeddingCache:
    """Vectors of one encoder identity, by text.

    Parameters
    ----------
    folder : Path, optional
        Where the files are; made with mode 0700 if missing. Default: `default_folder()`.
    identity : mapping
        Everything that the vectors depend on, JSON-able. Another identity is another file.
    dim : int
        Columns of an embedding.

    Raises
    ------
    InputError
        If the folder cannot be written, the file is corrupt (the message says which file to
        delete), or it belongs to another identity.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = EmbeddingCache(folder, {"model": "m"}, dim=2)
    ...     cache.put([text_key("a")], np.array([[1, 2]], np.float32), np.array([False]))
    ...     found = cache.get([text_key("b"), text_key("a")])
    >>> found.positions.tolist(), found.embeddings.tolist()
    ([1], [[1.0, 2.0]])
    """

    def __init__(self, folder: Path | str | None, identity: Mapping[str, object], dim: int) -> None:
        self.dim = _validate.integer("dim", dim, low=1)
        self._identity = json.dumps({**identity, "dim": dim}, sort_keys=True, ensure_ascii=True)
        name = hashlib.sha256(self._identity.encode()).hexdigest()[:32]
        self._argument = "cache" if folder or not os.environ.get(VARIABLE) else VARIABLE
        with renamed(path=self._argument):
            self.path = _files.make_folder(folder or default_folder()) / f"{name}.sqlite"
        self._create()

    @staticmethod
    def keys_of(texts: Sequence[str]) -> list[bytes]:
        """Give the `text_key` of each text."""
        return [text_key(text) for text in texts]

    def get(self, keys: Sequence[bytes]) -> CachedEmbeddings:
        """Look up many keys at once.

        Parameters
        ----------
        keys : sequence of bytes
            `text_key` of each text; one may stand twice.

        Returns
        -------
        CachedEmbeddings
            The positions that are known, with their vectors.
        """
        rows: dict[bytes, tuple[bytes, int]] = {}
        wanted = list(dict.fromkeys(keys))
        with self._connection() as connection:
            for start in range(0, len(wanted), KEYS_PER_QUERY):
                some = wanted[start : start + KEYS_PER_QUERY]
                marks = ",".join("?" * len(some))
                query = f"{_SELECT} ({marks})"
                for key, vector, cut, digest in connection.execute(query, some):
                    kinds = isinstance(vector, bytes) and isinstance(cut, int)
                    if not kinds or digest != _digest(key, vector, cut):
                        raise self._corrupt("a row that is not what was written")
                    if len(vector) != 4 * self.dim:
                        raise self._corrupt("a row of another length")
                    rows[key] = vector, cut
        positions = [position for position, key in enumerate(keys) if key in rows]
        vectors = b"".join(rows[keys[position]][0] for position in positions)
        embeddings = np.frombuffer(vectors, dtype="<f4").astype(np.float32)
        truncated = [bool(rows[keys[position]][1]) for position in positions]
        return CachedEmbeddings(
            np.array(positions, dtype=np.int64),
            embeddings.reshape(len(positions), self.dim),
            np.array(truncated, dtype=np.bool_),
        )

    def put(
        self, keys: Sequence[bytes], embeddings: Float32Array, truncated: NDArray[np.bool_]
    ) -> None:
        """Add vectors, all of them or none; a key that is known keeps its first vector.

        Parameters
        ----------
        keys : sequence of bytes
            `text_key` of each text.
        embeddings : float32 [n_keys, dim]
            Their vectors, finite.
        truncated : bool [n_keys]
            Whether the encoder read only the beginning of each text.
        """
        _validate.array("embeddings", embeddings, dtype=np.float32, ndim=2)
        if embeddings.shape != (len(keys), self.dim):
            expected = f"shape ({len(keys)}, {self.dim})"
            raise InputError("embeddings", expected, f"shape {embeddings.shape}")
        _validate.array("truncated", truncated, dtype=np.bool_, ndim=1)
        _validate.same_length("truncated", len(truncated), "keys", len(keys))
        if not np.isfinite(embeddings).all():
            row = int(np.argmin(np.isfinite(embeddings).all(axis=1)))
            raise InputError("embeddings", "finite values", "NaN or infinity", f"row {row}")
        rows = []
        for key, embedding, cut in zip(keys, embeddings, truncated.tolist(), strict=True):
            vector = embedding.astype("<f4").tobytes()
            rows.append((key, vector, int(cut), _digest(key, vector, int(cut))))
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_INSERT, rows)
            connection.execute("COMMIT")

    def __len__(self) -> int:
        with self._connection() as connection:
            return int(connection.execute("SELECT count(*) FROM embeddings").fetchone()[0])

    def __repr__(self) -> str:
        return f"EmbeddingCache({str(self.path)!r}, dim={self.dim})"

    def _create(self) -> None:
        """Make the file and its tables; several processes may do so at once."""
        with self._told():
            # SQLite gives its -wal and -shm files the mode of this one.
            os.close(_files.open_private(self.path, os.O_CREAT | os.O_RDWR))
        deadline = time.monotonic() + SECONDS_TO_WAIT
        while True:
            try:
                with self._open() as connection:
                    self._initialise(connection)
                return
            except sqlite3.OperationalError as error:  # noqa: PERF203  # once a file
                # Turning WAL on does not wait for other processes that do the same.
                if str(error).startswith(_WRONG_TABLES):
                    raise self._corrupt(str(error)) from error
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise self._unusable(error) from error
                time.sleep(0.01)
            except sqlite3.DatabaseError as error:
                raise self._corrupt(str(error)) from error

    def _initialise(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        about = {"layout": str(LAYOUT), "identity": self._identity}
        if (
            connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone()
            is None
        ):
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.executemany("INSERT OR IGNORE INTO about VALUES (?, ?)", about.items())
            connection.execute("COMMIT")
        found = dict(connection.execute("SELECT name, value FROM about"))
        if found != about:
            expected = f"the cache of {self._identity}"
            got = f"that of {found.get('identity')}, layout {found.get('layout')}"
            raise InputError("cache", expected, got, f"delete or rename {self.path}")

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Open for one operation: no handle outlives it, so threads and forks need no care."""
        with self._told(), self._open() as connection:
            yield connection

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        address = f"{self.path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(
            address, uri=True, timeout=SECONDS_TO_WAIT, isolation_level=None
        )
        try:
            # In WAL mode this cannot corrupt; a power cut may cost the last batches.
            connection.execute("PRAGMA synchronous = NORMAL")
            yield connection
        finally:
            connection.close()  # rolls back what was not committed

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.OperationalError, OSError) as error:
            if str(error).startswith(_WRONG_TABLES):
                raise self._corrupt(str(error)) from error
            raise self._unusable(error) from error
        except sqlite3.DatabaseError as error:
            raise self._corrupt(str(error)) from error

    def _unusable(self, error: Exception) -> InputError:
        expected = "a folder that can be read and written, with space left (or cache=False)"
        found = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return InputError(self._argument, expected, found, str(self.path))

    def _corrupt(self, found: str) -> InputError:
        where = f"delete {self.path} to start it afresh"
        return InputError("cache", "an embedding cache that can be read", found, where)


def text_key(text: str) -> bytes:
    """Give the key of a text: its SHA-256.

    Examples
    --------
    >>> text_key("a").hex()[:8]
    'ca978112'
    """
    return hashlib.sha256(text.encode("utf-8")).digest()


def default_folder() -> Path:
    """Give the folder that is used when none is named.

    ``$EPIBIAS_CACHE/embeddings`` if that variable is set, else ``epibias/embeddings`` below the
    platform's cache folder (``~/.cache``, or ``$XDG_CACHE_HOME``, on Linux).

    Raises
    ------
    InputError
        The home folder that its name begins with does not exist.
    """
    own = os.environ.get(VARIABLE)
    if own:
        return _expanded(own) / "embeddings"
    if sys.platform == "darwin":
        base = _expanded("~") / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or _expanded("~/.cache"))
    return base / "epibias" / "embeddings"


def _expanded(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:  # no such user, or none at all
        raise InputError(VARIABLE, "a folder", f"{name!r}, and no such home") from None


def _digest(key: bytes, vector: bytes, truncated: int) -> bytes:
    content = key + bytes([truncated & 0xFF]) + vector
    return hashlib.blake2b(content, digest_size=8).digest()
