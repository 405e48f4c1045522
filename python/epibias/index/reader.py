"""One version as a tenant may read it: plain similarity, and selection under the policy.

Owns which passages a query may see at all (tenant) and which may answer it (ownership gate, with
elevated pages), both before ranking: nobody's passages crowd out those that are allowed, and an
answer with fewer than `k` says so. Never writes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epibias import _validate
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.index.authority import authority_scores, select_context
from epibias.index.policy import TIERS, Policy
from epibias.index.protocols import VersionView
from epibias.retrieval import CosineIndex

# Rows of a part of the corpus are copied together up to this size; a larger part is filtered
# out of a search of the whole.
MOST_BYTES_COPIED = 1 << 29


@dataclass(frozen=True)
class Elevation:
    """A page that an owner allowed for a topic after review, exactly as it was then."""

    topic: str
    passage_id: str
    content_sha256: str
    tier: int


@dataclass(frozen=True, eq=False)
class Found:
    """What one query found, best first.

    Attributes
    ----------
    rows : int64 [n]
        Rows of the version.
    similarities : float32 [n]
    scores : float64 [n]
        What it was ranked by: similarity plus the weight of the tier, or the similarity alone.
    short : bool
        Whether fewer came back than were asked for.
    """

    rows: Int64Array
    similarities: Float32Array
    scores: Float64Array
    short: bool


class IndexReader:
    """Reads one version.

    Parameters
    ----------
    files : VersionView
        `version_files.open_version` gives one; so may another store.
    policy : Policy
    tenant : str or None
        Whose passages may be seen, beside everybody's.
    everything : bool
        Governance reads all tenants' passages: the gate must.
    elevations : collection of Elevation

    Attributes
    ----------
    visible : bool [n_passages]
    all_tiers : int8 [n_passages]
        By the policy that was given, not by the one of when a page was staged.

    Examples
    --------
    `docs/index.md` has one from the beginning.
    """

    def __init__(
        self,
        files: VersionView,
        policy: Policy,
        *,
        tenant: str | None = None,
        everything: bool = False,
        elevations: Collection[Elevation] = (),
    ) -> None:
        self.files, self.policy, self.tenant = files, policy, tenant
        n_passages = len(files.rows)
        self.visible: NDArray[np.bool_] = (
            np.ones(n_passages, np.bool_) if everything else files.rows.visible_to(tenant)
        )
        self.all_tiers = self._tiers_now()
        self._elevated = self._rows_elevated(elevations)
        self._eligible: dict[str | None, NDArray[np.bool_]] = {}
        self._whole: CosineIndex | None = None
        self._parts: dict[tuple[str | None, bool], tuple[Int64Array, CosineIndex | None]] = {}

    def similar(self, query_embeddings: Float32Array, n: int) -> list[Found]:
        """Find the `n` visible passages that are most similar to each query.

        Parameters
        ----------
        query_embeddings : float32 [n_queries, dim]
        n : int

        Returns
        -------
        list of Found
            One a query; similarity descending, then row.
        """
        n = _validate.integer("n", n, low=1)
        found = []
        for rows, similarities in self._search(query_embeddings, n, None, gated=False):
            scores = similarities.astype(np.float64)
            found.append(Found(rows, similarities, scores, len(rows) < n))
        return found

    def select(
        self,
        query_embeddings: Float32Array,
        topics: Sequence[str | None],
        k: int | None = None,
    ) -> list[Found]:
        """Select each query's context under the policy.

        Parameters
        ----------
        query_embeddings : float32 [n_queries, dim]
        topics : sequence of str or None
            Topic of each query; only pages of its authoritative sources, and elevated ones, may
            be selected. None: general search, as the policy's `unmatched` says.
        k : int, optional
            The policy's if absent.

        Returns
        -------
        list of Found
            One a query, by score.
        """
        k = self.policy.selection.k if k is None else _validate.integer("k", k, low=1)
        _validate.same_length("topics", len(topics), "queries", len(query_embeddings))
        found: list[Found | None] = [None] * len(topics)
        for topic in dict.fromkeys(topics):
            queries = [number for number, one in enumerate(topics) if one == topic]
            chosen = self._select_topic(query_embeddings[queries], topic, k)
            for number, one in zip(queries, chosen, strict=True):
                found[number] = one
        return [one for one in found if one is not None]

    def eligible(self, topic: str | None) -> NDArray[np.bool_]:
        """Which passages may be selected for a topic, bool [n_passages]."""
        if topic is None and self.policy.unmatched == "open":
            return self.visible
        if topic not in self._eligible:
            topics = [topic] if topic is not None else list(self.policy.topics)
            sources = [name for one in topics for name in self.policy.topic(one).sources]
            allowed = self.files.rows.rows_of_sources(sources)
            allowed[[row for one in topics for row in self._elevated.get(one, {})]] = True
            self._eligible[topic] = allowed & self.visible
        return self._eligible[topic]

    def tiers(self, rows: Int64Array, topic: str | None) -> NDArray[np.int8]:
        """Tiers of some passages, elevated ones with what they were elevated to."""
        tiers = self.all_tiers[rows]
        elevated = self._elevated.get(topic, {}) if topic is not None else {}
        if elevated:
            tiers = np.array(
                [elevated.get(row, tier) for row, tier in zip(rows.tolist(), tiers, strict=True)],
                np.int8,
            )
        return tiers

    def _select_topic(self, queries: Float32Array, topic: str | None, k: int) -> list[Found]:
        """Select for queries of one topic; those that need more candidates are searched deeper."""
        found: dict[int, Found] = {}
        waiting, depth = list(range(len(queries))), max(20, 4 * k)
        while waiting:
            candidates = self._search(queries[waiting], depth, topic)
            for query, (rows, similarities) in zip(waiting, candidates, strict=True):
                chosen = self._chosen(rows, similarities, topic, k, whole=len(rows) < depth)
                if chosen is not None:
                    found[query] = chosen
            waiting = [query for query in waiting if query not in found]
            depth *= 4
        return [found[query] for query in range(len(queries))]

    def _chosen(
        self,
        rows: Int64Array,
        similarities: Float32Array,
        topic: str | None,
        k: int,
        *,
        whole: bool,
    ) -> Found | None:
        """Select from candidates; None where one that was not looked at could belong to it."""
        rule = self.policy.selection
        tiers = self.tiers(rows, topic)
        scores = authority_scores(similarities, tiers, rule)
        chosen = select_context(scores, tiers, self.files.rows.source_codes[rows], k, rule)
        if not whole:
            beyond = float(similarities[-1]) + max(rule.tier_weights.values(), default=0.0)
            if len(chosen) < k or scores[chosen[-1]] <= beyond:
                return None
        short = len(chosen) < k
        return Found(rows[chosen], similarities[chosen], scores[chosen], short)

    def _search(
        self, queries: Float32Array, n: int, topic: str | None, *, gated: bool = True
    ) -> list[tuple[Int64Array, Float32Array]]:
        """Search the passages that may answer a topic; not gated: all visible ones."""
        rows, part = self._part(topic, gated=gated)
        if part is not None:
            found = part.search(np.ascontiguousarray(queries), n, allow_fewer=True)
            pairs = zip(found.indices, found.similarities, strict=True)
            return [(rows[indices], similarities) for indices, similarities in pairs]
        return [self._filtered(queries[i : i + 1], rows, n) for i in range(len(queries))]

    def _filtered(
        self, query: Float32Array, rows: Int64Array, n: int
    ) -> tuple[Int64Array, Float32Array]:
        """Search all, deeper and deeper, until enough of the allowed rows were met."""
        allowed = np.zeros(len(self.files.rows), np.bool_)
        allowed[rows] = True
        depth = 4 * n
        while True:
            found = self._all().search(query, depth, allow_fewer=True)
            indices = found.indices[0]
            keep = np.flatnonzero(allowed[indices])[:n]
            if len(keep) == n or len(indices) < depth:
                return indices[keep], found.similarities[0][keep]
            depth *= 4

    def _part(self, topic: str | None, *, gated: bool) -> tuple[Int64Array, CosineIndex | None]:
        if (topic, gated) not in self._parts:
            rows = np.flatnonzero(self.eligible(topic) if gated else self.visible)
            vectors = self.files.vectors
            index: CosineIndex | None
            if len(rows) == len(vectors):
                index = self._all()
            elif len(rows) * vectors.shape[1] * 4 <= MOST_BYTES_COPIED:
                # Codes would take longer to make than the few searches of a check.
                index = CosineIndex(np.ascontiguousarray(vectors[rows]), scan="float32")
            else:
                index = None
            self._parts[topic, gated] = rows, index
        return self._parts[topic, gated]

    def _all(self) -> CosineIndex:
        if self._whole is None:
            self._whole = CosineIndex(self.files.vectors)
        return self._whole

    def _tiers_now(self) -> NDArray[np.int8]:
        """Tiers as the policy has them now; a source that it no longer knows is open."""
        names = self.files.rows.source_names
        known = self.policy.sources
        tiers = [known[name].tier if name in known else max(TIERS) for name in names]
        found: NDArray[np.int8] = np.array([*tiers, max(TIERS)], np.int8)[
            self.files.rows.source_codes
        ]
        return found

    def _rows_elevated(self, elevations: Collection[Elevation]) -> Mapping[str, Mapping[int, int]]:
        """Rows and tiers of elevated pages that are still what was reviewed."""
        elevations = list(elevations)
        if not elevations:
            return {}
        rows = self.files.rows.find([one.passage_id for one in elevations])
        there = [n for n, row in enumerate(rows.tolist()) if row >= 0]
        found: dict[str, dict[int, int]] = {}
        for number, row in zip(there, self.files.rows.read(rows[there]), strict=True):
            one = elevations[number]
            if row.content_sha256 == one.content_sha256:
                found.setdefault(one.topic, {})[int(rows[number])] = one.tier
        return found
