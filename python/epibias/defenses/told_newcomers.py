"""Which candidates of a pool are new: told by time, by a trusted index, or by a clean pool.

A passage that stood in the clean pool has the similarity and the score that it had then, for the
query, the axis and its vector are the same; another passage hardly ever has both. So a memory tells
newcomers without times or names. In: a pool, and what is remembered of its questions. Out: marks of
candidates, flat.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epibias._validate import Float64Array
from epibias.defenses.newcomers import BoolArray, newcomers
from epibias.defenses.selecting import query_slices
from epibias.defenses.trusted_index import TrustedIndex
from epibias.kernels_remembered import mark_unremembered
from epibias.pool import CandidatePool


def told_newcomers(
    pool: CandidatePool,
    looked_at: BoolArray,
    candidates: Sequence[tuple[int, Float64Array]],
    trusted_until: str | None,
    trusted_index: TrustedIndex | None = None,
) -> tuple[BoolArray, BoolArray | None]:
    """Mark the newcomers of the queries that are looked at.

    A candidate is new by its time, or by not being in the trusted index, unless a memory has it.
    Where only a memory can tell, those are new that it has not, and would have (`sparing` of
    `mark_unremembered`).

    Parameters
    ----------
    pool : CandidatePool
        Its `metadata["time"]` is read, where there is one and `trusted_until` is given.
    looked_at : bool [n_queries]
    candidates : sequence of (int, float64 [m, 2])
        Queries of which candidates are remembered, and these, as `mark_unremembered` takes them.
    trusted_until : str, optional
    trusted_index : TrustedIndex, optional
        In place of times.

    Returns
    -------
    told : bool [n_queries]
        Queries of which newcomers can be told.
    new : bool [n_candidates] or None
        None where there is no such query.

    Raises
    ------
    InputError
        As `newcomers` and `TrustedIndex.newcomers`.

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> rows = np.array([[1, 0.1], [1, 0.2], [1, 0.3]], np.float32)
    >>> pool = CandidatePool.from_vectors(np.array([[1, 0]], np.float32), rows, axis,
    ...     metadata={"time": [["2026-03-01", "2026-01-01", "2026-01-01"]]})
    >>> told_newcomers(pool, np.ones(1, bool), [], "2026-02-01")
    (array([ True]), array([ True, False, False]))
    """
    new: BoolArray | None = None
    if trusted_index is not None:
        new = trusted_index.newcomers(pool, looked_at)
    elif trusted_until is not None and (pool.metadata or {}).get("time") is not None:
        new = of_newcomers(pool, np.flatnonzero(looked_at).tolist(), trusted_until)
    told = looked_at.copy() if new is not None else np.zeros(pool.n_queries, np.bool_)
    known = [one for one in candidates if looked_at[one[0]]]
    if known:
        strange = mark_unremembered(
            pool.similarities, pool.scores, pool.offsets, known, sparing=new is None
        )
        in_memory = np.zeros(pool.n_queries, np.bool_)
        in_memory[[query for query, _ in known]] = True
        told |= in_memory
        new = strange if new is None else new & (strange | ~np.repeat(in_memory, pool.sizes))
    return told, new


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
