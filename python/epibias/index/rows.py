"""The passages of a version and what governs each: source, tier, account, tenant, lineage.

In Parquet, one row a passage, in the order of the vectors. Columns that every query looks at are
held in memory (ids and lineages as Arrow arrays, the rest as small integers); texts stay in the
file and are read for the few rows that are asked for. Needs pyarrow (extra ``index``).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epibias._validate import Int64Array
from epibias.corpus import Passage
from epibias.index.coded_column import CodedColumn

ROWS_PER_GROUP = 4096  # what is read to show one text
_TEXT_COLUMNS = (
    "passage_id",
    "lineage",
    "text",
    "title",
    "source",
    "author",
    "account",
    "time",
    "tenant",
    "content_sha256",
    "extra",
)


@dataclass(frozen=True)
class Row:
    """A passage with what governs it.

    Attributes
    ----------
    passage : Passage
        With source and tier as the policy has them.
    lineage : str
        Source and id of the first passage of a chain of replacements, with a colon between: a new
        version of a page is still that page.
    account : str or None
        Who wrote it into the index; the passage's author if the write path knew no other.
    tenant : str or None
        Who may read it; None: everybody.
    """

    passage: Passage
    lineage: str
    account: str | None = None
    tenant: str | None = None

    @property
    def content_sha256(self) -> str:
        """Hash of everything that the row says."""
        return _content_hash(self.values())

    def values(self) -> dict[str, Any]:
        """Give the columns, without the hash."""
        one = self.passage
        return {
            "passage_id": one.id,
            "lineage": self.lineage,
            "text": one.text,
            "title": one.title,
            "source": one.source,
            "tier": one.tier,
            "author": one.author,
            "account": self.account,
            "time": one.time,
            "tenant": self.tenant,
            "extra": json.dumps(dict(one.extra), sort_keys=True, ensure_ascii=False),
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Row:
        """Make a row of the columns that `values` gave."""
        passage = Passage(
            values["passage_id"],
            values["text"],
            values["title"] or "",
            values["source"],
            values["tier"],
            values["author"],
            values["time"],
            json.loads(values["extra"]),
        )
        return cls(passage, values["lineage"], values["account"], values["tenant"])


def _content_hash(values: dict[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _schema() -> Any:  # noqa: ANN401  pyarrow's
    import pyarrow

    texts = [(name, pyarrow.large_string()) for name in _TEXT_COLUMNS]
    return pyarrow.schema([*texts, ("tier", pyarrow.int8())])


class RowWriter:
    """Writes rows to Parquet, a group at a time."""

    def __init__(self, file: Any) -> None:  # noqa: ANN401  anything that takes bytes
        import pyarrow.parquet

        # Dictionaries of ids and texts would only cost; those of sources and tiers pay.
        self._writer = pyarrow.parquet.ParquetWriter(
            file, _schema(), use_dictionary=["source", "author", "account", "tenant"]
        )
        self._waiting: list[Any] = []
        self._n_waiting = 0

    def write(self, rows: Sequence[Row]) -> list[str]:
        """Add rows after those written before; returns their hashes."""
        import pyarrow

        values = [row.values() for row in rows]
        hashes = [_content_hash(one) for one in values]
        for one, digest in zip(values, hashes, strict=True):
            one["content_sha256"] = digest
        self._add(pyarrow.Table.from_pylist(values, schema=_schema()))
        return hashes

    def copy(self, table: Any) -> list[str]:  # noqa: ANN401  an Arrow table
        """Add rows of another version as they are; returns the hashes that they came with."""
        self._add(table.select(_schema().names).cast(_schema()))
        return list(table.column("content_sha256").to_pylist())

    def _add(self, table: Any) -> None:  # noqa: ANN401
        """Write whole groups, so that a row's group follows from its number."""
        import pyarrow

        self._waiting.append(table)
        self._n_waiting += len(table)
        whole = self._n_waiting - self._n_waiting % ROWS_PER_GROUP
        if whole:
            joined = pyarrow.concat_tables(self._waiting)
            self._writer.write_table(joined.slice(0, whole), row_group_size=ROWS_PER_GROUP)
            self._waiting = [joined.slice(whole)]
            self._n_waiting -= whole

    def finish(self) -> None:
        """Write the last group and the footer."""
        import pyarrow

        if self._n_waiting:
            self._writer.write_table(pyarrow.concat_tables(self._waiting))
        self.close()

    def close(self) -> None:
        """Let go of the file; without `finish` it is not a whole one."""
        if self._writer.is_open:
            self._writer.close()


@contextlib.contextmanager
def writer(file: Any) -> Iterator[RowWriter]:  # noqa: ANN401
    """Give a writer that is finished when all went well."""
    made = RowWriter(file)
    try:
        yield made
        made.finish()
    finally:
        made.close()


