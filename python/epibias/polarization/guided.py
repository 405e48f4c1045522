"""The axis of few labelled anchors, guided by axes that were made without them.

Poles and pooled directions hear stance on most topics, and the wrong way round on some; six anchors
tell which, but fix few of an embedding's dimensions. In: such axes, and the anchors. Out: the ridge
regression whose weights are drawn to a sum of the axes, and may leave it along them at less cost
than elsewhere. Scoring costs what any axis costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.errors import InputError
from epibias.polarization.axis import MAX_PENALTY, PolarizationAxis
from epibias.polarization.combined import direction_of, shares_of, stances_of, with_evidence
from epibias.polarization.fit import prepared_rows

WEIGHT = 0.5  # of each axis in the prior mean, in stances a unit of score
TRUST = 2.0  # how much further than elsewhere the weights may move along an axis
SAME = 1e-9  # a direction, or a difference, shorter than this is rounding


def guided_axis(
    others: Sequence[PolarizationAxis],
    anchors: Float32Array,
    labels: Any,  # noqa: ANN401  numbers, one an anchor
    *,
    weights: Sequence[float] | None = None,
    trust: float = TRUST,
    penalty: float = 1.0,
) -> PolarizationAxis:
    """Fit the axis of a question on its anchors and on axes that have not seen them.

    Parameters
    ----------
    others : sequence of PolarizationAxis
        At least one, of this question, made without the anchors: from poles, `pooled`, by NLI.
    anchors : float32 [n_anchors, dim]
        Labelled passages, 2 to 200.
    labels : float [n_anchors]
        Their stances, of both signs.
    weights : sequence of float, optional
        At least 0 and one above, one for each of `others`: what the prior mean has of it; 0.5 each
        if absent.
    trust : float
        At least 0. How freely the anchors may weigh each of `others` anew, or turn it around.
    penalty : float
        Of the ridge regression, in (0, 10¹⁰⁰].

    Returns
    -------
    PolarizationAxis
        Method "guided"; `validity` is the rank correlation of the stances with the scores of
        left-out anchors, NaN where an anchor is the only one of its stance.

    Raises
    ------
    InputError
        No other axis, one of several topics or other columns, weights that do not fit, anchors and
        labels as `PolarizationAxis.fit` refuses them, a penalty that is nothing beside the
        trust, no direction.

    Notes
    -----
    With X the unit rows and y the stances (divided by the largest), both less their means, aᵢ the
    other axes and sᵢ their weights, the axis lies along the w that minimises
    |y − Xw|² + penalty · (w − m)ᵀ M⁻¹ (w − m), m = Σ sᵢ aᵢ, M = I + trust · Σ aᵢ aᵢᵀ. So
    w = m + M Xᵀ (X M Xᵀ + penalty · I)⁻¹ (y − X m): one system of n_anchors². The defaults were
    chosen on Perspectrum's training claims; docs/evaluation_protocol.md has how.

    Examples
    --------
    >>> anchors = np.array([[1, 1, 0], [1, 0.8, 0], [1, -1, 0], [1, -0.7, 0]], np.float32)
    >>> sides = np.array([[1, -1, 0.2], [1, 1, -0.2]] * 2, np.float32)  # hears it backwards
    >>> poles = PolarizationAxis.fit(sides, [1, -1] * 2)
    >>> axis = guided_axis([poles], anchors, [2, 1, -2, -1])
    >>> axis.method, bool(axis.score(anchors)[0] > 0), bool(axis.validity > 0.7)
    ('guided', True, True)
    """
    signs = stances_of(anchors, labels, least=2)
    trust = _validate.number("trust", trust, low=0)
    penalty = _validate.number("penalty", penalty, above=0, high=MAX_PENALTY)
    known, mean = prior_of(others, anchors.shape[1], weights)
    rows = prepared_rows(anchors[None], normalize=True)[0]
    stances = signs / np.abs(signs).max()

    def direction(keep: Int64Array) -> Float64Array:
        centred, targets = rows[keep] - rows[keep].mean(axis=0), stances[keep]
        return drawn(centred, targets - targets.mean(), known, mean, trust, penalty)

    return with_evidence(direction, rows, signs, "guided")


def prior_of(
    others: Sequence[PolarizationAxis], dim: int, weights: Sequence[float] | None
) -> tuple[Float64Array, Float64Array]:
    """Directions of the other axes [n_axes, dim], and the mean of the prior, their weighted sum."""
    parts = [direction_of(axis, dim, place) for place, axis in enumerate(others)]
    if not parts:
        raise InputError("others", "at least one axis", "none")
    known = np.stack(parts)
    given = [WEIGHT] * len(parts) if weights is None else weights
    return known, shares_of(given, len(parts)) @ known


def drawn(
    centred: Float64Array,
    targets: Float64Array,
    known: Float64Array,
    mean: Float64Array,
    trust: float,
    penalty: float,
) -> Float64Array:
    """Direction of w [dim] in the notes above, unit length, of rows and stances less their means.

    Raises
    ------
    InputError
        A penalty that is nothing beside rows and trust, no direction.
    """
    along = centred @ known.T  # [n_anchors, n_axes]
    gram = centred @ centred.T + trust * along @ along.T
    gram[np.arange(len(gram)), np.arange(len(gram))] += penalty
    try:
        dual = np.linalg.solve(gram, targets - centred @ mean)
    except np.linalg.LinAlgError:
        expected = "one that is not lost in the rounding of anchors and trust"
        raise InputError("penalty", expected, f"{penalty:g}") from None
    total: Float64Array = mean + dual @ centred + trust * (dual @ along) @ known
    length = float(np.sqrt(total @ total))
    if not length > SAME:
        raise InputError("anchors", "a direction of stance", "none beyond rounding")
    return total / length
