"""How far the scores of left-out anchors follow their stances: validity of labelled axes.

One anchor is left out at a time, up to `MAX_FOLDS` anchors; beyond that anchor i is in fold
i mod `MAX_FOLDS`. Every fold refits everything, centring and orientation included. The refits of
the labelled methods are not done one by one: taking rows out of a linear fit changes it by a
formula, which gives the weights of all folds at once.

Shapes as in `fit`; weights [n_topics, n_folds, dim].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epibias import kernels
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.errors import InputError
from epibias.kernels_polarization import anchor_scores

MAX_FOLDS = 200
_FOLD_BYTES = 1 << 26  # copies of anchors that one call of the core may take
_SAME = 1e-7  # as in `fit`

BoolArray = NDArray[np.bool_]


def fold_of_anchors(n_anchors: int) -> Int64Array:
    """Fold of each anchor."""
    return np.arange(n_anchors) % min(n_anchors, MAX_FOLDS)


def of_pca(anchors: Float32Array, stances: Float64Array, normalize: bool) -> Float64Array:
    """Return the validity [n_topics] of the PCA axis; the core fits many folds at a time."""
    n_topics, n_anchors = anchors.shape[:2]
    scores = np.full((n_topics, n_anchors), np.nan)
    fold_of_anchor = fold_of_anchors(n_anchors)
    sizes = np.bincount(fold_of_anchor)
    possible = np.flatnonzero(_refits_are_possible(stances, fold_of_anchor))
    for size in np.unique(sizes):
        folds = np.flatnonzero(sizes == size)
        held_out = np.stack([np.flatnonzero(fold_of_anchor == fold) for fold in folds])
        rest = np.stack([np.flatnonzero(fold_of_anchor != fold) for fold in folds])
        # Pairs of topic and fold, as many at a time as memory allows.
        pairs = np.stack(np.meshgrid(possible, np.arange(len(folds)), indexing="ij"), axis=-1)
        pairs = pairs.reshape(-1, 2)
        per_call = max(1, _FOLD_BYTES // max(1, anchors[0].nbytes))
        for start in range(0, len(pairs), per_call):
            topic, fold = pairs[start : start + per_call].T[:, :, None]
            rests = rest[fold[:, 0]]
            axes = _refitted_axes(anchors[topic, rests], stances[topic, rests], normalize)
            places = held_out[fold[:, 0]]
            known = np.isfinite(axes).all(axis=1)
            scores[topic[known], places[known]] = anchor_scores(
                anchors[topic[known], places[known]], axes[known], normalize=normalize
            )
    return rank_correlations(scores, stances)


def _refitted_axes(anchors: Float32Array, stances: Float64Array, normalize: bool) -> Float32Array:
    """Return the axes [n_refits, dim]; NaN where a refit's anchors are equal."""
    try:
        axes, _, _ = kernels.polarization_axis(anchors, stances, normalize=normalize)
    except InputError:
        if len(anchors) == 1:
            return np.full((1, anchors.shape[2]), np.nan, np.float32)
        halves = np.array_split(np.arange(len(anchors)), 2)
        parts = [_refitted_axes(anchors[half], stances[half], normalize) for half in halves]
        axes = np.concatenate(parts)
    return axes


def of_mean_difference(
    rows: Float64Array, centred: Float64Array, stances: Float64Array
) -> Float64Array:
    """Return the validity [n_topics] of the vector between the means of both stances."""
    fold_of_anchor = fold_of_anchors(rows.shape[1])
    possible = _refits_are_possible(stances, fold_of_anchor)
    supporting, opposing = stances > 0, stances < 0
    with np.errstate(invalid="ignore", divide="ignore"):  # where no refit is possible
        weights = _rest_means(centred, supporting, fold_of_anchor)
        weights -= _rest_means(centred, opposing, fold_of_anchor)
    # Σ over the rest of |z − its mean|², a fold's anchors apart.
    n_rest = rows.shape[1] - np.bincount(fold_of_anchor)
    squares = _rest_sums(np.square(centred).sum(axis=2, keepdims=True), fold_of_anchor)[:, :, 0]
    sums = _rest_sums(centred, fold_of_anchor)
    spread = np.maximum(squares - np.square(sums).sum(axis=2) / n_rest, 0) / n_rest
    scores = _held_out_scores(rows, weights, np.sqrt(spread), fold_of_anchor)
    scores[~possible] = np.nan
    return rank_correlations(scores, stances)


