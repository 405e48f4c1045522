"""What TiltBound leaves out before it bounds anything: echoes, newcomers, repeats.

In: a pool, and the queries that are looked at. Out: marks of their candidates, flat, for all
queries at once. Owns no threshold: who asks has them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from epibias._validate import Float64Array, Int64Array
from epibias.defenses.newcomers import BoolArray, most_honest
from epibias.errors import InputError
from epibias.kernels import inverse_norms
from epibias.kernels_remembered import refuse_newcomers
from epibias.kernels_tilt import EchoTest, echo_shares
from epibias.pool import CandidatePool

LOOKED_AT = 3  # times k: how far down repeats are looked for


def shares(pool: CandidatePool, queries: Int64Array) -> Float64Array:
    """Share of its question that each candidate of these queries says again.

    Parameters
    ----------
    pool : CandidatePool
        With query texts and passage texts.
    queries : int64 [n]

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
    return echo_shares(asked, texts, pool.offsets, queries)


def echo_test(
    pool: CandidatePool,
    own: Float64Array,
    lenient: BoolArray | None,
    tested: BoolArray | None,
    *,
    echo: float,
    echo_of_two: float | None,
    left_alone: BoolArray,
    every_candidate: bool,
    by_others: BoolArray | None = None,
) -> EchoTest | None:
    """Say what an echo is, to be asked while selecting.

    Parameters
    ----------
    pool : CandidatePool
    own : float64 [n_queries]
        Limits that are remembered; NaN for nothing. They stand in place of the others.
    lenient : bool [n_queries], optional
        Where the larger of both counts; nowhere if absent.
    tested : bool [n_candidates], optional
        Who may be an echo; all if absent.
    echo : float
    echo_of_two : float, optional
    left_alone : bool [n_queries]
        Nothing of these is read.
    every_candidate : bool
    by_others : bool [n_queries], optional
        Queries whose own limit is the largest share of their first k that are not tested.

    Returns
    -------
    EchoTest or None
        None without texts.

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> rows = np.eye(2, dtype=np.float32)
    >>> pool = CandidatePool.from_vectors(rows, [rows, rows[:1]], axis, query_texts=["a?", "b?"],
    ...     passage_texts=[["A.", "c"], ["b"]])
    >>> own, none = np.array([0.3, np.nan]), np.zeros(2, bool)
    >>> limits = {"echo": 0.9, "echo_of_two": 0.5, "left_alone": none, "every_candidate": False}
    >>> test = echo_test(pool, own, None, None, **limits)
    >>> test.limits, test.limits_of_two
    (array([0.3, 0.9]), array([nan, 0.5]))
    >>> echo_test(pool, own, ~none, None, **limits).limits
    array([0.9, 0.9])
    """
    asked, texts = pool.query_texts, pool.passage_texts
    if asked is None or texts is None:
        return None
    general = np.isnan(own)
    if lenient is not None:
        general |= lenient
    limits = np.where(general, np.fmax(own, echo), own)
    limits[left_alone] = np.nan
    two = np.nan if echo_of_two is None else np.fmax(own, echo_of_two)
    of_two = np.where(general, two, np.nan)
    if by_others is not None and lenient is None:
        limits[by_others] = 0.0  # those of the others, alone
        of_two[by_others] = np.nan
    return EchoTest(asked, texts, limits, of_two, every_candidate, tested, by_others)


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


def refused(
    pool: CandidatePool,
    new: BoolArray,
    *,
    k: int,
    share: float,
    per_source: int | None,
) -> tuple[BoolArray, Int64Array]:
    """Mark the newcomers that may not be selected, and count them.

    None may where there are more in the pool than chance explains (`most_honest`): a wave. Else as
    many as chance explains in a selection of `k`, the most similar first, and of one source no
    more than `per_source`.

    Parameters
    ----------
    pool : CandidatePool
        Its `metadata["source"]` is read, where there is one.
    new : bool [n_candidates]
        In the pool's order; none of a query of which newcomers cannot be told.
    k : int
    share : float
        Of honest newcomers among candidates.
    per_source : int, optional

    Raises
    ------
    InputError
        A newcomer's source that is neither text nor number.

    Returns
    -------
    refused : bool [n_candidates]
    n_refused : int64 [n_queries]

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> rows = np.array([[1, 0.1], [1, 0.2], [1, 0.3], [1, 0.4]], np.float32)
    >>> pool = CandidatePool.from_vectors(rows[:1], rows, axis)
    >>> new = np.array([True, False, True, False])
    >>> refused(pool, new, k=2, share=0.2, per_source=1)
    (array([False, False,  True, False]), array([1]))
    >>> refused(pool, new, k=2, share=0.01, per_source=1)
    (array([ True, False,  True, False]), array([2]))
    """
    most_in_pool = np.array([most_honest(size, share) for size in pool.sizes.tolist()], np.int64)
    sources: Any = (pool.metadata or {}).get("source")
    numbers = None
    if per_source is not None and sources is not None:
        rows = np.flatnonzero(new)
        numbers = np.zeros(len(new), np.int64)
        numbers[rows] = _numbered([sources[row] for row in rows.tolist()])
    return refuse_newcomers(
        new,
        pool.offsets,
        most_in_pool,
        most_honest(k, share),
        sources=numbers,
        most_of_source=None if numbers is None else per_source,
    )


def _numbered(sources: list[Any]) -> list[int]:
    """Give equal sources equal numbers."""
    number_of: dict[Any, int] = {}
    try:
        return [number_of.setdefault(one, len(number_of)) for one in sources]
    except TypeError as error:
        expected = "texts, numbers or None of newcomers"
        raise InputError("metadata['source']", expected, str(error)) from None


def leave_out_repeats(
    pool: CandidatePool, queries: Int64Array, allowed: BoolArray, *, k: int, least: float
) -> Int64Array:
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

    Returns
    -------
    int64 [n_queries]
        How many were struck.

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> rows = np.array([[1, 2], [1, 2], [1, -2]], np.float32)
    >>> pool = CandidatePool.from_vectors(np.array([[1, 0]], np.float32), rows, axis)
    >>> allowed = np.ones(3, bool)
    >>> leave_out_repeats(pool, np.array([0]), allowed, k=2, least=0.9)
    array([1])
    >>> allowed
    array([ True, False,  True])
    """
    n_struck = np.zeros(pool.n_queries, np.int64)
    depths = np.minimum(pool.sizes[queries], LOOKED_AT * k)
    for depth in np.unique(depths).tolist():
        some = queries[depths == depth]
        firsts = pool.offsets[some]
        rows = firsts[:, None] + np.arange(depth)
        vectors = pool.embeddings[rows.ravel()]
        vectors = vectors * inverse_norms(vectors, "embeddings").astype(np.float32)[:, None]
        vectors = vectors.reshape(len(firsts), depth, -1)
        near = np.tril(vectors @ vectors.transpose(0, 2, 1) >= least, -1)
        before = allowed[rows]
        part = before & (pool.similarities[rows].astype(np.float64) < least)
        for place in range(1, depth):
            part[:, place] &= ~(near[:, place, :place] & part[:, :place]).any(axis=1)
        allowed[rows] = part
        n_struck[some] = (before & ~part).sum(axis=1)
    return n_struck
