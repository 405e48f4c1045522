"""Checks and pieces of `CandidatePool`: what may go in, put in order and joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epibias import _validate, kernels
from epibias._dispatch import renamed
from epibias._frameworks import is_on_device
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.errors import InputError
from epibias.polarization import PolarizationAxis
from epibias.retrieval import CosineIndex, on_device

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


class VectorParts(NamedTuple):
    """Candidates of every query laid end to end, in the order given. No value was read yet."""

    queries: Float32Array
    embeddings: Float32Array
    sizes: list[int]
    offsets: Int64Array
    indices: Int64Array | None
    ps_embeddings: Float32Array | None

    @classmethod
    def of(
        cls,
        query_embeddings: Float32Array,
        candidate_embeddings: Float32Array | Sequence[Float32Array],
        indices: Int64Array | Sequence[Int64Array] | None,
        ps_embeddings: Float32Array | Sequence[Float32Array] | None,
        ps_dim: int,
    ) -> VectorParts:
        """Check the shapes of every query's arrays; the axis takes `ps_dim` columns."""
        queries = _validate.array("query_embeddings", query_embeddings, dtype=np.float32, ndim=2)
        n_queries, dim = queries.shape
        vectors, sizes = _end_to_end(
            "candidate_embeddings", candidate_embeddings, n_queries, (dim, "query_embeddings")
        )
        numbers = flat_ps = None
        if indices is not None:
            numbers, found = _end_to_end("indices", indices, n_queries, None)
            _check_sizes("indices", found, sizes)
        if ps_embeddings is not None:
            flat_ps, found = _end_to_end(
                "ps_embeddings", ps_embeddings, n_queries, (ps_dim, "the anchors")
            )
            _check_sizes("ps_embeddings", found, sizes)
        elif dim != ps_dim:
            got = f"None, with candidate_embeddings of {dim} columns"
            raise InputError("ps_embeddings", _columns_of_axis(ps_dim), got)
        offsets = np.array([0, *accumulate(sizes)], np.int64)
        return cls(queries, vectors, sizes, offsets, numbers, flat_ps)

    def for_core(self, axis: PolarizationAxis, topic_of_query: Int64Array) -> dict[str, Any]:
        """Arguments of `kernels_select.rank_candidates`, which reads and checks the values."""
        score_offsets = None
        if axis.is_batch or axis.mean_anchor_score != 0:
            score_offsets = np.atleast_1d(np.asarray(axis.mean_anchor_score, np.float64))
        return {
            "query_embeddings": self.queries,
            "candidate_embeddings": self.embeddings,
            "offsets": self.offsets,
            "axes": axis.axis if axis.is_batch else axis.axis[None],
            "indices": self.indices,
            "ps_embeddings": self.ps_embeddings,
            "axis_of_query": topic_of_query,
            "score_offsets": score_offsets,
            "normalize": axis.normalize,
        }

    def reordered(
        self, argument: str, values: Sequence[Sequence[Any]] | None, rows: Int64Array
    ) -> tuple[Any, ...] | None:
        """Values beside each query's candidates, flat and in the order of `rows`."""
        if values is None:
            return None
        _validate.same_length(argument, len(values), "query_embeddings", len(self.sizes))
        _check_sizes(argument, [len(part) for part in values], self.sizes)
        flat = [value for part in values for value in part]
        return tuple(flat[row] for row in rows)


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
    _check_embeddings(pool, len(offsets) - 1, n)
    check_labels(pool)
    _check_order(pool)


def check_labels(pool: CandidatePool) -> None:
    """Refuse what stands beside the queries and the candidates and does not fit them."""
    n_queries, n = len(pool.offsets) - 1, len(pool.indices)
    check_keys(pool.neutral_centres, pool.query_ids, n_queries)
    for name, rows in (("topics", n_queries), ("query_texts", n_queries), ("passage_texts", n)):
        if getattr(pool, name) is not None:
            _validate.same_length(name, len(getattr(pool, name)), "the pool", rows)
    for name, column in (pool.metadata or {}).items():
        _validate.same_length(f"metadata[{name!r}]", len(column), "candidates", n)


def check_keys(
    neutral_centres: Float64Array | None, query_ids: Int64Array | None, n_queries: int
) -> None:
    """Refuse values of queries that are not one a query."""
    if neutral_centres is not None:
        _validate.array("neutral_centres", neutral_centres, dtype=np.float64, ndim=1)
        _validate.same_length("neutral_centres", len(neutral_centres), "queries", n_queries)
        _validate.finite("neutral_centres", neutral_centres)
    if query_ids is not None:
        _validate.array("query_ids", query_ids, dtype=np.int64, ndim=1)
        _validate.same_length("query_ids", len(query_ids), "queries", n_queries)


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
    if is_on_device(index.embeddings):
        raise on_device.refusal("index", "pools are the CPU's", index.embeddings)
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
    if not axis.is_batch and isfinite(centre := float(axis.neutral_centre)):
        filled = np.empty(len(topic_of_query))  # np.full takes four times as long
        filled.fill(centre)
        return filled
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


def _end_to_end(
    argument: str,
    arrays: NDArray[Any] | Sequence[NDArray[Any]],
    n_queries: int,
    columns: tuple[int, str] | None,
) -> tuple[NDArray[Any], list[int]]:
    """Lay every query's rows end to end, and count them.

    From a list, a rectangle, or the array of a single query. Rows of as many `columns` as another
    argument has, or numbers.
    """
    dtype, ndim, width = (np.int64, 1, ()) if columns is None else (np.float32, 2, columns[:1])
    if isinstance(arrays, list | tuple):
        for query, part in enumerate(arrays):
            with renamed(where=f"query {query}"):
                _validate.array(argument, part, dtype=dtype, ndim=ndim)
        _validate.same_length(argument, len(arrays), "query_embeddings", n_queries)
        if columns is not None:
            _check_columns(argument, arrays, *columns)
        flat = np.concatenate([np.empty((0, *width), dtype), *arrays])
        return flat, [len(part) for part in arrays]
    array = _validate.array(argument, arrays, dtype=dtype, ndim=(ndim, ndim + 1))
    found = len(array) if array.ndim == ndim + 1 else 1
    _validate.same_length(argument, found, "query_embeddings", n_queries)
    if n_queries == 0:
        return np.empty((0, *width), dtype), []
    n = array.shape[-ndim]
    if columns is not None:
        _check_columns(argument, [array if array.ndim == ndim else array[0]], *columns)
    return array.reshape(n_queries * n, *width), [n] * n_queries


def _check_sizes(argument: str, found: list[int], sizes: list[int]) -> None:
    if found == sizes:
        return
    for query, (n, size) in enumerate(zip(found, sizes, strict=True)):
        if n != size:
            expected = f"{size} rows, as many as the query's candidates"
            raise InputError(argument, expected, str(n), f"query {query}")


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