def of_ridge(
    rows: Float64Array, centred: Float64Array, stances: Float64Array, penalty: float
) -> Float64Array:
    """Return the validity [n_topics] of the ridge regression's weight vector."""
    n_topics, n_anchors, dim = rows.shape
    fold_of_anchor = fold_of_anchors(n_anchors)
    possible = _refits_are_possible(stances, fold_of_anchor)
    refit = _refit_dual if n_anchors <= dim else _refit_primal
    scores = np.full((n_topics, n_anchors), np.nan)
    for topic in np.flatnonzero(possible):
        targets = scaled_targets(stances[topic][None])[0]
        weights, scales = refit(centred[topic], targets, penalty, fold_of_anchor)
        one = slice(topic, topic + 1)
        weights = _oriented_folds(weights[None], rows[one], stances[one], fold_of_anchor)
        scores[one] = _held_out_scores(rows[one], weights, scales[None], fold_of_anchor)
    return rank_correlations(scores, stances)


def scaled_targets(stances: Float64Array) -> Float64Array:
    """Stances divided by a power of two that brings the largest below 1.

    That changes no bit of the direction, and keeps huge stances from overflowing.
    """
    _, exponents = np.frexp(np.abs(stances).max(axis=1))
    targets: Float64Array = np.ldexp(stances, -exponents[:, None])
    return targets


def mean_weights(stances: Float64Array) -> Float64Array:
    """Weights that give the mean of the supporting anchors less that of the opposing ones."""
    supporting, opposing = stances > 0, stances < 0
    shares = supporting / supporting.sum(axis=1, keepdims=True)
    weights: Float64Array = shares - opposing / opposing.sum(axis=1, keepdims=True)
    return weights