def changed_passages(path: Path) -> list[str]:
    """Ids of the passages whose row does not have the hash that it was written with.

    Empty where the file cannot be read at all.
    """
    import pyarrow

    changed = []
    with contextlib.suppress(pyarrow.ArrowException, OSError, ValueError):
        for table in _groups(path):
            for values in table.to_pylist():
                expected = values.pop("content_sha256")
                if _content_hash(values) != expected:
                    changed.append(str(values["passage_id"]))
    return changed


def _groups(opened: Any) -> Iterator[Any]:  # noqa: ANN401  what pyarrow reads
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(opened) as file:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group)


class VersionRows:
    """The rows of one version, read from its Parquet file, or from memory where it is sealed.

    Attributes
    ----------
    tiers : int8 [n_passages]
    source_names : tuple of str
    source_codes : int32 [n_passages]
        Position in the names; -1 where there is none.
    """

    def __init__(self, path: Path, memory: Any = None) -> None:  # noqa: ANN401  a buffer
        import pyarrow.parquet

        self._path, self._memory = path, memory
        columns = ["passage_id", "lineage", "source", "tier", "account", "tenant", "time"]
        table = pyarrow.parquet.read_table(
            self._opened(), columns=columns, read_dictionary=["source", "account", "tenant"]
        )
        self._ids = table.column("passage_id").combine_chunks()
        self._lineages = table.column("lineage").combine_chunks()
        self._times = table.column("time")
        self.tiers: NDArray[np.int8] = table.column("tier").to_numpy()
        self._sources, self._accounts, self._tenants = (
            _coded(table.column(name)) for name in ("source", "account", "tenant")
        )
        self.source_names, self.source_codes = self._sources.names, self._sources.codes

    def _opened(self) -> Any:  # noqa: ANN401  what pyarrow reads
        import pyarrow

        return self._path if self._memory is None else pyarrow.BufferReader(self._memory)

    def __len__(self) -> int:
        return len(self._ids)

    def ids(self, rows: Int64Array) -> list[str]:
        """Ids of some passages."""
        return _taken(self._ids, rows)

    def lineages(self, rows: Int64Array) -> list[str]:
        """Lineages of some passages."""
        return _taken(self._lineages, rows)

    @cached_property
    def all_lineages(self) -> frozenset[str]:
        """Lineages of all passages."""
        return frozenset(self._lineages.to_pylist())

    def times(self) -> list[str | None]:
        """Give the times of all passages, each once."""
        return list(self._times.unique().to_pylist())

    def find(self, ids: Sequence[str]) -> Int64Array:
        """Rows of some ids; -1 for one that is not there."""
        return self._find(self._ids, ids)

    @staticmethod
    def _find(column: Any, wanted: Sequence[str]) -> Int64Array:  # noqa: ANN401
        import pyarrow
        import pyarrow.compute

        values = pyarrow.array(list(wanted), pyarrow.large_string())
        found = pyarrow.compute.index_in(values, value_set=column)
        return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)

    def find_lineages(self, lineages: Sequence[str]) -> Int64Array:
        """Rows of some lineages; -1 for one that is not there."""
        return self._find(self._lineages, lineages)

    def source(self, row: int) -> str | None:
        """Source of one passage."""
        return self._sources.at(row)

    def account(self, row: int) -> str | None:
        """Account that wrote one passage."""
        return self._accounts.at(row)

    def tenant(self, row: int) -> str | None:
        """Who alone may read one passage; None: everybody."""
        return self._tenants.at(row)

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
        """Read some rows whole, texts and all, in the order asked for."""
        import pyarrow.parquet

        wanted = np.asarray(rows, np.int64)
        found: dict[int, Row] = {}
        with pyarrow.parquet.ParquetFile(self._opened()) as file:
            for group in np.unique(wanted // ROWS_PER_GROUP).tolist():
                table = file.read_row_group(group)
                inside = np.unique(wanted[wanted // ROWS_PER_GROUP == group])
                part = table.take(inside - group * ROWS_PER_GROUP)
                found.update(
                    zip(inside.tolist(), map(Row.from_values, part.to_pylist()), strict=True)
                )
        return [found[int(row)] for row in wanted]

    def content_hashes(self) -> Any:  # noqa: ANN401  an Arrow column
        """Give the hash of every row, in order."""
        import pyarrow.parquet

        return pyarrow.parquet.read_table(self._opened(), columns=["content_sha256"]).column(0)

    def groups(self) -> Iterator[Any]:
        """Yield one group of rows after the other, as Arrow tables for `RowWriter.copy`."""
        yield from _groups(self._opened())


def _taken(column: Any, rows: Int64Array) -> list[str]:  # noqa: ANN401
    return [str(value) for value in column.take(np.asarray(rows, np.int64)).to_pylist()]


def _coded(column: Any) -> CodedColumn:  # noqa: ANN401  an Arrow column
    import pyarrow

    if not pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pyarrow.ChunkedArray):
        whole = pyarrow.concat_arrays(whole.chunks) if whole.num_chunks else whole
    if len(whole) == 0:
        return CodedColumn((), np.empty(0, np.int32))
    codes = whole.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    return CodedColumn(tuple(map(str, whole.dictionary.to_pylist())), codes)
