"""Fit the directions of a polarization axis from unit rows of anchors, and check them.

`polarization.PolarizationAxis` is the public face. The PCA axis comes from the core; the labelled
ones are float64 numpy on a few anchors. Rows come in normalised (or left as they are), centring
happens inside every fit, and a direction has unit length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from epibias import kernels
from epibias._dispatch import renamed
from epibias._validate import Float32Array, Float64Array
from epibias.errors import InputError

MAX_FOLDS = 200  # a refit costs n³: up to here every anchor is a fold of its own
_FOLD_BYTES = 1 << 26  # copies of anchors that one call of the core may take
_SAME = 1e-7  # a direction shorter than this share of its parts is rounding, not a difference

BoolArray = NDArray[np.bool_]
Direction = Callable[[Float64Array, Float64Array], Float64Array]


Fits = tuple[Float32Array, Float64Array, Float64Array, Float64Array | None]


def fit_pca(
    topics: Sequence[Float32Array], stances: Sequence[Float64Array] | None, normalize: bool
) -> Fits:
    """Axes, explained variance, relative gaps and validity; topics of one size in one call."""
    axes = np.empty((len(topics), topics[0].shape[1]), np.float32)
    explained, gaps = np.empty(len(topics)), np.empty(len(topics))
    for n_anchors in sorted({len(anchors) for anchors in topics}):
        numbers = [i for i, anchors in enumerate(topics) if len(anchors) == n_anchors]
        together = None if stances is None else np.stack([stances[i] for i in numbers])
        axes[numbers], explained[numbers], gaps[numbers] = kernels.polarization_axis(
            np.stack([topics[i] for i in numbers]), together, normalize=normalize
        )
    if stances is None:
        return axes, explained, gaps, None
    pairs = zip(topics, stances, strict=True)
    return axes, explained, gaps, np.array([validity_of_pca(*pair, normalize) for pair in pairs])


def fit_labelled(
    topics: Sequence[Float32Array],
    stances: Sequence[Float64Array],
    method: str,
    penalty: float,
    normalize: bool,
) -> Fits:
    """Return the same for "mean_difference" or "ridge"; their relative gap is NaN."""
    direction = mean_difference if method == "mean_difference" else partial(ridge, penalty=penalty)
    axes = np.empty((len(topics), topics[0].shape[1]), np.float32)
    explained, validity = np.empty(len(topics)), np.empty(len(topics))
    for number, (anchors, signs) in enumerate(zip(topics, stances, strict=True)):
        rows = prepared_rows(anchors, normalize)
        with renamed(where=f"topic {number}" if len(topics) > 1 else None):
            axis = direction(rows, signs)
        axes[number] = axis
        explained[number] = explained_variance_ratio(rows, axis)
        validity[number] = validity_of_directions(rows, signs, direction)
    return axes, explained, np.full(len(topics), np.nan), validity


def prepared_rows(anchors: Float32Array, normalize: bool) -> Float64Array:
    """Anchors in float64, of unit length if asked."""
    rows: Float64Array = anchors.astype(np.float64)
    if normalize:
        largest = np.abs(rows).max(axis=1, keepdims=True)
        rows = rows / largest  # first, so that no square overflows or vanishes
        rows /= np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return rows


def mean_difference(rows: Float64Array, stances: Float64Array) -> Float64Array:
    """Return the unit vector from the mean of the opposing anchors to that of the supporting."""
    difference = rows[stances > 0].mean(axis=0) - rows[stances < 0].mean(axis=0)
    spread = float(np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean()))
    return _unit(difference, spread, "supporting and opposing anchors with different means")


def ridge(rows: Float64Array, stances: Float64Array, penalty: float = 1.0) -> Float64Array:
    """Return the unit weight vector of the ridge regression of the stances on the centred rows.

    Dual form: w = Xᵀ(XXᵀ + penalty·I)⁻¹(s − mean s), X the centred rows.
    """
    centred = rows - rows.mean(axis=0)
    gram = centred @ centred.T
    gram[np.diag_indices_from(gram)] += penalty
    # A power of two changes no bit of the direction, and keeps huge stances from overflowing.
    _, exponent = np.frexp(np.abs(stances).max())
    scaled = np.ldexp(stances, -int(exponent))
    dual = np.linalg.solve(gram, scaled - scaled.mean())
    scale = float(np.linalg.norm(centred) * np.linalg.norm(dual))
    direction = _unit(centred.T @ dual, scale, "anchors that differ along with their stances")
    return oriented(direction, rows, stances)


def oriented(direction: Float64Array, rows: Float64Array, stances: Float64Array) -> Float64Array:
    """Return the direction or its opposite, so that supporting anchors score higher on average."""
    scores = rows @ direction
    if scores[stances > 0].mean() < scores[stances < 0].mean():
        return -direction
    return direction


def explained_variance_ratio(rows: Float64Array, axis: Float64Array) -> float:
    """Share of the anchors' variance that lies along the axis."""
    centred = rows - rows.mean(axis=0)
    return float(((centred @ axis) ** 2).sum() / (centred**2).sum())


