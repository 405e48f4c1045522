"""Checks and pieces of `CandidatePool`: what may go in, put in order and joined."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epibias import _validate, kernels
from epibias._dispatch import renamed
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.errors import InputError
from epibias.polarization import PolarizationAxis
from epibias.retrieval import CosineIndex

if TYPE_CHECKING:
    from epibias.corpus import Corpus
    from epibias.pool import CandidatePool

METADATA = ("source", "tier", "author", "time")


@dataclass(frozen=True, eq=False)
class PoolGroup:
    """Queries with equally many candidates, as the rectangles that kernels take.

    Attributes
    ----------
    queries : int64 [n_group]
        Their rows in the pool.
    rows : int64 [n_group, n]
        Rows of the pool's flat arrays.
    similarities, scores : float32 [n_group, n]
    query_ids : int64 [n_group]

    Examples
    --------
    >>> ones = np.ones((1, 2), np.float32)
    >>> PoolGroup(np.array([0]), np.array([[0, 1]]), ones, ones, np.array([0])).size
    2
    """

    queries: Int64Array
    rows: Int64Array
    similarities: Float32Array
    scores: Float32Array
    query_ids: Int64Array

    @property
    def size(self) -> int:
        """Candidates of each query."""
        return int(self.rows.shape[1])


@dataclass(frozen=True, eq=False, repr=False)
class VectorParts:
    """Candidates of every query laid end to end, in the order given."""

    indices: Int64Array
    embeddings: Float32Array
    ps_embeddings: Float32Array
    offsets: Int64Array

    @classmethod
    def of(
        cls,
        query_embeddings: Float32Array,
        candidate_embeddings: Float32Array | Sequence[Float32Array],
        indices: Int64Array | Sequence[Int64Array] | None,
        ps_embeddings: Float32Array | Sequence[Float32Array] | None,
        ps_dim: int,
    ) -> VectorParts:
        """Check the arrays of every query and lay them end to end; the axis takes `ps_dim`."""
        queries = _validate.array("query_embeddings", query_embeddings, dtype=np.float32, ndim=2)
        n_queries, dim = queries.shape
        vectors = _per_query("candidate_embeddings", candidate_embeddings, n_queries, np.float32, 2)
        _check_columns("candidate_embeddings", vectors, dim, "query_embeddings")
        sizes = [len(part) for part in vectors]
        if indices is None:
            numbers = [np.arange(size) for size in sizes]
        else:
            numbers = _per_query("indices", indices, n_queries, np.int64, 1)
            _check_sizes("indices", numbers, sizes)
        for query, part in enumerate(numbers):
            values, counts = np.unique(part, return_counts=True)
            if (counts > 1).any():
                twice = f"{values[counts > 1][0]} twice"
                raise InputError("indices", "each candidate once", twice, f"query {query}")
        flat = np.concatenate([np.empty((0, dim), np.float32), *vectors])
        if ps_embeddings is None:
            if dim != ps_dim:
                found = f"None, with candidate_embeddings of {dim} columns"
                raise InputError("ps_embeddings", _columns_of_axis(ps_dim), found)
            flat_ps = flat
        else:
            ps = _per_query("ps_embeddings", ps_embeddings, n_queries, np.float32, 2)
            _check_sizes("ps_embeddings", ps, sizes)
            _check_columns("ps_embeddings", ps, ps_dim, "the anchors")
            flat_ps = np.concatenate([np.empty((0, ps_dim), np.float32), *ps])
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return cls(np.concatenate([np.empty(0, np.int64), *numbers]), flat, flat_ps, offsets)

    def ranked(self, query_embeddings: Float32Array) -> tuple[Int64Array, Float32Array]:
        """Flat rows in the total order within each query, and their exact similarities."""
        order = np.empty(len(self.indices), np.int64)
        similarities = np.empty(len(self.indices), np.float32)
        for query, (start, stop) in enumerate(
            zip(self.offsets[:-1], self.offsets[1:], strict=True)
        ):
            if start == stop:
                continue
            names = {"queries": "query_embeddings", "passages": "candidate_embeddings"}
            with renamed(where=f"query {query}", **names):
                positions, found, _ = kernels.cosine_topk(
                    query_embeddings[query : query + 1],
                    self.embeddings[start:stop],
                    int(stop - start),
                )
            values = np.empty(stop - start, np.float32)
            values[positions[0]] = found[0]
            # Equal similarities are ranked by the caller's indices, not by where they stood.
            rank = np.lexsort((self.indices[start:stop], -values))
            order[start:stop] = start + rank
            similarities[start:stop] = values[rank]
        return order, similarities

    def scores(self, axis: PolarizationAxis, topic_of_query: Int64Array) -> Float32Array:
        """Polarization score of every candidate, in the order given."""
        if self.ps_embeddings is not self.embeddings:  # those were checked with the similarities
            starts = zip(self.offsets[:-1], self.offsets[1:], strict=True)
            for query, (start, stop) in enumerate(starts):
                rows, place = self.ps_embeddings[start:stop], f"query {query}"
                with renamed(where=place):
                    if axis.normalize:
                        kernels.inverse_norms(rows, "ps_embeddings")
                    else:
                        _validate.finite("ps_embeddings", rows)
        # Each candidate is a query of one row: ragged sizes in one call.
        of_candidate = np.repeat(topic_of_query, np.diff(self.offsets))
        one_each = np.arange(len(self.indices))[:, None]
        return axis.score(self.ps_embeddings, one_each, topics=of_candidate).ravel()

    def reordered(
        self, argument: str, values: Sequence[Sequence[Any]] | None, order: Int64Array
    ) -> tuple[Any, ...] | None:
        """Values beside each query's candidates, flat and in the order of `ranked`."""
        if values is None:
            return None
        _validate.same_length(argument, len(values), "query_embeddings", len(self.offsets) - 1)
        _check_sizes(argument, values, np.diff(self.offsets).tolist())
        flat = [value for part in values for value in part]
        return tuple(flat[row] for row in order)


