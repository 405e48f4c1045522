"""Means over queries with bootstrap intervals, and distributions over queries.

A query gives one value, so the bootstrap resamples queries. NaN marks a query that failed or for
which the measure is not defined: it is counted and listed, never averaged away in silence.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epibias import _validate
from epibias._validate import Float64Array
from epibias.errors import InputError


@dataclass(frozen=True)
class Interval:
    """A mean over queries and where it may lie.

    Attributes
    ----------
    mean : float
        NaN when there is no value.
    low, high : float
        Ends of the interval; NaN when fewer than two queries have a value.
    n : int
        Queries with a value.
    failed : tuple of int
        Rows of the queries without one.
    level : float
        Coverage asked for.

    Examples
    --------
    >>> bootstrap_interval([0.0, 0.2, 0.4, float("nan")]).failed
    (3,)
    """

    mean: float
    low: float
    high: float
    n: int
    failed: tuple[int, ...] = ()
    level: float = 0.95

    @property
    def n_failed(self) -> int:
        """Queries without a value."""
        return len(self.failed)


@dataclass(frozen=True, eq=False)
class Distribution:
    """Empirical distribution of one value a query: share of queries at or below each value.

    Attributes
    ----------
    values, shares : float64 [n_distinct]
        Ascending; the last share is 1.
    n : int
        Queries with a value.
    failed : tuple of int
        Rows of the queries without one.

    Examples
    --------
    >>> distribution([0.2, 0.0, 0.0, 0.4]).shares
    array([0.5 , 0.75, 1.  ])
    """

    values: Float64Array
    shares: Float64Array
    n: int
    failed: tuple[int, ...] = ()


def bootstrap_interval(
    values: Sequence[float] | Float64Array,
    *,
    level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Mean over queries with its percentile bootstrap interval.

    Parameters
    ----------
    values : sequence of float [n_queries]
        NaN for a query that failed.
    level : float
        Coverage, in (0, 1).
    n_resamples, seed : int
        The same values, resamples and seed give the same interval.

    Returns
    -------
    Interval
        Width 0 when all values are equal; NaN ends when there are fewer than two.

    Raises
    ------
    InputError
        Values that are not 1-d, an infinite one, an option out of range.

    References
    ----------
    Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 13.

    Examples
    --------
    >>> interval = bootstrap_interval([0.0, 0.2, 0.4, 0.2])
    >>> round(interval.mean, 3), interval.low < 0.2 < interval.high
    (0.2, True)
    """
    level = _validate.number("level", level, low=0, high=1)
    n_resamples = _validate.integer("n_resamples", n_resamples, low=1)
    seed = _validate.integer("seed", seed, low=0)
    finite, failed = _split(values)
    n = len(finite)
    nan = float("nan")
    if n == 0:
        return Interval(nan, nan, nan, 0, failed, level)
    mean = float(finite.mean())
    if n == 1:
        return Interval(mean, nan, nan, 1, failed, level)
    if np.ptp(finite) == 0:  # every resample has this mean; scipy would warn of it
        mean = float(finite[0])
        return Interval(mean, mean, mean, n, failed, level)
    from scipy.stats import bootstrap

    generator = np.random.default_rng(seed)
    # scipy 1.15 renamed the argument.
    name = "rng" if "rng" in inspect.signature(bootstrap).parameters else "random_state"
    found = bootstrap(
        (finite,),
        np.mean,
        n_resamples=n_resamples,
        confidence_level=level,
        method="percentile",
        **{name: generator},
    ).confidence_interval
    return Interval(mean, float(found.low), float(found.high), n, failed, level)


def distribution(values: Sequence[float] | Float64Array) -> Distribution:
    """Share of queries at or below each value that occurs.

    Parameters
    ----------
    values : sequence of float [n_queries]
        NaN for a query that failed.

    Returns
    -------
    Distribution

    Raises
    ------
    InputError
        Values that are not 1-d, an infinite one.

    Examples
    --------
    >>> distribution([0.2, 0.0]).values
    array([0. , 0.2])
    """
    finite, failed = _split(values)
    distinct, counts = np.unique(finite, return_counts=True)
    shares = np.cumsum(counts) / max(len(finite), 1)
    return Distribution(distinct, shares, len(finite), failed)


def _split(values: Sequence[float] | Float64Array) -> tuple[Float64Array, tuple[int, ...]]:
    array = np.asarray(values, np.float64)
    if array.ndim != 1:
        raise InputError("values", "one number a query", f"shape {array.shape}")
    for row in np.flatnonzero(np.isinf(array))[:1]:
        raise InputError("values", "finite numbers, or NaN", str(array[row]), f"row {row}")
    missing = np.isnan(array)
    return array[~missing], tuple(np.flatnonzero(missing).tolist())
