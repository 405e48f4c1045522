"""The one door for checks of arguments.

Takes what a caller passed; gives it back unchanged, or raises `InputError` with argument,
expected and got. Nothing is cast or copied here.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epibias.errors import InputError, MissingExtraError, RowError

Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
Int64Array = NDArray[np.int64]


def array(
    argument: str, value: object, *, dtype: type[np.generic], ndim: int | tuple[int, ...]
) -> NDArray[Any]:
    """Check that `value` is a C-contiguous array of exactly this dtype and number of dimensions."""
    allowed = (ndim,) if isinstance(ndim, int) else ndim
    name = np.dtype(dtype).name
    shape_text = " or ".join(f"{n}-d" for n in allowed)
    if not isinstance(value, np.ndarray):
        raise InputError(argument, f"a numpy array, {shape_text} {name}", type(value).__name__)
    if value.dtype != np.dtype(dtype):
        fix = f"call {argument}.astype(np.{name})"
        raise InputError(argument, f"dtype {name}; {fix}", f"dtype {value.dtype}")
    if value.ndim not in allowed:
        raise InputError(argument, f"a {shape_text} array", f"shape {value.shape}")
    if not value.flags.c_contiguous:
        fix = f"call np.ascontiguousarray({argument})"
        raise InputError(argument, f"a C-contiguous array; {fix}", f"strides {value.strides}")
    return value


def integer(
    argument: str, value: object, *, low: int | None = None, high: int | None = None, note: str = ""
) -> int:
    """Check an integer within `[low, high]`; `bool` is not an integer here."""
    bounds = _bounds_text(low, high)
    expected = f"an integer{bounds}{f' ({note})' if note else ''}"
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(argument, expected, repr(value))
    number = int(value)
    if (low is not None and number < low) or (high is not None and number > high):
        raise InputError(argument, expected, str(number))
    return number


def number(
    argument: str,
    value: object,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
) -> float:
    """Check a finite real number within `[low, high]`, or strictly above `above`."""
    bounds = f" > {above}" if above is not None else _bounds_text(low, high)
    expected = f"a finite number{bounds}"
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(argument, expected, repr(value))
    real = float(value)
    inside = (
        np.isfinite(real)
        and (low is None or real >= low)
        and (high is None or real <= high)
        and (above is None or real > above)
    )
    if not inside:
        raise InputError(argument, expected, repr(value))
    return real


def row(argument: str, value: object, n_rows: int) -> int:
    """Check the number of one of `n_rows` rows; a negative one counts from the end."""
    number = integer(argument, value)
    if not -n_rows <= number < n_rows:
        expected = f"0 to {n_rows - 1}" if n_rows else "no number, for there are no rows"
        raise RowError(argument, expected, str(number))
    return number % n_rows


def choice(argument: str, value: object, options: Sequence[str]) -> str:
    """Check that `value` is one of `options`."""
    if value not in options:
        raise InputError(argument, " or ".join(repr(o) for o in options), repr(value))
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


def extra(argument: str, package: str, extra_name: str) -> ModuleType:
    """Import `package`, or say which extra brings it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name is not None and package.split(".")[0] == error.name.split(".")[0]:
            raise MissingExtraError(argument, package, extra_name) from None
        raise


def _bounds_text(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if low is not None:
        return f" of at least {low}"
    if high is not None:
        return f" of at most {high}"
    return ""
