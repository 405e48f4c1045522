"""Which candidates of a pool are new: told by their times, or by a memory of the clean pool.

A passage that stood in the clean pool has the similarity and the score that it had then, for the
query, the axis and its vector are the same; another passage hardly ever has both. So a memory tells
newcomers without times or names. In: a pool, and what is remembered of its questions. Out: marks of
candidates, flat.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.defenses.clean_memory import SAME, record_of
from epibias.defenses.newcomers import BoolArray, newcomers
from epibias.defenses.selecting import query_slices
from epibias.pool import CandidatePool

APART = 4.0  # more than two cosines differ by


def told_newcomers(
    pool: CandidatePool,
    queries: Int64Array,
    records: Float64Array,
    candidates: Sequence[tuple[int, Float64Array]],
    *,
    k: int,
    trusted_until: str | None,
) -> tuple[BoolArray, BoolArray | None, BoolArray]:
    """Mark the newcomers of these queries.

    A candidate is new by its time, or by not being remembered; where both can tell, by both: one
    that the memory has, or that was out of its sight (`unremembered`), is not new. Where nothing is
    remembered and the candidates that are not new by their times are at least `k`, they become the
    query's record.

    Parameters
    ----------
    pool : CandidatePool
        Its `metadata["time"]` is read, where there is one and `trusted_until` is given.
    queries : int64 [n]
    records : float64 [n_queries, 4]
        Centre, spread, similarity and echo, NaN where not known; changed in place.
    candidates : sequence of (int, float64 [m, 2])
        Queries of which candidates are remembered, and these as `unremembered` takes them.
    k : int
    trusted_until : str, optional

    Returns
    -------
    told : bool [n_queries]
        Queries of which newcomers can be told.
    new : bool [n_candidates] or None
        None where there is no such query.
    from_version : bool [n_queries]
        Queries whose record was made here.

    Raises
    ------
    InputError
        As `newcomers`.

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> rows = np.array([[1, 0.1], [1, 0.2], [1, 0.3]], np.float32)
    >>> pool = CandidatePool.from_vectors(np.array([[1, 0]], np.float32), rows, axis,
    ...     metadata={"time": [["2026-03-01", "2026-01-01", "2026-01-01"]]})
    >>> told, new, from_version = told_newcomers(pool, np.array([0]), np.full((1, 4), np.nan), [],
    ...     k=2, trusted_until="2026-02-01")
    >>> told, new, from_version
    (array([ True]), array([ True, False, False]), array([ True]))
    """
    told, from_version = np.zeros((2, pool.n_queries), np.bool_)
    new: BoolArray | None = None
    if trusted_until is not None and (pool.metadata or {}).get("time") is not None:
        new = of_newcomers(pool, queries.tolist(), trusted_until)
        told[queries] = True
        for query in queries[np.isnan(records[queries, 0])].tolist():
            part = slice(int(pool.offsets[query]), int(pool.offsets[query + 1]))
            old = ~new[part]
            if np.count_nonzero(old) >= max(k, 2):
                scores = pool.scores[part].astype(np.float64)
                similarities = pool.similarities[part].astype(np.float64)
                records[query, :3] = record_of(scores[old], similarities[old], None, k)[:3]
                from_version[query] = True
    asked = set(queries.tolist())
    known = [one for one in candidates if one[0] in asked]
    if known:
        places = np.array([query for query, _ in known])
        strange = unremembered(pool, places, [rows for _, rows in known])
        if new is None:
            new = strange
        else:
            in_memory = np.zeros(pool.n_queries, np.bool_)
            in_memory[places] = True
            new &= strange | ~np.repeat(in_memory, pool.sizes)
        told[places] = True
    return told, new, from_version


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


def unremembered(
    pool: CandidatePool, queries: Int64Array, known: Sequence[Float64Array]
) -> BoolArray:
    """Mark the candidates that were not in the pool when their question was remembered.

    A copy of a remembered passage is new, unless it was remembered, too.
    Candidates that are less similar than every remembered one were out of its sight, and are not
    marked: a longer pool than the remembered one is no crowd of newcomers.

    Parameters
    ----------
    pool : CandidatePool
    queries : int64 [n]
        Ascending.
    known : sequence of float64 [m, 2], n of them
        Similarity and score of what was there, in ascending similarity; m is 1 or more.

    Returns
    -------
    bool [n_candidates]
        False for candidates of other queries.

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> rows = np.array([[1, 0.1], [1, 0.2], [1, 0.3], [1, 0.4]], np.float32)
    >>> pool = CandidatePool.from_vectors(np.array([[1, 0]], np.float32), rows, axis)
    >>> before = np.stack([pool.similarities, pool.scores], 1)[[2, 0]]
    >>> unremembered(pool, np.array([0]), [before])
    array([False,  True, False, False])
    """
    marks = np.zeros(len(pool.indices), np.bool_)
    if len(queries) == 1:
        query, rows = int(queries[0]), known[0]
        own = slice(int(pool.offsets[query]), int(pool.offsets[query + 1]))
        similarities = pool.similarities[own].astype(np.float64)
        met = _met(rows[:, 0], rows[:, 1], similarities, pool.scores[own])
        marks[own] = ~met & (similarities > rows[0, 0] + SAME)
        return marks
    lengths = np.array([len(one) for one in known])
    flat = np.concatenate(known)
    # One sorted line of similarities, query after query, far apart.
    largest = max(np.abs(flat[:, 0]).max(), np.abs(pool.similarities).max(initial=0))
    apart = max(APART, 3.0 * float(largest))  # a store's own similarities need be no cosines
    line = flat[:, 0] + apart * np.repeat(np.arange(len(queries)), lengths)
    lowest = flat[np.cumsum(lengths) - lengths, 0]
    sizes = pool.sizes[queries]
    of = np.repeat(np.arange(len(queries)), sizes)
    starts = np.cumsum(sizes) - sizes
    places = np.arange(len(of)) + np.repeat(pool.offsets[queries] - starts, sizes)
    similarities = pool.similarities[places].astype(np.float64)
    met = _met(line, flat[:, 1], similarities + apart * of, pool.scores[places])
    marks[places] = ~met & (similarities > lowest[of] + SAME)
    return marks


def _met(
    line: Float64Array, line_scores: Float64Array, wanted: Float64Array, scores: Float32Array
) -> BoolArray:
    """Tell which pairs of similarity and score stand in the line, which is sorted.

    Of equal ones as many as stand there, the first: copies of what is remembered are not.
    """
    first, last = np.searchsorted(line, wanted - SAME), np.searchsorted(line, wanted + SAME)
    n_near = int((last - first).max(initial=0)) + 1  # of one similarity there may be many
    n_met = np.zeros(len(wanted), np.int64)
    place = np.full(len(wanted), len(line))  # of the first that it meets
    for step in range(n_near):  # not all at once: copies of one passage would take gigabytes
        near = np.minimum(first + step, len(line) - 1)
        same = (first + step < last) & (np.abs(line_scores[near] - scores) <= SAME)
        n_met += same
        np.minimum(place, near, out=place, where=same)
    met: BoolArray = n_met > 0
    if met.any() and np.bincount(place[met]).max() > 1:
        order = np.argsort(place, kind="stable")
        ordered = place[order]
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order)) - np.searchsorted(ordered, ordered)
        met = n_met > rank
    return met
