"""One axis of several, and several axes for one question: each with held-out evidence.

`combined_axis` adds a fit on a question's own anchors to axes that were made without them (poles,
`pooled`); `valid_components` keeps those principal components of the anchors that carry stance.
Every number called validity is of anchors that the axis did not see: what is fitted on the anchors
is fitted again without the one that is scored.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.errors import InputError, ValidityWarning
from epibias.polarization.axis import PolarizationAxis
from epibias.polarization.doubt import LEAST_VALIDITY
from epibias.polarization.fit import EQUAL_ANCHORS, prepared_rows
from epibias.polarization.inputs import stances_of_topics, topics_of
from epibias.polarization.validity import mean_scores, rank_correlations

MOST_ANCHORS = 200  # one refit each


def combined_axis(
    others: Sequence[PolarizationAxis],
    anchors: Float32Array,
    labels: Any,  # noqa: ANN401  numbers, one an anchor
    *,
    method: str | None = "ridge",
    weights: Sequence[float] | None = None,
    penalty: float = 1.0,
) -> PolarizationAxis:
    """Return the unit vector along a weighted sum of axes.

    Parameters
    ----------
    others : sequence of PolarizationAxis
        Axes of this question that were made without the anchors.
    anchors : float32 [n_anchors, dim]
        Labelled passages, at most 200.
    labels : float [n_anchors]
        Their stances, of both signs.
    method : {"ridge", "mean_difference"} or None
        Of the axis that is fitted on the anchors and added last; None adds none, and the anchors
        give evidence only.
    weights : sequence of float, optional
        At least 0, one for each of `others` and one for the fit; equal if absent.
    penalty : float
        Of the ridge regression.

    Returns
    -------
    PolarizationAxis
        Method "combined"; `validity` is the rank correlation of the stances with the scores of
        left-out anchors, NaN where an anchor is the only one of its stance.

    Raises
    ------
    InputError
        No axis at all, an axis of several topics or other columns, weights that do not fit, anchors
        that do not differ.

    Examples
    --------
    >>> anchors = np.array([[1, 1, 0], [1, 0.8, 0], [1, -1, 0], [1, -0.7, 0]], np.float32)
    >>> sides = np.array([[1, 1, 1], [1, -1, -1]] * 2, np.float32)
    >>> poles = PolarizationAxis.fit(sides, [1, -1] * 2)
    >>> both = combined_axis([poles], anchors, [2, 1, -2, -1])
    >>> both.method, bool(both.validity > 0.7)
    ('combined', True)
    """
    signs = stances_of(anchors, labels, least=2)
    if method is not None:
        _validate.choice("method", method, ("ridge", "mean_difference"))
    parts = [direction_of(axis, anchors.shape[1], place) for place, axis in enumerate(others)]
    shares = shares_of(weights, len(parts) + (method is not None))
    rows = prepared_rows(anchors[None], normalize=True)[0]

    def direction(keep: Int64Array) -> Float64Array:
        own = []
        if method is not None:
            own = [_refit(anchors[keep], signs[keep], method, penalty)]
        total: Float64Array = shares @ np.stack([*parts, *own])
        return total / np.sqrt(total @ total)

    return with_evidence(direction, rows, signs, "combined", refits=method is not None)


def with_evidence(
    direction: Callable[[Int64Array], Float64Array],
    rows: Float64Array,
    signs: Float64Array,
    method: str,
    *,
    refits: bool = True,
) -> PolarizationAxis:
    """Make an axis, and judge it by anchors that are left out.

    Parameters
    ----------
    direction : callable
        Gives the unit vector [dim] that is fitted on the anchors of these numbers.
    rows : float64 [n_anchors, dim]
        Unit rows.
    signs : float64 [n_anchors]
    method : str
    refits : bool
        Whether the direction depends on the anchors at all.

    Returns
    -------
    PolarizationAxis

    Raises
    ------
    InputError
        Anchors that do not differ: they are evidence of nothing.
    """
    centred = rows - rows.mean(axis=0)
    variance = float(np.square(centred).sum())
    if not variance > EQUAL_ANCHORS * float(np.square(rows).sum()):
        raise InputError("anchors", "anchors that differ", "equal ones")
    everyone = np.arange(len(rows))
    axis = direction(everyone)
    scores = rows @ axis
    held_out = np.full(len(rows), np.nan)
    alone = (signs > 0).sum() < 2 or (signs < 0).sum() < 2
    if not refits:
        held_out = scores
    elif not alone:
        for left_out in everyone:
            held_out[left_out] = rows[left_out] @ direction(everyone[everyone != left_out])
    supporting, opposing = mean_scores(scores[None], signs[None])
    return PolarizationAxis(
        axis=axis.astype(np.float32),
        method=method,
        explained_variance_ratio=float(np.square(centred @ axis).sum()) / variance,
        relative_gap=float("nan"),
        validity=float(rank_correlations(held_out[None], signs[None])[0]),
        neutral_centre=float(supporting[0] + opposing[0]) / 2,
        mean_anchor_score=0.0,
        normalize=True,
        n_anchors=len(rows),
    )


def valid_components(
    anchors: Float32Array,
    labels: Any,  # noqa: ANN401  numbers, one an anchor
    *,
    most: int = 3,
    least_validity: float = LEAST_VALIDITY,
) -> PolarizationAxis | None:
    """Keep the principal components of the centred anchors that carry stance.

    Parameters
    ----------
    anchors : float32 [n_anchors, dim]
        At least 4, at most 200.
    labels : float [n_anchors]
        Their stances, of both signs.
    most : int
        Components that are tried, the leading ones.
    least_validity : float
        A component is kept whose left-out anchors' scores have a rank correlation above this with
        their stances, each scored by the same component of the others, oriented by them.

    Returns
    -------
    PolarizationAxis or None
        A batch, one "topic" a component, in order; None where none is valid.

    Raises
    ------
    InputError
        Too few anchors, or as `PolarizationAxis.fit`.

    Examples
    --------
    >>> turn = np.array([1, -1, 0.8, -0.9, 0.7, -0.8])
    >>> anchors = np.stack([np.ones(6), turn, [0.1, 0, -0.1, 0.1, 0, -0.1]], 1).astype(np.float32)
    >>> valid_components(anchors, turn).n_topics
    1
    """
    signs = stances_of(anchors, labels, least=4)
    n = len(anchors)
    most = min(_validate.integer("most", most, low=1), n - 2)
    rows = prepared_rows(anchors[None], normalize=True)[0]
    held_out = np.empty((most, n))
    for left_out in range(n):
        keep = np.arange(n) != left_out
        held_out[:, left_out] = _components(rows[keep], signs[keep], most) @ rows[left_out]
    validity = rank_correlations(held_out, np.repeat(signs[None], most, axis=0))
    kept = np.flatnonzero(validity > least_validity)
    if not len(kept):
        return None
    axes = _components(rows, signs, most)[kept]
    scores = axes @ rows.T
    centred = rows - rows.mean(axis=0)
    supporting, opposing = mean_scores(scores, np.repeat(signs[None], len(kept), axis=0))
    return PolarizationAxis(
        axis=axes.astype(np.float32),
        method="components",
        explained_variance_ratio=np.square(axes @ centred.T).sum(axis=1) / np.square(centred).sum(),
        relative_gap=np.full(len(kept), np.nan),
        validity=validity[kept],
        neutral_centre=(supporting + opposing) / 2,
        mean_anchor_score=np.zeros(len(kept)),
        normalize=True,
        n_anchors=np.full(len(kept), n),
    )


def _components(rows: Float64Array, signs: Float64Array, most: int) -> Float64Array:
    """Leading right singular vectors of the centred rows, supporting side up."""
    _, _, vectors = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    axes: Float64Array = vectors[:most]
    supporting, opposing = mean_scores(axes @ rows.T, np.repeat(signs[None], len(axes), axis=0))
    return np.where((supporting < opposing)[:, None], -axes, axes)


def _refit(anchors: Float32Array, signs: Float64Array, method: str, penalty: float) -> Float64Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)  # the combination reports its own
        axis = PolarizationAxis.fit(anchors, signs, method, penalty=penalty).axis
    wide: Float64Array = axis.astype(np.float64)
    return wide


def stances_of(
    anchors: Float32Array,
    labels: Any,  # noqa: ANN401  numbers, one an anchor
    *,
    least: int,
) -> Float64Array:
    """Check the labelled anchors of one question, `least` to 200; give their stances."""
    topics, _ = topics_of([anchors])
    signs = (stances_of_topics([labels], topics, is_batch=True) or [])[0]
    _validate.integer("n_anchors", len(anchors), low=least, high=MOST_ANCHORS)
    return signs


def direction_of(axis: PolarizationAxis, dim: int, place: int) -> Float64Array:
    """Give the unit vector of one topic's axis in float64; `place` is for the message."""
    where = f"axis {place}"
    if axis.is_batch:
        raise InputError("others", "axes of one topic", f"{axis.n_topics} topics", where)
    if axis.dim != dim:
        raise InputError("others", f"{dim} columns, as the anchors", str(axis.dim), where)
    wide: Float64Array = axis.axis.astype(np.float64)
    return wide


def shares_of(weights: Sequence[float] | None, count: int) -> Float64Array:
    """Check one weight for each of so many axes; equal ones if absent."""
    if count == 0:
        raise InputError("others", "at least one axis, or a method", "none")
    if weights is None:
        return np.full(count, 1.0)
    _validate.same_length("weights", len(weights), "the axes", count)
    values = [_validate.number("weights", weight, low=0) for weight in weights]
    if not sum(values) > 0:
        raise InputError("weights", "one above 0", str(values))
    return np.array(values)
