"""Files of adversarial passages: our own JSON lines, and ready-made sets in JSON lines or CSV.

Owns the layout and the messages. Writing is atomic, mode 0600, with one line about the set first,
so that a file that was cut off is told apart from a short one. Reading names file, line and column
of the first fault; no row is skipped, no label guessed.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from epibias import _validate
from epibias._plain import described
from epibias.attacks.adversarial_set import (
    POLARITIES,
    AdversarialPassage,
    AdversarialSet,
    plain_provenance,
)
from epibias.corpus import Corpus
from epibias.corpus.columns import Columns, check_id
from epibias.corpus.readers import (
    PASSAGE_ID_FIELDS,
    json_lines,
    passage_row,
    write_json_lines,
)
from epibias.errors import InputError

FORMAT = "epibias adversarial set 1"
LABELS = ("question_id", "polarity", "attack")
COLUMNS = ("_id", "text", *LABELS, "provenance", "title", "source", "tier", "author", "time")

Mapped = Mapping[str, str] | None
Values = Mapping[str, Mapping[str, str]] | None


def write_set(found: AdversarialSet, path: Path | str) -> None:
    """Write a set as `AdversarialSet.write` says."""
    write_json_lines(_rows(found), path)


def _rows(found: AdversarialSet) -> Iterator[dict[str, object]]:
    yield {"format": FORMAT, "n_passages": len(found), "rejections": dict(found.rejections)}
    for one in found.passages:
        row = passage_row(one.passage)
        for name in (*LABELS, "provenance"):
            if name in row:
                found_name = f"{name!r} among the fields of passage {one.passage.id!r}"
                raise InputError("extra", "other names than the labels'", found_name)
            row[name] = getattr(one, name)
        yield row


def read_set(
    path: Path | str, *, columns: Mapped = None, values: Values = None, defaults: Mapped = None
) -> AdversarialSet:
    """Read a set as `AdversarialSet.read` says."""
    path = Path(path)
    names = _checked_columns(columns)
    fixed = _checked_defaults(defaults)
    for column in values or {}:
        _validate.choice("values", column, LABELS)
    is_csv = path.suffix.lower() == ".csv"
    rows = _csv_rows(path) if is_csv else json_lines(path, "adversarial passages")
    taken = Columns("_id", origin=str(path), unit="line")
    labels: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    n_promised: int | None = None
    for place, row in rows:
        if n_promised is None and not labels and _is_head(row):
            n_promised, counts = _about(row, taken.where(place))
            continue
        renamed = _renamed(row, names, fixed, taken.where(place))
        for name in LABELS:
            renamed[name] = _label(name, renamed, values, taken.where(place))
        _take(renamed, place, taken, labels, is_csv=is_csv)
    if n_promised is not None and n_promised != len(labels):
        found = f"{len(labels)}; is the file cut off?"
        raise InputError(
            "adversarial passages", f"{n_promised}, as its head says", found, str(path)
        )
    corpus = Corpus._from_columns(taken)
    passages = (
        AdversarialPassage(passage, **label) for passage, label in zip(corpus, labels, strict=True)
    )
    return AdversarialSet(tuple(passages), counts)


def _checked_columns(columns: Mapped) -> dict[str, str]:
    names = dict(columns or {})
    for ours, theirs in names.items():
        _validate.choice("columns", ours, COLUMNS)
        _validate.text(f"columns[{ours!r}]", theirs)
    _validate.unique("columns", names.values())
    return names


def _checked_defaults(defaults: Mapped) -> dict[str, str]:
    fixed = dict(defaults or {})
    for name, value in fixed.items():
        _validate.choice("defaults", name, LABELS)
        if name == "polarity":
            _validate.choice("defaults['polarity']", value, POLARITIES)
        check_id(f"defaults[{name!r}]", value, None)
    return fixed


def _is_head(row: Mapping[str, Any]) -> bool:
    return str(row.get("format", "")).startswith(FORMAT.rpartition(" ")[0]) and "text" not in row


def _about(row: Mapping[str, Any], where: str) -> tuple[int, dict[str, int]]:
    if row["format"] != FORMAT:
        raise InputError("format", repr(FORMAT), described(row["format"]), where)
    n_passages, rejections = row.get("n_passages"), row.get("rejections")
    if isinstance(n_passages, bool) or not isinstance(n_passages, int) or n_passages < 0:
        raise InputError("n_passages", "the number of passages", described(n_passages), where)
    if not isinstance(rejections, dict):
        raise InputError("rejections", "counts by reason", described(rejections), where)
    for reason, count in rejections.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise InputError(f"rejections[{reason!r}]", "a count", described(count), where)
    return n_passages, rejections


def _renamed(
    row: Mapping[str, Any], names: Mapping[str, str], fixed: Mapping[str, str], where: str
) -> dict[str, Any]:
    """Give a row our names; a column of the file whose name ours takes is kept as `file_<name>`."""
    theirs = {column: ours for ours, column in names.items()}
    for ours, column in names.items():
        if row.get(column) is None:
            expected = f"a value in the column {column!r}, which stands for {ours!r}"
            raise InputError(ours, expected, f"values in {list(row)[:20]}", where)
    renamed: dict[str, Any] = {}
    for name, value in row.items():
        if value is not None:
            kept = f"file_{name}" if name in names and name not in theirs else name
            renamed[theirs.get(name, kept)] = value
    for name, value in fixed.items():
        if name in renamed:
            raise InputError(f"defaults[{name!r}]", "no such column in the file", "one", where)
        renamed[name] = value
    return renamed


def _label(name: str, row: Mapping[str, Any], values: Values, where: str) -> str:
    if name not in row:
        expected = f"a value in the column {name!r}, in a mapped one, or a default"
        raise InputError(name, expected, f"values in {list(row)[:20]}", where)
    value = row[name]
    known = (values or {}).get(name)
    if known is not None:
        shown = value if isinstance(value, str) else json.dumps(value)
        if shown not in known:
            expected = f"one of the mapped values {list(known)[:20]}"
            raise InputError(name, expected, described(value), where)
        value = known[shown]
    if name == "polarity":
        if value not in POLARITIES:
            expected = " or ".join(map(repr, POLARITIES))
            raise InputError(name, expected, described(value), where)
        return str(value)
    return check_id(name, value, where)


def _take(
    row: dict[str, Any],
    place: int,
    taken: Columns,
    labels: list[dict[str, Any]],
    *,
    is_csv: bool,
) -> None:
    where = taken.where(place)
    if "text" not in row:
        expected = "a value in the column 'text', or in a mapped one"
        raise InputError("text", expected, f"values in {list(row)[:20]}", where)
    label = {name: row.pop(name) for name in LABELS}
    label["provenance"] = _provenance(row.pop("provenance", {}), where, is_text=is_csv)
    if is_csv and "tier" in row:
        row["tier"] = int(row["tier"]) if row["tier"] in ("1", "2", "3") else row["tier"]
    text = row.pop("text")
    id_field = next((name for name in PASSAGE_ID_FIELDS if name in row), None)
    made = f"{label['attack']}-{label['question_id']}-{label['polarity']}-{place}"
    passage_id = made if id_field is None else check_id("_id", row.pop(id_field), where)
    if isinstance(text, list):
        if not text:
            raise InputError("text", "at least one text", "an empty list", where)
        for number, one in enumerate(text, 1):
            taken.add(f"{passage_id}.{number}", one, row, place)
            labels.append(label)
    else:
        taken.add(passage_id, text, row, place)
        labels.append(label)


def _provenance(value: object, where: str, *, is_text: bool) -> dict[str, object]:
    if is_text and isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise InputError("provenance", "a JSON object", str(error), where) from None
    return plain_provenance(value, where)


@contextlib.contextmanager
def _cells_of_any_length(longest: int) -> Iterator[None]:
    """Let a cell be as long as its file: the csv module refuses more than 131,072 characters.

    Its limit is one for the whole process, and so it is put back.
    """
    usual = csv.field_size_limit()
    csv.field_size_limit(max(usual, longest))
    try:
        yield
    finally:
        csv.field_size_limit(usual)


def _csv_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Give the rows of a CSV file with the line on which each starts; an empty cell is absent."""
    argument = "adversarial passages"
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        expected = "a file that can be read"
        raise InputError(argument, expected, str(error.strerror), str(path)) from error
    except UnicodeDecodeError as error:
        found = f"byte 0x{error.object[error.start]:02x} at byte {error.start}"
        raise InputError(argument, "text in UTF-8", found, str(path)) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    n_rows, start = 0, 1
    while True:
        start = reader.line_num + 1
        where = f"{path}, line {start}"
        try:
            with _cells_of_any_length(len(text)):
                cells = next(reader, None)
        except csv.Error as error:
            raise InputError(argument, "a row of CSV", str(error), where) from None
        if cells is None:
            break
        if not cells:
            continue
        if header is None:
            header = [cell.strip() for cell in cells]
            _validate.unique("header", header, where)
            continue
        if len(cells) != len(header):
            expected = f"{len(header)} cells, as in the header"
            raise InputError(argument, expected, str(len(cells)), where)
        n_rows += 1
        yield start, {name: cell for name, cell in zip(header, cells, strict=True) if cell != ""}
    if n_rows == 0:
        raise InputError(argument, "a header and at least one row", "none", str(path))
