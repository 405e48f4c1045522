"""A version in one SQLite file: another store behind the protocols, of the standard library.

Owns `write_sqlite_version` and `SqliteVersion`, which offers what `protocols` asks for. It shows
what an adapter of any database has to do: rows in the order of the vectors, lookups by id and
lineage, masks by source, account and tenant. Columns that every query looks at are small integers
in memory; texts stay in the file. Embeddings are read into memory when the version is opened
(n · dim · 4 bytes), because a kernel wants them in one piece; a file of `version_files` is mapped
instead. pyarrow is needed where versions are compared (hashes come as an Arrow array).
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epibias import _files, _validate
from epibias._validate import Float32Array, Int64Array
from epibias.errors import InputError
from epibias.index.coded_column import CodedColumn
from epibias.index.rows import Row

_COLUMNS = (
    *("passage_id", "lineage", "text", "title", "source", "tier"),
    *("author", "account", "time", "tenant", "extra"),
)
_SCHEMA = (
    "CREATE TABLE about (id TEXT NOT NULL, dim INTEGER NOT NULL)",
    "CREATE TABLE passages (number INTEGER PRIMARY KEY, passage_id TEXT UNIQUE NOT NULL, "
    "lineage TEXT UNIQUE NOT NULL, text TEXT NOT NULL, title TEXT, source TEXT, tier INTEGER, "
    "author TEXT, account TEXT, time TEXT, tenant TEXT, extra TEXT NOT NULL, "
    "content_sha256 TEXT NOT NULL, embedding BLOB NOT NULL)",
)
_MOST_PARAMETERS = 500  # of one statement; old builds of SQLite take 999


def write_sqlite_version(
    path: Path | str, name: str, batches: Iterable[tuple[Sequence[Row], Float32Array]]
) -> None:
    """Write a version whole, or not at all.

    Parameters
    ----------
    path : path
        Replaced if it is there; mode 0600.
    name : str
        Id of the version.
    batches : iterable of (sequence of Row, float32 [n, dim])
        The passages in order.

    Raises
    ------
    InputError
        No passages, or embeddings of several dimensions.
    """
    number, dim = 0, 0
    with (
        _files.replacing(path) as temporary,
        contextlib.closing(sqlite3.connect(temporary)) as connection,
    ):
        for statement in _SCHEMA:
            connection.execute(statement)
        for rows, vectors in batches:
            _validate.array("embeddings", vectors, dtype=np.float32, ndim=2)
            _validate.same_length("embeddings", len(vectors), "passages", len(rows))
            if dim not in (0, vectors.shape[1]):
                raise InputError("embeddings", f"{dim} columns", f"shape {vectors.shape}")
            dim = vectors.shape[1]
            values = [_values(row, vector) for row, vector in zip(rows, vectors, strict=True)]
            connection.executemany(
                f"INSERT INTO passages VALUES ({', '.join('?' * (len(_COLUMNS) + 3))})",  # noqa: S608
                [(number + place, *one) for place, one in enumerate(values)],
            )
            number += len(rows)
        if number == 0:
            raise InputError("passages", "at least one", "none")
        connection.execute("INSERT INTO about VALUES (?, ?)", (name, dim))
        connection.commit()


class SqliteVersion:
    """A version that lies in a SQLite file: a `VersionView`.

    Parameters
    ----------
    path : path
        What `write_sqlite_version` wrote.

    Attributes
    ----------
    id : str
    vectors : float32 [n_passages, dim]
        In memory, read-only.
    rows : SqliteRows

    Raises
    ------
    InputError
        No such file, or not one of these.

    Examples
    --------
    >>> import tempfile
    >>> from epibias import Passage
    >>> from epibias.index import IndexReader, parse_policy
    >>> policy = parse_policy(b'''
    ... [sources.wiki]
    ... tier = 3
    ... owner = "all"
    ... [topics.trains]
    ... owner = "all"
    ... sources = ["wiki"]
    ... ''')
    >>> rows = [
    ...     Row(Passage(f"p{n}", f"page {n}", source="wiki", tier=3), f"wiki:p{n}")
    ...     for n in range(3)
    ... ]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "one.sqlite"
    ...     write_sqlite_version(path, "one", [(rows, np.eye(3, dtype=np.float32))])
    ...     version = SqliteVersion(path)
    ...     (found,) = IndexReader(version, policy).similar(np.eye(3, dtype=np.float32)[1:2], 1)
    ...     version.rows.ids(found.rows)
    ['p1']
    """

    def __init__(self, path: Path | str) -> None:
        self.rows = SqliteRows(Path(path))
        self.id, dim = self.rows.about()
        self.vectors = self.rows.embeddings(dim)


class SqliteRows:
    """The passages of such a version: a `RowsView`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._reading() as connection:
            self._sources, self._accounts, self._tenants = (
                CodedColumn.of(
                    value
                    for (value,) in connection.execute(
                        f"SELECT {column} FROM passages ORDER BY number"  # noqa: S608
                    )
                )
                for column in ("source", "account", "tenant")
            )
        self.source_names, self.source_codes = self._sources.names, self._sources.codes

    def about(self) -> tuple[str, int]:
        """Id of the version, and dimension of its embeddings."""
        with self._reading() as connection:
            name, dim = connection.execute("SELECT id, dim FROM about").fetchone()
        return str(name), int(dim)

    def embeddings(self, dim: int) -> Float32Array:
        """All embeddings, float32 [n_passages, dim], read-only."""
        vectors = np.empty((len(self), dim), np.float32)
        with self._reading() as connection:
            found = connection.execute("SELECT embedding FROM passages ORDER BY number")
            for number, (content,) in enumerate(found):
                vectors[number] = np.frombuffer(content, "<f4")
        _validate.finite("embeddings", vectors, str(self._path))
        vectors.flags.writeable = False
        return vectors

    def __len__(self) -> int:
        return len(self.source_codes)

    def ids(self, rows: Int64Array) -> list[str]:
        """Ids of some passages."""
        return [str(one) for (one,) in self._of("passage_id", rows)]

    def lineages(self, rows: Int64Array) -> list[str]:
        """Lineages of some passages."""
        return [str(one) for (one,) in self._of("lineage", rows)]

    def find(self, ids: Sequence[str]) -> Int64Array:
        """Rows of some ids; -1 for one that is not there."""
        return self._found("passage_id", ids)

    def find_lineages(self, lineages: Sequence[str]) -> Int64Array:
        """Rows of some lineages; -1 for one that is not there."""
        return self._found("lineage", lineages)

    def source(self, row: int) -> str | None:
        """Source of one passage."""
        return self._sources.at(row)

    def account(self, row: int) -> str | None:
        """Account that wrote one passage."""
        return self._accounts.at(row)

    def rows_of_sources(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Which passages are of one of some sources, bool [n_passages]."""
        return self._sources.is_one_of(names)

    def rows_of_accounts(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Which passages were written by one of some accounts, bool [n_passages]."""
        return self._accounts.is_one_of(names)

    def visible_to(self, tenant: str | None) -> NDArray[np.bool_]:
        """Which passages a tenant may read: everybody's, and the tenant's own."""
        mask: NDArray[np.bool_] = self._tenants.codes < 0
        return mask if tenant is None else mask | self._tenants.is_one_of([tenant])

    def read(self, rows: Sequence[int] | Int64Array) -> list[Row]:
        """Read some rows whole, in the order asked for."""
        found = self._of(", ".join(_COLUMNS), rows)
        return [Row.from_values(dict(zip(_COLUMNS, values, strict=True))) for values in found]

    def content_hashes(self) -> Any:  # noqa: ANN401  an Arrow column
        """Hash of everything that each row says, as an Arrow array of text."""
        pyarrow = _validate.extra("epibias.index", "pyarrow", "index")
        with self._reading() as connection:
            query = "SELECT content_sha256 FROM passages ORDER BY number"
            return pyarrow.array([one for (one,) in connection.execute(query)], "large_string")

    def times(self) -> list[str | None]:
        """Give the times of the passages, each once, in any order."""
        with self._reading() as connection:
            return [one for (one,) in connection.execute("SELECT DISTINCT time FROM passages")]

    def _of(self, columns: str, rows: Sequence[int] | Int64Array) -> list[tuple[Any, ...]]:
        wanted = [int(row) for row in rows]
        found = dict(self._looked_up("number", columns, wanted))
        return [found[row] for row in wanted]

    def _found(self, column: str, wanted: Sequence[str]) -> Int64Array:
        found = dict(self._looked_up(column, "number", list(wanted)))
        return np.array([found[one][0] if one in found else -1 for one in wanted], np.int64)

    def _looked_up(
        self, key: str, columns: str, wanted: Sequence[str | int]
    ) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        with self._reading() as connection:
            for first in range(0, len(wanted), _MOST_PARAMETERS):
                part = wanted[first : first + _MOST_PARAMETERS]
                marks = ", ".join("?" * len(part))
                query = f"SELECT {key}, {columns} FROM passages WHERE {key} IN ({marks})"  # noqa: S608
                for values in connection.execute(query, tuple(part)):
                    yield values[0], tuple(values[1:])

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        address = f"{self._path.absolute().as_uri()}?mode=ro&immutable=1"
        try:
            with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
                yield connection
        except sqlite3.DatabaseError as error:
            expected = "a file of write_sqlite_version"
            raise InputError("version", expected, str(error), str(self._path)) from None


def _values(row: Row, vector: Float32Array) -> tuple[Any, ...]:
    if not np.isfinite(vector).all() or not vector.any():
        where = f"passage {row.passage.id!r}"
        raise InputError("embeddings", "a finite row that is not zero", "another", where)
    values = row.values()
    columns = (values[column] for column in _COLUMNS)
    return (*columns, row.content_sha256, vector.astype("<f4").tobytes())
