"""K-means with two clusters, for a few dozen points, without chance.

In: float64 points. Out: a cluster for each. Every pair of points starts one run of Lloyd's steps,
and the run of least inertia wins, so the answer depends on no seed and on no order of runs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epibias._validate import Float64Array, Int64Array

ALL_PAIRS_UP_TO = 48  # points; 1,128 runs. Beyond, each point starts with the one farthest from it.
MAX_STEPS = 300


def two_means(points: Float64Array) -> Int64Array:
    """Split points into two clusters of least inertia, as far as Lloyd's steps find it.

    A point as near to one centre as to the other goes to cluster 0.

    Parameters
    ----------
    points : float64 [n, dim]

    Returns
    -------
    int64 [n]
        Cluster 0 is that of the first point. All 0 where no two points differ.

    References
    ----------
    Lloyd 1982, doi:10.1109/TIT.1982.1056489.

    Examples
    --------
    >>> two_means(np.array([[0.0], [9.0], [1.0], [8.0]]))
    array([0, 1, 0, 1])
    """
    n = len(points)
    products = points @ points.T
    squares = np.diag(products)
    distances = np.maximum(squares[:, None] + squares - 2 * products, 0)
    first, second = _starts(distances)
    if len(first) == 0:
        return np.zeros(n, np.int64)
    in_second = distances[second] < distances[first]
    for _ in range(MAX_STEPS):
        to_first = _distances_to_centres(distances, ~in_second)
        to_second = _distances_to_centres(distances, in_second)
        moved = to_second < to_first - 1e-12  # rounding moves no point for ever
        if (moved == in_second).all():
            break
        in_second = moved
    inertia = np.array([_inertia(distances, side) for side in in_second])
    best = in_second[int(np.argmin(inertia.round(12)))]
    return np.asarray(best != best[0], np.int64)


def _starts(distances: Float64Array) -> tuple[Int64Array, Int64Array]:
    """Pairs of points that differ."""
    n = len(distances)
    if n <= ALL_PAIRS_UP_TO:
        first, second = np.triu_indices(n, 1)
    else:
        first, second = np.arange(n), distances.argmax(axis=1)
    apart = distances[first, second] > 1e-12
    return first[apart], second[apart]


def _distances_to_centres(distances: Float64Array, members: NDArray[np.bool_]) -> Float64Array:
    """Squared distances of all points to the centre of each run's members: [n_runs, n].

    ‖x − c‖² = mean over members of ‖x − m‖² − half the mean over pairs of ‖m − m'‖²; infinite
    without members.
    """
    weights = members.astype(np.float64)
    n_members = weights.sum(axis=1, keepdims=True)
    sums = weights @ distances
    spread = (sums * weights).sum(axis=1, keepdims=True)
    safe = np.maximum(n_members, 1)
    return np.where(n_members > 0, sums / safe - spread / (2 * safe**2), np.inf)


def _inertia(distances: Float64Array, in_second: NDArray[np.bool_]) -> float:
    """Sum over both clusters of squared distances to their centres."""
    total = 0.0
    for side in (in_second, ~in_second):
        if side.any():
            total += float(distances[np.ix_(side, side)].sum()) / (2 * int(side.sum()))
    return total
