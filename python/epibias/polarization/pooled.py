"""Axes for questions that have no labelled passages of their own, learnt on other topics.

Stance is partly said alike on every topic ("harm", "fails", "deserves"), partly only near a
subject. A ridge regression with the product kernel below learns both from passages of many topics,
and gives the axis of a new question from the question alone; a few labelled anchors of its own can
be added. Owns the regression in float64; `axis.PolarizationAxis` is what comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epibias import _validate, kernels
from epibias._validate import Float32Array, Float64Array
from epibias.errors import InputError
from epibias.polarization.axis import MAX_PENALTY, PolarizationAxis
from epibias.polarization.fit import prepared_rows
from epibias.polarization.inputs import stances_of_topics, topics_of
from epibias.polarization.validity import rank_correlations

_SAME = 1e-9  # a direction shorter than this share of its parts is rounding


@dataclass(frozen=True, eq=False)
class PooledStance:
    """What passages of many topics say of stance, ready to give the axis of another question.

    Attributes
    ----------
    contexts : float64 [n_topics, context_dim]
        Unit rows that stand for the topics.
    rows : float64 [n_passages, dim]
        Unit rows of the passages, less their topic's mean.
    weights : float64 [n_passages]
        Dual weights of the regression without anchors.
    signs : float64 [n_passages]
        The stances that were regressed, each topic's divided by its largest.
    topic_of_passage : int64 [n_passages]
    shared, penalty : float

    Examples
    --------
    >>> side = np.array([[1, 1, 0], [1, -1, 0]] * 3, np.float32)
    >>> far = np.array([[0, 1, 1], [0, -1, 1]] * 3, np.float32)
    >>> topics = np.eye(3, dtype=np.float32)[[0, 2]]
    >>> pooled = PooledStance.fit([side, far], [[1, -1] * 3] * 2, topics)
    >>> pooled.axis(np.array([1, 1, 1], np.float32)).axis.round(3)
    array([0., 1., 0.], dtype=float32)
    """

    contexts: Float64Array
    rows: Float64Array
    weights: Float64Array
    signs: Float64Array
    topic_of_passage: _validate.Int64Array
    shared: float
    penalty: float

    @classmethod
    def fit(
        cls,
        passages: Sequence[Float32Array],
        stances: Any,  # noqa: ANN401  numbers, a row of them a topic
        contexts: Float32Array,
        *,
        shared: float = 1.0,
        penalty: float = 1.0,
    ) -> PooledStance:
        """Regress stances on passages of many topics.

        The kernel of passages x, x' of topics with contexts u, u' is
        (shared + uᵀu') · (x − mean)ᵀ(x' − mean'), unit rows throughout, each passage less the mean
        of its topic: one direction that all topics share, and one that turns with the context.

        Parameters
        ----------
        passages : list of float32 [n_i, dim]
            Labelled passages of each topic, at least two.
        stances : list of float [n_i]
            Above 0 supports, below 0 opposes; both must occur in each topic.
        contexts : float32 [n_topics, context_dim]
            What stands for a topic: the question's embedding, or the difference of its poles'.
        shared : float
            Weight of what topics share, at least 0.
        penalty : float
            Of the ridge regression, in (0, 10¹⁰⁰].

        Returns
        -------
        PooledStance

        Raises
        ------
        InputError
            Arrays that do not fit each other, labels of one sign, a zero or non-finite row.

        Examples
        --------
        >>> rows = np.array([[1, 1], [1, -1]], np.float32)
        >>> PooledStance.fit([rows], [[1, -1]], np.ones((1, 1), np.float32)).rows.shape
        (2, 2)
        """
        shared = _validate.number("shared", shared, low=0)
        penalty = _validate.number("penalty", penalty, above=0, high=MAX_PENALTY)
        topics, _ = topics_of(list(passages))
        labels = stances_of_topics(stances, topics, is_batch=True) or []
        _validate.array("contexts", contexts, dtype=np.float32, ndim=2)
        _validate.same_length("contexts", len(contexts), "passages", len(topics))
        rows = np.concatenate([_centred(topic) for topic in topics])
        signs = np.concatenate([one / np.abs(one).max() for one in labels])
        topic_of = np.repeat(np.arange(len(topics)), [len(topic) for topic in topics])
        units = _units(contexts, "contexts")
        kernel = (shared + (units @ units.T)[np.ix_(topic_of, topic_of)]) * (rows @ rows.T)
        kernel[np.arange(len(rows)), np.arange(len(rows))] += penalty
        weights = np.linalg.solve(kernel, signs)
        return cls(units, rows, weights, signs, topic_of, shared, penalty)

    def axis(
        self,
        context: Float32Array,
        anchors: Float32Array | None = None,
        labels: Any = None,  # noqa: ANN401
    ) -> PolarizationAxis:
        """Return the axis of another question.

        Parameters
        ----------
        context : float32 [context_dim]
            Of the question.
        anchors : float32 [n_anchors, dim], optional
            Labelled passages of the question itself. They take no part in the fit: they orient
            nothing, but give `validity` and the neutral centre.
        labels : float [n_anchors], optional
            Their stances, of both signs; with `anchors`.

        Returns
        -------
        PolarizationAxis
            Method "pooled". Without anchors `validity` is None and the neutral centre NaN: a
            pool then needs `neutral_centres`.

        Raises
        ------
        InputError
            A context of other columns, anchors without labels, no direction.

        Examples
        --------
        >>> rows = np.array([[1, 1], [1, -1]], np.float32)
        >>> pooled = PooledStance.fit([rows], [[1, -1]], np.ones((1, 1), np.float32))
        >>> pooled.axis(np.ones(1, np.float32), rows, [1, -1]).validity
        1.0
        """
        _validate.array("context", context, dtype=np.float32, ndim=1)
        if len(context) != self.contexts.shape[1]:
            expected = f"{self.contexts.shape[1]} columns, as the contexts of the fit"
            raise InputError("context", expected, f"shape {context.shape}")
        if (anchors is None) != (labels is None):
            raise InputError("labels", "a stance of every anchor, and anchors", "one of the two")
        near = self.shared + (self.contexts @ _units(context[None], "context")[0])
        parts = self.weights * near[self.topic_of_passage]
        direction = parts @ self.rows
        length = float(np.sqrt(direction @ direction))
        if not length > _SAME * float(np.abs(parts).sum()):
            raise InputError("context", "one that gives a direction", "none beyond rounding")
        direction /= length
        validity, centre, explained = None, float("nan"), float("nan")
        if anchors is not None:
            topics, _ = topics_of([anchors])
            signs = (stances_of_topics([labels], topics, is_batch=True) or [])[0]
            rows = prepared_rows(anchors[None], normalize=True)[0]
            scores = rows @ direction
            validity = float(rank_correlations(scores[None], signs[None])[0])
            centre = float(scores[signs > 0].mean() + scores[signs < 0].mean()) / 2
            centred = rows - rows.mean(axis=0)
            explained = float(np.square(centred @ direction).sum() / np.square(centred).sum())
        return PolarizationAxis(
            axis=direction.astype(np.float32),
            method="pooled",
            explained_variance_ratio=explained,
            relative_gap=float("nan"),
            validity=validity,
            neutral_centre=centre,
            mean_anchor_score=0.0,
            normalize=True,
            n_anchors=0 if anchors is None else len(anchors),
        )


def _centred(passages: Float32Array) -> Float64Array:
    rows = prepared_rows(passages[None], normalize=True)[0]
    centred: Float64Array = rows - rows.mean(axis=0)
    return centred


def _units(rows: Float32Array, argument: str) -> Float64Array:
    units: Float64Array = rows.astype(np.float64)
    units *= kernels.inverse_norms(rows, argument)[:, None]
    return units
