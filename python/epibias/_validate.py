"""The one door for checks of arguments.

Takes what a caller passed; gives it back unchanged, or raises `InputError` with argument,
expected and got. Nothing is cast or copied here. `sealed` closes the door behind a result.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epibias._frameworks import kind_of, to_cpu_call
from epibias.errors import InputError, MissingExtraError, RowError

Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
Int64Array = NDArray[np.int64]

LONGEST_SHOWN = 400  # characters of a wrong value in a message
MAX_INT64 = 2**63 - 1  # what arrays and the core can hold


def array(
    argument: str, value: object, *, dtype: type[np.generic], ndim: int | tuple[int, ...]
) -> NDArray[Any]:
    """Check that `value` is a C-contiguous array of exactly this dtype and number of dimensions."""
    if (  # most arrays are right, and one query's candidates take less time than the texts below
        type(value) is np.ndarray
        and value.dtype == dtype
        and (value.ndim == ndim if isinstance(ndim, int) else value.ndim in ndim)
        and value.flags.c_contiguous
    ):
        return value
    allowed = (ndim,) if isinstance(ndim, int) else ndim
    wanted = np.dtype(dtype)
    name = wanted.name
    shape_text = " or ".join(f"{n}-d" for n in allowed)
    if not isinstance(value, np.ndarray):
        fix = to_cpu_call(value)
        expected = f"a numpy array, {shape_text} {name}{fix and f'; {fix}'}"
        raise InputError(argument, expected, kind_of(value))
    unmasked(argument, value)
    if value.dtype != wanted:
        fix = f"call {argument}.astype(np.{name})"
        raise InputError(argument, f"dtype {name}; {fix}", f"dtype {value.dtype}")
    if value.ndim not in allowed:
        raise InputError(argument, f"a {shape_text} array", f"shape {value.shape}")
    if not value.flags.c_contiguous:
        fix = f"call np.ascontiguousarray({argument})"
        raise InputError(argument, f"a C-contiguous array; {fix}", f"strides {value.strides}")
    return value


def unmasked(argument: str, value: object, where: str | None = None) -> None:
    """Refuse a masked array: nothing here reads masks, so what is masked out would count."""
    if isinstance(value, np.ma.MaskedArray):
        expected = f"an array without a mask; leave the masked rows out, or call {argument}.filled"
        raise InputError(argument, expected, "a masked array", where)


def integer(
    argument: str, value: object, *, low: int | None = None, high: int | None = None, note: str = ""
) -> int:
    """Check an integer within `[low, high]` and of 64 bits; `bool` is not an integer here."""
    bounds = _bounds_text(low, high)
    expected = f"an integer{bounds}{f' ({note})' if note else ''}"
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(argument, expected, _shown(value))
    number = int(value)
    if (low is not None and number < low) or (high is not None and number > high):
        raise InputError(argument, expected, _shown(number))
    if not -MAX_INT64 - 1 <= number <= MAX_INT64:
        raise InputError(argument, f"{expected} that fits in 64 bits", _shown(number))
    return number


def number(
    argument: str,
    value: object,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    where: str | None = None,
) -> float:
    """Check a finite real number within `[low, high]`, strictly above `above` and below `below`."""
    expected = f"a finite number{_bounds_text(low, high, above, below)}"
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(argument, expected, _shown(value), where)
    try:
        real = float(value)
    except OverflowError:  # an integer beyond every float
        real = float("inf")
    inside = (
        np.isfinite(real)
        and (low is None or real >= low)
        and (high is None or real <= high)
        and (above is None or real > above)
        and (below is None or real < below)
    )
    if not inside:
        raise InputError(argument, expected, _shown(value), where)
    return real


def integers_of(record: object, **lows: int) -> None:
    """Check the integers of a frozen dataclass against their least values, and make them plain."""
    for name, low in lows.items():
        object.__setattr__(record, name, integer(name, getattr(record, name), low=low))


def numbers_of(record: object, **bounds: Mapping[str, Any]) -> None:
    """Check the numbers of a frozen dataclass within their bounds, and make them plain floats."""
    for name, bound in bounds.items():
        object.__setattr__(record, name, number(name, getattr(record, name), **bound))


def flag(argument: str, value: object) -> bool:
    """Check a truth value: "no", 0 and None are none."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(argument, "True or False", _shown(value))
    return bool(value)


