"""Rows of the files of a text set: fields that must be there, ids that must be known."""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from epibias._plain import described
from epibias.corpus.readers import json_lines
from epibias.errors import InputError


def read_rows(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Read a file of JSON lines; each row with the place it has in messages."""
    return [(f"{path.name}, line {number}", row) for number, row in json_lines(path, path.stem)]


def take(name: str, row: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401  # as JSON has it
    """Give a field that must be there."""
    if row.get(name) is None:
        raise InputError(name, f"the field {name!r}", f"the fields {list(row)[:20]}", where)
    return row[name]


def take_known(name: str, row: Mapping[str, Any], known: Container[str], where: str) -> str:
    """Give a field that must be one of the ids that are known."""
    value = take(name, row, where)
    if not isinstance(value, str) or value not in known:
        raise InputError(name, "an id that is known", described(value), where)
    return value


def check_count(name: str, got: int, expected: int, where: str) -> None:
    """Check that there are as many as the data card says."""
    if got != expected:
        raise InputError(name, str(expected), str(got), where)
