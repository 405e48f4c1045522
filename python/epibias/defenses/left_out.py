"""What TiltBound leaves out before it bounds anything: echoes, newcomers, repeats.

In: a pool, and the queries that are looked at. Out: marks of their candidates, flat, for all
queries at once. Owns no threshold: who asks has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from epibias._validate import Float64Array, Int64Array
from epibias.defenses.newcomers import BoolArray, admitted, newcomers
from epibias.defenses.selecting import query_slices
from epibias.kernels import inverse_norms
from epibias.kernels_tilt import echo_shares
from epibias.pool import CandidatePool

LOOKED_AT = 3  # times k: how far down repeats are looked for


def marked(pool: CandidatePool, marks: BoolArray) -> Int64Array:
    """Count the marked candidates of each query.

    Parameters
    ----------
    pool : CandidatePool
    marks : bool [n_candidates]

    Returns
    -------
    int64 [n_queries]

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> rows = np.eye(2, dtype=np.float32)
    >>> pool = CandidatePool.from_vectors(rows, [rows, rows[:1]], axis)
    >>> marked(pool, np.array([True, True, False]))
    array([2, 0])
    """
    if pool.n_queries == 1:
        return np.array([np.count_nonzero(marks)], np.int64)
    before = np.zeros(len(marks) + 1, np.int64)
    np.cumsum(marks, out=before[1:])
    return np.diff(before[pool.offsets])


def shares(
    pool: CandidatePool, queries: Int64Array, limits: Float64Array | None = None
) -> Float64Array:
    """Share of its question that each candidate of these queries says again.

    Parameters
    ----------
    pool : CandidatePool
        With query texts and passage texts.
    queries : int64 [n]
    limits : float64 [n_queries], optional
        Where only matters whether a share is above it.

    Returns
    -------
    float64 [n_candidates]
        −∞ for candidates of other queries.

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> rows = np.eye(2, dtype=np.float32)
    >>> pool = CandidatePool.from_vectors(rows, [rows, rows[:1]], axis, query_texts=["a?", "b?"],
    ...     passage_texts=[["A.", "c"], ["b"]])
    >>> shares(pool, np.array([0]))
    array([  1.,   0., -inf])
    """
    asked, texts = pool.query_texts, pool.passage_texts
    assert asked is not None and texts is not None  # noqa: S101, PT018  for mypy
    return echo_shares(asked, texts, pool.offsets, queries, limits)


def two_largest(pool: CandidatePool, held: Float64Array, k: int) -> Float64Array:
    """Largest and second largest share among the first `k` candidates of each query.

    Parameters
    ----------
    pool : CandidatePool
    held : float64 [n_candidates]
    k : int

    Returns
    -------
    float64 [2, n_queries]
        −∞ where there are not as many.

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> rows = np.eye(2, dtype=np.float32)
    >>> pool = CandidatePool.from_vectors(rows, [rows, rows[:1]], axis)
    >>> two_largest(pool, np.array([0.2, 0.9, 0.5]), 2)
    array([[ 0.9,  0.5],
           [ 0.2, -inf]])
    """
    places = pool.offsets[:-1, None] + np.arange(max(k, 2))
    inside = np.arange(max(k, 2)) < np.minimum(pool.sizes, k)[:, None]
    first = np.full(places.shape, -np.inf)
    first[inside] = held[places[inside]]
    largest: Float64Array = np.sort(first, axis=1)[:, :-3:-1].T
    return largest


def of_newcomers(pool: CandidatePool, queries: Sequence[int], trusted_until: str) -> BoolArray:
    """Mark the candidates of these queries that are not known to be from `trusted_until` or before.

    Parameters
    ----------
    pool : CandidatePool
        With `metadata["time"]`.
    queries : sequence of int
    trusted_until : str

    Returns
    -------
    bool [n_candidates]

    Raises
    ------
    InputError
        As `newcomers`.

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> rows = np.eye(2, dtype=np.float32)
    >>> pool = CandidatePool.from_vectors(rows[:1], rows, axis,
    ...     metadata={"time": [["2026-03-01", "2026-01-01"]]})
    >>> of_newcomers(pool, [0], "2026-02-01")
    array([ True, False])
    """
    times = (pool.metadata or {})["time"]
    new = np.zeros(len(pool.indices), np.bool_)
    parts = query_slices(pool)
    for query in queries:
        new[parts[query]] = newcomers(times[parts[query]], trusted_until)
    return new


def refused(
    pool: CandidatePool,
    queries: Sequence[int],
    new: BoolArray,
    *,
    most: int,
    per_source: int | None,
) -> BoolArray:
    """Mark the newcomers of these queries that may not be selected.

    Parameters
    ----------
    pool : CandidatePool
        Its `metadata["source"]` is read, where there is one.
    queries : sequence of int
    new : bool [n_candidates]
    most, per_source
        As in `admitted`.

    Returns
    -------
    bool [n_candidates]

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> rows = np.eye(2, dtype=np.float32)
    >>> pool = CandidatePool.from_vectors(rows[:1], rows, axis)
    >>> refused(pool, [0], np.array([True, False]), most=1, per_source=1)
    array([ True, False])
    """
    sources: Any = (pool.metadata or {}).get("source")
    marks = np.zeros(len(pool.indices), np.bool_)
    parts = query_slices(pool)
    for query in queries:
        part = parts[query]
        may = admitted(
            new[part],
            pool.similarities[part].astype(np.float64),
            None if sources is None else sources[part],
            most=most,
            per_source=per_source,
        )
        marks[part] = ~may
    return marks


def leave_out_repeats(
    pool: CandidatePool, queries: Int64Array, allowed: BoolArray, *, k: int, least: float
) -> None:
    """Strike from `allowed` what repeats the question or a candidate above it, in place.

    Parameters
    ----------
    pool : CandidatePool
    queries : int64 [n]
    allowed : bool [n_candidates]
    k : int
        The best `LOOKED_AT` · k of a query are looked at.
    least : float
        Cosine from which on one repeats another.

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> rows = np.array([[1, 2], [1, 2], [1, -2]], np.float32)
    >>> pool = CandidatePool.from_vectors(np.array([[1, 0]], np.float32), rows, axis)
    >>> allowed = np.ones(3, bool)
    >>> leave_out_repeats(pool, np.array([0]), allowed, k=2, least=0.9)
    >>> allowed
    array([ True, False,  True])
    """
    depths = np.minimum(pool.sizes[queries], LOOKED_AT * k)
    for depth in np.unique(depths).tolist():
        firsts = pool.offsets[queries[depths == depth]]
        rows = firsts[:, None] + np.arange(depth)
        vectors = pool.embeddings[rows.ravel()]
        vectors = vectors * inverse_norms(vectors, "embeddings").astype(np.float32)[:, None]
        vectors = vectors.reshape(len(firsts), depth, -1)
        near = np.tril(vectors @ vectors.transpose(0, 2, 1) >= least, -1)
        part = allowed[rows] & (pool.similarities[rows].astype(np.float64) < least)
        for place in range(1, depth):
            part[:, place] &= ~(near[:, place, :place] & part[:, :place]).any(axis=1)
        allowed[rows] = part
