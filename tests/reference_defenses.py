"""The meaning of the filter defences: naive float64, one query at a time, never optimised.

A pool is two lists in its total order. Positions count from 0. Built on `reference.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import reference

SAME = 1e-9  # differences below this share are rounding


@dataclass
class Outcome:
    selected: list[int]
    dropped: list[int]
    side: str
    threshold: float
    n_kept: int
    n_moved: int
    n_refilled: int


def smallest_side(n: int, slack: float, min_side: int) -> int:
    share = 0
    while share * 1_000_000 < round(slack * 1_000_000) * n:
        share += 1
    return max(min_side, share)


def biasdef(
    similarities,
    scores,
    *,
    k=5,
    criterion="kl",
    gate=None,
    side="right",
    mitigation=None,
    fill="short",
    min_kept=None,
    min_side=1,
    slack=0.05,
    kappa=0.025,
    kappa_points=None,
    permutations=199,
    seed=0,
    query_id=0,
    neutral_centre=0.0,
    rule="splits",
) -> Outcome:
    x, y = np.asarray(similarities, float), np.asarray(scores, float)
    n = len(x)
    least_kept = k if min_kept is None else min_kept
    if rule == "printed":
        sweep = reference.printed_sweep(x, y)
    else:
        least = smallest_side(n, slack, min_side)
        sweep = reference.threshold_sweep(
            x,
            y,
            criterion=criterion,
            min_kept=max(least, 1 if side == "auto" else least_kept),
            min_dropped=least,
            kappa=kappa if kappa_points is None else kappa_points / max(n, 1),
            permutations=permutations if gate is not None else 0,
            seed=seed,
            query_id=query_id,
        )
    left = [i for i in range(n) if x[i] < sweep.threshold]
    right = [i for i in range(n) if i not in left]
    split = np.isfinite(sweep.threshold) and (gate is None or sweep.p_value <= gate)
    which = "none"
    if split:
        which = "right"
        if side == "auto":
            which = suspicious_side(y, left, right, neutral_centre, least_kept)
    dropped = {"right": right, "left": left, "none": []}[which]
    before = list(dropped)
    if mitigation == "mahalanobis":
        dropped = nearer_side(x, y, dropped)
    kept = [i for i in range(n) if i not in dropped]
    selected = kept[:k]
    refilled = []
    if fill == "refill":
        refilled = [i for i in range(n) if i in dropped][: k - len(selected)]
    return Outcome(
        selected + refilled,
        [i for i in dropped if i not in refilled],
        which,
        sweep.threshold if which != "none" else np.inf,
        len(kept),
        len(set(before) ^ set(dropped)),
        len(refilled),
    )


def suspicious_side(y, left, right, neutral_centre, least_kept) -> str:
    """The side whose mean lies farther from neutral by more than the standard error, if any."""
    if len(left) == 0 or len(right) == 0 or len(left) + len(right) < 3:
        return "none"

    def variance(side, other):
        return np.var(y[side], ddof=1) if len(side) >= 2 else np.var(y[other], ddof=1)

    error = np.sqrt(variance(left, right) / len(left) + variance(right, left) / len(right))
    least = error + SAME * np.abs(y - neutral_centre).max()
    from_left = abs(y[left].mean() - neutral_centre)
    from_right = abs(y[right].mean() - neutral_centre)
    if from_left - from_right > least and len(right) >= least_kept:
        return "left"
    if from_right - from_left > least and len(left) >= least_kept:
        return "right"
    return "none"


def nearer_side(x, y, dropped) -> list[int]:
    """Each passage goes to the side it is nearer to, itself left out; all at once."""
    n = len(x)
    kept = [i for i in range(n) if i not in dropped]
    if len(kept) < 2 or len(dropped) < 2:
        return list(dropped)
    result = []
    for i in range(n):
        own, other = (dropped, kept) if i in dropped else (kept, dropped)
        rest = [j for j in own if j != i]
        freedom = len(rest) + len(other) - 2
        pooled = (squares(y[rest]) + squares(y[other])) / freedom
        width = max((squares(x[rest]) + squares(x[other])) / freedom, 1e-12 * x.var())

        def distance(side, i=i, pooled=pooled, width=width):
            variance = (squares(y[side]) + 3 * pooled) / (len(side) - 1 + 3)
            variance = max(variance, 1e-12 * y.var())
            return (y[i] - y[side].mean()) ** 2 / variance + (x[i] - x[side].mean()) ** 2 / width

        moves = distance(other) < distance(rest) * (1 - SAME)
        if (i in dropped) != moves:
            result.append(i)
    return result


def squares(values) -> float:
    return float(((values - values.mean()) ** 2).sum())
