"""The true answer by another way: every cosine in float64 by NumPy, in one pass over the file.

A matrix product in float64 gives every cosine to about dim · 2⁻⁵³; all rows that it puts within
`MARGIN` of the k-th are computed again by the definition (docs/retrieval.md: element i into
accumulator i mod 32, halving tree, inverse norms of the same sums) and put in the total order. None
of it is code of the core. The running answer is kept at every prefix asked for, so all of them cost
one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epibias._validate import Float32Array, Float64Array, Int64Array

LANES = 32
MARGIN = 2.0**-21  # some float32 steps at 1, and far above the rounding of a float64 sum
MOST_NEAR = 4096  # rows kept beyond k before they are ranked
_BLOCK_FLOATS = 1 << 22  # of rows: 32 MiB in float64


@dataclass(frozen=True, eq=False)
class Answer:
    """Top-k of some queries among the first `n_passages` rows, found or true.

    Parameters
    ----------
    n_passages : int
    first_query : int
        Number of the query that the first row answers; the others follow.
    indices : int64 [n_answers, k]
    similarities : float32 [n_answers, k]
    """

    n_passages: int
    first_query: int
    indices: Int64Array
    similarities: Float32Array


def true_answers(
    queries: Float32Array,
    passages: Float32Array,
    k: int,
    prefixes: Sequence[int],
    advance: Callable[[int], None] = lambda _: None,
) -> list[Answer]:
    """Give the exact top-k of every prefix of the passages.

    Parameters
    ----------
    queries : float32 [n_queries, dim]
    passages : float32 [n_passages, dim]
        Memory-mapped is welcome; read once, in blocks.
    k : int
        At most the shortest prefix.
    prefixes : sequence of int
        Ascending.
    advance : callable
        Called with numbers of rows that are done.

    Returns
    -------
    list of Answer
        One a prefix, with every query.

    Examples
    --------
    >>> rows = np.array([[0, 1], [1, 1], [1, 0], [1, 0]], np.float32)
    >>> [found.indices.tolist() for found in true_answers(rows[2:3], rows, 2, [2, 4])]
    [[[1, 0]], [[2, 3]]]
    """
    n_queries, dim = queries.shape
    wide = queries.astype(np.float64)
    wide /= np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, None]
    best = _Running(queries, passages, k)
    found = []
    step = max(_BLOCK_FLOATS // max(dim, n_queries), 1)
    start = 0
    for prefix in prefixes:
        while start < prefix:
            stop = min(start + step, prefix)
            block = np.asarray(passages[start:stop], np.float64)
            cosines = wide @ block.T
            cosines /= np.sqrt(np.einsum("ij,ij->i", block, block))
            best.add(cosines, start)
            advance(stop - start)
            start = stop
        found.append(best.answer(prefix))
    return found


def compared(found: Sequence[Answer], truth: Sequence[Answer]) -> dict[str, Any]:
    """Count the answers that are not the true one: other passages, order, or similarities.

    Returns
    -------
    dict
        `n_answers`, `n_wrong`, and `first`: where the first wrong one is, and both answers, or
        None.

    Examples
    --------
    >>> true = Answer(4, 0, np.array([[1, 2]]), np.array([[1, 0.5]], np.float32))
    >>> other = Answer(4, 0, np.array([[2, 1]]), np.array([[1, 0.5]], np.float32))
    >>> compared([true, other], [true])["n_wrong"]
    1
    """
    of_prefix = {true.n_passages: true for true in truth}
    n_answers, n_wrong, first = 0, 0, None
    for answer in found:
        true = of_prefix[answer.n_passages]
        rows = slice(answer.first_query, answer.first_query + len(answer.indices))
        same = answer.indices == true.indices[rows]
        same &= answer.similarities == true.similarities[rows]
        wrong = np.flatnonzero(~same.all(axis=1))
        n_answers += len(same)
        n_wrong += len(wrong)
        if first is None and len(wrong):
            query = answer.first_query + int(wrong[0])
            first = {
                "n_passages": answer.n_passages,
                "query": query,
                "expected": true.indices[query].tolist(),
                "got": answer.indices[wrong[0]].tolist(),
            }
    return {"n_answers": n_answers, "n_wrong": n_wrong, "first": first}


class _Running:
    """Rows that may be among the first k of each query, so far."""

    def __init__(self, queries: Float32Array, passages: Float32Array, k: int) -> None:
        self.queries, self.passages, self.k = queries, passages, k
        self.rows: list[Int64Array] = [np.empty(0, np.int64) for _ in queries]
        self.cosines: list[Float64Array] = [np.empty(0) for _ in queries]
        self.least = np.full(len(queries), -np.inf)  # cosine of the k-th, less the margin

    def add(self, cosines: Float64Array, start: int) -> None:
        """Take the cosines [n_queries, n_block] of the rows from `start` on."""
        queries, rows = np.nonzero(cosines >= self.least[:, None])
        if len(queries) == 0:
            return
        distinct, starts = np.unique(queries, return_index=True)
        for query, reaching in zip(distinct.tolist(), np.split(rows, starts[1:]), strict=True):
            self._join(query, cosines[query, reaching], start + reaching)

    def answer(self, prefix: int) -> Answer:
        """Put what is left in the total order, by similarities as they are defined."""
        ranked = [self._ranked(query) for query in range(len(self.queries))]
        indices, similarities = (np.stack(column) for column in zip(*ranked, strict=True))
        return Answer(prefix, 0, indices, similarities)

    def _join(self, query: int, cosines: Float64Array, rows: Int64Array) -> None:
        cosines = np.concatenate([self.cosines[query], cosines])
        rows = np.concatenate([self.rows[query], rows])
        if len(cosines) > self.k:
            place = len(cosines) - self.k
            self.least[query] = np.partition(cosines, place)[place] - MARGIN
            kept = cosines >= self.least[query]
            cosines, rows = cosines[kept], rows[kept]
        self.cosines[query], self.rows[query] = cosines, rows
        if len(rows) > self.k + MOST_NEAR:  # hosts of duplicates: later ones rank behind these
            first = self._ranked(query)[0]
            kept = np.isin(rows, first)
            self.cosines[query], self.rows[query] = cosines[kept], rows[kept]

    def _ranked(self, query: int) -> tuple[Int64Array, Float32Array]:
        """First k of what is left, in the total order."""
        rows = np.sort(self.rows[query])
        exact = defined_similarities(self.queries[query], np.asarray(self.passages[rows]))
        order = np.lexsort((rows, -exact))[: self.k]
        return rows[order], exact[order]


def defined_similarities(query: Float32Array, rows: Float32Array) -> Float32Array:
    """Similarities of one query as docs/retrieval.md defines them, float32 [n_rows].

    Examples
    --------
    >>> defined_similarities(np.array([2, 0], np.float32), np.array([[3, 4]], np.float32))
    array([0.6], dtype=float32)
    """
    query_norm = 1.0 / np.sqrt(_canonical_sums(query[None], query[None]))
    row_norms = 1.0 / np.sqrt(_canonical_sums(rows, rows))
    products = _canonical_sums(rows, query[None])
    return (products * query_norm * row_norms).astype(np.float32)


def _canonical_sums(left: Float32Array, right: Float32Array) -> Float64Array:
    """Dot products of rows, each summed in the canonical order."""
    products = left.astype(np.float64) * right.astype(np.float64)
    padded = np.pad(products, ((0, 0), (0, -products.shape[1] % LANES)))
    lanes = np.zeros((len(padded), LANES))
    for first in range(0, padded.shape[1], LANES):
        lanes += padded[:, first : first + LANES]
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0]
