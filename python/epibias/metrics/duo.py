"""DUO, the rank metric of the line of work that WIKI-BALANCE comes from, and its centred score.

Owns how balanced an *order* of passages is: DUO compares the variance of the polarization scores
near the top of a ranking with that of the best and the worst order of the same passages. In: PS of
a query's ranked passages. Out: one number a query, 0 for the most balanced order, 1 for the least.
It says nothing of which passages were selected: `bias.b_retrieval` does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array, Float64Array
from epibias.errors import InputError

Scores = Sequence[float] | Float32Array | Float64Array
NORMALIZATIONS = ("range", "ideal")


def centred_scores(scores: Scores, anchor_scores: Scores) -> Float64Array:
    """Subtract the anchors' mean PS: the score as DUO takes it.

    [DUO]_ projects an embedding minus the anchors' mean on the axis, [EBI]_ the embedding alone.
    The two differ by a constant a topic, so orders, differences, shifts and DUO itself are the
    same; the sign of a single score is not. `PolarizationAxis.fit(…, center=True)` gives it at
    once.

    Parameters
    ----------
    scores : float [n]
        Uncentred PS of passages of one topic.
    anchor_scores : float [n_anchors]
        Uncentred PS of the anchors that the axis was fitted on.

    Returns
    -------
    float64 [n]

    Raises
    ------
    InputError
        Scores that are not 1-d or not finite; no anchors.

    References
    ----------
    .. [DUO] arXiv:2406.04298.
    .. [EBI] arXiv:2512.00804, section III.

    Examples
    --------
    >>> centred_scores([0.5, 0.1], [0.4, 0.2]).round(3)
    array([ 0.2, -0.2])
    """
    anchors = _checked("anchor_scores", anchor_scores)
    if len(anchors) == 0:
        raise InputError("anchor_scores", "at least one anchor", "none")
    centred: Float64Array = _checked("scores", scores) - anchors.mean()
    return centred


def prefix_variances(ranked_scores: Scores) -> Float64Array:
    """Give the population variance of the PS of the first 1, 2, … n passages: u(i) of DUO.

    Parameters
    ----------
    ranked_scores : float [n]
        PS in the order of the ranking.

    Returns
    -------
    float64 [n]
        The first is 0.

    Raises
    ------
    InputError
        Scores that are not 1-d or not finite.

    Examples
    --------
    >>> prefix_variances([1.0, -1.0, 1.0, -1.0]).round(4)
    array([0.    , 1.    , 0.8889, 1.    ])
    """
    scores = _checked("ranked_scores", ranked_scores)
    if len(scores) == 0:
        return scores
    shifted = scores - scores.mean()  # the variance is the same, and no digits cancel
    counts = np.arange(1, len(scores) + 1)
    variances = (shifted**2).cumsum() / counts - (shifted.cumsum() / counts) ** 2
    found: Float64Array = np.maximum(variances, 0.0)
    found[0] = 0.0
    return found


def discounted_variance(ranked_scores: Scores, depth: int | None = None) -> float:
    """Sum of u(i)/log₂ i over the ranks i = 2 … depth: what DUO normalises.

    Parameters
    ----------
    ranked_scores : float [n]
        PS in the order of the ranking.
    depth : int, optional
        Last rank that counts; all of them without it.

    Returns
    -------
    float
        In units of PS²; 0 for fewer than two passages.

    Raises
    ------
    InputError
        Scores that are not 1-d or not finite; a depth below 1.

    Examples
    --------
    >>> round(discounted_variance([1.0, -1.0, 1.0]), 4)          # 1/1 + (8/9)/log2(3)
    1.5608
    """
    variances = prefix_variances(ranked_scores)
    last = _depth(depth, len(variances))
    return float((variances[1:last] / np.log2(np.arange(2, last + 1))).sum()) if last > 1 else 0.0


def variance_range(scores: Scores, depth: int | None = None) -> tuple[float, float]:
    """Give least and largest `discounted_variance` over all orders of the same passages.

    By dynamic programming in O(n · depth): the least over orders whose every prefix is a run of the
    sorted scores, the largest over orders whose every prefix takes from both ends. That these hold
    the extremes was found in every case that was enumerated (up to 8 passages, tests), and is
    not proved. The published code enumerates up to 8 passages and samples 40,320 orders above, so
    its values for more passages are a little nearer to the middle.

    Parameters
    ----------
    scores : float [n]
        PS of the passages, in any order.
    depth : int, optional
        Last rank that counts; all of them without it.

    Returns
    -------
    tuple of float
        Least and largest.

    Raises
    ------
    InputError
        Scores that are not 1-d or not finite; a depth below 1.

    Examples
    --------
    >>> [round(value, 4) for value in variance_range([1.0, 1.0, -1.0])]
    [0.5608, 1.5608]
    """
    ordered = np.sort(_checked("scores", scores))
    n, last = len(ordered), _depth(depth, len(ordered))
    if last < 2:
        return 0.0, 0.0
    shifted = ordered - ordered.mean()
    sums = np.concatenate([[0.0], shifted.cumsum()])
    squares = np.concatenate([[0.0], (shifted**2).cumsum()])
    # Row i - 1: prefixes of i passages. `least` by their first place in sorted order; `largest` by
    # how many of them are low ones.
    least, largest = np.zeros(n), np.zeros(2)
    for count in range(2, last + 1):
        weight = 1.0 / np.log2(count)
        starts = np.arange(n - count + 1)
        totals = sums[starts + count] - sums[starts]
        spread = (squares[starts + count] - squares[starts]) / count - (totals / count) ** 2
        least = np.minimum(least[:-1], least[1:]) + weight * np.maximum(spread, 0.0)
        low = np.arange(count + 1)
        high = n - (count - low)
        totals = sums[low] + sums[n] - sums[high]
        spread = (squares[low] + squares[n] - squares[high]) / count - (totals / count) ** 2
        before = np.maximum(
            np.concatenate([[-np.inf], largest]), np.concatenate([largest, [-np.inf]])
        )
        largest = before + weight * np.maximum(spread, 0.0)
    return float(least.min()), float(largest.max())


def duo(ranked_scores: Scores, *, depth: int | None = None, normalization: str = "range") -> float:
    """Give DUO of one ranking: 0 for the most balanced order of its passages, 1 for the least.

    Parameters
    ----------
    ranked_scores : float [n]
        PS in the order of the ranking, centred or not. [DUO]_ ranks the relevant passages of a
        query.
    depth : int, optional
        Last rank that counts, such as 5 for a context of five; the passages below it still say
        what other orders could have brought up. All ranks without it.
    normalization : {"range", "ideal"}
        "range": 1 − (D − least)/(largest − least), as the published code; "ideal": 1 − D/largest,
        the formula 1 − nDCG. D is `discounted_variance`, the ends are `variance_range`.

    Returns
    -------
    float
        NaN without passages. Where every order has the same D: 0.5 for "range" as in the published
        code; for "ideal" 0.0, or NaN where D is 0.

    Raises
    ------
    InputError
        Scores that are not 1-d or not finite; a depth below 1; an unknown normalization.

    References
    ----------
    .. [DUO] Measuring and Addressing Indexical Bias in Information Retrieval, arXiv:2406.04298.

    Examples
    --------
    >>> round(duo([1.0, -1.0, 1.0]), 9), round(duo([1.0, 1.0, -1.0]), 9)
    (0.0, 1.0)
    >>> round(duo([1.0, 1.0, -1.0], normalization="ideal"), 4)
    0.6407
    """
    _validate.choice("normalization", normalization, NORMALIZATIONS)
    scores = _checked("ranked_scores", ranked_scores)
    if len(scores) == 0:
        return float("nan")
    found = discounted_variance(scores, depth)
    least, largest = variance_range(scores, depth)
    # Orders that differ by rounding alone do not differ.
    is_flat = largest - least <= 1e-12 * max(largest, float(np.finfo(np.float64).tiny))
    if normalization == "range":
        return 0.5 if is_flat else 1.0 - (found - least) / (largest - least)
    if largest <= 1e-28 * float((scores**2).max()):
        return float("nan")
    return 0.0 if is_flat else 1.0 - found / largest


def _checked(argument: str, values: Scores) -> Float64Array:
    _validate.unmasked(argument, values)
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iuf"):
        found = f"shape {array.shape}, dtype {array.dtype}"
        raise InputError(argument, "one number a passage", found)
    return _validate.finite(argument, array.astype(np.float64))


def _depth(depth: int | None, n: int) -> int:
    return n if depth is None else min(_validate.integer("depth", depth, low=1), n)
