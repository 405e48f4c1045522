"""The candidates of each query, with all that a defence may look at.

Ragged everywhere: query i owns the rows `offsets[i]` to `offsets[i + 1]` of the flat arrays.
Within a query the candidates stand in the total order: similarity descending, then index
ascending. A pool comes from an index (`build`) or from vectors of any store (`from_vectors`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from epibias import _validate, kernels_select, pool_parts
from epibias._dispatch import renamed
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.polarization import PolarizationAxis
from epibias.pool_parts import PoolGroup
from epibias.retrieval import CosineIndex
from epibias.selection import Selection

if TYPE_CHECKING:
    from epibias.corpus import Corpus


@dataclass(frozen=True, eq=False)
class CandidatePool:
    """Candidates of `n_queries` queries; what every defence takes.

    Attributes
    ----------
    indices : int64 [n_candidates]
        Rows of the corpus, each at most once a query.
    similarities : float32 [n_candidates]
        Cosine with the query.
    scores : float32 [n_candidates]
        Polarization scores (PS).
    offsets : int64 [n_queries + 1]
        Where each query's candidates start.
    k : int
        What the pool was built for: `build` retrieves `pool_factor` times as many. A record
        only: a defence selects by its own `k`, and `short` means fewer than that.
    query_embeddings : float32 [n_queries, dim]
    embeddings : float32 [n_candidates, dim]
        Of the retrieval encoder.
    ps_embeddings : float32 [n_candidates, ps_dim]
        Of the encoder that the axis was fitted with; `embeddings` if there is only one.
    neutral_centres : float64 [n_queries] or None
        PS that counts as neutral, in the scores' units; `BiasDef(side="auto")` needs it.
    query_ids : int64 [n_queries] or None
        Keys of the permutation test; the row numbers if absent. They stay with the queries in
        every part of the pool, so that no p-value depends on the batch.
    topics, query_texts : tuple of str [n_queries] or None
    passage_texts : tuple of str [n_candidates] or None
    metadata : mapping of name to sequence [n_candidates], or None

    Raises
    ------
    InputError
        Arrays that do not fit each other, values that are not finite, a zero row, candidates out
        of order.

    Examples
    --------
    >>> rows = np.array([[1, 0.1], [1, -0.2], [1, 0.5], [0.1, 1]], np.float32)
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> pool = CandidatePool.build(CosineIndex(rows), rows[:1], axis, k=1)
    >>> pool.indices
    array([0, 1, 2, 3])
    """

    indices: Int64Array
    similarities: Float32Array
    scores: Float32Array
    offsets: Int64Array
    k: int
    query_embeddings: Float32Array
    embeddings: Float32Array
    ps_embeddings: Float32Array
    neutral_centres: Float64Array | None = None
    query_ids: Int64Array | None = None
    topics: tuple[str, ...] | None = None
    query_texts: tuple[str, ...] | None = None
    passage_texts: tuple[str, ...] | None = None
    metadata: Mapping[str, Sequence[Any]] | None = None

    def __post_init__(self) -> None:
        _validate.array("offsets", self.offsets, dtype=np.int64, ndim=1)
        if self.query_ids is None:
            object.__setattr__(self, "query_ids", np.arange(len(self.offsets) - 1))
        pool_parts.check_pool(self)

    @classmethod
    def build(
        cls,
        index: CosineIndex,
        query_embeddings: Float32Array,
        axis: PolarizationAxis,
        ps_embeddings: Float32Array | None = None,
        k: int = 5,
        pool_factor: int = 4,
        *,
        allow_fewer: bool = False,
        axis_of_query: Int64Array | None = None,
        neutral_centres: Float64Array | None = None,
        query_ids: Int64Array | None = None,
        topics: Sequence[str] | None = None,
        query_texts: Sequence[str] | None = None,
        corpus: Corpus | None = None,
    ) -> CandidatePool:
        """Retrieve `pool_factor · k` candidates a query and score them.

        Parameters
        ----------
        index : CosineIndex
            Of the passages' retrieval embeddings.
        query_embeddings : float32 [n_queries, dim]
        axis : PolarizationAxis
            One for all queries, or one a query (in their order, or as `axis_of_query` says).
        ps_embeddings : float32 [n_passages, ps_dim], optional
            The passages under the axis's encoder; the retrieval embeddings if absent. Only the
            candidates' rows are read.
        k, pool_factor : int
            Both at least 1.
        allow_fewer : bool
            Accept a corpus smaller than `pool_factor · k`.
        axis_of_query : int64 [n_queries], optional
            Topic of each query.
        neutral_centres : float64 [n_queries], optional
            PS that counts as neutral for each query, such as the mean PS of its past clean pools;
            the axis's own `neutral_centre` if absent.
        query_ids : int64 [n_queries], optional
            Keys of the permutation test.
        topics, query_texts : sequence of str [n_queries], optional
            Kept beside the queries.
        corpus : Corpus, optional
            Gives the candidates' texts and metadata.

        Returns
        -------
        CandidatePool

        Raises
        ------
        InputError
            Arrays that do not fit each other or the axis, more candidates than passages, a zero
            or non-finite row.

        Examples
        --------
        >>> rows = np.array([[1, 0.1], [1, -0.2], [1, 0.5], [0.1, 1]], np.float32)
        >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
        >>> CandidatePool.build(CosineIndex(rows), rows, axis, k=1, pool_factor=2).sizes
        array([2, 2, 2, 2])
        """
        size = pool_parts.pool_size(index, k, pool_factor, allow_fewer)
        found = index.search(query_embeddings, size, allow_fewer=allow_fewer)
        source = pool_parts.ps_source(index, ps_embeddings, axis.dim)
        if corpus is not None:
            _validate.same_length("corpus", len(corpus), "the index", index.n_passages)
        n_queries, n = found.indices.shape
        topic_of_query = pool_parts.topic_of_query(axis, n_queries, axis_of_query)
        with renamed(embeddings="ps_embeddings"):
            scores = axis.score(source, found.indices, topics=topic_of_query)
        flat = found.indices.ravel()
        embeddings = ps_rows = np.ascontiguousarray(index.embeddings[flat])
        if ps_embeddings is not None:
            ps_rows = np.ascontiguousarray(source[flat])
        texts, metadata = pool_parts.join_corpus(corpus, flat)
        return cls._of_ranked(
            indices=flat,
            similarities=found.similarities.ravel(),
            scores=scores.ravel(),
            offsets=np.arange(n_queries + 1) * n,
            k=k,
            query_embeddings=query_embeddings,
            embeddings=embeddings,
            ps_embeddings=ps_rows,
            neutral_centres=pool_parts.centres_of(axis, topic_of_query, neutral_centres),
            query_ids=query_ids,
            topics=pool_parts.as_tuple(topics),
            query_texts=pool_parts.as_tuple(query_texts),
            passage_texts=texts,
            metadata=metadata,
        )

    @classmethod
    def from_vectors(
        cls,
        query_embeddings: Float32Array,
        candidate_embeddings: Float32Array | Sequence[Float32Array],
        axis: PolarizationAxis,
        *,
        k: int = 5,
        indices: Int64Array | Sequence[Int64Array] | None = None,
        ps_embeddings: Float32Array | Sequence[Float32Array] | None = None,
        axis_of_query: Int64Array | None = None,
        neutral_centres: Float64Array | None = None,
        query_ids: Int64Array | None = None,
        topics: Sequence[str] | None = None,
        query_texts: Sequence[str] | None = None,
        passage_texts: Sequence[Sequence[str]] | None = None,
        metadata: Mapping[str, Sequence[Sequence[Any]]] | None = None,
    ) -> CandidatePool:
        """Make a pool of candidates that came out of any store.

        Their similarities are computed anew, exactly, and the candidates put in order.

        Parameters
        ----------
        query_embeddings : float32 [n_queries, dim]
        candidate_embeddings : float32 [n_queries, n, dim], or a list of [n_i, dim]
            [n, dim] for a single query.
        axis : PolarizationAxis
            One for all queries, or one a query (in their order, or as `axis_of_query` says).
        k : int
            At least 1.
        indices : int64 of the same leading shape, optional
            The passages' numbers in the store, each once a query; 0 to n_i − 1 if absent.
        ps_embeddings : like `candidate_embeddings`, optional
            Under the axis's encoder.
        axis_of_query, neutral_centres, query_ids, topics, query_texts
            As in `build`.
        passage_texts : sequence of sequences of str, optional
            Beside each query's candidates, in the order given.
        metadata : mapping of name to sequence of sequences, optional
            The same for more values.

        Returns
        -------
        CandidatePool

        Raises
        ------
        InputError
            Arrays that do not fit each other or the axis, a number twice, a zero or non-finite
            row; query and row are those of the argument as it was given.

        Examples
        --------
        >>> rows = np.array([[0, 1], [1, 0.1], [1, -0.2]], np.float32)
        >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
        >>> CandidatePool.from_vectors(rows[1:2], rows, axis, indices=np.array([7, 8, 9])).indices
        array([8, 9, 7])
        """
        k = _validate.integer("k", k, low=1)
        parts = pool_parts.VectorParts.of(
            query_embeddings, candidate_embeddings, indices, ps_embeddings, axis.dim
        )
        topic_of_query = pool_parts.topic_of_query(axis, len(query_embeddings), axis_of_query)
        centres = pool_parts.centres_of(axis, topic_of_query, neutral_centres)
        rows, numbers, similarities, scores = kernels_select.rank_candidates(
            **parts.for_core(axis, topic_of_query)
        )
        embeddings = ps_rows = parts.embeddings[rows]
        if parts.ps_embeddings is not None:
            ps_rows = parts.ps_embeddings[rows]
        return cls._of_ranked(
            indices=numbers,
            similarities=similarities,
            scores=scores,
            offsets=parts.offsets,
            k=k,
            query_embeddings=query_embeddings,
            embeddings=embeddings,
            ps_embeddings=ps_rows,
            neutral_centres=centres,
            query_ids=query_ids,
            topics=pool_parts.as_tuple(topics),
            query_texts=pool_parts.as_tuple(query_texts),
            passage_texts=parts.reordered("passage_texts", passage_texts, rows),
            metadata=metadata
            and {
                name: parts.reordered(f"metadata[{name!r}]", values, rows) or ()
                for name, values in metadata.items()
            },
        )

    @classmethod
    def _of_ranked(cls, **fields: Any) -> CandidatePool:  # noqa: ANN401  every field by name
        """Make a pool of candidates whose rows and order the core has seen to."""
        pool = object.__new__(cls)
        pool.__dict__.update(fields)
        if fields["query_ids"] is None:
            pool.__dict__["query_ids"] = np.arange(pool.n_queries)
        pool_parts.check_labels(pool)
        return pool

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Int64Array:
        """Candidates of each query, int64 [n_queries]."""
        sizes: Int64Array = self.offsets[1:] - self.offsets[:-1]  # np.diff takes five times as long
        return sizes

    def __len__(self) -> int:
        return self.n_queries

    def __getitem__(self, query: int) -> CandidatePool:
        query = _validate.row("query", query, self.n_queries)
        rows = np.arange(self.offsets[query], self.offsets[query + 1])
        return self._part(np.array([query]), rows, np.array([0, len(rows)]))

    def candidates_of_queries(self) -> list[Int64Array]:
        """Rows of the corpus that are each query's candidates.

        Returns
        -------
        list of int64 [n_i]
        """
        return np.split(self.indices, self.offsets[1:-1]) if self.n_queries else []

    def restrict(self, positions: Selection | Sequence[Int64Array]) -> CandidatePool:
        """Keep some candidates of each query, in the pool's order.

        Parameters
        ----------
        positions : Selection, or sequence of int64 arrays, one a query
            Positions among the query's candidates, each once, in any order.

        Returns
        -------
        CandidatePool

        Raises
        ------
        InputError
            A position out of range or twice; another number of queries.

        Examples
        --------
        >>> rows = np.array([[1, 0.1], [1, -0.2], [1, 0.5], [0.1, 1]], np.float32)
        >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
        >>> pool = CandidatePool.build(CosineIndex(rows), rows[:1], axis, k=1)
        >>> pool.restrict([np.array([3, 1])]).indices
        array([1, 3])
        """
        if isinstance(positions, Selection):
            positions = [positions.positions_of(query) for query in range(len(positions))]
        kept = pool_parts.check_positions(positions, self.sizes)
        rows = [start + part for start, part in zip(self.offsets[:-1], kept, strict=True)]
        flat = np.concatenate([np.empty(0, np.int64), *rows])
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in kept])]).astype(np.int64)
        return self._part(np.arange(self.n_queries), flat, offsets)

    def groups(self) -> Iterator[PoolGroup]:
        """Yield queries of equal size together, smallest first, as rectangles for the kernels.

        Yields
        ------
        PoolGroup
        """
        assert self.query_ids is not None  # noqa: S101  for mypy; set on creation
        sizes = self.sizes
        for size in np.unique(sizes):
            queries = np.flatnonzero(sizes == size)
            rows = self.offsets[queries][:, None] + np.arange(size)
            yield PoolGroup(
                queries, rows, self.similarities[rows], self.scores[rows], self.query_ids[queries]
            )

    def _part(self, queries: Int64Array, rows: Int64Array, offsets: Int64Array) -> CandidatePool:
        """Make the pool of some queries (rows of the query arrays) and candidates (flat rows)."""

        def pick(values: Sequence[Any] | None, where: Int64Array) -> tuple[Any, ...] | None:
            return None if values is None else tuple(values[i] for i in where)

        assert self.query_ids is not None  # noqa: S101  for mypy; set on creation
        embeddings = self.embeddings[rows]
        same = self.ps_embeddings is self.embeddings
        centres, metadata = self.neutral_centres, self.metadata
        return self._of_ranked(
            k=self.k,
            indices=self.indices[rows],
            similarities=self.similarities[rows],
            scores=self.scores[rows],
            offsets=offsets,
            query_embeddings=self.query_embeddings[queries],
            embeddings=embeddings,
            ps_embeddings=embeddings if same else self.ps_embeddings[rows],
            neutral_centres=None if centres is None else centres[queries],
            query_ids=self.query_ids[queries],
            topics=pick(self.topics, queries),
            query_texts=pick(self.query_texts, queries),
            passage_texts=pick(self.passage_texts, rows),
            metadata=metadata
            and {name: pick(values, rows) or () for name, values in metadata.items()},
        )

    def __repr__(self) -> str:
        return f"CandidatePool(n_queries={self.n_queries}, n_candidates={len(self.indices)})"
