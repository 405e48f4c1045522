"""Sizes and numbers of things as people write them: `2GiB`, `15 GB`, `1e7`."""

from __future__ import annotations

import math
import re

from epibias.errors import InputError

_UNITS = {
    "": 1,
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("kMGT", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
}
_BY_NAME = {name.lower(): factor for name, factor in _UNITS.items()}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def bytes_of(argument: str, text: str) -> int:
    """Read a size, in bytes.

    Raises
    ------
    InputError
        Not a number with a unit or without; 0, or 4 EiB and more.

    Examples
    --------
    >>> bytes_of("size", "2GiB"), bytes_of("size", "1.5 GB"), bytes_of("size", "4096")
    (2147483648, 1500000000, 4096)
    """
    found = _SIZE.fullmatch(text.strip())
    factor = None if found is None else _BY_NAME.get(found[2].lower())
    if found is None or factor is None:
        raise InputError(argument, "a size such as 2GiB, 500MB or 4096", repr(text))
    size = int(float(found[1]) * factor)
    if not 0 < size < 2**62:
        raise InputError(argument, "a size above 0 and below 4 EiB", repr(text))
    return size


def size_text(n_bytes: float) -> str:
    """Write a size for people, in binary units.

    Examples
    --------
    >>> size_text(2 * 1024**3), size_text(100), size_text(1.5 * 1024**2)
    ('2 GiB', '100 B', '1.5 MiB')
    """
    power = 0 if n_bytes < 1024 else min(4, int(math.log(n_bytes, 1024)))
    value = n_bytes / 1024**power
    return f"{value:.0f} B" if power == 0 else f"{value:.3g} {'KMGT'[power - 1]}iB"


def counts_of(argument: str, text: str) -> list[int]:
    """Read numbers of things between commas; `1e6` is as good as 1000000.

    Raises
    ------
    InputError
        As `count_of`.

    Examples
    --------
    >>> counts_of("points", "1e6, 2000000")
    [1000000, 2000000]
    """
    return [count_of(argument, part) for part in text.split(",")]


def count_of(argument: str, text: str) -> int:
    """Read one number of things, above 0.

    Raises
    ------
    InputError
        Not a whole number from 1 to 2⁵³ − 1.

    Examples
    --------
    >>> count_of("passages", "2.5e6")
    2500000
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 1 and value == int(value) and value < 2**53):
        raise InputError(argument, "a whole number above 0, such as 200000 or 2e5", repr(text))
    return int(value)
