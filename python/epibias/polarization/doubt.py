"""When an axis may say nothing: the numbers that are warned of, and the words for it."""

from __future__ import annotations

import numpy as np

from epibias._validate import Float64Array, Int64Array

LEAST_RELATIVE_GAP = 0.1
LEAST_EXPLAINED = 0.2
LEAST_VALIDITY = 0.3


def doubt_of(
    method: str,
    explained: Float64Array,
    gaps: Float64Array,
    validity: Float64Array | None,
    n_anchors: Int64Array,
) -> str | None:
    """Name the first topic in doubt and its numbers; None where none is. All arrays [n_topics]."""
    n_topics = len(gaps)
    pair = n_anchors == 2
    if method == "pca":
        # A leading axis without a gap is any direction of a plane, whatever the stances say of it.
        # Two points always lie on a line: gap and explained variance are 1 whatever they say.
        loose = (gaps < LEAST_RELATIVE_GAP) | (explained < LEAST_EXPLAINED) | pair
    else:
        loose = np.zeros(n_topics, bool)
    unheard = None if validity is None else ~(validity > LEAST_VALIDITY)
    doubtful = loose if unheard is None else loose | unheard
    if not doubtful.any():
        return None
    first = int(doubtful.argmax())
    reasons = []
    if loose[first] and pair[first]:
        reasons.append("two anchors always lie on one axis, which is no evidence of anything")
    elif loose[first]:
        reasons.append(
            f"relative gap {gaps[first]:.3f} and explained variance {explained[first]:.3f} "
            f"(wanted: at least {LEAST_RELATIVE_GAP} and {LEAST_EXPLAINED})"
        )
    heard = unheard is not None and not unheard[first]
    if validity is not None and not heard:
        reasons.append(
            f"leave-one-out rank correlation with the stances {validity[first]:.3f} "
            f"(wanted: above {LEAST_VALIDITY})"
        )
    evidence = "; ".join(reasons)
    place = f"topic {first}, " if n_topics > 1 else ""
    count = f"; {int(doubtful.sum())} of {n_topics} topics" if n_topics > 1 else ""
    doubt = "be undetermined" if heard else "not carry stance"
    return f"the axis may {doubt}: {place}{evidence}{count}"
