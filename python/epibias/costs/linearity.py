"""How far time is from growing in proportion to the number of passages.

    t ≈ a · n,  a = mean of t / n over the points;  deviation of a point = t / (a · n) − 1

The line goes through the origin, and every point counts the same, however large its n.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def linearity(n_passages: Sequence[int], milliseconds: Sequence[float]) -> dict[str, Any]:
    """Fit a line through the origin and say how far the points are from it.

    Returns
    -------
    dict
        `ns_per_passage` (a), `deviations` (one a point), `largest_deviation` (of their absolute
        values; None where there is one point, which tells nothing).

    Examples
    --------
    >>> found = linearity([100, 200], [1.0, 2.2])
    >>> round(found["ns_per_passage"]), round(found["largest_deviation"], 3)
    (10500, 0.048)
    """
    per_passage = [ms / n for n, ms in zip(n_passages, milliseconds, strict=True)]
    slope = sum(per_passage) / len(per_passage)
    deviations = [value / slope - 1 for value in per_passage]
    return {
        "ns_per_passage": 1e6 * slope,
        "deviations": deviations,
        "largest_deviation": max(map(abs, deviations)) if len(deviations) > 1 else None,
    }
