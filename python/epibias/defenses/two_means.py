"""K-means with two clusters, for a few dozen points, without chance.

In: float64 points. Out: a cluster for each. Up to a dozen points every partition is tried; beyond,
every pair of points starts one run of Lloyd's steps, then single points move as long as that helps
(Hartigan), and the run of least inertia wins. So the answer depends on no seed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epibias._validate import Float64Array, Int64Array

ALL_PARTITIONS_UP_TO = 12  # points; 2,047 partitions
ALL_PAIRS_UP_TO = 48  # points; 1,128 runs. Beyond, each point starts with the one farthest from it.
MAX_STEPS = 300


def two_means(points: Float64Array) -> Int64Array:
    """Split points into two clusters of least inertia.

    Exactly up to `ALL_PARTITIONS_UP_TO` points, beyond as far as the steps find it.

    Parameters
    ----------
    points : float64 [n, dim]

    Returns
    -------
    int64 [n]
        Cluster 0 is that of the first point. All 0 where no two points differ.

    References
    ----------
    Lloyd 1982, doi:10.1109/TIT.1982.1056489. Hartigan and Wong 1979, doi:10.2307/2346830.

    Examples
    --------
    >>> two_means(np.array([[0.0], [9.0], [1.0], [8.0]]))
    array([0, 1, 0, 1])
    """
    n = len(points)
    products = points @ points.T
    squares = np.diag(products)
    distances = np.maximum(squares[:, None] + squares - 2 * products, 0)
    if distances.max(initial=0) <= 1e-12:
        return np.zeros(n, np.int64)
    in_second = _all_partitions(n) if n <= ALL_PARTITIONS_UP_TO else _runs(distances)
    inertia = _inertia(distances, in_second) + _inertia(distances, ~in_second)
    best = in_second[int(np.argmin(inertia.round(12)))]
    return np.asarray(best != best[0], np.int64)


def _all_partitions(n: int) -> NDArray[np.bool_]:
    """Every way to give the first point's cluster company: [2^(n − 1) − 1, n]."""
    numbers = np.arange(1, 2 ** (n - 1))
    bits = (numbers[:, None] >> np.arange(n - 1)) & 1
    return np.concatenate([np.zeros((len(numbers), 1), np.int64), bits], axis=1).astype(bool)


def _runs(distances: Float64Array) -> NDArray[np.bool_]:
    """Where Lloyd's steps, then single moves, lead from every start."""
    first, second = _starts(distances)
    in_second = distances[second] < distances[first]
    for _ in range(MAX_STEPS):
        moved = _to_centres(distances, in_second) < _to_centres(distances, ~in_second) - 1e-12
        if (moved == in_second).all():
            break
        in_second = moved
    runs = np.arange(len(in_second))
    for _ in range(MAX_STEPS):
        n_own = np.where(
            in_second, in_second.sum(1, keepdims=True), (~in_second).sum(1, keepdims=True)
        )
        n_other = len(distances) - n_own
        to_second, to_first = (_to_centres(distances, side) for side in (in_second, ~in_second))
        own, other = np.where(in_second, (to_second, to_first), (to_first, to_second))
        # What the inertia loses when a point leaves its cluster, less what it gains in the other.
        gain = own * n_own / np.maximum(n_own - 1, 1) - other * n_other / (n_other + 1)
        gain = np.where((n_own > 1) & (n_other > 0), gain, 0)
        point = gain.argmax(axis=1)
        moves = gain[runs, point] > 1e-12
        if not moves.any():
            break
        in_second[runs[moves], point[moves]] ^= True
    return in_second


def _starts(distances: Float64Array) -> tuple[Int64Array, Int64Array]:
    """Pairs of points that differ."""
    n = len(distances)
    if n <= ALL_PAIRS_UP_TO:
        first, second = np.triu_indices(n, 1)
    else:
        first, second = np.arange(n), distances.argmax(axis=1)
    apart = distances[first, second] > 1e-12
    return first[apart], second[apart]


def _to_centres(distances: Float64Array, members: NDArray[np.bool_]) -> Float64Array:
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


def _inertia(distances: Float64Array, members: NDArray[np.bool_]) -> Float64Array:
    """Sum of squared distances of each run's members to their centre: [n_runs]."""
    weights = members.astype(np.float64)
    pairs = ((weights @ distances) * weights).sum(axis=1)
    return np.asarray(pairs / (2 * np.maximum(weights.sum(axis=1), 1)))
