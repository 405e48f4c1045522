"""A limit that few further questions exceed, from what earlier ones reached.

In: the largest value of each of n questions. Out: one number. Counts questions, not passages:
passages of one question are alike, so sixty passages of twelve questions know little more than
twelve numbers do. Knows nothing of what is measured.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from epibias import _validate
from epibias._validate import Float64Array

LEAST = 4  # questions; a spread of fewer says nothing


def limit_of_questions(largest: Float64Array, share: float) -> float:
    """Return a value that at most `share` of further questions exceed.

    The ⌈(1 − share)(n + 1)⌉-th smallest, where there is one (n ≥ 1/share − 1): if a further
    question is exchangeable with the n, it exceeds it with at most that probability, whatever the
    distribution. For fewer questions no rule can promise that without an assumption; the limit is
    then that of prediction for a normal distribution, mean + t·sd·√(1 + 1/n), and at least the
    largest value seen.

    Parameters
    ----------
    largest : float64 [n]
        One a question.
    share : float
        Above 0, below 1.

    Returns
    -------
    float
        Infinite for fewer than 4 questions that have no such rank: nothing is known.

    Raises
    ------
    InputError
        A share out of range, or values that are not finite.

    References
    ----------
    Vovk, Gammerman and Shafer, *Algorithmic Learning in a Random World*, 2005, for the rank. Hahn,
    "Factors for calculating two-sided prediction intervals", JASA 64, 1969, for the normal limit.

    Examples
    --------
    >>> ten = np.arange(10) / 10
    >>> limit_of_questions(ten, 0.2), round(limit_of_questions(ten, 0.05), 2)
    (0.8, 1.03)
    """
    share = _validate.number("share", share, above=0, below=1)
    n = len(largest)
    rank = int(np.ceil((1 - share) * (n + 1) - 1e-9))
    if rank <= n:
        return float(np.sort(largest)[rank - 1])
    if n < LEAST:
        return float("inf")
    spread = float(largest.std(ddof=1)) * float(np.sqrt(1 + 1 / n))
    limit = float(largest.mean()) + _student(1 - share, n - 1) * spread
    return max(limit, float(largest.max()))


def why_no_limit(n: int, share: float) -> str:
    """Say why n questions gave no limit below the largest value that there is.

    Parameters
    ----------
    n : int
        Questions.
    share : float
        Above 0, below 1.

    Returns
    -------
    str

    Examples
    --------
    >>> why_no_limit(3, 0.025)
    '4 are needed, 39 for one without assumptions'
    """
    enough = int(np.ceil(1 / share - 1 - 1e-9))
    if n >= enough:
        return "too many of them reach it"
    return f"{min(LEAST, enough)} are needed, {enough} for one without assumptions"


def _student(level: float, freedom: int) -> float:
    """Quantile of Student's t by its expansion in 1/freedom; 1 % off at 3 degrees and .98."""
    z = NormalDist().inv_cdf(level)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return float(z + sum(term / freedom**power for power, term in enumerate(terms, 1)))
