"""Which side of a threshold is suspicious, and which passages stand on the wrong one.

Float64 numpy on rectangles [n_queries, n]; one row never influences another. Used by BiasDef.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epibias._validate import Float32Array, Float64Array, Int64Array

BoolArray = NDArray[np.bool_]

PRIOR_FREEDOM = 3.0  # degrees of freedom with which a side's variance leans on the pooled one
# Differences below this share are rounding: float32 scores have seven digits.
_SAME = 1e-9
# Variances below this share of the row's total one are rounding; distances are measured with it.
_LEAST_VARIANCE = 1e-12


def suspicious_side(
    scores: Float32Array, left: BoolArray, neutral_centres: Float64Array, min_kept: int
) -> tuple[BoolArray, BoolArray]:
    """Say which side lies farther from neutral, where the difference exceeds its standard error.

    d = |mean PS of a side − neutral centre|, SE = √(var_L / n_L + var_R / n_R). The side with the
    larger d is suspicious when the d differ by more than SE and the other side has at least
    `min_kept` passages. A side of one passage borrows the other side's variance; with one on
    either side nothing is known and neither is suspicious.

    Parameters
    ----------
    scores : float32 [n_queries, n]
    left : bool [n_queries, n]
        Below the threshold.
    neutral_centres : float64 [n_queries]
    min_kept : int

    Returns
    -------
    drop_left, drop_right : bool [n_queries]
    """
    one, other = _Side.of(scores, left), _Side.of(scores, ~left)
    variances = one.variance_or(other), other.variance_or(one)
    error = np.sqrt(variances[0] / one.count_or_1 + variances[1] / other.count_or_1)
    distances = [np.abs(side.mean - neutral_centres) for side in (one, other)]
    known = (one.n >= 1) & (other.n >= 1) & (one.n + other.n >= 3)
    farthest = np.abs(scores - neutral_centres[:, None]).max(axis=1, initial=0.0)
    least = error + _SAME * farthest
    drop_left = known & (distances[0] - distances[1] > least) & (other.n >= min_kept)
    drop_right = known & (distances[1] - distances[0] > least) & (one.n >= min_kept)
    return drop_left, drop_right


def nearer_side(similarities: Float32Array, scores: Float32Array, dropped: BoolArray) -> BoolArray:
    """Move each passage to the side it is nearer to, once; rows with a side of one stay.

    Squared distance to a side = (PS − mean)² / v + (similarity − mean)² / w, where the passage
    itself is left out of the side it stands on; v = (SS + 3·p) / (n − 1 + 3) is the side's
    variance in PS, shrunk to the pooled one p with 3 degrees of freedom; w is the pooled variance
    in similarity.

    Parameters
    ----------
    similarities, scores : float32 [n_queries, n]
    dropped : bool [n_queries, n]

    Returns
    -------
    bool [n_queries, n]
        Dropped after the moves.
    """
    n_dropped = dropped.sum(axis=1)
    enough = (n_dropped >= 2) & (dropped.shape[1] - n_dropped >= 2)
    moved: BoolArray = dropped.copy()
    if enough.any():
        rows = np.flatnonzero(enough)
        sides = dropped[rows]
        moved[rows] = sides ^ _other_is_nearer(
            similarities[rows].astype(np.float64), scores[rows].astype(np.float64), sides
        )
    return moved


def _other_is_nearer(x: Float64Array, y: Float64Array, dropped: BoolArray) -> BoolArray:
    own_y, other_y = _own_and_other(y, dropped)
    own_x, other_x = _own_and_other(x, dropped)
    freedom = own_y.n + other_y.n - 2  # of the pooled variances, the passage left out
    pooled = (own_y.squares + other_y.squares) / freedom
    least = _LEAST_VARIANCE * y.var(axis=1, keepdims=True)
    width = np.maximum(
        (own_x.squares + other_x.squares) / freedom,
        _LEAST_VARIANCE * x.var(axis=1, keepdims=True),
    )
    distances = []
    for side_y, side_x in ((own_y, own_x), (other_y, other_x)):
        shrunk = (side_y.squares + PRIOR_FREEDOM * pooled) / (side_y.n - 1 + PRIOR_FREEDOM)
        distances.append(
            (y - side_y.mean) ** 2 / np.maximum(shrunk, least) + (x - side_x.mean) ** 2 / width
        )
    nearer: BoolArray = distances[1] < distances[0] * (1 - _SAME)
    return nearer


@dataclass(frozen=True)
class _Side:
    """Count, mean and sum of squares about the mean, of one side or of one side a passage."""

    n: NDArray[np.int64]
    mean: Float64Array
    squares: Float64Array

    @classmethod
    def of(cls, values: NDArray[np.floating], members: BoolArray) -> _Side:
        """Summarise the members of each row."""
        wide = values.astype(np.float64)
        n = members.sum(axis=1)
        mean = np.where(members, wide, 0).sum(axis=1) / np.maximum(n, 1)
        squares = np.where(members, (wide - mean[:, None]) ** 2, 0).sum(axis=1)
        return cls(n, mean, squares)

    @property
    def count_or_1(self) -> Int64Array:
        return np.maximum(self.n, 1)

    def variance_or(self, other: _Side) -> Float64Array:
        own = self.squares / np.maximum(self.n - 1, 1)
        return np.where(self.n >= 2, own, other.squares / np.maximum(other.n - 1, 1))


def _own_and_other(values: Float64Array, dropped: BoolArray) -> tuple[_Side, _Side]:
    """For each passage its own side without itself, and the other side; [n_queries, n] each."""
    kept_side, dropped_side = _Side.of(values, ~dropped), _Side.of(values, dropped)

    def choose(where: BoolArray) -> _Side:
        pairs = [
            np.where(where, getattr(dropped_side, name)[:, None], getattr(kept_side, name)[:, None])
            for name in ("n", "mean", "squares")
        ]
        return _Side(*pairs)

    own = choose(dropped)
    rest = own.n - 1
    mean = (own.n * own.mean - values) / rest
    squares = np.maximum(own.squares - (values - own.mean) ** 2 * own.n / rest, 0.0)
    return _Side(rest, mean, squares), choose(~dropped)
