"""Which pages are new to a version, and how strangely each competes for the golden queries.

Owns two conformal tests. Every page gets a score; a new page's p-value is its rank among the
scores that the pages of the trusted version get by the same rule. Where honest new pages are like
trusted ones, that p-value is at most α with probability at most α, whatever the encoder and the
corpus: the false-alarm rate is exact, not asymptotic.

- *challenge*: how far a page of a source without authority rises above the last page of a golden
  query's trusted top-k, in similarity; the highest over the queries. Above the last, not the best:
  who ranks second behind an excellent page is in the context all the same.
- *polarization shift*: how far a page's PS lies towards the shortcut, in standard deviations of the
  trusted candidate pool of the golden query that it competes for most. Only where the topic's axis
  is valid.

References
----------
Vovk, Gammerman, Shafer: Algorithmic Learning in a Random World, 2005, chapter 2 (conformal
p-values). PoisonedRAG, arXiv:2402.07867: an injected passage must win the top-k of its question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epibias import kernels
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.data_sets import GoldenQuery
from epibias.index.protocols import RowsView
from epibias.index.reader import Found, IndexReader
from epibias.polarization import PolarizationAxis

ROWS_AT_ONCE = 1 << 16
FEWEST_PAGES = 2  # of a trusted pool that a standard deviation can be taken of


@dataclass(frozen=True, eq=False)
class PageScores:
    """What every page of a version scores.

    Attributes
    ----------
    challenge : float64 [n]
        NaN for a page that has authority over every golden query.
    challenged : int64 [n]
        Golden query at which it is reached.
    shift : float64 [n]
        NaN where there is no valid axis.
    shifted : int64 [n]
        Golden query whose pool it was compared with.
    """

    challenge: Float64Array
    challenged: Int64Array
    shift: Float64Array
    shifted: Int64Array


def new_rows(trusted: RowsView, staged: RowsView) -> Int64Array:
    """Rows of a staged version that the trusted one does not have, exactly as they are."""
    import pyarrow.compute

    known, hashes = trusted.content_hashes(), staged.content_hashes()
    return np.flatnonzero(~np.asarray(pyarrow.compute.is_in(hashes, value_set=known)))


def conformal_p(score: float, others: Float64Array) -> float:
    """Give the p-value of a score among those of pages that are trusted; NaN of NaN.

    Examples
    --------
    >>> conformal_p(0.9, np.array([0.1, 0.2, 0.95, np.nan]))
    0.5
    """
    if np.isnan(score):
        return float("nan")
    known = others[~np.isnan(others)]
    return float((1 + np.count_nonzero(known >= score)) / (len(known) + 1))


class Challenges:
    """Scores pages against what the trusted version answers.

    Parameters
    ----------
    trusted : IndexReader
        Of the last trusted version.
    queries : sequence of GoldenQuery
    query_embeddings : float32 [n_queries, dim]
    axes : mapping of topic to PolarizationAxis
        The valid ones only; larger scores are on the side of the procedure.
    pool_size : int
        Candidates of a query.
    """

    def __init__(
        self,
        trusted: IndexReader,
        queries: Sequence[GoldenQuery],
        query_embeddings: Float32Array,
        axes: Mapping[str, PolarizationAxis],
        pool_size: int,
    ) -> None:
        self._queries = tuple(queries)
        self._embeddings = _unit(query_embeddings)
        self._axes = axes
        self._policy = trusted.policy
        self.pools = trusted.similar(query_embeddings, pool_size)
        k = trusted.policy.selection.k
        self._entry = np.array([_entry(pool, k) for pool in self.pools])
        self._next_entry = np.array([_entry(pool, k + 1) for pool in self.pools])
        self._top = [pool.rows[:k] for pool in self.pools]
        self._spread = self._pool_scores(trusted, self.pools)

    def score(self, reader: IndexReader, rows: Int64Array, *, own_pool: bool) -> PageScores:
        """Score some pages of a version.

        Parameters
        ----------
        reader : IndexReader
        rows : int64 [n]
        own_pool : bool
            Whether the pages are themselves in the trusted pools: each is then left out of the
            pool it is compared with.
        """
        n = len(rows)
        parts = [
            self._score(reader, rows[first : first + ROWS_AT_ONCE], own_pool=own_pool)
            for first in range(0, n, ROWS_AT_ONCE)
        ]
        if not parts:
            nothing, none = np.empty(0), np.empty(0, np.int64)
            return PageScores(nothing, none, nothing, none)
        names = ("challenge", "challenged", "shift", "shifted")
        return PageScores(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))

    def ps(self, reader: IndexReader, rows: Int64Array, topic: str) -> Float32Array | None:
        """Polarization scores of some pages on a topic's axis; None without a valid one."""
        axis = self._axes.get(topic)
        if axis is None or len(rows) == 0:
            return None
        return axis.score(np.ascontiguousarray(reader.files.vectors[rows]))

    def _score(self, reader: IndexReader, rows: Int64Array, *, own_pool: bool) -> PageScores:
        vectors = _rows_of(reader.files.vectors, rows)
        inverse = kernels.inverse_norms(vectors)
        margins = (vectors @ self._embeddings.T) * inverse[:, None] - self._entry
        if own_pool:  # without the page itself, the one behind it would be the last
            for query, top in enumerate(self._top):
                inside = np.isin(rows, top)
                margins[inside, query] += self._entry[query] - self._next_entry[query]
        shifted = np.argmax(margins, axis=1)
        shift = self._shifts(vectors, rows, shifted, own_pool=own_pool)
        margins[self._has_authority(reader, rows)] = -np.inf
        challenged = np.argmax(margins, axis=1)
        challenge = margins[np.arange(len(rows)), challenged]
        challenge[np.isneginf(challenge)] = np.nan
        return PageScores(challenge, challenged, shift, shifted)

    def _has_authority(self, reader: IndexReader, rows: Int64Array) -> NDArray[np.bool_]:
        """Whether each page may answer each query, bool [n, n_queries]."""
        allowed = {
            topic: reader.eligible(topic)[rows]
            for topic in dict.fromkeys(query.topic for query in self._queries)
        }
        return np.stack([allowed[query.topic] for query in self._queries], axis=1)

    def _pool_scores(
        self, trusted: IndexReader, pools: Sequence[Found]
    ) -> list[tuple[Int64Array, Float64Array] | None]:
        """Rows and PS of each query's trusted pool; None without a valid axis."""
        found: list[tuple[Int64Array, Float64Array] | None] = []
        for query, pool in zip(self._queries, pools, strict=True):
            scores = self.ps(trusted, pool.rows, query.topic)
            usable = scores is not None and len(scores) > FEWEST_PAGES
            found.append((pool.rows, scores.astype(np.float64)) if usable else None)  # type: ignore[union-attr]
        return found

    def _shifts(
        self, vectors: Float32Array, rows: Int64Array, query_of: Int64Array, *, own_pool: bool
    ) -> Float64Array:
        shifts = np.full(len(rows), np.nan)
        for query in np.unique(query_of).tolist():
            pool = self._spread[query]
            if pool is None:
                continue
            members, pool_scores = pool
            mine = np.flatnonzero(query_of == query)
            axis = self._axes[self._queries[query].topic]
            scores = axis.score(np.ascontiguousarray(vectors[mine])).astype(np.float64)
            for place, score in zip(mine.tolist(), scores.tolist(), strict=True):
                others = pool_scores
                if own_pool:
                    others = pool_scores[members != rows[place]]
                spread = float(others.std(ddof=1))
                if spread > 0:
                    shifts[place] = (float(others.mean()) - score) / spread
        return shifts


def _entry(pool: Found, k: int) -> float:
    """Similarity of the k-th page: what a page must exceed to be among the top k."""
    return float(pool.similarities[k - 1]) if len(pool.rows) >= k else -1.0


def _rows_of(vectors: Float32Array, rows: Int64Array) -> Float32Array:
    """Give some rows; a run of neighbours is read where it lies."""
    first, last = int(rows[0]), int(rows[-1]) + 1
    if last - first == len(rows):
        return vectors[first:last]
    return np.ascontiguousarray(vectors[rows])


def _unit(vectors: Float32Array) -> Float32Array:
    unit: Float32Array = (vectors * kernels.inverse_norms(vectors)[:, None]).astype(np.float32)
    return unit
