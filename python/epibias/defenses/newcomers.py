"""Candidates that came after the last trusted version: which of them a selection may take.

Owns the reading of a pool's times and sources and the two rules on newcomers. In: one query's
values in the pool's order. Out: masks. Without times nothing is known, and nothing is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epibias._plain import described, moment
from epibias._validate import Float64Array
from epibias.errors import InputError

BoolArray = NDArray[np.bool_]


def newcomers(times: Sequence[Any], trusted_until: str) -> BoolArray:
    """Tell which passages are not known to be from `trusted_until` or before.

    Parameters
    ----------
    times : sequence of str or None [n]
        ISO 8601; a day is its beginning, a time without a zone is UTC. None: not known.
    trusted_until : str
        The same.

    Returns
    -------
    bool [n]

    Raises
    ------
    InputError
        A time that is neither None nor ISO 8601.

    Examples
    --------
    >>> newcomers(["2026-01-02", None, "2026-03-01"], "2026-02-01")
    array([False,  True,  True])
    """
    last = _read(trusted_until, "trusted_until", None)
    read = [
        None if time is None else _read(time, "metadata['time']", f"row {row}")
        for row, time in enumerate(times)
    ]
    return np.array([time is None or time > last for time in read], np.bool_)


def _read(time: object, argument: str, where: str | None) -> datetime:
    expected = "a time, ISO 8601, or None"
    if not isinstance(time, str):
        raise InputError(argument, expected, type(time).__name__, where)
    try:
        return moment(time)
    except ValueError:
        raise InputError(argument, expected, described(time), where) from None


def admitted(
    new: BoolArray,
    similarities: Float64Array,
    sources: Sequence[Any] | None,
    *,
    most: int,
    per_source: int | None,
) -> BoolArray:
    """Tell which candidates may be selected as far as their origin goes.

    No newcomer may, where there are more than `most` in the pool: a wave. Of the others none may
    that is more similar to the question than every trusted candidate, and of one source only the
    `per_source` most similar.

    Parameters
    ----------
    new : bool [n]
    similarities : float64 [n]
        In the pool's order.
    sources : sequence [n], optional
    most : int
    per_source : int, optional

    Returns
    -------
    bool [n]

    Examples
    --------
    >>> new = np.array([True, False, True, True])
    >>> admitted(new, np.array([0.9, 0.8, 0.7, 0.6]), ["a", "b", "c", "c"], most=3, per_source=1)
    array([False,  True,  True, False])
    """
    if int(new.sum()) > most:
        return ~new
    trusted = similarities[~new]
    best = trusted.max() if len(trusted) else -np.inf
    may = ~(new & (similarities > best))
    if per_source is not None and sources is not None:
        taken: dict[Any, int] = {}
        for place in np.flatnonzero(new & may).tolist():
            count = taken.get(sources[place], 0)
            may[place] = count < per_source
            taken[sources[place]] = count + 1
    return may
