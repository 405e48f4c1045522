"""Texts with ids and metadata, kept as columns and checked as they come in.

Owns the checks of a row (id, text, metadata) and the layout in memory: one list a field, so that a
million rows cost little more than their characters. Knows nothing of files; `corpus` and
`readers` build on it.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator, Mapping

from epibias import _validate
from epibias._plain import described, moment
from epibias.errors import InputError

RESERVED_FIELDS = ("_id", "text", "title", "source", "tier", "author", "time")
TIERS = (1, 2, 3)
# Each field is one list; a file in which every row brings new names would need their product.
MAX_FIELDS = 256
# Every character at which some reader of the file, Python's splitlines among them, ends a line.
_CONTROL_OR_LINE_END = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ISO_8601 = re.compile(
    r"\d{4}(-\d{2}(-\d{2}([T ]\d{2}:\d{2}(:\d{2}([.]\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?)?)?)?"
)


class Columns:
    """Rows in the making; afterwards treated as immutable by their owner.

    Parameters
    ----------
    id_argument : str
        What messages call the id.
    origin : str, optional
        File that the rows come from.
    unit : str
        What `place` counts: "line" of a file, or "row".
    """

    def __init__(self, id_argument: str, origin: str | None = None, unit: str = "row") -> None:
        self.id_argument, self.origin, self.unit = id_argument, origin, unit
        self.ids: tuple[str, ...] = ()  # like `texts`, there after `finish`
        self.texts: tuple[str, ...] = ()
        self.row_of: dict[str, int] = {}
        # A column ends at the last row that has a value, so a rare field costs nothing after it.
        self.fields: dict[str, list[object]] = {}
        self.skipped_ids: tuple[str, ...] = ()  # rows with a blank text, where that was asked for
        self._skipped: list[str] = []
        self._ids: list[str] = []
        self._texts: list[str] = []
        self._places = array("q")
        self._shared: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.row_of)

    def where(self, place: int, row_id: object = None) -> str:
        """Say where a row came from."""
        known = isinstance(row_id, str) and row_id.isprintable() and len(row_id) <= 200
        parts = [self.origin, f"{self.unit} {place}", f"id {row_id!r}" if known else None]
        return ", ".join(part for part in parts if part)

    def add(self, row_id: object, text: object, fields: Mapping[str, object], place: int) -> None:
        """Check one row and append it; `None` among the fields means that a field is absent."""
        checked_id = check_id(self.id_argument, row_id, self.where(place))
        where = self.where(place, row_id)
        if checked_id in self.row_of:
            first = self._places[self.row_of[checked_id]]
            found = f"{described(checked_id)} in {self.unit}s {first} and {place}"
            raise InputError(self.id_argument, "each id once", found, self.origin)
        checked_text = _validate.text("text", text, where)
        for name, value in fields.items():
            if value is not None:
                _check_field(name, value, where)
        row = len(self._ids)
        for name, value in fields.items():
            if value is not None and not (name == "title" and value == ""):
                self._put(name, value, row, where)
        self.row_of[checked_id] = row
        self._ids.append(checked_id)
        self._texts.append(checked_text)
        self._places.append(place)

    def skip(self, row_id: object, place: int) -> None:
        """Leave a row out, and remember its id."""
        self._skipped.append(check_id(self.id_argument, row_id, self.where(place)))

    def finish(self) -> Columns:
        """Fix the rows and drop what only building needs."""
        self.ids, self.texts = tuple(self._ids), tuple(self._texts)
        self.skipped_ids = tuple(self._skipped)
        self._ids, self._texts, self._places, self._shared = [], [], array("q"), {}
        return self

    def row(self, argument: str, row_id: object, unit: str) -> int:
        """Give the row of an id; an unknown one is an `InputError`, never a `KeyError`."""
        row = self.row_of.get(row_id) if isinstance(row_id, str) else None
        if row is None:
            expected = f"the id of one of {len(self)} {unit}"
            raise InputError(argument, expected, f"unknown {described(row_id)}")
        return row

    def value(self, name: str, row: int) -> object:
        """Give a field of a row, or None."""
        column = self.fields.get(name, ())
        return column[row] if row < len(column) else None

    def column(self, name: str) -> tuple[object, ...]:
        """Give a field of all rows, None where it is absent."""
        column = self.fields[name]
        return (*column, *[None] * (len(self) - len(column)))

    def present(self, row: int) -> dict[str, object]:
        """Give the fields that a row has."""
        pairs = ((name, self.value(name, row)) for name in self.fields)
        return {name: value for name, value in pairs if value is not None}

    def copy(self) -> Columns:
        """Copy the lists, not the texts, so that rows can be added."""
        copy = Columns(self.id_argument)
        copy._ids, copy._texts = list(self.ids), list(self.texts)
        copy.row_of = dict(self.row_of)
        copy.fields = {name: list(column) for name, column in self.fields.items()}
        copy._places = array("q", range(len(self.ids)))
        return copy

    def same_as(self, other: Columns) -> bool:
        """Tell whether ids, texts and fields are equal, in order."""
        return (
            self.ids == other.ids
            and self.texts == other.texts
            and self.fields.keys() == other.fields.keys()
            and all(self.column(name) == other.column(name) for name in self.fields)
        )

    def _put(self, name: str, value: object, row: int, where: str) -> None:
        if isinstance(value, str) and len(value) <= 64:
            # Sources, authors and dates repeat; each is kept once.
            value = self._shared.setdefault(value, value)
        column = self.fields.get(name)
        if column is None:
            if len(self.fields) == MAX_FIELDS:
                found = f"{name!r} as one more"
                raise InputError("fields", f"at most {MAX_FIELDS} different fields", found, where)
            column = self.fields[name] = []
        column.extend([None] * (row - len(column)))
        column.append(value)


def check_id(argument: str, value: object, where: str | None) -> str:
    """Check an id: printable text without blanks at its ends (ids go into tab-separated files)."""
    if not isinstance(value, str):
        raise InputError(argument, "an id that is a text", described(value), where)
    if not value or value != value.strip() or not _is_one_line(value):
        expected = "an id without control characters, line ends or blanks at its ends"
        raise InputError(argument, expected, described(value), where)
    return _validate.text(argument, value, where)


def check_time(argument: str, value: object, where: str | None) -> None:
    """Check a date or time in ISO 8601, from a year to a time with offset."""
    expected = "a date or time in ISO 8601, like '2026-11-30' or '2026-11-30T09:15:00Z'"
    if not isinstance(value, str) or not _ISO_8601.fullmatch(value):
        raise InputError(argument, expected, described(value), where)
    try:
        moment(value)
    except ValueError as error:
        raise InputError(argument, expected, f"{value!r}: {error}", where) from None


def _check_field(name: str, value: object, where: str) -> None:
    if name in ("title", "source", "author"):
        if not isinstance(value, str):
            raise InputError(name, "a text", described(value), where)
        _check_unicode(name, value, where)
    elif name == "tier":
        if isinstance(value, bool) or value not in TIERS or not isinstance(value, int):
            raise InputError("tier", "1, 2 or 3", described(value), where)
    elif name == "time":
        check_time("time", value, where)
    else:
        _check_unicode("fields", name, where)
        for part in _parts(name, value, where):
            _check_unicode(name, part, where)


def _parts(name: str, value: object, where: str) -> Iterator[str]:
    """Give the texts within a value; refuse what JSON cannot hold."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InputError(name, "an object whose keys are texts", described(key), where)
            yield key
            yield from _parts(name, item, where)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _parts(name, item, where)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(name, "a finite number", repr(value), where)
    elif not (value is None or isinstance(value, bool | int | float)):
        found = type(value).__name__
        raise InputError(name, "a value that JSON can hold", found, where)


def _check_unicode(name: str, value: str, where: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        found = f"a lone surrogate {value[error.start]!r} at character {error.start}"
        raise InputError(name, "valid Unicode", found, where) from None


def _is_one_line(value: str) -> bool:
    return _CONTROL_OR_LINE_END.search(value) is None
