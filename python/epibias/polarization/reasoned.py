"""The guided axis of few labelled anchors and of reasons that nobody vouches for.

A language model's reasons for and against (`generators.reasons.generated_reasons`) speak of what
the question's passages speak of, which poles by template do not; a small model takes the wrong side
now and then. So they are anchors of little weight, beside the real ones. In: what `guided_axis`
takes, and the reasons' rows. Out: one vector; scoring costs what any axis costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from epibias import _validate, kernels
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.errors import InputError
from epibias.polarization.axis import MAX_PENALTY, PolarizationAxis
from epibias.polarization.combined import stances_of, with_evidence
from epibias.polarization.fit import prepared_rows
from epibias.polarization.guided import SAME, TRUST, drawn, prior_of

SHARE = 0.15  # of a reason's squared error, beside 1 of an anchor's
PENALTY = 0.25


def reasoned_axis(
    others: Sequence[PolarizationAxis],
    anchors: Float32Array,
    labels: Any,  # noqa: ANN401  numbers, one an anchor
    opposing: Float32Array,
    supporting: Float32Array,
    *,
    weights: Sequence[float] | None = None,
    share: float = SHARE,
    trust: float = TRUST,
    penalty: float = PENALTY,
) -> PolarizationAxis:
    """Fit the axis of a question on its anchors, on reasons of less weight, and on other axes.

    Parameters
    ----------
    others : sequence of PolarizationAxis
        At least one, of this question, made without the anchors: from poles, `pooled`, by NLI.
    anchors : float32 [n_anchors, dim]
        Labelled passages, 2 to 200.
    labels : float [n_anchors]
        Their stances, of both signs.
    opposing, supporting : float32 [n_reasons, dim]
        Embeddings of generated reasons against and in favour, at least one each.
    weights : sequence of float, optional
        At least 0 and one above, one for each of `others`; 0.5 each if absent.
    share : float
        At least 0: what a reason's squared error counts, where an anchor's counts 1.
    trust, penalty : float
        As in `guided_axis`; the penalty is lower here, for there is more to fit.

    Returns
    -------
    PolarizationAxis
        Method "reasoned"; `validity` is the rank correlation of the stances with the scores of
        left-out anchors (reasons are no evidence), NaN where an anchor is the only one of its
        stance.

    Raises
    ------
    InputError
        As `guided_axis`; no reason on a side, reasons of another dtype, shape or other columns, a
        zero or non-finite row.

    Notes
    -----
    Unit rows of both kinds less the anchors' mean, scaled to unit length again; then each kind less
    its own mean. Anchors' stances are divided by the largest, reasons' are ±1, both less their
    mean. With X, y the rows and stances of the anchors above those of the reasons times √share, the
    axis is that of `guided_axis`. The defaults were chosen on Perspectrum's training claims;
    docs/evaluation_protocol.md has how.

    Examples
    --------
    >>> anchors = np.array([[1, 1, 0], [1, 0.8, 0.1], [1, -1, 0], [1, -0.7, 0]], np.float32)
    >>> against, in_favour = np.array([[[1, -0.5, 0.5]], [[1, 0.5, 0.6]]], np.float32)
    >>> poles = PolarizationAxis.fit(np.eye(3, dtype=np.float32)[[1, 1, 0, 0]], [1, 1, -1, -1])
    >>> axis = reasoned_axis([poles], anchors, [2, 1, -2, -1], against, in_favour)
    >>> axis.method, bool(axis.score(anchors)[0] > 0), bool(axis.validity > 0.7)
    ('reasoned', True, True)
    """
    signs = stances_of(anchors, labels, least=2)
    share = _validate.number("share", share, low=0)
    trust = _validate.number("trust", trust, low=0)
    penalty = _validate.number("penalty", penalty, above=0, high=MAX_PENALTY)
    known, mean = prior_of(others, anchors.shape[1], weights)
    against, in_favour = (
        _rows_of(name, some, anchors.shape[1])
        for name, some in (("opposing", opposing), ("supporting", supporting))
    )
    rows = prepared_rows(anchors[None], normalize=True)[0]
    weak = np.concatenate([against, in_favour])
    stances = signs / np.abs(signs).max()
    claimed = np.repeat([-1.0, 1.0], [len(against), len(in_favour)])

    def direction(keep: Int64Array) -> Float64Array:
        centre = rows[keep].mean(axis=0)
        kinds = ((rows[keep], stances[keep], 1.0), (weak, claimed, float(np.sqrt(share))))
        differences, targets = [], []
        for some, y, weight in kinds:
            turned = _units(some - centre)
            differences.append(weight * (turned - turned.mean(axis=0)))
            targets.append(weight * (y - y.mean()))
        both, wanted = np.concatenate(differences), np.concatenate(targets)
        return drawn(both, wanted, known, mean, trust, penalty)

    return with_evidence(direction, rows, signs, "reasoned")


def _rows_of(name: str, reasons: Float32Array, dim: int) -> Float64Array:
    """Check the reasons of one side; give their unit rows."""
    _validate.array(name, reasons, dtype=np.float32, ndim=2)
    if not len(reasons):
        raise InputError(name, "at least one row", "none")
    if reasons.shape[1] != dim:
        raise InputError(name, f"{dim} columns, as the anchors", f"shape {reasons.shape}")
    rows: Float64Array = reasons.astype(np.float64)
    rows *= kernels.inverse_norms(reasons, name)[:, None]
    return rows


def _units(differences: Float64Array) -> Float64Array:
    """Scale rows to unit length; one of no length, where all anchors kept are equal, stays so."""
    lengths = np.sqrt(np.square(differences).sum(axis=1, keepdims=True))
    units: Float64Array = differences / np.where(lengths > SAME, lengths, np.inf)
    return units
