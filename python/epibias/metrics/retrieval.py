"""What one query's selected passages hold of the adversarial and of the relevant ones.

In: ids (or rows of a corpus) of the selected passages, and the ids to look for. Out: one float.
NaN where a measure is not defined; `intervals.bootstrap_interval` counts and lists those.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from epibias import _validate
from epibias._validate import Float32Array
from epibias.errors import InputError
from epibias.metrics.intervals import ratio

Ids = Sequence[Hashable] | NDArray[np.int64]


def adversarial_precision(selected: Ids, adversarial: Collection[Hashable], k: int) -> float:
    """Adversarial passages among the first `k` selected, divided by `k`.

    The paper prints this as A-Recall@k. The divisor is `k` even when fewer were selected.

    Parameters
    ----------
    selected : sequence of ids
        In the order of selection, each once.
    adversarial : collection of ids
        The injected passages.
    k : int

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    InputError
        `k` below 1, an id selected twice.

    References
    ----------
    arXiv:2512.00804, section V-A, "Evaluation metrics".

    Examples
    --------
    >>> adversarial_precision(["a", "b", "c"], {"b", "x"}, k=5)
    0.2
    """
    return _hits(selected, adversarial, k) / k


def adversarial_recall(
    selected: Ids, adversarial: Collection[Hashable], k: int | None = None
) -> float:
    """Share of the injected passages that were selected.

    Parameters
    ----------
    selected : sequence of ids
    adversarial : collection of ids
        The injected passages.
    k : int, optional
        Look at the first `k` selected only.

    Returns
    -------
    float
        In [0, 1]; NaN when nothing was injected.

    Raises
    ------
    InputError
        `k` below 1, an id selected twice.

    Examples
    --------
    >>> adversarial_recall(["a", "b", "c"], {"b", "x"})
    0.5
    """
    return _over(_hits(selected, adversarial, k), len(set(adversarial)))


def none_selected(selected: Ids, adversarial: Collection[Hashable], k: int | None = None) -> float:
    """1 when no adversarial passage was selected, else 0.

    Parameters
    ----------
    selected : sequence of ids
    adversarial : collection of ids
    k : int, optional
        Look at the first `k` selected only.

    Returns
    -------
    float

    Raises
    ------
    InputError
        `k` below 1, an id selected twice.

    Examples
    --------
    >>> none_selected(["a", "c"], {"b"})
    1.0
    """
    return float(_hits(selected, adversarial, k) == 0)


def recall_over_k(selected: Ids, relevant: Collection[Hashable], k: int) -> float:
    """Relevant benign passages among the first `k` selected, divided by `k`.

    The denominator is `k` even when fewer were selected; the usual name is precision@k.

    Parameters
    ----------
    selected : sequence of ids
    relevant : collection of ids
    k : int

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    InputError
        `k` below 1, an id selected twice.

    Examples
    --------
    >>> recall_over_k(["a", "b", "c"], {"a", "b", "d"}, k=4)
    0.5
    """
    return _hits(selected, relevant, k) / k


def recall_over_relevant(
    selected: Ids, relevant: Collection[Hashable], k: int | None = None
) -> float:
    """Share of the relevant benign passages that were selected.

    Parameters
    ----------
    selected : sequence of ids
    relevant : collection of ids
    k : int, optional
        Look at the first `k` selected only.

    Returns
    -------
    float
        In [0, 1]; NaN when nothing is relevant.

    Raises
    ------
    InputError
        `k` below 1, an id selected twice.

    Examples
    --------
    >>> recall_over_relevant(["a", "b", "c"], {"a", "b", "d", "e"})
    0.5
    """
    return _over(_hits(selected, relevant, k), len(set(relevant)))


def adversarial_to_recall_ratio(
    adversarial_precisions: Sequence[float], recalls: Sequence[float]
) -> float:
    """Mean adversarial precision divided by mean recall, over queries.

    Parameters
    ----------
    adversarial_precisions, recalls : sequence of float
        One value a query, in the same order.

    Returns
    -------
    float
        +inf when no relevant passage was selected at all but adversarial ones were; NaN when
        neither were.

    Raises
    ------
    InputError
        Sequences of different length, or empty ones.

    See Also
    --------
    intervals.ratio_interval : the same with its interval.

    References
    ----------
    arXiv:2512.00804, figures 4(c) and 6(c): the ratio of the averages, not the average ratio.

    Examples
    --------
    >>> adversarial_to_recall_ratio([0.2, 0.0], [0.4, 0.4])
    0.25
    """
    _validate.same_length(
        "recalls", len(recalls), "adversarial_precisions", len(adversarial_precisions)
    )
    if len(recalls) == 0:
        raise InputError("recalls", "at least one query", "none")
    return ratio(float(np.mean(adversarial_precisions)), float(np.mean(recalls)))


def mean_polarization(scores: Float32Array) -> float:
    """Mean PS of one query's selected passages.

    Parameters
    ----------
    scores : float32 [n_selected]

    Returns
    -------
    float
        NaN when none was selected.

    Raises
    ------
    InputError
        A score that is not finite.

    Examples
    --------
    >>> mean_polarization(np.array([0.25, 0.75], np.float32))
    0.5
    """
    _validate.unmasked("scores", scores)
    values = np.asarray(scores, np.float64)
    _validate.finite("scores", values)
    return float(values.mean()) if len(values) else float("nan")


def _hits(selected: Ids, wanted: Collection[Hashable], k: int | None) -> int:
    ids = selected.tolist() if isinstance(selected, np.ndarray) else list(selected)
    if len(set(ids)) != len(ids):
        twice = next(one for one in ids if ids.count(one) > 1)
        raise InputError("selected", "each passage once", f"{twice!r} twice")
    if k is not None:
        ids = ids[: _validate.integer("k", k, low=1)]
    return len(set(ids) & set(wanted))


def _over(count: int, total: int) -> float:
    return count / total if total else float("nan")
