"""Fit the directions of a polarization axis: topics with as many anchors go together.

`polarization.PolarizationAxis` is the public face. The PCA axis comes from the core; the labelled
ones are float64 numpy on rows of unit length (or as they are). Centring happens inside every fit,
and a direction has unit length.

Shapes: anchors float32 [n_topics, n_anchors, dim], rows the same in float64, stances float64
[n_topics, n_anchors], directions [n_topics, dim]. Memory of a labelled fit: a few times its rows in
float64, for at most `_ROW_BYTES` of rows (or one topic) at a time, and min(n_anchors, dim)².
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epibias import kernels
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.errors import InputError
from epibias.kernels_polarization import anchor_scores
from epibias.polarization import validity
from epibias.polarization.inputs import Group

_ROW_BYTES = 1 << 25
_SAME = 1e-7  # a direction shorter than this share of its parts is rounding, not a difference
EQUAL_ANCHORS = 1e-14  # the core's rule for the PCA axis, here for every method

# Axes, explained variance ratio, relative gap and validity (None without stances).
Fits = tuple[Float32Array, Float64Array, Float64Array, Float64Array | None]


class IndistinctAnchorsError(InputError):
    """Anchors whose difference is rounding; `topic` is the number that the message leaves out."""

    topic: int


def fit_pca(
    groups: Sequence[Group], stances: Sequence[Float64Array] | None, normalize: bool
) -> Fits:
    """Axes, explained variance, relative gaps and validity of topics."""
    axes, explained, gaps = _empty(groups)
    validities = np.empty(len(axes))
    for numbers, anchors in groups:
        signs = None if stances is None else stances_of(stances, numbers)
        axes[numbers], explained[numbers], gaps[numbers] = kernels.polarization_axis(
            anchors, signs, normalize=normalize
        )
        if signs is not None:
            validities[numbers] = validity.of_pca(anchors, signs, normalize)
    return axes, explained, gaps, None if stances is None else validities


def fit_labelled(
    groups: Sequence[Group],
    stances: Sequence[Float64Array],
    method: str,
    penalty: float,
    normalize: bool,
) -> Fits:
    """Return the same for "mean_difference" or "ridge"; their relative gap is NaN."""
    axes, explained, gaps = _empty(groups)
    validities = np.empty(len(axes))
    gaps.fill(np.nan)
    for numbers, anchors in groups:
        per_part = max(1, _ROW_BYTES // max(1, 8 * anchors[0].size))
        for start in range(0, len(numbers), per_part):
            part = numbers[start : start + per_part]
            signs = stances_of(stances, part)
            rows = prepared_rows(anchors[start : start + per_part], normalize)
            centred = rows - rows.mean(axis=1, keepdims=True)
            variance = np.square(centred).sum(axis=(1, 2))
            _require("anchors that differ", variance > EQUAL_ANCHORS * _squares(rows), part)
            if method == "ridge":
                directions = ridge(centred, signs, penalty, part)
                directions = validity.oriented(directions, rows, signs)
                validities[part] = validity.of_ridge(rows, centred, signs, penalty)
            else:
                directions = mean_difference(rows, signs, variance, part)
                validities[part] = validity.of_mean_difference(rows, centred, signs)
            axes[part] = directions
            along = np.square(centred @ directions[:, :, None]).sum(axis=(1, 2))
            explained[part] = along / variance
    return axes, explained, gaps, validities


def stances_of(stances: Sequence[Float64Array], numbers: Int64Array) -> Float64Array:
    """Stances of some topics with as many anchors."""
    return np.stack([stances[number] for number in numbers])


def prepared_rows(anchors: Float32Array, normalize: bool) -> Float64Array:
    """Anchors in float64, of unit length if asked."""
    rows: Float64Array = anchors.astype(np.float64)
    if normalize:
        norms = kernels.inverse_norms(anchors.reshape(-1, anchors.shape[-1]), "anchors")
        rows *= norms.reshape(*anchors.shape[:-1], 1)
    return rows


def mean_difference(
    rows: Float64Array, stances: Float64Array, variance: Float64Array, numbers: Int64Array
) -> Float64Array:
    """Return the unit vectors from the mean of the opposing anchors to that of the supporting."""
    difference = (validity.mean_weights(stances)[:, None, :] @ rows)[:, 0]
    spread = np.sqrt(variance / rows.shape[1])
    expected = "supporting and opposing anchors with different means"
    return _unit(difference, spread, expected, numbers)


def ridge(
    centred: Float64Array, stances: Float64Array, penalty: float, numbers: Int64Array
) -> Float64Array:
    """Return the unit weight vectors of the ridge regression of the stances on the centred rows.

    Dual form w = Xᵀ(XXᵀ + penalty·I)⁻¹(s − mean s), X the centred rows; with more anchors than
    dimensions the primal form w = (XᵀX + penalty·I)⁻¹Xᵀ(s − mean s), whose matrix is smaller.
    """
    targets = validity.scaled_targets(stances)
    targets = (targets - targets.mean(axis=1, keepdims=True))[:, :, None]
    transposed = centred.transpose(0, 2, 1)
    n_anchors, dim = centred.shape[1:]
    if n_anchors <= dim:
        dual = np.linalg.solve(_plus(centred @ transposed, penalty), targets)
        weights = (transposed @ dual)[:, :, 0]
    else:
        weights = np.linalg.solve(_plus(transposed @ centred, penalty), transposed @ targets)
        dual = (targets - centred @ weights) / penalty
        weights = weights[:, :, 0]
    scale = np.sqrt(_squares(centred) * _squares(dual))
    return _unit(weights, scale, "anchors that differ along with their stances", numbers)


def centres_and_means(
    groups: Sequence[Group],
    axes: Float32Array,
    stances: Sequence[Float64Array] | None,
    normalize: bool,
    center: bool,
) -> tuple[Float64Array, Float64Array]:
    """Neutral centres [n_topics], and the mean scores to subtract (0 unless `center`)."""
    centres, means = np.empty(len(axes)), np.zeros(len(axes))
    for numbers, anchors in groups:
        scores = anchor_scores(anchors, axes[numbers], normalize=normalize)
        if center:
            means[numbers] = scores.mean(axis=1)
            scores -= means[numbers, None]
        signs = None if stances is None else stances_of(stances, numbers)
        centres[numbers] = neutral_centres(scores, signs)
    return centres, means


def neutral_centres(scores: Float64Array, stances: Float64Array | None) -> Float64Array:
    """Midpoints between the mean scores of both stances, or between the extreme scores."""
    if stances is None:
        sums: Float64Array = scores.min(axis=1) + scores.max(axis=1)
    else:
        sums = np.add(*validity.mean_scores(scores, stances))
    return sums / 2


def _empty(groups: Sequence[Group]) -> tuple[Float32Array, Float64Array, Float64Array]:
    n_topics = sum(len(numbers) for numbers, _ in groups)
    dim = groups[0][1].shape[2]
    return np.empty((n_topics, dim), np.float32), np.empty(n_topics), np.empty(n_topics)


def _plus(matrices: Float64Array, penalty: float) -> Float64Array:
    diagonal = np.arange(matrices.shape[1])
    matrices[:, diagonal, diagonal] += penalty
    return matrices


def _squares(values: Float64Array) -> Float64Array:
    squares: Float64Array = np.square(values).sum(axis=(1, 2))
    return squares


def _unit(
    vectors: Float64Array, scales: Float64Array, expected: str, numbers: Int64Array
) -> Float64Array:
    lengths = np.sqrt(np.square(vectors).sum(axis=1))
    _require(expected, lengths > _SAME * scales, numbers)
    unit: Float64Array = vectors / lengths[:, None]
    return unit


def _require(expected: str, good: validity.BoolArray, numbers: Int64Array) -> None:
    for topic in numbers[~good][:1]:
        error = IndistinctAnchorsError("anchors", expected, "no difference beyond rounding")
        error.topic = int(topic)
        raise error
