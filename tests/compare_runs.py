"""What of two runs of the same settings must agree: everything that time does not decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epibias.experiment import raw


def comparable(folder: Path) -> dict[str, Any]:
    """Tables, TREC files and raw rows of a finished run, without times."""
    files: dict[str, Any] = {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file() and (path.parent.name == "tables" or "trec" in path.parts)
    }
    files.pop("tables/latency.csv")
    rows = raw.read(folder / "raw.parquet")
    for row in rows:
        for name in raw.TIMING_COLUMNS:
            row.pop(name)
    files["rows"] = rows
    return files
