"""Rows of the files of a text set: fields that must be there, ids that must be known.

Files of JSON lines, and files that are one JSON document. A message names file and line, or file
and entry, counted from 0.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from epibias import _validate
from epibias._plain import described
from epibias.corpus.readers import JSON_DECODER, json_lines
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


def read_document(path: Path) -> Any:  # noqa: ANN401  # as JSON has it
    """Read a file that is one JSON document, in UTF-8.

    Raises
    ------
    InputError
        File and line of the first byte that is not UTF-8, or of the first thing that is not JSON;
        a field that stands twice.
    """
    name = path.name
    try:
        content = path.read_bytes()
    except OSError as error:
        expected = "a file that can be read"
        raise InputError("path", expected, str(error.strerror), str(path)) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{content[error.start]:02x}"
        raise InputError("path", "text in UTF-8", found, f"{name}, line {line}") from None
    try:
        return JSON_DECODER.decode(text)
    except json.JSONDecodeError as error:
        # Where the end is what is wrong, the rest is missing: the text itself is not shown.
        cut = "; the file ends there: is it cut off?" if error.pos >= len(text.rstrip()) - 1 else ""
        is_open = error.msg.startswith("Unterminated string")
        cut = "; the text is never closed: is the file cut off?" if is_open else cut
        found = f"{error.msg} at character {error.colno}{cut}"
        raise InputError("path", "a JSON document", found, f"{name}, line {error.lineno}") from None
    except (ValueError, RecursionError) as error:  # NaN, a field twice, bottomless nesting
        raise InputError("path", "a JSON document", str(error), name) from None


def entries(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the objects of a JSON document that is a list of them, each with its place."""
    document = read_document(path)
    if not isinstance(document, list):
        raise InputError("path", "a JSON list of objects", described(document), path.name)
    if not document:
        raise InputError("path", "at least one object", "an empty list", path.name)
    for number, row in enumerate(document):
        where = f"{path.name}, entry {number}"
        if not isinstance(row, dict):
            raise InputError("path", "a JSON object", described(row), where)
        yield where, row


def take_text(name: str, row: Mapping[str, Any], where: str) -> str:
    """Give a text that must be there, and not be blank."""
    return _validate.text(name, take(name, row, where), where)


def take_integer(name: str, row: Mapping[str, Any], where: str) -> int:
    """Give an integer that must be there."""
    value = take(name, row, where)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(name, "an integer", described(value), where)
    return value


def take_list(name: str, row: Mapping[str, Any], where: str) -> list[Any]:
    """Give a list that must be there."""
    value = take(name, row, where)
    if not isinstance(value, list):
        raise InputError(name, "a list", described(value), where)
    return value
