"""Lines of JSON in: the fields of one object a line, with the line number in every error.

Owns the reading of texts and vectors out of such lines; `corpus.readers` reads the lines. Numbers
become float32; nothing is skipped, padded or dropped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epibias import _validate
from epibias._plain import described, vector_of_json
from epibias._validate import Float32Array
from epibias.cli.streams import open_stdin
from epibias.corpus.columns import check_id
from epibias.corpus.passages import encoded_text
from epibias.corpus.readers import PASSAGE_ID_FIELDS, QUERY_ID_FIELDS, json_lines
from epibias.errors import InputError


@dataclass(frozen=True)
class Line:
    """One object of a JSONL file, and where it stood."""

    fields: dict[str, Any]
    where: str


def read_lines(path: str, argument: str) -> list[Line]:
    """Read every line of a JSONL file (`-`: stdin), as `corpus.readers.json_lines` does."""
    source, name = (open_stdin(argument), "stdin") if path == "-" else (Path(path), path)
    return [
        Line(fields, f"{name}, line {number}") for number, fields in json_lines(source, argument)
    ]


def field(line: Line, name: str, kind: type | tuple[type, ...], expected: str) -> Any:  # noqa: ANN401
    """Return a field that must be there and of this kind."""
    if name not in line.fields:
        raise InputError(name, expected, "no such field", line.where)
    value = line.fields[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InputError(name, expected, described(value), line.where)
    return value


def text(line: Line, name: str) -> str:
    """Return a field that must be a text which is not blank."""
    return _validate.text(name, field(line, name, str, "a text"), line.where)


def encoded_texts(lines: Sequence[Line], argument: str) -> list[str]:
    """Read the texts of the lines as they are encoded: with their titles, where they have one."""
    texts = []
    for line in lines:
        body = _validate.text(f"{argument}.text", field(line, "text", str, "a text"), line.where)
        title = line.fields.get("title")
        if title is not None and not isinstance(title, str):
            raise InputError("title", "a text", described(title), line.where)
        texts.append(_validate.text(f"{argument}.title", encoded_text(title, body), line.where))
    return texts


def passage_ids(lines: Sequence[Line]) -> list[str]:
    """Ids of passages: the first of `_id`, `id`, `doc_id` on a line, or the number of its row."""
    return _ids(lines, "id", PASSAGE_ID_FIELDS)


def query_ids(lines: Sequence[Line]) -> list[str]:
    """Ids of queries: the first of `_id`, `id`, `query_id` on a line, or the number of its row."""
    return _ids(lines, "query_id", QUERY_ID_FIELDS)


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
    rows = [
        vector_of_json(
            f"{argument}.{name}", field(line, name, list, "a list of numbers"), line.where
        )
        for line in lines
    ]
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(rows[0]):
            expected = f"{len(rows[0])} numbers, as in the first line"
            raise InputError(f"{argument}.{name}", expected, str(len(row)), line.where)
    return np.ascontiguousarray(np.stack(rows))


def jsonl_text(records: Sequence[dict[str, Any]]) -> str:
    """Return one compact JSON object a line."""
    return "".join(json.dumps(r, ensure_ascii=False, allow_nan=False) + "\n" for r in records)


def _ids(lines: Sequence[Line], argument: str, names: tuple[str, ...]) -> list[str]:
    places: dict[str, str] = {}
    for row, line in enumerate(lines):
        name = next((name for name in names if name in line.fields), None)
        value = str(row) if name is None else line.fields[name]
        found = check_id(argument, value, line.where)
        if found in places:
            where = f"{places[found]}; {line.where}"
            raise InputError(argument, "each id once", f"{described(found)} again", where)
        places[found] = line.where
    return list(places)