def finite(
    argument: str, values: NDArray[Any], where: str | None = None, *, or_nan: bool = False
) -> NDArray[Any]:
    """Check that no value is NaN or infinite; the message names the first place, in row order.

    With `or_nan` a NaN is welcome: it marks a value that is missing.
    """
    wrong = np.isinf(values) if or_nan else ~np.isfinite(values)
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        pairs = zip(("row", "column"), place, strict=False)
        named = ", ".join(f"{name} {i}" for name, i in pairs)
        found = named if len(place) <= 2 else f"place {place}"
        context = ", ".join(part for part in (where, found) if part)
        expected = "finite values, or NaN" if or_nan else "finite values"
        raise InputError(argument, expected, str(values[place]), context)
    return values


def row(argument: str, value: object, n_rows: int) -> int:
    """Check the number of one of `n_rows` rows; a negative one counts from the end."""
    number = integer(argument, value)
    if not -n_rows <= number < n_rows:
        expected = f"0 to {n_rows - 1}" if n_rows else "no number, for there are no rows"
        raise RowError(argument, expected, str(number))
    return number % n_rows


def choice(argument: str, value: object, options: Sequence[str]) -> str:
    """Check that `value` is one of `options`."""
    if not isinstance(value, str) or value not in options:
        raise InputError(argument, " or ".join(repr(o) for o in options), _shown(value))
    return str(value)


def text(argument: str, value: object, where: str | None = None) -> str:
    """Check a text that an encoder can take: a non-blank string without lone surrogates."""
    if not isinstance(value, str):
        raise InputError(argument, "a text", type(value).__name__, where)
    if not value.strip():
        raise InputError(argument, "a text that is not blank", repr(value[:40]), where)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        found = f"a lone surrogate {value[error.start]!r} at character {error.start}"
        raise InputError(argument, "valid Unicode", found, where) from None
    return value


def unique(argument: str, values: Iterable[str], where: str | None = None) -> None:
    """Check that no id stands twice."""
    seen: dict[str, int] = {}
    for row, value in enumerate(values):
        if value in seen:
            found = f"{value!r} in rows {seen[value]} and {row}"
            raise InputError(argument, "each id once", found, where)
        seen[value] = row


def same_length(argument: str, got: int, other: str, expected: int) -> None:
    """Check that two arguments have as many rows."""
    if got != expected:
        raise InputError(argument, f"{expected} rows, as many as {other}", str(got))


def sealed(*arrays: NDArray[Any] | None) -> None:
    """Let nobody write to arrays that were just made for a result which does not change."""
    for one in arrays:
        if one is not None:
            one.setflags(write=False)


def extra(argument: str, package: str, extra_name: str) -> ModuleType:
    """Import `package`, or say which extra brings it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name is not None and package.split(".")[0] == error.name.split(".")[0]:
            raise MissingExtraError(argument, package, extra_name) from None
        raise


def _bounds_text(
    low: float | None,
    high: float | None,
    above: float | None = None,
    below: float | None = None,
) -> str:
    if low is not None and high is not None:
        return f" from {_short(low)} to {_short(high)}"
    named = (("at least", low), (">", above), ("at most", high), ("below", below))
    parts = [f"{words} {_short(bound)}" for words, bound in named if bound is not None]
    of = "of " if parts and parts[0].startswith("at ") else ""
    return f" {of}{' and '.join(parts)}" if parts else ""


def _shown(value: object) -> str:
    """Show a value in a message: not the numbers of an array, nor an integer without end."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    # Python refuses to write very long integers out.
    if isinstance(value, int) and value.bit_length() > 1024:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _short(bound: float) -> str:
    return f"{bound:g}" if isinstance(bound, float) else str(bound)
