"""From which validity on a polarization score can be relied on, learnt on other topics and checked.

In: for topics where the truth is known, the validity of the axis and how well it separated labelled
passages that it had not seen. Out: a threshold on validity, and the precision and recall of "the
score works here" on topics that the threshold was not chosen on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epibias import _validate
from epibias._validate import Float64Array
from epibias.errors import InputError

AIMS = ("f1", "balanced")
WORKS_ABOVE = 0.75  # AUC from which an axis is said to separate the sides


@dataclass(frozen=True)
class ValidityReport:
    """What a threshold on validity is worth.

    Attributes
    ----------
    threshold : float
        Chosen on all topics: a score is relied on where validity is at least this.
    precision : float
        Share of the topics relied on where the score works, each judged by a threshold that was
        chosen without its group; NaN where none is relied on.
    recall : float
        Share of the topics where the score works that are relied on; NaN where it works nowhere.
    base_rate : float
        Share of topics where the score works: the precision of relying on every topic.
    n_topics : int
    works_above : float
        The AUC from which an axis counts as working.
    discrimination : float
        Probability that a topic where the score works has a larger validity than one where it does
        not, a tie counting half: .5 is worth nothing, whatever the base rate. NaN where one kind is
        missing.

    Examples
    --------
    >>> report = validity_report([0.1, 0.2, 0.8, 0.9] * 2, [0.5, 0.6, 0.9, 0.95] * 2)
    >>> report.threshold, report.precision, report.recall
    (0.5, 1.0, 1.0)
    """

    threshold: float
    precision: float
    recall: float
    base_rate: float
    n_topics: int
    works_above: float
    discrimination: float


def validity_report(
    validity: Sequence[float],
    separation: Sequence[float],
    groups: Sequence[int] | None = None,
    *,
    works_above: float = WORKS_ABOVE,
    aim: str = "f1",
) -> ValidityReport:
    """Choose the threshold that separates best, and cross-validate what it is worth.

    Parameters
    ----------
    validity : sequence of float [n_topics]
        `PolarizationAxis.validity`, or another number that should tell, as `agreement` or
        `coverage`; NaN (not to be had) is never relied on.
    separation : sequence of float [n_topics]
        AUC of supporting against opposing passages that the axis has not seen.
    groups : sequence of int [n_topics], optional
        Topics of a group are judged by the threshold of the others; each topic alone if absent.
    works_above : float
        An axis works where its AUC is at least this, in (0, 1).
    aim : {"f1", "balanced"}
        What the threshold is best in: F1 relies on every topic where most work; the recall less the
        share of the others that are relied on does not depend on the base rate.

    Returns
    -------
    ValidityReport

    Raises
    ------
    InputError
        Sequences of different length, fewer than two groups, a value that is not finite.

    Notes
    -----
    The threshold is the midpoint between neighbouring validities that is best, the lowest on a
    tie; below the least validity it relies on everything.

    Examples
    --------
    >>> validity_report([0.9, 0.9, 0.1], [0.8, 0.9, 0.4]).base_rate.__round__(2)
    0.67
    """
    values = np.asarray(validity, np.float64)
    quality = np.asarray(separation, np.float64)
    _validate.same_length("separation", len(quality), "validity", len(values))
    _validate.finite("separation", quality)
    works_above = _validate.number("works_above", works_above, above=0, below=1)
    _validate.choice("aim", aim, AIMS)
    of = np.arange(len(values)) if groups is None else np.asarray(groups)
    _validate.same_length("groups", len(of), "validity", len(values))
    if len(np.unique(of)) < 2:
        raise InputError("groups", "at least two groups of topics", str(len(np.unique(of))))
    values = np.where(np.isnan(values), -np.inf, values)
    works = quality >= works_above
    relied = np.zeros(len(values), bool)
    for group in np.unique(of):
        inside = of == group
        relied[inside] = values[inside] >= best_threshold(values[~inside], works[~inside], aim)
    hits = int((relied & works).sum())
    return ValidityReport(
        threshold=best_threshold(values, works, aim),
        precision=hits / int(relied.sum()) if relied.any() else float("nan"),
        recall=hits / int(works.sum()) if works.any() else float("nan"),
        base_rate=float(works.mean()),
        n_topics=len(values),
        works_above=works_above,
        discrimination=_discrimination(values, works),
    )


def _discrimination(values: Float64Array, works: np.ndarray) -> float:
    """Share of the pairs of a working and another topic that the values put in order."""
    first, second = values[works][:, None], values[~works][None]
    if not first.size or not second.size:
        return float("nan")
    return float((first > second).mean() + (first == second).mean() / 2)


def best_threshold(values: Float64Array, works: np.ndarray, aim: str = "f1") -> float:
    """Find the best midpoint between neighbouring values; −1 relies on every finite validity.

    Parameters
    ----------
    values : float64 [n_topics]
    works : bool [n_topics]
    aim : {"f1", "balanced"}

    Returns
    -------
    float
    """
    known = np.unique(values[np.isfinite(values)])
    options = np.concatenate([[-1.0], (known[1:] + known[:-1]) / 2])
    scores = []
    for option in options:
        relied = values >= option
        hits = (relied & works).sum()
        if aim == "f1":
            scores.append(2 * hits / max(1, relied.sum() + works.sum()))
        else:
            wrong = (relied & ~works).sum() / max(1, (~works).sum())
            scores.append(hits / max(1, works.sum()) - wrong)
    return float(options[int(np.argmax(scores))])
