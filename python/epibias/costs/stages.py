"""A defence as it is deployed, and its stages one by one: encode, search, project, sweep, select.

As deployed, a service calls the encoder, `CandidatePool.build` and `select`; each stage alone is a
public call too. `check` sees to it that both ways select the same passages before anything is
timed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from epibias._validate import Float32Array, Int64Array
from epibias.costs.clock import seconds_of
from epibias.defenses import BiasDef, Defense
from epibias.encoder import Encoder
from epibias.polarization import PolarizationAxis
from epibias.pool import CandidatePool
from epibias.pool_parts import centres_of
from epibias.retrieval import Candidates, CosineIndex
from epibias.selection import Selection

STAGES = ("encode", "search", "project", "sweep", "select", "total")
AFTER_SEARCH = "after_search"


class StagesDifferError(Exception):
    """The stages, one by one, gave something else than the calls of a service: nobody's input.

    Parameters
    ----------
    stage : str
        The first that differs.
    query : int
        The first query for which it does.

    Examples
    --------
    >>> print(StagesDifferError("search", 3))
    search: alone it gives something else than as deployed, first for query 3
    """

    def __init__(self, stage: str, query: int) -> None:
        self.stage, self.query = stage, query
        super().__init__(
            f"{stage}: alone it gives something else than as deployed, first for query {query}"
        )

    def __reduce__(self) -> tuple[type[StagesDifferError], tuple[str, int]]:
        return type(self), (self.stage, self.query)


@dataclass(frozen=True, eq=False)
class Batch:
    """Queries that come in one call.

    Parameters
    ----------
    texts : sequence of str
        Read where there is an encoder.
    queries : float32 [n_queries, dim]
        What is searched for.
    axis_of_query : int64 [n_queries]
    """

    texts: Sequence[str]
    queries: Float32Array
    axis_of_query: Int64Array


@dataclass(frozen=True, eq=False)
class Deployment:
    """Everything that a service holds between two calls.

    Parameters
    ----------
    index : CosineIndex
    axis : PolarizationAxis
        One, or one a topic.
    defense : Defense
        Selects `k`.
    k, pool_factor : int
        `pool_factor · k` candidates are retrieved.
    encoder : Encoder, optional
        Without one, encoding is not measured.

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((40, 8), np.float32)
    >>> axis = PolarizationAxis.fit(rows[:8])
    >>> service = Deployment(CosineIndex(rows), axis, BiasDef(3), k=3, pool_factor=4)
    >>> batch = Batch(["tram"] * 2, rows[:2], np.zeros(2, np.int64))
    >>> service.check(batch), service.n_candidates
    (2, 12)

    Stage by stage, and as a service calls them:

    >>> service.encode(batch) is None  # there is no encoder
    True
    >>> found = service.search(batch)
    >>> scores = service.project(batch, found)
    >>> service.sweep(found, scores).threshold.shape
    (2,)
    >>> len(service.join(batch, found, scores)), len(service.build(batch))
    (2, 2)

    Seconds of each:

    >>> spent = service.timed(batch)
    >>> sorted(spent)
    ['after_search', 'project', 'search', 'select', 'sweep', 'total']
    >>> spent["after_search"] <= spent["total"]
    True
    >>> "sweep" in service.timed_first(batch)
    False
    """

    index: CosineIndex
    axis: PolarizationAxis
    defense: Defense
    k: int
    pool_factor: int
    encoder: Encoder | None = None

    @property
    def n_candidates(self) -> int:
        """Candidates of a query; all passages where there are fewer."""
        return min(self.k * self.pool_factor, self.index.n_passages)

    def encode(self, batch: Batch) -> Float32Array | None:
        """Turn the texts of the batch into embeddings; None without an encoder."""
        if self.encoder is None:
            return None
        encode = getattr(self.encoder, "encode_queries", self.encoder.encode)
        rows: Float32Array = encode(list(batch.texts))
        return rows

    def search(self, batch: Batch) -> Candidates:
        """Find the candidates."""
        return self.index.search(batch.queries, self.n_candidates)

    def project(self, batch: Batch, found: Candidates) -> Float32Array:
        """Score the candidates on the axis of their query."""
        return self.axis.score(self.index.embeddings, found.indices, topics=batch.axis_of_query)

    def sweep(self, found: Candidates, scores: Float32Array) -> Any:  # noqa: ANN401
        """Split the candidates as the defence does; None where it does not."""
        if not isinstance(self.defense, BiasDef):
            return None
        return self.defense.sweep(found.similarities, scores, np.arange(len(scores)))

    def join(self, batch: Batch, found: Candidates, scores: Float32Array) -> CandidatePool:
        """Make a pool of what the stages gave, as `CandidatePool.build` would."""
        n_queries, n = found.indices.shape
        embeddings = np.ascontiguousarray(self.index.embeddings[found.indices.ravel()])
        return CandidatePool(
            found.indices.ravel(),
            found.similarities.ravel(),
            scores.ravel(),
            np.arange(n_queries + 1) * n,
            self.k,
            batch.queries,
            embeddings,
            embeddings,
            centres_of(self.axis, batch.axis_of_query, None),
        )

    def build(self, batch: Batch) -> CandidatePool:
        """Search, project and join, as a service does."""
        return self._build(batch, self.index)

    def _build(self, batch: Batch, index: CosineIndex) -> CandidatePool:
        return CandidatePool.build(
            index,
            batch.queries,
            self.axis,
            k=self.k,
            pool_factor=self.pool_factor,
            allow_fewer=True,
            axis_of_query=batch.axis_of_query,
        )

    def timed(self, batch: Batch) -> dict[str, float]:
        """Run all but the encoder once; seconds of every stage that there is.

        `total` is one pass as deployed; search, project and sweep are run once more, alone.
        `after_search` is what is left of that pass without its own search: a part of `total`.
        """
        spent: dict[str, float] = {}
        index = _TimedIndex(self.index)
        build, pool = seconds_of(lambda: self._build(batch, cast(CosineIndex, index)))
        spent["select"], _ = seconds_of(lambda: self.defense.select(pool))
        spent["total"] = build + spent["select"]
        spent[AFTER_SEARCH] = spent["total"] - index.seconds
        spent["search"], found = seconds_of(lambda: self.search(batch))
        spent["project"], scores = seconds_of(lambda: self.project(batch, found))
        if isinstance(self.defense, BiasDef):
            spent["sweep"], _ = seconds_of(lambda: self.sweep(found, scores))
        return spent

    def timed_first(self, batch: Batch) -> dict[str, float]:
        """Run every stage, the encoder too, for the first time in this process; seconds of each.

        `total` is their sum with the join. The sweep runs for the first time within `select`, so
        alone it would be no first call: it is left out.
        """
        spent: dict[str, float] = {}
        if self.encoder is not None:
            spent["encode"], _ = seconds_of(lambda: self.encode(batch))
        spent["search"], found = seconds_of(lambda: self.search(batch))
        spent["project"], scores = seconds_of(lambda: self.project(batch, found))
        join, pool = seconds_of(lambda: self.join(batch, found, scores))
        spent["select"], _ = seconds_of(lambda: self.defense.select(pool))
        spent["total"] = sum(spent.values()) + join
        spent[AFTER_SEARCH] = spent["project"] + join + spent["select"]
        return spent

    def check(self, batch: Batch) -> int:
        """See that the stages, one by one, select what the deployed calls select.

        Returns
        -------
        int
            Queries that were compared.

        Raises
        ------
        StagesDifferError
            With the first stage that differs, and for which query.
        """
        pool = self.build(batch)
        selection = self.defense.select(pool)
        found = self.search(batch)
        scores = self.project(batch, found)
        shape = found.indices.shape
        _same("search", found.indices, pool.indices.reshape(shape))
        _same("search", found.similarities, pool.similarities.reshape(shape))
        _same("project", scores, pool.scores.reshape(shape))
        cut = self.sweep(found, scores)
        if cut is not None and shape[1] > 1:
            _same("sweep", cut.threshold, selection.diagnostics["sweep_threshold"])
            _same("sweep", cut.divergence, selection.diagnostics["divergence"])
        again = self.defense.select(self.join(batch, found, scores))
        for query in range(shape[0]):
            if not _same_selection(again, selection, query):
                raise StagesDifferError("select", query)
        return len(found.indices)


class _TimedIndex:
    """An index, and the seconds of its latest search; all else is the index's own."""

    def __init__(self, index: CosineIndex) -> None:
        self._index, self.seconds = index, 0.0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._index, name)

    def search(self, *arguments: Any, **options: Any) -> Candidates:  # noqa: ANN401
        """Search, and take the time."""
        self.seconds, found = seconds_of(lambda: self._index.search(*arguments, **options))
        return found


def _same(stage: str, alone: np.ndarray[Any, Any], deployed: np.ndarray[Any, Any]) -> None:
    if np.array_equal(alone, deployed):
        return
    differ = (alone != deployed).reshape(len(alone), -1).any(axis=1)
    query = int(np.flatnonzero(differ)[0])
    raise StagesDifferError(stage, query)


def _same_selection(one: Selection, other: Selection, query: int) -> bool:
    return np.array_equal(one[query], other[query]) and np.array_equal(
        one.dropped[query], other.dropped[query]
    )
