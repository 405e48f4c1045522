"""BRRA as a defence: what many noisy copies of the query agree on.

In: a pool and the index that it came from. The index is searched again with copies of each query
that carry Gaussian noise; candidates are ordered by how often they were found, then by their mean
rank. Owns the noise and its two conventions.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from epibias import _validate, pool_parts
from epibias._frameworks import is_on_device
from epibias._validate import Float32Array, Int64Array
from epibias.corpus import Corpus
from epibias.defenses.selecting import short_name, unit_rows
from epibias.errors import InputError
from epibias.polarization import PolarizationAxis
from epibias.pool import CandidatePool
from epibias.retrieval import CosineIndex, on_device
from epibias.selection import Selection

NOISES = ("norm_matched", "per_coordinate")
QUERIES_OF_A_SEARCH = 256  # bounds the memory of the noisy copies: 9 MB at 768-d and 10 copies


@dataclass(frozen=True)
class BRRA:
    """Select the candidates that the query and its noisy copies find most often.

    Each query and `n_variants` noisy copies of it search the index, `depth` passages each. The
    passages found are ordered by frequency (in how many lists), then mean rank within the lists
    that hold them, then the pool's total order.

    **Passages outside the pool.** A defence selects from its pool, so `select` passes over what
    the copies find elsewhere (`n_outside` counts it); such passages keep their places in the lists,
    so that the ranks of the others are those of the whole corpus. `extend` gives the pool with all
    that the copies find; selecting from that one is the method as published. A candidate that no
    list holds is never selected, so fewer than `k` may be.

    Parameters
    ----------
    index : CosineIndex
        Of the corpus that the pool came from; on the CPU.
    k : int
        At least 1.
    n_variants : int
        Noisy copies of a query, besides the query itself; 10 by default, which no source states.
    depth : int
        Passages that each copy retrieves; all of a smaller corpus.
    noise : {"norm_matched", "per_coordinate"}
        Of the query at unit length. Norm-matched noise has length `intensity`, so the cosine with
        the query is about 0.71 in any dimension at 1; per-coordinate noise has that standard
        deviation in every coordinate, so the cosine is about 1 / √(1 + dim): 0.05 at 384.
    intensity : float
        Above 0, at most 1e6.
    seed : int
        At least 0. The noise is keyed by it and by the query's id (`pool.query_ids`), so that
        batches do not matter; the first copies of a larger `n_variants` are those of a smaller.

    Raises
    ------
    InputError
        A parameter out of range; a pool of another index.

    References
    ----------
    arXiv:2512.00804, section V-A (noise as large as the embedding, order by frequency and rank);
    after Wang et al. 2025, arXiv:2506.11415, whose attack gives the name.

    Examples
    --------
    >>> rows = np.array([[1, 0, 0], [1, 0.1, 0], [1, -0.2, 0], [0, 0, 1]], np.float32)
    >>> axis = PolarizationAxis.fit(np.array([[1, 1, 0], [1, -1, 0]] * 2, np.float32))
    >>> index = CosineIndex(rows)
    >>> pool = CandidatePool.build(index, rows[:1], axis, k=2, pool_factor=2)
    >>> chosen = BRRA(index, k=2, depth=2, intensity=0.01).select(pool)
    >>> chosen[0], chosen.diagnostics["mean_frequency"]
    (array([0, 1]), array([11.]))
    """

    index: CosineIndex
    k: int = 5
    _: KW_ONLY
    n_variants: int = 10
    depth: int = 20
    noise: str = "norm_matched"
    intensity: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.index, CosineIndex):
            raise InputError("index", "a CosineIndex", type(self.index).__name__)
        if is_on_device(self.index.embeddings):
            raise on_device.refusal("index", "pools are the CPU's", self.index.embeddings)
        _validate.integers_of(self, k=1, n_variants=1, depth=1, seed=0)
        _validate.choice("noise", self.noise, NOISES)
        _validate.numbers_of(self, intensity={"above": 0, "high": 1e6})

    @property
    def name(self) -> str:
        """Tell what differs from the defaults: "brra[noise=per_coordinate]"."""
        return short_name(self, "brra")

    def parameters(self) -> dict[str, object]:
        """Return the parameters as plain values; of the index its size.

        Returns
        -------
        dict
        """
        return {
            "defense": "brra",
            "index": {"n_passages": self.index.n_passages, "dim": self.index.dim},
            "k": self.k,
            "n_variants": self.n_variants,
            "depth": self.depth,
            "noise": self.noise,
            "intensity": self.intensity,
            "seed": self.seed,
        }

    def variants(self, query_embeddings: Float32Array, query_ids: Int64Array) -> Float32Array:
        """Make the queries that are searched: each as it is, then its noisy copies.

        Parameters
        ----------
        query_embeddings : float32 [n_queries, dim]
        query_ids : int64 [n_queries]
            Keys of the noise.

        Returns
        -------
        float32 [n_queries, 1 + n_variants, dim]

        Examples
        --------
        >>> brra = BRRA(CosineIndex(np.eye(3, dtype=np.float32)), n_variants=2)
        >>> brra.variants(np.eye(3, dtype=np.float32), np.arange(3)).shape
        (3, 3, 3)
        """
        n_queries, dim = query_embeddings.shape
        rows = np.empty((n_queries, 1 + self.n_variants, dim), np.float32)
        rows[:, 0] = query_embeddings
        for row, unit, key in zip(rows, unit_rows(query_embeddings), query_ids, strict=True):
            keys = np.array([self.seed, key], np.int64).view(np.uint64)
            steps = np.random.Generator(np.random.Philox(key=keys)).standard_normal(
                (self.n_variants, dim)
            )
            if self.noise == "norm_matched":
                steps /= np.linalg.norm(steps, axis=1, keepdims=True)
            row[1:] = unit + self.intensity * steps
        return rows

    def reach(self, pool: CandidatePool) -> Int64Array:
        """Passages of the index that the queries and their noisy copies find, ascending.

        What is added to the index later can only push passages out of the lists, so these and the
        added ones are all that `select` can see of the larger index.

        Parameters
        ----------
        pool : CandidatePool
            Only its queries are looked at: candidates of another index are no error.

        Returns
        -------
        int64 [n_reached]

        Examples
        --------
        >>> rows = np.array([[1, 0], [1, 0.1], [1, -0.2], [0, 1]], np.float32)
        >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
        >>> index = CosineIndex(rows)
        >>> pool = CandidatePool.build(index, rows[:1], axis, k=1, pool_factor=1)
        >>> BRRA(index, depth=3, intensity=0.01).reach(pool)
        array([0, 1, 2])
        """
        return np.unique(self._lists(pool))

    def _found(self, pool: CandidatePool) -> Int64Array:
        """Search, of a pool of this index; see `_lists`."""
        self._check(pool)
        return self._lists(pool)

    def _lists(self, pool: CandidatePool) -> Int64Array:
        """Search with all copies of all queries: int64 [n_queries, 1 + n_variants, depth]."""
        assert pool.query_ids is not None  # noqa: S101  for mypy; a pool always has them
        depth = min(self.depth, self.index.n_passages)
        found = np.empty((pool.n_queries, 1 + self.n_variants, depth), np.int64)
        for start in range(0, pool.n_queries, QUERIES_OF_A_SEARCH):
            part = slice(start, start + QUERIES_OF_A_SEARCH)
            rows = self.variants(pool.query_embeddings[part], pool.query_ids[part])
            lists = self.index.search(rows.reshape(-1, self.index.dim), depth).indices
            found[part] = lists.reshape(-1, *found.shape[1:])
        return found

    def _check(self, pool: CandidatePool) -> None:
        """Refuse the pool of another index: its numbers would mean other passages."""
        if pool.query_embeddings.shape[1] != self.index.dim:
            expected = f"a pool of {self.index.dim} columns, as many as the index"
            raise InputError("pool", expected, str(pool.query_embeddings.shape[1]))
        inside = (pool.indices >= 0) & (pool.indices < self.index.n_passages)
        rows = np.flatnonzero(inside)
        same = (self.index.embeddings[pool.indices[rows]] == pool.embeddings[rows]).all(axis=1)
        wrong = np.setdiff1d(np.arange(len(pool.indices)), rows[same])
        for row in wrong[:1]:
            expected = "candidates whose embeddings are the index's rows"
            found = f"passage {pool.indices[row]}, which is none"
            raise InputError("pool", expected, found, f"candidate {row}")

    def extend(
        self,
        pool: CandidatePool,
        axis: PolarizationAxis,
        ps_embeddings: Float32Array | None = None,
        *,
        axis_of_query: Int64Array | None = None,
        corpus: Corpus | None = None,
    ) -> CandidatePool:
        """Add to the pool all that the noisy copies find.

        Any defence can select from the result; `select` finds every passage of its lists in it.

        Parameters
        ----------
        pool : CandidatePool
            Of this index.
        axis : PolarizationAxis
            Scores the passages that are added, by the rules of `CandidatePool.build`.
        ps_embeddings : float32 [n_passages, ps_dim], optional
            The corpus under the axis's encoder; the retrieval embeddings if absent.
        axis_of_query : int64 [n_queries], optional
            Topic of each query.
        corpus : Corpus, optional
            Gives the texts and metadata of all candidates.

        Returns
        -------
        CandidatePool

        Raises
        ------
        InputError
            The pool of another index, arrays that do not fit.

        Examples
        --------
        >>> rows = np.array([[1, 0], [1, 0.1], [1, -0.2], [0, 1]], np.float32)
        >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
        >>> index = CosineIndex(rows)
        >>> pool = CandidatePool.build(index, rows[:1], axis, k=1, pool_factor=1)
        >>> BRRA(index, depth=3, intensity=0.01).extend(pool, axis).indices
        array([0, 1, 2])
        """
        found = self._found(pool)
        unions = [
            np.union1d(part, own.ravel())
            for part, own in zip(pool.candidates_of_queries(), found, strict=True)
        ]
        if corpus is not None:
            _validate.same_length("corpus", len(corpus), "the index", self.index.n_passages)
        source = pool_parts.ps_source(self.index, ps_embeddings, axis.dim)
        joined = [pool_parts.join_corpus(corpus, part) for part in unions]
        columns = {} if corpus is None else dict.fromkeys(pool_parts.METADATA)
        return CandidatePool.from_vectors(
            pool.query_embeddings,
            [np.ascontiguousarray(self.index.embeddings[part]) for part in unions],
            axis,
            k=pool.k,
            indices=unions,
            ps_embeddings=[np.ascontiguousarray(source[part]) for part in unions],
            axis_of_query=axis_of_query,
            neutral_centres=pool.neutral_centres,
            query_ids=pool.query_ids,
            topics=pool.topics,
            query_texts=pool.query_texts,
            passage_texts=None if corpus is None else [texts or () for texts, _ in joined],
            metadata={name: [(values or {})[name] for _, values in joined] for name in columns}
            or None,
        )

    def select(self, pool: CandidatePool) -> Selection:
        """Select from the candidates that were found, most often first.

        Parameters
        ----------
        pool : CandidatePool
            Of this index.

        Returns
        -------
        Selection
            With `n_found` (candidates that some list holds), `n_outside` (passages in the lists
            that are no candidates) and `mean_frequency` (of the selected; NaN without any).

        Raises
        ------
        InputError
            The pool of another index.
        """
        chosen: list[Int64Array] = []
        n_found, n_outside = np.zeros((2, pool.n_queries), np.int64)
        frequencies = np.full(pool.n_queries, np.nan)
        lists = self._found(pool)
        for query, candidates in enumerate(pool.candidates_of_queries()):
            numbers, place, frequency = np.unique(
                lists[query].ravel(), return_inverse=True, return_counts=True
            )
            # Ranks are whole numbers: their sums are exact, and so is the order of the means.
            ranks = np.tile(np.arange(lists.shape[2]), lists.shape[1])
            rank_sums = np.bincount(place.ravel(), weights=ranks, minlength=len(numbers))
            _, positions, of_number = np.intersect1d(
                candidates, numbers, assume_unique=True, return_indices=True
            )
            often = frequency[of_number]
            order = np.lexsort((positions, rank_sums[of_number] / often, -often))[: self.k]
            chosen.append(positions[order].astype(np.int64))
            n_found[query], n_outside[query] = len(positions), len(numbers) - len(positions)
            if len(order):
                frequencies[query] = often[order].mean()
        return Selection.of_queries(
            pool.candidates_of_queries(),
            chosen,
            k=self.k,
            diagnostics={
                "n_found": n_found,
                "n_outside": n_outside,
                "mean_frequency": frequencies,
            },
        )
