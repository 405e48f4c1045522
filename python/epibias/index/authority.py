"""Selection with authority: similarity plus the weight of the tier, capped a source.

Owns the order in which candidates of one query become its context. Which of them may be selected
at all (the ownership gate) was decided before.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.index.policy import SelectionRule


def authority_scores(
    similarities: Float32Array, tiers: NDArray[np.int8], rule: SelectionRule
) -> Float64Array:
    """Give similarity plus the weight of the tier, float64 [n].

    Examples
    --------
    >>> tiers = np.array([3, 1], np.int8)
    >>> authority_scores(np.array([0.5, 0.375], np.float32), tiers, SelectionRule())
    array([0.5  , 0.525])
    """
    weights = np.zeros(4)
    for tier, weight in rule.tier_weights.items():
        weights[tier] = weight
    scores: Float64Array = similarities.astype(np.float64) + weights[tiers]
    return scores


def select_context(
    scores: Float64Array,
    tiers: NDArray[np.int8],
    sources: NDArray[np.int32],
    k: int,
    rule: SelectionRule,
) -> Int64Array:
    """Choose the best `k` by score, at most `cap_per_source` of a source.

    Parameters
    ----------
    scores : float64 [n]
        Of candidates in the total order (similarity descending, then index), which breaks ties.
    tiers : int8 [n]
        Passages of an exempt tier do not count against the cap.
    sources : int32 [n]
        Number of each candidate's source.
    k : int
    rule : SelectionRule

    Returns
    -------
    int64 [at most k]
        Positions, best first.

    Examples
    --------
    >>> scores, tiers = np.array([0.9, 0.8, 0.7, 0.6]), np.array([3, 3, 3, 2], np.int8)
    >>> select_context(scores, tiers, np.array([0, 0, 0, 1], np.int32), 3, SelectionRule())
    array([0, 1, 3])
    """
    chosen: list[int] = []
    taken: Counter[int] = Counter()
    for position in np.argsort(-scores, kind="stable").tolist():
        if len(chosen) == k:
            break
        source = int(sources[position])
        if int(tiers[position]) not in rule.exempt_tiers:
            if taken[source] >= rule.cap_per_source:
                continue
            taken[source] += 1
        chosen.append(position)
    return np.array(chosen, np.int64)
