"""Means over queries with bootstrap intervals, and distributions over queries.

A query gives one value, so the bootstrap resamples queries. NaN marks a query that failed or for
which the measure is not defined: it is counted and listed, never averaged away in silence.

The bootstrap of means and ratios. Resample r draws row numbers of the queries with a value from
PCG64(seed), in the order in which the queries were given: the same queries in the same order give
the same interval, in any run and whatever else is computed beside it. Another order of the queries
is another draw, so give them in one fixed order, not in that in which they were finished.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from epibias import _validate
from epibias._plain import finite_or_none
from epibias._validate import Float64Array, Int64Array
from epibias.errors import InputError

_DRAWS_AT_ONCE = 1 << 22  # row numbers in memory; the stream of draws does not depend on it


@dataclass(frozen=True)
class Interval:
    """A mean over queries, or a ratio of two, and where it may lie.

    Attributes
    ----------
    mean : float
        NaN when there is no value. Of a ratio: see `ratio_interval`.
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

    def plain(self) -> dict[str, float | int | None]:
        """Give mean, ends and n as plain values for JSON; None for what there is not.

        Examples
        --------
        >>> bootstrap_interval([0.5]).plain()
        {'mean': 0.5, 'low': None, 'high': None, 'n': 1}
        """
        ends = {"mean": self.mean, "low": self.low, "high": self.high}
        return {**{name: finite_or_none(end) for name, end in ends.items()}, "n": self.n}


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
    finite, failed = _split("values", values)

    def means(rows: Int64Array) -> Float64Array:
        return np.asarray(finite[rows].mean(axis=-1))

    is_constant = len(finite) > 0 and np.ptp(finite) == 0
    mean = float(finite[0] if is_constant else finite.mean()) if len(finite) else float("nan")
    return _interval(mean, means, len(finite), failed, is_constant, level, n_resamples, seed)


