"""The raw rows of a run: one a topic × axis × defence × attack, as a Parquet table.

Owns the columns and their types. Ids, similarities and scores only: neither text nor embeddings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epibias._validate import extra
from epibias.errors import InputError

Row = dict[str, Any]

# Columns that time decides; two runs that agree may differ in these.
TIMING_COLUMNS = ("latency_ms",)

_COLUMNS = {
    # which cell
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


def schema() -> Any:  # noqa: ANN401 (pyarrow has no types)
    """Arrow schema of the raw table."""
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
    return arrow.schema([(name, types[kind]) for name, kind in _COLUMNS.items()])


def write(path: Path, rows: Sequence[Mapping[str, Any]], settings_hash: str) -> None:
    """Write rows to a Parquet file that carries the hash of the settings they were made under."""
    arrow = extra("raw.parquet", "pyarrow", "parquet")
    parquet = extra("raw.parquet", "pyarrow.parquet", "parquet")
    full = [{name: row.get(name) for name in _COLUMNS} for row in rows]
    marked = schema().with_metadata({"epibias_settings": settings_hash})
    table = arrow.Table.from_pylist(full, schema=marked)
    parquet.write_table(table, path, compression="zstd")


def read(path: Path, settings_hash: str | None = None) -> list[Row]:
    """Read rows back.

    Parameters
    ----------
    path : Path
        A file that `write` made.
    settings_hash : str, optional
        Refuse rows that were made under other settings.

    Raises
    ------
    InputError
        If the file is truncated, is no such table, or belongs to other settings.
    """
    arrow = extra("raw.parquet", "pyarrow", "parquet")
    parquet = extra("raw.parquet", "pyarrow.parquet", "parquet")
    try:
        table = parquet.read_table(path)
    except (OSError, arrow.ArrowException) as error:
        reason = str(error).splitlines()[0][:120]
        raise InputError(path.name, "a whole Parquet file", reason, str(path)) from None
    found = (table.schema.metadata or {}).get(b"epibias_settings", b"").decode()
    if not table.schema.equals(schema(), check_metadata=False):
        raise InputError(path.name, "the columns of a raw table", "others", str(path))
    if settings_hash is not None and found != settings_hash:
        raise InputError(path.name, f"settings {settings_hash[:12]}", found[:12], str(path))
    rows: list[Row] = table.to_pylist()
    return rows