def check_pool(pool: CandidatePool) -> None:
    """Refuse arrays that do not fit each other and candidates that are not in order."""
    _validate.integer("k", pool.k, low=1)
    offsets = _validate.array("offsets", pool.offsets, dtype=np.int64, ndim=1)
    n = len(_validate.array("indices", pool.indices, dtype=np.int64, ndim=1))
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != n or (np.diff(offsets) < 0).any():
        expected = f"offsets that rise from 0 to {n} (the number of candidates)"
        raise InputError("offsets", expected, str(offsets[:8].tolist()))
    for name in ("similarities", "scores"):
        values = _validate.array(name, getattr(pool, name), dtype=np.float32, ndim=1)
        _validate.same_length(name, len(values), "indices", n)
        _validate.finite(name, values)
    n_queries = len(offsets) - 1
    _check_embeddings(pool, n_queries, n)
    if pool.neutral_centres is not None:
        centres = _validate.array("neutral_centres", pool.neutral_centres, dtype=np.float64, ndim=1)
        _validate.same_length("neutral_centres", len(centres), "queries", n_queries)
        _validate.finite("neutral_centres", centres)
    ids = _validate.array("query_ids", pool.query_ids, dtype=np.int64, ndim=1)
    _validate.same_length("query_ids", len(ids), "queries", n_queries)
    for name, rows in (("topics", n_queries), ("query_texts", n_queries), ("passage_texts", n)):
        if getattr(pool, name) is not None:
            _validate.same_length(name, len(getattr(pool, name)), "the pool", rows)
    for name, column in (pool.metadata or {}).items():
        _validate.same_length(f"metadata[{name!r}]", len(column), "candidates", n)
    _check_order(pool)


def _check_embeddings(pool: CandidatePool, n_queries: int, n: int) -> None:
    """Refuse rows that a reranker could not take."""
    queries, candidates, ps = pool.query_embeddings, pool.embeddings, pool.ps_embeddings
    for name, rows, expected in (
        ("query_embeddings", queries, n_queries),
        ("embeddings", candidates, n),
        ("ps_embeddings", ps, n),
    ):
        _validate.array(name, rows, dtype=np.float32, ndim=2)
        _validate.same_length(name, len(rows), "the pool", expected)
    _check_columns("embeddings", [candidates], queries.shape[1], "query_embeddings", ragged=False)
    kernels.inverse_norms(queries, "query_embeddings")
    kernels.inverse_norms(candidates, "embeddings")
    if ps is not candidates:  # a zero row may have a score: axes need not normalise
        _validate.finite("ps_embeddings", ps)


def _check_order(pool: CandidatePool) -> None:
    lower, higher = pool.similarities[1:], pool.similarities[:-1]
    rises = (lower > higher) | ((lower == higher) & (pool.indices[1:] <= pool.indices[:-1]))
    starts = pool.offsets[1:-1]
    rises[starts[(starts > 0) & (starts < len(pool.indices))] - 1] = False
    for row in np.flatnonzero(rises)[:1] + 1:
        query = int(np.searchsorted(pool.offsets, row, side="right")) - 1
        expected = "candidates by similarity descending, then index ascending, each once"
        found = f"index {pool.indices[row]} after index {pool.indices[row - 1]}"
        raise InputError("indices", expected, found, f"query {query}, row {row}")


def check_positions(positions: Sequence[Int64Array], sizes: Int64Array) -> list[Int64Array]:
    """Positions of every query, each in range and once, in ascending order."""
    _validate.same_length("positions", len(positions), "the pool", len(sizes))
    kept = []
    for query, (part, size) in enumerate(zip(positions, sizes, strict=True)):
        place = f"query {query}"
        _validate.unmasked("positions", part, place)
        array = np.asarray(part)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            found = f"shape {array.shape}, dtype {array.dtype}"
            raise InputError("positions", "a 1-d array of integers", found, place)
        values = np.unique(array.astype(np.int64))
        if len(values) != len(array):
            raise InputError("positions", "each position once", "one twice", place)
        if len(values) and (values[0] < 0 or values[-1] >= size):
            expected = f"positions from 0 to {size - 1}"
            found = f"{values[0]} to {values[-1]}"
            raise InputError("positions", expected, found, place)
        kept.append(values)
    return kept


