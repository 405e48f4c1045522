"""Candidates that are new since the last trusted version: how many of them are honest, by chance.

Owns the reading of times, and what a share of honest newcomers explains: their number in a pool and
in a selection, and how far they move a mean score. Who is new is told by times here, by a memory in
`clean_memory.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epibias._plain import described, moment
from epibias.errors import InputError

BoolArray = NDArray[np.bool_]

RISK = 0.05  # that honest newcomers are more than is allowed
ROUNDING = 1e-9  # of a probability


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


@lru_cache(maxsize=4096)
def most_honest(n: int, share: float) -> int:
    """Return how many of `n` candidates may be new by chance.

    The least number that honest newcomers exceed with a probability of at most `RISK`, where each
    candidate is one with probability `share`, independently: a quantile of the binomial
    distribution.

    Parameters
    ----------
    n : int
        At least 0.
    share : float
        In [0, 1].

    Returns
    -------
    int

    Examples
    --------
    >>> most_honest(20, 0.1), most_honest(5, 0.1), most_honest(20, 0.0), most_honest(20, 1.0)
    (4, 2, 0, 20)
    """
    if share in (0.0, 1.0):
        return round(n * share)
    held = 0.0
    for count in range(n):
        # Logarithms: of a thousand candidates on the number of choices is no float any more.
        choices = math.lgamma(n + 1) - math.lgamma(count + 1) - math.lgamma(n - count + 1)
        held += math.exp(choices + count * math.log(share) + (n - count) * math.log1p(-share))
        if held >= 1 - RISK - ROUNDING:
            return count
    return n


def honest_drift(k: int, share: float) -> float:
    """Return how far honest newcomers move the mean score of `k` passages, in spreads.

    Each of the `k` is replaced with probability `share` by one of the same distribution: the mean
    moves by 0 on average, with a standard deviation of √(2 · share / k) spreads; this is two. As
    few are replaced, or none, .05 to .08 of such selections move further.

    Parameters
    ----------
    k : int
    share : float

    Returns
    -------
    float

    Examples
    --------
    >>> honest_drift(5, 0.1)
    0.4
    """
    return 2.0 * math.sqrt(2.0 * share / k)
