"""What the defences share: short names, texts that must be there, and the end of every filter.

In: a pool and the positions that a rule judged. Out: a `Selection`. No rule lives here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epibias._validate import Float64Array, Int64Array
from epibias.errors import InputError
from epibias.pool import CandidatePool
from epibias.selection import Selection


def short_name(defense: Any, base: str, *, silent: Sequence[str] = ()) -> str:  # noqa: ANN401
    """Name a defence by what differs from its defaults, as in "grada[similarity=cosine]".

    Parameters
    ----------
    defense : dataclass instance
    base : str
        The name with all defaults.
    silent : sequence of str
        Fields that no name tells, such as a model; `k` and fields without a default never are.

    Returns
    -------
    str

    Examples
    --------
    >>> from epibias.defenses import MMR
    >>> short_name(MMR(7, relevance_weight=0.7), "mmr")
    'mmr[relevance_weight=0.7]'
    """

    def differs(field: Field[Any]) -> bool:
        plain = field.name != "k" and field.name not in silent and field.default is not MISSING
        return plain and getattr(defense, field.name) != field.default

    told = [
        f"{field.name}={getattr(defense, field.name)}"
        for field in fields(defense)
        if differs(field)
    ]
    return f"{base}[{', '.join(told)}]" if told else base


def passage_texts(pool: CandidatePool, defense: str) -> tuple[str, ...]:
    """Give the candidates' texts, or say how a pool gets them.

    Parameters
    ----------
    pool : CandidatePool
    defense : str
        Who asks.

    Returns
    -------
    tuple of str [n_candidates]

    Raises
    ------
    InputError
        The pool has none.

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> rows = np.eye(2, dtype=np.float32)
    >>> pool = CandidatePool.from_vectors(rows[:1], rows, axis, passage_texts=[["a", "b"]])
    >>> passage_texts(pool, "grada")
    ('a', 'b')
    """
    if pool.passage_texts is None:
        expected = f"the passages' texts, which {defense} reads; build the pool with a corpus"
        raise InputError("pool.passage_texts", expected, "None")
    return pool.passage_texts


def query_texts(pool: CandidatePool, defense: str) -> tuple[str, ...]:
    """Give the queries' texts, or say how a pool gets them.

    Parameters
    ----------
    pool : CandidatePool
    defense : str
        Who asks.

    Returns
    -------
    tuple of str [n_queries]

    Raises
    ------
    InputError
        The pool has none.

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> rows = np.eye(2, dtype=np.float32)
    >>> query_texts(CandidatePool.from_vectors(rows, [rows, rows], axis, query_texts="ab"), "grada")
    ('a', 'b')
    """
    if pool.query_texts is None:
        expected = f"the queries' texts, which {defense} reads; build the pool with query_texts"
        raise InputError("pool.query_texts", expected, "None")
    return pool.query_texts


def query_slices(pool: CandidatePool) -> list[slice]:
    """Give where each query's candidates stand in the flat arrays of a pool.

    Parameters
    ----------
    pool : CandidatePool

    Returns
    -------
    list of slice [n_queries]

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> rows = np.eye(2, dtype=np.float32)
    >>> query_slices(CandidatePool.from_vectors(rows, [rows, rows[:1]], axis))
    [slice(0, 2, None), slice(2, 3, None)]
    """
    ends = pool.offsets.tolist()
    return [slice(first, last) for first, last in pairwise(ends)]


def unit_rows(embeddings: NDArray[np.float32]) -> Float64Array:
    """Normalise rows in float64; a pool has no zero row.

    Parameters
    ----------
    embeddings : float32 [n, dim]

    Returns
    -------
    float64 [n, dim]

    Examples
    --------
    >>> unit_rows(np.array([[3, 4]], np.float32))
    array([[0.6, 0.8]])
    """
    rows = embeddings.astype(np.float64)
    rows /= np.abs(rows).max(axis=1, keepdims=True, initial=1e-300)  # no square overflows
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def cosines(embeddings: NDArray[np.float32]) -> Float64Array:
    """Cosine of every two rows, rounded to 1e-12, so that copies tie wherever they stand.

    Parameters
    ----------
    embeddings : float32 [n, dim]

    Returns
    -------
    float64 [n, n]
        Symmetric, 1 on the diagonal.

    Examples
    --------
    >>> cosines(np.array([[3, 4], [4, 3]], np.float32)).round(2)
    array([[1.  , 0.96],
           [0.96, 1.  ]])
    """
    rows = unit_rows(embeddings)
    product: Float64Array = (rows @ rows.T).round(12)
    product = np.maximum(product, product.T)
    np.fill_diagonal(product, 1.0)
    return product


def select_what_is_left(
    pool: CandidatePool,
    dropped: Sequence[Int64Array],
    *,
    k: int,
    diagnostics: Mapping[str, NDArray[Any]] | None = None,
) -> Selection:
    """Select the `k` most similar candidates that a filter did not drop.

    Parameters
    ----------
    pool : CandidatePool
    dropped : sequence of int64 arrays
        Positions that the filter judged suspicious, for each query.
    k : int
    diagnostics : mapping, optional
        More values a query; `n_dropped` is added.

    Returns
    -------
    Selection

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> rows = np.array([[1, 0], [1, 0.1], [1, 0.2]], np.float32)
    >>> pool = CandidatePool.from_vectors(rows[:1], rows, axis)
    >>> select_what_is_left(pool, [np.array([1])], k=2)[0]
    array([0, 2])
    """
    gone = [np.sort(np.asarray(part, np.int64)) for part in dropped]
    left = [
        np.setdiff1d(np.arange(size), part, assume_unique=True)
        for size, part in zip(pool.sizes.tolist(), gone, strict=True)
    ]
    return Selection.of_queries(
        pool.candidates_of_queries(),
        [part[:k] for part in left],
        k=k,
        dropped_positions=gone,
        diagnostics={
            "n_dropped": np.array([len(part) for part in gone], np.int64),
            **(diagnostics or {}),
        },
    )
