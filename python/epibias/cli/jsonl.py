"""JSONL in: one JSON object a line, from a file or stdin, with the line number in every error.

Owns the reading of texts and vectors out of such lines. Numbers become float32; nothing is
skipped, padded or dropped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array
from epibias.corpus import Passage
from epibias.errors import InputError


@dataclass(frozen=True)
class Line:
    """One object of a JSONL file, and where it stood."""

    fields: dict[str, Any]
    where: str


def read_lines(path: str, argument: str) -> list[Line]:
    """Read every line of a JSONL file (`-`: stdin); blank lines are passed over.

    Raises
    ------
    InputError
        For a missing or unreadable file, a line that is no JSON object, or no lines at all.
    """
    name = "stdin" if path == "-" else path
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except FileNotFoundError:
        raise InputError(argument, "a file that exists", f"{path!r}") from None
    except IsADirectoryError:
        raise InputError(argument, "a file", "a folder", path) from None
    lines = []
    for number, raw in enumerate(content.split(b"\n"), 1):
        if raw.strip():
            where = f"{name}, line {number}"
            lines.append(Line(_object(raw, argument, where), where))
    if not lines:
        raise InputError(argument, "at least one JSON object", "none", name)
    return lines


def field(line: Line, name: str, kind: type | tuple[type, ...], expected: str) -> Any:  # noqa: ANN401
    """Return a field that must be there and of this kind."""
    if name not in line.fields:
        raise InputError(name, expected, "no such field", line.where)
    value = line.fields[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InputError(name, expected, repr(value)[:60], line.where)
    return value


def passages(lines: Sequence[Line], argument: str) -> list[Passage]:
    """Read id, title and text of every line; ids are optional and default to the row number."""
    found = []
    for row, line in enumerate(lines):
        text = field(line, "text", str, "a text")
        title = line.fields.get("title") or ""
        _validate.text(f"{argument}.text", text, line.where)
        found.append(Passage(id=identifier(line, row), text=text, title=str(title)))
    return found


def identifier(line: Line, row: int) -> str:
    """Return the id of a line: its `id` or `_id`, or the row number."""
    value = line.fields.get("id", line.fields.get("_id", str(row)))
    if not isinstance(value, str) or not value:
        raise InputError("id", "a text that is not empty", repr(value)[:60], line.where)
    return value


def holds_vectors(lines: Sequence[Line], argument: str, name: str = "vector") -> bool:
    """Whether the lines hold vectors; all of them must, or none."""
    with_vector = [name in line.fields for line in lines]
    if any(with_vector) and not all(with_vector):
        line = lines[with_vector.index(False)]
        raise InputError(
            argument, f"{name!r} on every line or on none", "no such field", line.where
        )
    return all(with_vector)


def vectors(lines: Sequence[Line], argument: str, name: str = "vector") -> Float32Array:
    """Stack the vectors of the lines, float32 `[n_lines, dim]`; all of one length."""
    rows = [vector(line, argument, name) for line in lines]
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(rows[0]):
            expected = f"{len(rows[0])} numbers, as in the first line"
            raise InputError(f"{argument}.{name}", expected, str(len(row)), line.where)
    return np.ascontiguousarray(np.stack(rows))


def vector(line: Line, argument: str, name: str = "vector") -> Float32Array:
    """Read one vector, float32 `[dim]`: a non-empty list of finite numbers that fit in float32."""
    values = field(line, name, list, "a list of numbers")
    for place, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | float):
            found = f"{type(value).__name__} at place {place}"
            raise InputError(f"{argument}.{name}", "a list of numbers", found, line.where)
    if not values:
        raise InputError(f"{argument}.{name}", "at least one number", "an empty list", line.where)
    with np.errstate(over="ignore"):
        row = np.asarray(values, dtype=np.float64).astype(np.float32)
    if not np.isfinite(row).all():
        place = int(np.flatnonzero(~np.isfinite(row))[0])
        found = f"{values[place]} at place {place}"
        raise InputError(f"{argument}.{name}", "finite float32 numbers", found, line.where)
    if not row.any():
        raise InputError(f"{argument}.{name}", "a vector that is not zero", "zeros", line.where)
    return row


def jsonl_text(records: Sequence[dict[str, Any]]) -> str:
    """Return one compact JSON object a line."""
    return "".join(json.dumps(r, ensure_ascii=False, allow_nan=False) + "\n" for r in records)


def plain(value: np.float32 | float) -> float | None:
    """Return the shortest decimal that reads back as this float32; None where it is not finite."""
    return float(str(np.float32(value))) if np.isfinite(value) else None


def _object(raw: bytes, argument: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise InputError(argument, "UTF-8", f"byte {raw[error.start]:#04x}", where) from None
    except (ValueError, RecursionError) as error:
        raise InputError(argument, "a JSON object", str(error)[:80], where) from None
    if not isinstance(value, dict):
        raise InputError(argument, "a JSON object", type(value).__name__, where)
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name}, which is no JSON number")


def unique_ids(ids: Sequence[str], lines: Sequence[Line]) -> None:
    """Check that no id stands twice; the error names the second line."""
    seen: dict[str, str] = {}
    for name, line in zip(ids, lines, strict=True):
        if name in seen:
            raise InputError("id", "each id once", f"{name!r} again", f"{seen[name]}; {line.where}")
        seen[name] = line.where
