"""Candidates that came after the last trusted version: which of them a selection may take.

Owns the reading of a pool's times and sources and the two rules on newcomers. In: one query's
values in the pool's order. Out: masks. Without times nothing is known, and nothing is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epibias._validate import Float64Array
from epibias.errors import InputError

BoolArray = NDArray[np.bool_]


def newcomers(times: Sequence[Any], trusted_until: str) -> BoolArray:
    """Tell which passages are not known to be from `trusted_until` or before.

    Parameters
    ----------
    times : sequence of str or None [n]
        ISO 8601, all of one form, so that their order is that of the texts. None: not known.
    trusted_until : str
        The same form.

    Returns
    -------
    bool [n]

    Raises
    ------
    InputError
        A time that is neither a text nor None.

    Examples
    --------
    >>> newcomers(["2026-01-02", None, "2026-03-01"], "2026-02-01")
    array([False,  True,  True])
    """
    for row, time in enumerate(times):
        if not (time is None or isinstance(time, str)):
            expected = "ISO 8601 texts or None"
            raise InputError("metadata['time']", expected, type(time).__name__, f"row {row}")
    return np.array([time is None or time > trusted_until for time in times], np.bool_)


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
