"""The polarization axis: fitted on anchor passages, then every embedding gets a score on it.

In: embeddings of anchors that span the opposing viewpoints of a question. Out: a unit vector
with a fixed orientation, evidence of how far it carries stance, and polarization scores (PS).
Fitting and scoring normalise rows to unit length, so PS lies in [−1, 1].
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from epibias import _validate, kernels
from epibias._dispatch import renamed
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.errors import InputError, ValidityWarning
from epibias.polarization import fit
from epibias.polarization.doubt import doubt_of
from epibias.polarization.inputs import groups_of, refuse_first, stances_of_topics, topics_of

if TYPE_CHECKING:
    from epibias.encoder import Encoder

METHODS = ("pca", "mean_difference", "ridge")
MAX_PENALTY = 1e100  # beyond it the weights vanish, and with them their direction


@dataclass(frozen=True, eq=False)
class PolarizationAxis:
    """A unit vector along which passages on one question differ in stance; or one for each topic.

    Made by `fit` or `from_poles`. For a batch of topics every field below that is a float is an
    array [n_topics] instead.

    Attributes
    ----------
    axis : float32 [dim] or [n_topics, dim]
        Unit length; larger scores are on the supporting side if labels were given.
    method : str
        "pca", "mean_difference" or "ridge".
    explained_variance_ratio : float
        Share of the anchors' variance that lies along the axis.
    relative_gap : float
        (λ₁ − λ₂) / λ₁ of the anchors' covariance; NaN unless the method is "pca".
    validity : float or None
        Spearman's correlation of the stances with the scores of left-out anchors, each scored by
        an axis fitted without it; NaN where that is impossible, None without labels.
    neutral_centre : float
        Midpoint between the mean scores of supporting and opposing anchors; without labels,
        between the two extreme anchors.
    mean_anchor_score : float
        What `center=True` subtracts from every score; 0 otherwise.
    normalize : bool
        Whether rows are scaled to unit length.
    n_anchors : int

    Examples
    --------
    >>> anchors = np.array([[1, 0.9, 0], [1, 1, 0], [1, -1, 0], [1, -0.8, 0.1]], np.float32)
    >>> axis = PolarizationAxis.fit(anchors, labels=[1, 2, -2, -1], method="ridge")
    >>> bool(axis.score(anchors)[0] > 0), axis.validity > 0.9
    (True, True)
    """

    axis: Float32Array
    method: str
    explained_variance_ratio: float | Float64Array
    relative_gap: float | Float64Array
    validity: float | Float64Array | None
    neutral_centre: float | Float64Array
    mean_anchor_score: float | Float64Array
    normalize: bool
    n_anchors: int | Int64Array

    def __post_init__(self) -> None:
        """Keep arrays of one's own that nobody can write to: an axis does not change."""
        for name, value in vars(self).copy().items():
            if isinstance(value, np.ndarray) and value.flags.writeable:
                own = value.copy()
                own.setflags(write=False)
                object.__setattr__(self, name, own)

    @classmethod
    def fit(
        cls,
        anchors: Float32Array | Sequence[Float32Array],
        labels: Any = None,  # noqa: ANN401  numbers, nested as the anchors are
        method: str = "pca",
        *,
        penalty: float = 1.0,
        normalize: bool = True,
        center: bool = False,
    ) -> PolarizationAxis:
        """Fit the axis of one topic, or of many at once.

        Parameters
        ----------
        anchors : float32 [n_anchors, dim] or [n_topics, n_anchors, dim], or a list of [n_i, dim]
            At least two a topic.
        labels : float [n_anchors], or one row of them a topic, optional
            Stance of each anchor: above 0 supports, below 0 opposes; both must occur.
        method : {"pca", "mean_difference", "ridge"}
            Leading principal axis of the centred anchors; vector between the means of both
            stances; or weights of a ridge regression of the stances. The last two need labels.
        penalty : float
            Of the ridge regression, in (0, 10¹⁰⁰].
        normalize : bool
            Scale rows to unit length before fitting and scoring.
        center : bool
            Subtract the anchors' mean score from every score, as [2]_ does.

        Returns
        -------
        PolarizationAxis

        Raises
        ------
        InputError
            Wrong dtype, shape or layout; one anchor; anchors that do not differ; labels of one
            sign; a zero or non-finite row. The message names topic and row.

        Warns
        -----
        ValidityWarning
            By "pca", with labels or without: relative gap below 0.1 or explained variance below
            0.2. With labels, by any method: validity of 0.3 or less, or not to be had.

        References
        ----------
        .. [1] Epistemic Bias Injection, arXiv:2512.00804, section III-A, equations 1 and 2.
        .. [2] Measuring and Addressing Indexical Bias in Information Retrieval (PAIR/DUO), 2024.

        Examples
        --------
        >>> anchors = np.array([[1, 1, 0], [1, -1, 0], [1, 0.5, 0]], np.float32)
        >>> PolarizationAxis.fit(anchors).axis.shape
        (3,)
        """
        _validate.choice("method", method, METHODS)
        normalize = _validate.flag("normalize", normalize)
        center = _validate.flag("center", center)
        penalty = _validate.number("penalty", penalty, above=0, high=MAX_PENALTY)
        topics, is_batch = topics_of(anchors)
        stances = stances_of_topics(labels, topics, is_batch)
        if stances is None and method != "pca":
            raise InputError("labels", f"a stance of every anchor, for {method!r}", "None")
        try:
            groups = groups_of(topics, anchors)
            if stances is None or method == "pca":
                fits = fit.fit_pca(groups, stances, normalize)
            else:
                fits = fit.fit_labelled(groups, stances, method, penalty, normalize)
        except InputError as error:
            refuse_first(topics, is_batch, normalize)
            if len(topics) > 1 and isinstance(error, fit.IndistinctAnchorsError):
                place = f"topic {error.topic}"
                raise InputError(error.argument, error.expected, error.got, place) from None
            raise
        axes, explained, gaps, validity = fits
        centres, means = fit.centres_and_means(groups, axes, stances, normalize, center)
        n_anchors = np.array([len(topic) for topic in topics], np.int64)
        batch = cls(axes, method, explained, gaps, validity, centres, means, normalize, n_anchors)
        doubt = doubt_of(method, explained, gaps, validity, n_anchors)
        if doubt is not None:
            warnings.warn(doubt, ValidityWarning, stacklevel=2)
        return batch if is_batch else batch.topic(0)

    @classmethod
    def from_poles(
        cls,
        encoder: Encoder,
        supporting_statements: Sequence[str],
        opposing_statements: Sequence[str],
        *,
        normalize: bool = True,
    ) -> PolarizationAxis:
        """Fit the axis on short statements of both sides ("I am convinced that …").

        Parameters
        ----------
        encoder : Encoder
            Anything with `encode(list[str]) -> float32 [n, dim]`.
        supporting_statements, opposing_statements : sequence of str
            At least one a side; two or more, so that the axis can be checked.
        normalize : bool
            Scale rows to unit length before fitting and scoring.

        Returns
        -------
        PolarizationAxis
            By "mean_difference", labels +1 and −1.

        Raises
        ------
        InputError
            No statement on a side, a blank one, or rows from the encoder that do not fit.

        Examples
        --------
        >>> class Encoder:
        ...     def encode(self, texts):
        ...         return np.array([[1, "yes" in t, "no" in t] for t in texts], np.float32)
        >>> axis = PolarizationAxis.from_poles(Encoder(), ["yes", "oh yes"], ["no", "oh no"])
        >>> axis.axis.round(3)
        array([ 0.   ,  0.707, -0.707], dtype=float32)
        """
        sides: dict[str, list[str]] = {}
        for name, given in (
            ("supporting_statements", supporting_statements),
            ("opposing_statements", opposing_statements),
        ):
            if isinstance(given, str):
                raise InputError(name, "a list of statements", "one string")
            sides[name] = list(given)
            if not sides[name]:
                raise InputError(name, "at least one statement", "none")
            for row, statement in enumerate(sides[name]):
                _validate.text(name, statement, f"row {row}")
        statements = [text for side in sides.values() for text in side]
        rows = encoder.encode(statements)
        _validate.array("encoder.encode", rows, dtype=np.float32, ndim=2)
        _validate.same_length("encoder.encode", len(rows), "statements", len(statements))
        n_supporting = len(sides["supporting_statements"])
        labels = np.where(np.arange(len(rows)) < n_supporting, 1.0, -1.0)
        with renamed(anchors="encoder.encode"):
            return cls.fit(rows, labels, "mean_difference", normalize=normalize)

    @property
    def is_batch(self) -> bool:
        """Whether the fields hold one row or value a topic."""
        return self.axis.ndim == 2

    @property
    def n_topics(self) -> int:
        """Number of axes."""
        return len(self.axis) if self.is_batch else 1

    @property
    def dim(self) -> int:
        """Columns of the embeddings that can be scored."""
        return int(self.axis.shape[-1])

    def topic(self, number: int) -> PolarizationAxis:
        """Return one topic's axis, its fields floats.

        Parameters
        ----------
        number : int
            0 to n_topics − 1.

        Returns
        -------
        PolarizationAxis

        Raises
        ------
        InputError
            No such topic.

        Examples
        --------
        >>> anchors = np.array([[[1, 1], [1, -1]] * 2, [[1, 2], [1, -2]] * 2], np.float32)
        >>> PolarizationAxis.fit(anchors).topic(1).n_topics
        1
        """
        number = _validate.integer("number", number, low=0, high=self.n_topics - 1)
        if not self.is_batch:
            return self
        floats = (
            "explained_variance_ratio",
            "relative_gap",
            "validity",
            "neutral_centre",
            "mean_anchor_score",
        )
        values = {name: getattr(self, name) for name in floats}
        one = {k: None if v is None else float(v[number]) for k, v in values.items()}
        return replace(
            self,
            axis=self.axis[number],
            n_anchors=int(np.asarray(self.n_anchors)[number]),
            **one,  # type: ignore[arg-type]
        )

    def score(
        self,
        embeddings: Float32Array,
        indices: Int64Array | None = None,
        *,
        topics: Int64Array | None = None,
    ) -> Float32Array:
        """Polarization scores: projections of embeddings on the axis.

        Parameters
        ----------
        embeddings : float32 [n, dim]
        indices : int64 [n_queries, m], optional
            Rows to score for each query; rows that no query names are never read.
        topics : int64 [n_queries], optional
            Which axis each query uses, with `indices`. Without it, query i uses axis i when there
            are as many axes as queries, and the only axis when there is one.

        Returns
        -------
        float32
            One topic: [n]. Several: [n_topics, n]. With `indices`: [n_queries, m].

        Raises
        ------
        InputError
            Wrong dtype, shape or layout; an index out of range; a zero or non-finite row.

        Examples
        --------
        >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1], [2, 1]], np.float32))
        >>> axis.score(np.eye(2, dtype=np.float32), np.array([[1, 0, 1]])).shape
        (1, 3)
        """
        _validate.array("embeddings", embeddings, dtype=np.float32, ndim=2)
        if embeddings.shape[1] != self.dim:
            expected = f"{self.dim} columns, as many as the anchors"
            raise InputError("embeddings", expected, f"shape {embeddings.shape}")
        axes = self.axis if self.is_batch else self.axis[None]
        used = self._axis_of_query(indices, topics)
        with renamed(rows="embeddings", axis_of_query="topics"):
            scores = kernels.polarization_scores(
                embeddings, axes, indices, used, normalize=self.normalize
            )
        offsets = np.atleast_1d(self.mean_anchor_score)
        if offsets.any():
            offset_of_row = offsets if used is None else offsets[used]
            scores = (scores - offset_of_row[:, None]).astype(np.float32)
        return scores if self.is_batch or indices is not None else scores[0]

    def _axis_of_query(
        self, indices: Int64Array | None, topics: Int64Array | None
    ) -> Int64Array | None:
        if indices is None:
            if topics is not None:
                raise InputError("topics", "None without indices", "an array")
            return None
        _validate.array("indices", indices, dtype=np.int64, ndim=2)
        n_queries = len(indices)
        if topics is None:
            if self.n_topics not in (1, n_queries):
                expected = f"one axis a query (topics=…), for {self.n_topics} axes"
                raise InputError("topics", expected, f"None with {n_queries} queries")
            return np.arange(n_queries) if self.n_topics > 1 else np.zeros(n_queries, np.int64)
        _validate.array("topics", topics, dtype=np.int64, ndim=1)
        _validate.same_length("topics", len(topics), "indices", n_queries)
        for row in np.flatnonzero((topics < 0) | (topics >= self.n_topics))[:1]:
            expected = f"axes from 0 to {self.n_topics - 1}"
            raise InputError("topics", expected, str(topics[row]), f"row {row}")
        return topics

    def __repr__(self) -> str:
        return f"PolarizationAxis({self.method}, n_topics={self.n_topics}, dim={self.dim})"