def neutral_centre(scores: Float64Array, stances: Float64Array | None) -> float:
    """Midpoint between the mean scores of both stances, or between the extreme scores."""
    if stances is None:
        return float((scores.min() + scores.max()) / 2)
    return float((scores[stances > 0].mean() + scores[stances < 0].mean()) / 2)


def validity_of_directions(
    rows: Float64Array, stances: Float64Array, direction: Direction
) -> float:
    """Rank correlation of left-out anchors' scores with their stances; NaN if a refit fails."""
    scores = np.empty(len(rows))
    folds = held_out_folds(stances)
    try:
        for fold in folds:
            scores[fold] = rows[fold] @ direction(rows[~fold], stances[~fold])
    except InputError:
        return float("nan")
    return rank_correlation(scores, stances) if folds else float("nan")


def validity_of_pca(anchors: Float32Array, stances: Float64Array, normalize: bool) -> float:
    """`validity_of_directions` for the PCA axis; equal folds go to the core in batches."""
    folds = held_out_folds(stances)
    rows = prepared_rows(anchors, normalize)
    scores = np.empty(len(rows))
    per_call = max(1, _FOLD_BYTES // anchors.nbytes)
    for n_held_out in sorted({int(fold.sum()) for fold in folds}):
        equal = [fold for fold in folds if int(fold.sum()) == n_held_out]
        for start in range(0, len(equal), per_call):
            batch = equal[start : start + per_call]
            rest = np.stack([anchors[~fold] for fold in batch])
            signs = np.stack([stances[~fold] for fold in batch])
            try:
                axes, _, _ = kernels.polarization_axis(rest, signs, normalize=normalize)
            except InputError:
                return float("nan")
            for fold, axis in zip(batch, axes, strict=True):
                scores[fold] = rows[fold] @ axis.astype(np.float64)
    return rank_correlation(scores, stances) if folds else float("nan")


def held_out_folds(stances: Float64Array) -> list[BoolArray]:
    """Masks of the anchors that each refit leaves out; none where a refit would lack a stance.

    One anchor a fold up to `MAX_FOLDS` anchors; beyond that anchor i is in fold i mod `MAX_FOLDS`.
    """
    n_folds = min(len(stances), MAX_FOLDS)
    fold_of_anchor = np.arange(len(stances)) % n_folds
    folds = [fold_of_anchor == fold for fold in range(n_folds)]
    rests = [stances[~fold] for fold in folds]
    return folds if all((r > 0).any() and (r < 0).any() for r in rests) else []


def rank_correlation(scores: Float64Array, stances: Float64Array) -> float:
    """Spearman's correlation; 0 where all scores are equal, for then they rank nothing."""
    if np.ptp(scores) == 0:
        return 0.0
    from scipy.stats import spearmanr

    return float(spearmanr(scores, stances).statistic)


def _unit(vector: Float64Array, scale: float, expected: str) -> Float64Array:
    length = float(np.linalg.norm(vector))
    if not length > _SAME * scale:
        raise InputError("anchors", expected, "no difference beyond rounding")
    return vector / length
