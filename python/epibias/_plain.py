"""Values on their way to JSON and into messages.

Owns two promises: numbers come back from JSON as they were, and a message tells enough to find the
fault but never a vector or a whole text (both are private, and messages end up in logs).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sized
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

import numpy as np

from epibias._validate import Float32Array
from epibias.errors import InputError

LONGEST_SHOWN = 60
_NAMES = ("key", "name", "kind")  # what a table of settings is called by


def described(value: object) -> str:
    """Describe a value: itself if it is a short text, a number or None; else type and length.

    Examples
    --------
    >>> described("top"), described(3), described([0.25] * 384), described({"a": 1})
    ("'top'", '3', 'list of length 384', 'dict of length 1')
    """
    if value is None or isinstance(value, bool | int | float | str):
        # An endless integer cannot even be turned into text.
        is_short = not isinstance(value, int) or value.bit_length() <= 64
        text = repr(value) if is_short else "an integer of more than 64 bits"
        if len(text) <= LONGEST_SHOWN:
            return text
    kind = type(value).__name__
    return f"{kind} of length {len(value)}" if isinstance(value, Sized) else kind


def first_difference(
    recorded: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = ""
) -> tuple[str, Any, Any] | None:
    """First field, by dotted name, in which two settings differ, with both values.

    Lists of the same length are compared place by place.

    Examples
    --------
    >>> first_difference({"k": 5, "encoder": {"dim": 3}}, {"k": 5, "encoder": {"dim": 4}})
    ('encoder.dim', 3, 4)
    >>> first_difference({"defense": [{"k": 5}, {"k": 5}]}, {"defense": [{"k": 5}, {"k": 6}]})
    ('defense[1].k', 5, 6)
    """
    for name in dict.fromkeys([*wanted, *recorded]):
        label = f"{prefix}{name}"
        if name not in recorded or name not in wanted:
            return label, recorded.get(name, "nothing"), wanted.get(name, "nothing")
        found = _difference(label, recorded[name], wanted[name])
        if found is not None:
            return found
    return None


def _difference(label: str, old: Any, new: Any) -> tuple[str, Any, Any] | None:  # noqa: ANN401
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return first_difference(old, new, f"{label}.")
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        inner = (_difference(f"{label}[{place}]", *pair) for place, pair in pairs)
        return next((one for one in inner if one is not None), None)
    return None if old == new else (label, old, new)


def outlined(value: object) -> str:
    """Describe a setting in a message: tables by their names, never by all that is in them.

    Examples
    --------
    >>> outlined([{"key": "none", "k": 5}, {"key": "mmr", "k": 5}]), outlined({"k": 5, "seed": 0})
    ('2: none, mmr', 'a table of k, seed')
    >>> outlined([1, 5]), outlined("nothing"), outlined(list(range(99)))
    ('[1, 5]', "'nothing'", 'list of length 99')
    """
    if isinstance(value, Mapping):
        keys = ", ".join(map(str, value))
        return f"a table of {keys}" if len(keys) <= LONGEST_SHOWN else described(value)
    if isinstance(value, list | tuple):
        if value and all(isinstance(one, Mapping) for one in value):
            names = [next((str(one[n]) for n in _NAMES if one.get(n)), "a table") for one in value]
            return f"{len(value)}: {', '.join(names)}"
        shown = repr(value)
        is_plain = not any(isinstance(one, Mapping | list) for one in value)
        return shown if is_plain and len(shown) <= LONGEST_SHOWN else described(value)
    return described(value)


def finite_or_none(value: Any) -> float | None:  # noqa: ANN401  any number, or None
    """Give a number as a float; None where it is not finite, or is None.

    Examples
    --------
    >>> finite_or_none(np.float64(0.5)), finite_or_none(float("nan")), finite_or_none(None)
    (0.5, None, None)
    """
    return None if value is None or not np.isfinite(value) else float(value)


@lru_cache(maxsize=4096)  # passages were often written on the same few days
def moment(time: str) -> datetime:
    """Read a date or time in ISO 8601, from a year to a time with offset: its first moment.

    One without an offset is taken for UTC.

    Raises
    ------
    ValueError
        It is none.

    Examples
    --------
    >>> moment("2026-01-31T01:00:00+02:00") < moment("2026-01-31") < moment("2026-01-31T00:00:01Z")
    True
    >>> moment("2026-02").isoformat(), moment("2026-02-01T09:15:00.5Z").microsecond
    ('2026-02-01T00:00:00+00:00', 500000)
    """
    day, clock = time[:10], time[11:].replace("Z", "+00:00")
    if len(day) < 10:
        day += "-01-01"[len(day) - 4 :]
    # Python 3.10 reads neither Z nor a fraction of other than 3 or 6 digits.
    clock = re.sub(r"[.](\d+)", lambda found: f".{found[1]:0<6}"[:7], clock)
    read = datetime.fromisoformat(f"{day}T{clock}" if clock else day)
    return read if read.tzinfo is not None else read.replace(tzinfo=timezone.utc)


def shortest(value: np.float32 | float) -> float | None:
    """Give the shortest decimal that reads back as this float32; None where it is not finite.

    Examples
    --------
    >>> shortest(np.float32(0.1)), float(np.float32(0.1))
    (0.1, 0.10000000149011612)
    """
    return float(str(np.float32(value))) if np.isfinite(value) else None


def vector_of_json(argument: str, values: object, where: str | None = None) -> Float32Array:
    """Read a vector, float32 `[dim]`: a list of finite numbers, not all zero.

    Raises
    ------
    InputError
        The place of the first value that is no number or does not fit in float32.

    Examples
    --------
    >>> vector_of_json("vector", [1, 0.5])
    array([1. , 0.5], dtype=float32)
    """
    if not isinstance(values, list):
        raise InputError(argument, "a list of numbers", described(values), where)
    if not values:
        raise InputError(argument, "at least one number", "an empty list", where)
    for place, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | float):
            found = f"{type(value).__name__} at place {place}"
            raise InputError(argument, "a list of numbers", found, where)
    with np.errstate(over="ignore"):
        row = np.array([_as_float(value) for value in values]).astype(np.float32)
    if not np.isfinite(row).all():
        place = int(np.flatnonzero(~np.isfinite(row))[0])
        raise InputError(argument, "finite float32 numbers", f"another at place {place}", where)
    if not row.any():
        raise InputError(argument, "a vector that is not zero", "zeros", where)
    return row


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond every float
        return float("inf")