def pool_size(index: CosineIndex, k: int, pool_factor: int, allow_fewer: bool) -> int:
    """`k · pool_factor`, if the corpus has so many passages or fewer are welcome."""
    size = _validate.integer("k", k, low=1) * _validate.integer("pool_factor", pool_factor, low=1)
    if not _validate.flag("allow_fewer", allow_fewer) and size > index.n_passages:
        expected = (
            f"k * pool_factor of at most {index.n_passages} (the number of passages), "
            "or allow_fewer=True"
        )
        raise InputError("pool_factor", expected, f"{k} * {pool_factor} = {size}")
    return size


def ps_source(index: CosineIndex, ps_embeddings: Float32Array | None, ps_dim: int) -> Float32Array:
    """Rows that the axis scores, one a passage; it takes `ps_dim` columns."""
    if ps_embeddings is None:
        if index.dim != ps_dim:
            found = f"None, with an index of {index.dim} columns"
            raise InputError("ps_embeddings", _columns_of_axis(ps_dim), found)
        return index.embeddings
    _validate.array("ps_embeddings", ps_embeddings, dtype=np.float32, ndim=2)
    _validate.same_length("ps_embeddings", len(ps_embeddings), "the index", index.n_passages)
    _check_columns("ps_embeddings", [ps_embeddings], ps_dim, "the anchors", ragged=False)
    return ps_embeddings


def topic_of_query(
    axis: PolarizationAxis, n_queries: int, axis_of_query: Int64Array | None
) -> Int64Array:
    """Which axis each query uses, by the rule of `PolarizationAxis.score`."""
    if axis_of_query is None:
        if axis.n_topics == 1:
            return np.zeros(n_queries, np.int64)
        if axis.n_topics != n_queries:
            expected = f"the axis of each query, for {axis.n_topics} axes"
            raise InputError("axis_of_query", expected, f"None with {n_queries} queries")
        return np.arange(n_queries)
    array = _validate.array("axis_of_query", axis_of_query, dtype=np.int64, ndim=1)
    _validate.same_length("axis_of_query", len(array), "query_embeddings", n_queries)
    for row in np.flatnonzero((array < 0) | (array >= axis.n_topics))[:1]:
        expected = f"axes from 0 to {axis.n_topics - 1}"
        raise InputError("axis_of_query", expected, str(array[row]), f"row {row}")
    return array


def centres_of(
    axis: PolarizationAxis, topic_of_query: Int64Array, given: Float64Array | None
) -> Float64Array:
    """PS that counts as neutral for each query: as given, or from its axis."""
    if given is not None:
        return given
    centres = np.atleast_1d(np.asarray(axis.neutral_centre, np.float64))
    return _validate.finite("axis.neutral_centre", centres[topic_of_query])


def join_corpus(
    corpus: Corpus | None, indices: Int64Array
) -> tuple[tuple[str, ...] | None, dict[str, tuple[Any, ...]] | None]:
    """Texts and metadata of candidates: the one place where rows become passages."""
    if corpus is None:
        return None, None
    rows = indices.tolist()
    columns = {name: corpus.metadata(name) for name in METADATA}
    metadata = {name: tuple(column[row] for row in rows) for name, column in columns.items()}
    return tuple(corpus.encoded_texts[row] for row in rows), metadata


def as_tuple(values: Sequence[str] | None) -> tuple[str, ...] | None:
    """Copy texts into a tuple, if there are any."""
    return None if values is None else tuple(values)


def _per_query(
    argument: str,
    arrays: NDArray[Any] | Sequence[NDArray[Any]],
    n_queries: int,
    dtype: type[np.generic],
    ndim: int,
) -> list[NDArray[Any]]:
    """One array a query, from a list, a rectangle, or the array of a single query."""
    if isinstance(arrays, list | tuple):
        parts = list(arrays)
        for query, part in enumerate(parts):
            with renamed(where=f"query {query}"):
                _validate.array(argument, part, dtype=dtype, ndim=ndim)
    else:
        array = _validate.array(argument, arrays, dtype=dtype, ndim=(ndim, ndim + 1))
        parts = list(array) if array.ndim == ndim + 1 else [array]
    _validate.same_length(argument, len(parts), "query_embeddings", n_queries)
    return parts


def _check_sizes(argument: str, parts: Sequence[Sized], sizes: Sequence[int]) -> None:
    for query, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        if len(part) != size:
            expected = f"{size} rows, as many as the query's candidates"
            raise InputError(argument, expected, str(len(part)), f"query {query}")


def _check_columns(
    argument: str, parts: Sequence[Float32Array], dim: int, other: str, *, ragged: bool = True
) -> None:
    for query, part in enumerate(parts):
        if part.shape[1] != dim:
            place = f"query {query}" if ragged else None
            expected = f"{dim} columns, as many as {other}"
            raise InputError(argument, expected, f"shape {part.shape}", place)


def _columns_of_axis(ps_dim: int) -> str:
    return f"rows of {ps_dim} columns, as many as the anchors"