def ratio_interval(
    numerators: Sequence[float] | Float64Array,
    denominators: Sequence[float] | Float64Array,
    *,
    level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Mean of the numerators over mean of the denominators, with its percentile interval.

    Queries are resampled, both values of a query together.

    Parameters
    ----------
    numerators, denominators : sequence of float [n_queries]
        One value a query in the same order, none negative; NaN for a query that failed, in either.
    level : float
        Coverage, in (0, 1).
    n_resamples, seed : int
        The same values, resamples and seed give the same interval.

    Returns
    -------
    Interval
        `mean` is the ratio, by the rule of `ratio`. The ends are NaN when fewer than two queries
        have both values, and when some resample has denominators of 0 only: no end can be given.

    Raises
    ------
    InputError
        Sequences that are not 1-d or differ in length, an infinite or negative value, an option
        out of range.

    References
    ----------
    Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 13.

    Examples
    --------
    >>> interval = ratio_interval([0.2, 0.0, 0.2], [0.4, 0.4, 0.8])
    >>> round(interval.mean, 3), interval.low < 0.25 < interval.high
    (0.25, True)
    """
    above, below = _numbers("numerators", numerators), _numbers("denominators", denominators)
    _validate.same_length("denominators", len(below), "numerators", len(above))
    for name, values in (("numerators", above), ("denominators", below)):
        for row in np.flatnonzero(values < 0)[:1]:
            raise InputError(name, "values of at least 0", str(values[row]), f"row {row}")
    missing = np.isnan(above) | np.isnan(below)
    above, below = above[~missing], below[~missing]

    def ratios(rows: Int64Array) -> Float64Array:
        dividends, divisors = above[rows].mean(axis=-1), below[rows].mean(axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = dividends / divisors
        return np.asarray(np.where(divisors > 0, found, np.nan))

    n = len(above)
    value = ratio(float(above.mean()), float(below.mean())) if n else float("nan")
    is_constant = n > 0 and bool(np.ptp(above) == 0 and np.ptp(below) == 0 and below[0] > 0)
    if is_constant:
        value = ratio(float(above[0]), float(below[0]))
    failed = tuple(np.flatnonzero(missing).tolist())
    return _interval(value, ratios, n, failed, is_constant, level, n_resamples, seed)


def ratio(above: float, below: float) -> float:
    """`above / below`; over 0 it is +inf, and NaN for 0 over 0.

    Parameters
    ----------
    above, below : float
        Not negative.

    Returns
    -------
    float

    Examples
    --------
    >>> ratio(0.1, 0.4), ratio(0.1, 0.0), ratio(0.0, 0.0)
    (0.25, inf, nan)
    """
    if below == 0:
        return float("inf") if above > 0 else float("nan")
    return above / below


def interval_of(
    value: float,
    statistic: Callable[..., Float64Array],
    sizes: Sequence[int],
    *,
    level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
    least_defined: float = 1.0,
) -> Interval:
    """Percentile interval of any statistic of one or more groups, each resampled within itself.

    Parameters
    ----------
    value : float
        The statistic of the groups as they are.
    statistic : callable
        Takes row numbers of each group, int64 [n, size of the group], for any n; gives float64 [n],
        NaN where it is not defined.
    sizes : sequence of int
        Of the groups. `n` of the interval is that of the first.
    level : float
        Coverage, in (0, 1).
    n_resamples, seed : int
        The same groups, resamples and seed give the same interval.
    least_defined : float
        Share of the resamples in which the statistic must be defined; the ends are those of them.

    Returns
    -------
    Interval
        NaN ends where a group has fewer than two rows, or too few resamples are defined.

    Raises
    ------
    InputError
        An option out of range.

    References
    ----------
    Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapters 8 and 13.

    Examples
    --------
    >>> x = np.array([1.0, 2.0, 3.0, 4.0])
    >>> found = interval_of(2.5, lambda rows: np.median(x[rows], axis=1), [4])
    >>> found.low < 2.5 < found.high, interval_of(2.5, np.median, [1]).low
    (True, nan)
    """
    level = _validate.number("level", level, above=0, below=1)
    n_resamples = _validate.integer("n_resamples", n_resamples, low=1)
    seed = _validate.integer("seed", seed, low=0)
    least_defined = _validate.number("least_defined", least_defined, above=0, high=1)
    nothing = Interval(value, float("nan"), float("nan"), sizes[0], level=level)
    if min(sizes) < 2:
        return nothing
    generator = np.random.default_rng(seed)
    if len(sizes) == 1:
        found = np.empty(n_resamples)
        step = max(1, _DRAWS_AT_ONCE // sizes[0])
        for start in range(0, n_resamples, step):
            part = found[start : start + step]
            part[:] = statistic(generator.integers(0, sizes[0], size=(len(part), sizes[0])))
    else:
        found = statistic(*(generator.integers(0, n, size=(n_resamples, n)) for n in sizes))
    defined = found[np.isfinite(found)]
    if len(defined) < least_defined * n_resamples:
        return nothing
    tail = (1 - level) / 2
    low, high = np.percentile(defined, [100 * tail, 100 * (1 - tail)])
    return Interval(value, float(low), float(high), sizes[0], level=level)


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
    finite, failed = _split("values", values)
    distinct, counts = np.unique(finite, return_counts=True)
    shares = np.cumsum(counts) / max(len(finite), 1)
    return Distribution(distinct, shares, len(finite), failed)


def _interval(
    mean: float,
    statistic: Callable[[Int64Array], Float64Array],
    n: int,
    failed: tuple[int, ...],
    is_constant: bool,
    level: float,
    n_resamples: int,
    seed: int,
) -> Interval:
    """Percentile interval of a statistic of rows [n_resamples, n] drawn from n queries."""
    least = min(n, 1) if is_constant else n  # a constant needs no draw: rounding would show
    found = interval_of(mean, statistic, [least], level=level, n_resamples=n_resamples, seed=seed)
    ends = (mean, mean) if is_constant and n >= 2 else (found.low, found.high)
    return Interval(mean, *ends, n, failed, found.level)


def _numbers(argument: str, values: Sequence[float] | Float64Array) -> Float64Array:
    _validate.unmasked(argument, values)
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(argument, "one number a query", "lists of unequal length") from None
    if array.ndim != 1:
        raise InputError(argument, "one number a query", f"shape {array.shape}")
    if array.dtype.kind not in "iufb":
        raise InputError(argument, "one number a query", f"dtype {array.dtype}")
    return _validate.finite(argument, array.astype(np.float64), or_nan=True)


def _split(
    argument: str, values: Sequence[float] | Float64Array
) -> tuple[Float64Array, tuple[int, ...]]:
    array = _numbers(argument, values)
    missing = np.isnan(array)
    return array[~missing], tuple(np.flatnonzero(missing).tolist())
