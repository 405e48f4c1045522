"""What a question's own unlabelled passages say of whether its axis can be relied on.

`agreement`: where poles, a pooled axis and a fit on anchors rank the passages alike, they hardly
err alike. `coverage`: an axis that is fitted on anchors hears what the anchors speak of. In: axes
or anchors of one question, embeddings of its passages. Out: one number, which `validity_report` can
learn a threshold on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from epibias import _validate, kernels
from epibias._validate import Float32Array
from epibias.errors import InputError
from epibias.polarization.axis import PolarizationAxis
from epibias.polarization.validity import rank_correlations

LEAST_PASSAGES = 3


def agreement(axes: Sequence[PolarizationAxis], passages: Float32Array) -> float:
    """Mean rank correlation, over pairs of axes, of their scores of the same passages.

    Parameters
    ----------
    axes : sequence of PolarizationAxis
        At least two of one question, none made from another of them: a pair that shares anchors
        agrees for that alone.
    passages : float32 [n_passages, dim]
        Unlabelled passages of the question that no axis was fitted on, at least three.

    Returns
    -------
    float
        In [−1, 1]: 1 where all rank the passages alike, about 0 where one of two hears noise.

    Raises
    ------
    InputError
        Fewer than two axes or three passages, an axis of several topics or of other columns.

    Notes
    -----
    Spearman's correlation; a score that is the same for all passages agrees with nothing (0). For
    n passages and axes that hear nothing of the same it scatters by about 1/√(n − 1).

    Examples
    --------
    >>> anchors = np.array([[1, 1, 0], [1, 0.9, 0], [1, -1, 0], [1, -0.8, 0]], np.float32)
    >>> first = PolarizationAxis.fit(anchors, [2, 1, -2, -1], "ridge")
    >>> other = PolarizationAxis.fit(anchors + np.float32(0.1), [1, 1, -1, -1], "mean_difference")
    >>> passages = np.array([[1, 1, 0], [1, 0.2, 0], [1, -1, 0.1]], np.float32)
    >>> agreement([first, other], passages).__round__(6)
    1.0
    """
    if len(axes) < 2:
        raise InputError("axes", "at least two axes", str(len(axes)))
    for place, axis in enumerate(axes):
        if axis.is_batch:
            expected = "axes of one topic"
            raise InputError("axes", expected, f"{axis.n_topics} topics", f"axis {place}")
    _validate.array("passages", passages, dtype=np.float32, ndim=2)
    if len(passages) < LEAST_PASSAGES:
        raise InputError("passages", f"at least {LEAST_PASSAGES} rows", str(len(passages)))
    scores = np.stack([axis.score(passages).astype(np.float64) for axis in axes])
    first, second = (list(side) for side in zip(*combinations(range(len(axes)), 2), strict=True))
    return float(_correlations(scores[first], scores[second]).mean())


def coverage(anchors: Float32Array, passages: Float32Array) -> float:
    """Mean cosine of a question's passages with the anchor that is nearest to each.

    Parameters
    ----------
    anchors : float32 [n_anchors, dim]
        What the axis was fitted on, at least one.
    passages : float32 [n_passages, dim]
        Unlabelled passages of the question, at least one; no anchor among them.

    Returns
    -------
    float
        In [−1, 1]. Encoders differ in what is near: compare within one encoder.

    Raises
    ------
    InputError
        Wrong dtype or shape, other columns, no row, a zero or non-finite row.

    Examples
    --------
    >>> anchors = np.array([[1, 0], [0, 1]], np.float32)
    >>> coverage(anchors, np.array([[2, 0], [3, 4]], np.float32)).__round__(6)
    0.9
    """
    units = []
    for name, rows in (("anchors", anchors), ("passages", passages)):
        _validate.array(name, rows, dtype=np.float32, ndim=2)
        if not len(rows):
            raise InputError(name, "at least one row", "none")
        units.append(rows * kernels.inverse_norms(rows, name)[:, None])
    if units[0].shape[1] != units[1].shape[1]:
        expected = f"{units[0].shape[1]} columns, as the anchors"
        raise InputError("passages", expected, f"shape {passages.shape}")
    return float((units[1] @ units[0].T).max(axis=1).mean())


def _correlations(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Spearman's correlation of each row; 0 where one of the two does not differ."""
    flat = np.ptp(second, axis=1) == 0
    second = np.where(flat[:, None], first, second)  # the rank correlation divides by its spread
    return np.where(flat, 0.0, rank_correlations(first, second))
