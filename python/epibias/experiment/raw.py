"""The raw rows of a run: one a topic × axis × defence × attack, as a Parquet table.

Owns the columns and their types. Ids, similarities and scores only: neither text nor embeddings.
`Table` is a kind of table by its columns; `RAW` is the main one, an experiment has more of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epibias._validate import extra
from epibias.errors import InputError

Row = dict[str, Any]

# Columns that time decides; two runs that agree may differ in these.
TIMING_COLUMNS = ("latency_ms",)

_COLUMNS = {
    # which cell
    "dataset": "string",
    "encoder": "string",
    "k": "int64",
    "topic": "string",
    "query_id": "string",
    "axis": "string",
    "defense": "string",
    "attack": "string",
    "polarity": "string",
    "condition": "string",
    "injections": "int64",
    "injected_ids": "strings",
    # "ok", "failed" (message says why) or "not_applicable" (no decoys to be had)
    "status": "string",
    "message": "string",
    # the candidate pool, most similar first
    "candidate_ids": "strings",
    "candidate_similarities": "floats",
    "candidate_scores": "floats",
    # what the defence made of it
    "selected_ids": "strings",
    "selected_similarities": "floats",
    "selected_scores": "floats",
    "dropped_ids": "strings",
    "n_selected": "int64",
    "short": "bool",
    "sweep_threshold": "float32",  # where the candidates split best
    "threshold": "float32",  # the same, where it was acted on
    "n_kept": "int64",
    "divergence": "float64",
    "p_value": "float64",
    "side": "string",
    # metrics of this row
    "adversarial_precision": "float64",
    "adversarial_recall": "float64",
    "none_selected": "float64",
    "recall_over_k": "float64",
    "recall_over_relevant": "float64",
    "mean_score": "float64",
    "latency_ms": "float64",
}


@dataclass(frozen=True)
class Table:
    """A kind of table: its file and its columns.

    Parameters
    ----------
    name : str
        Of the file, without ".parquet".
    columns : mapping
        Column to the name of its type: string, strings, floats, int64, bool, float32 or float64.
    """

    name: str
    columns: Mapping[str, str] = field(hash=False)

    def schema(self) -> Any:  # noqa: ANN401 (pyarrow has no types)
        """Arrow schema of the table."""
        arrow = extra("raw.parquet", "pyarrow", "parquet")
        types = {
            "string": arrow.string(),
            "strings": arrow.list_(arrow.string()),
            "floats": arrow.list_(arrow.float32()),
            "int64": arrow.int64(),
            "bool": arrow.bool_(),
            "float32": arrow.float32(),
            "float64": arrow.float64(),
        }
        return arrow.schema([(name, types[kind]) for name, kind in self.columns.items()])


RAW = Table("raw", _COLUMNS)
# Columns of RAW with one number or word a row: what tables are made of.
SCALARS = tuple(name for name, kind in _COLUMNS.items() if kind not in ("strings", "floats"))


def write(
    path: Path, rows: Sequence[Mapping[str, Any]], settings_hash: str, table: Table = RAW
) -> None:
    """Write rows to a Parquet file that carries the hash of the settings they were made under."""
    arrow = extra("raw.parquet", "pyarrow", "parquet")
    parquet = extra("raw.parquet", "pyarrow.parquet", "parquet")
    full = [{name: row.get(name) for name in table.columns} for row in rows]
    content = arrow.Table.from_pylist(full, schema=_marked(table, settings_hash))
    parquet.write_table(content, path, compression="zstd")


def join(path: Path, parts: Iterable[Path], settings_hash: str, table: Table) -> int:
    """Write the rows of many files to one, a file at a time; their number.

    Raises
    ------
    InputError
        As `read`.
    """
    parquet = extra("raw.parquet", "pyarrow.parquet", "parquet")
    n_rows = 0
    schema = _marked(table, settings_hash)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for part in parts:
            content = _read_table(part, settings_hash, table)
            n_rows += content.num_rows
            writer.write_table(content.cast(schema))
    return n_rows


def read(
    path: Path,
    settings_hash: str | None = None,
    table: Table = RAW,
    columns: Sequence[str] | None = None,
) -> list[Row]:
    """Read rows back.

    Parameters
    ----------
    path : Path
        A file that `write` or `join` made.
    settings_hash : str, optional
        Refuse rows that were made under other settings.
    table : Table
        Which kind of table it is.
    columns : sequence of str, optional
        Only these.

    Raises
    ------
    InputError
        If the file is truncated, is no such table, or belongs to other settings.
    """
    rows: list[Row] = _read_table(path, settings_hash, table, columns).to_pylist()
    return rows


def _read_table(
    path: Path, settings_hash: str | None, table: Table, columns: Sequence[str] | None = None
) -> Any:  # noqa: ANN401
    arrow = extra("raw.parquet", "pyarrow", "parquet")
    parquet = extra("raw.parquet", "pyarrow.parquet", "parquet")
    try:
        schema = parquet.read_schema(path)
        content = parquet.read_table(path, columns=None if columns is None else list(columns))
    except (OSError, arrow.ArrowException) as error:
        reason = str(error).splitlines()[0][:120]
        raise InputError(path.name, "a whole Parquet file", reason, str(path)) from None
    found = (schema.metadata or {}).get(b"epibias_settings", b"").decode()
    if not schema.equals(table.schema(), check_metadata=False):
        expected = f"the columns of a {table.name} table"
        raise InputError(path.name, expected, "others", str(path))
    if settings_hash is not None and found != settings_hash:
        raise InputError(path.name, f"settings {settings_hash[:12]}", found[:12], str(path))
    return content


def _marked(table: Table, settings_hash: str) -> Any:  # noqa: ANN401
    return table.schema().with_metadata({"epibias_settings": settings_hash})