def mean_scores(scores: Float64Array, stances: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Mean scores [n_topics] of the supporting and of the opposing anchors."""
    supporting, opposing = stances > 0, stances < 0
    return (
        np.where(supporting, scores, 0).sum(axis=1) / supporting.sum(axis=1),
        np.where(opposing, scores, 0).sum(axis=1) / opposing.sum(axis=1),
    )


def oriented(directions: Float64Array, rows: Float64Array, stances: Float64Array) -> Float64Array:
    """Directions or their opposites, so that supporting anchors score higher on average."""
    scores = (rows @ directions[:, :, None])[:, :, 0]
    supporting, opposing = mean_scores(scores, stances)
    return np.where((supporting < opposing)[:, None], -directions, directions)


def rank_correlations(scores: Float64Array, stances: Float64Array) -> Float64Array:
    """Spearman's correlation of each topic; NaN where a score is, 0 where all are equal."""
    result = np.empty(len(scores))
    for topic, (values, signs) in enumerate(zip(scores, stances, strict=True)):
        if np.isnan(values).any():
            result[topic] = np.nan
        elif np.ptp(values) == 0:  # they rank nothing
            result[topic] = 0
        else:
            ranks = [_centred_ranks(values), _centred_ranks(signs)]
            squares = (ranks[0] @ ranks[0]) * (ranks[1] @ ranks[1])
            result[topic] = (ranks[0] @ ranks[1]) / np.sqrt(squares)
    return result


def _centred_ranks(values: Float64Array) -> Float64Array:
    """Ranks less their mean; equal values share theirs."""
    ordered = np.sort(values)
    twice = np.searchsorted(ordered, values) + np.searchsorted(ordered, values, "right")
    return (twice - len(values)) / 2


def _refits_are_possible(stances: Float64Array, fold_of_anchor: Int64Array) -> BoolArray:
    """Whether every fold leaves anchors of both stances."""
    possible = np.ones(len(stances), bool)
    for side in (stances > 0, stances < 0):
        rest = _rest_sums(side[:, :, None].astype(np.float64), fold_of_anchor)
        possible &= (rest[:, :, 0] > 0).all(axis=1)
    return possible


def _fold_sums(values: Float64Array, fold_of_anchor: Int64Array) -> Float64Array:
    """Sum values [n_topics, n_anchors, m] over each fold: [n_topics, n_folds, m]."""
    n_folds = int(fold_of_anchor.max()) + 1
    sums: Float64Array = values[:, :n_folds].copy()
    for start in range(n_folds, values.shape[1], n_folds):
        more = values[:, start : start + n_folds]
        sums[:, : more.shape[1]] += more
    return sums


def _rest_sums(values: Float64Array, fold_of_anchor: Int64Array) -> Float64Array:
    """Sum over the anchors that a fold leaves in."""
    rest: Float64Array = values.sum(axis=1, keepdims=True) - _fold_sums(values, fold_of_anchor)
    return rest


def _rest_means(
    values: Float64Array, chosen: BoolArray, fold_of_anchor: Int64Array
) -> Float64Array:
    """Means over the chosen ones of the anchors that a fold leaves in."""
    counts = _rest_sums(chosen[:, :, None].astype(np.float64), fold_of_anchor)
    means: Float64Array = _rest_sums(values * chosen[:, :, None], fold_of_anchor) / counts
    return means


def _refit_dual(
    centred: Float64Array, targets: Float64Array, penalty: float, fold_of_anchor: Int64Array
) -> tuple[Float64Array, Float64Array]:
    """Weights [n_folds, dim] and their scales [n_folds] from one inverse of [n_anchors + 1]².

    The dual weights a and the intercept solve M(a, b) = (s, 0) with M = [[K + I, 1], [1ᵀ, 0]] and K
    the products of the centred rows divided by the penalty. Without rows H they are
    a − M⁻¹[:, H] (M⁻¹[H, H])⁻¹ a[H].
    """
    n_anchors = len(centred)
    bordered = np.ones((n_anchors + 1, n_anchors + 1))
    bordered[:-1, :-1] = centred @ centred.T / penalty
    bordered[np.arange(n_anchors), np.arange(n_anchors)] += 1
    bordered[-1, -1] = 0
    inverse = np.linalg.inv(bordered)[:-1, :-1]
    dual = inverse @ targets
    n_folds = int(fold_of_anchor.max()) + 1
    duals = np.empty((n_folds, n_anchors))
    for fold in range(n_folds):
        out = np.arange(fold, n_anchors, n_folds)
        change = np.linalg.solve(inverse[np.ix_(out, out)], dual[out])
        duals[fold] = dual - inverse[:, out] @ change
        duals[fold, out] = 0
    weights = duals @ centred / penalty
    return weights, _scales(centred, np.sqrt(np.square(duals).sum(axis=1)) / penalty)


def _refit_primal(
    centred: Float64Array, targets: Float64Array, penalty: float, fold_of_anchor: Int64Array
) -> tuple[Float64Array, Float64Array]:
    """Return the same from one inverse of [dim]².

    Without rows H the weights are w − A⁻¹ X_Hᵀ (I − L)⁻¹ r_H with A = XᵀX + penalty·I, r what the
    regression on all rows leaves over and L = X_H A⁻¹ X_Hᵀ + 1/n their leverages.
    """
    n_anchors, dim = centred.shape
    products = centred.T @ centred
    products[np.arange(dim), np.arange(dim)] += penalty
    inverse = np.linalg.inv(products)
    targets = targets - targets.mean()
    weights = inverse @ (centred.T @ targets)
    left_over = targets - centred @ weights
    n_folds = int(fold_of_anchor.max()) + 1
    refitted = np.empty((n_folds, dim))
    for fold in range(n_folds):
        out = np.arange(fold, n_anchors, n_folds)
        part = centred[out] @ inverse
        leverages = part @ centred[out].T + 1 / n_anchors
        change = np.linalg.solve(np.eye(len(out)) - leverages, left_over[out])
        refitted[fold] = weights - change @ part
    length = float(np.linalg.norm(left_over)) / penalty
    return refitted, _scales(centred, np.full(n_folds, length))


def _scales(centred: Float64Array, dual_lengths: Float64Array) -> Float64Array:
    """Return what the lengths of weights are held against: the product of their parts' lengths."""
    scales: Float64Array = np.linalg.norm(centred) * dual_lengths
    return scales


def _oriented_folds(
    weights: Float64Array, rows: Float64Array, stances: Float64Array, fold_of_anchor: Int64Array
) -> Float64Array:
    """Weights or their opposites, by the mean scores of the anchors that a fold leaves in."""
    difference = _rest_means(rows, stances > 0, fold_of_anchor)
    difference -= _rest_means(rows, stances < 0, fold_of_anchor)
    backwards = np.einsum("tfd,tfd->tf", weights, difference) < 0
    return np.where(backwards[:, :, None], -weights, weights)


def _held_out_scores(
    rows: Float64Array, weights: Float64Array, scales: Float64Array, fold_of_anchor: Int64Array
) -> Float64Array:
    """Scores [n_topics, n_anchors], each by its fold's weights; NaN where those are rounding."""
    lengths = np.sqrt(np.square(weights).sum(axis=2))
    lengths[~(lengths > _SAME * scales)] = np.nan
    unit = weights / lengths[:, :, None]
    n_folds = weights.shape[1]
    scores = np.empty(rows.shape[:2])
    for start in range(0, rows.shape[1], n_folds):
        some = rows[:, start : start + n_folds]
        scores[:, start : start + n_folds] = np.einsum(
            "tfd,tfd->tf", some, unit[:, : some.shape[1]]
        )
    return scores
