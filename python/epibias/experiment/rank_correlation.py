"""Spearman's rank correlation with a bootstrap interval over questions.

A question brings several points that hang together, so questions are drawn, with all their points.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from epibias._plain import finite_or_none
from epibias._validate import Float64Array, Int64Array
from epibias.experiment.tables import Ends
from epibias.metrics.intervals import bootstrap_interval, interval_of

Points = Mapping[str, Sequence[tuple[float, float]]]
RESAMPLES = 1000


def pooled_spearman(points: Points, seed: int) -> Ends:
    """Correlation over all points, with its 95 % interval over questions.

    Parameters
    ----------
    points : mapping
        Question to its points (x, y).
    seed : int

    Returns
    -------
    tuple
        Correlation, low, high, number of questions; None where it is not defined.

    Examples
    --------
    >>> pooled_spearman({"a": [(0, 0), (1, 1)], "b": [(2, 2)]}, 0)[0]
    1.0
    """
    groups = [np.asarray(points[name], dtype=np.float64) for name in sorted(points) if points[name]]
    if not groups:
        return None, None, None, 0
    value = _spearman(np.concatenate(groups))
    if value is None:
        return None, None, None, len(groups)

    def correlations(drawn: Int64Array) -> Float64Array:
        found = (_spearman(np.concatenate([groups[i] for i in draw])) for draw in drawn)
        return np.array([np.nan if one is None else one for one in found])

    one = interval_of(
        value, correlations, [len(groups)], n_resamples=RESAMPLES, seed=seed, least_defined=0.5
    )
    return value, finite_or_none(one.low), finite_or_none(one.high), len(groups)


def mean_spearman(points: Points, seed: int, fewest: int = 3) -> Ends:
    """Mean over questions of the correlation within each, with its 95 % interval.

    Questions with fewer than `fewest` points, or whose points do not differ, have none.

    Examples
    --------
    >>> mean_spearman({"a": [(0, 0), (1, 1), (2, 3)], "b": [(0, 0)]}, 0)[::3]
    (1.0, 1)
    """
    values = []
    for name in sorted(points):
        if len(points[name]) >= fewest:
            one = _spearman(np.asarray(points[name], dtype=np.float64))
            values += [] if one is None else [one]
    if not values:
        return None, None, None, 0
    found = bootstrap_interval(values, seed=seed)
    return found.mean, finite_or_none(found.low), finite_or_none(found.high), found.n


def _spearman(pairs: Float64Array) -> float | None:
    """Correlation of the ranks of two columns; None where one of them does not vary."""
    from scipy.stats import rankdata

    if len(pairs) < 2 or (np.ptp(pairs, axis=0) == 0).any():
        return None
    ranks = rankdata(pairs, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return float(np.corrcoef(ranks.T)[0, 1])
