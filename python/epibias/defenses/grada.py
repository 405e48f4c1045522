"""GRADA: PageRank over the candidates, where an edge is similarity to each other, not to the query.

In: a pool with texts, or only vectors. An adversarial passage resembles the query more than it
resembles the benign candidates, so few edges lead to it. Owns the graph and the ranking.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, asdict, dataclass

import numpy as np

from epibias import _validate
from epibias._validate import Float64Array, Int64Array
from epibias.defenses import lexical
from epibias.defenses.selecting import cosines, passage_texts, query_slices, query_texts, short_name
from epibias.errors import InputError
from epibias.pool import CandidatePool
from epibias.selection import Selection

SIMILARITIES = ("bm25", "cosine")
_DEFAULT_SATURATION = 1.5


@dataclass(frozen=True)
class GRADA:
    """Select the candidates of highest PageRank in the graph of their mutual similarity.

    ::

        w_ij = max(0, ½ (s(i, j) + s(j, i)) − query_penalty · (s(i, q) + s(j, q)))     i ≠ j
        r    = (1 − damping)/n + damping · Σ_j r_j w_ji / Σ_m w_jm

    A candidate without edges passes its rank to all alike. Ranks nearer than 1e-12 are ties, which
    the pool's order settles. GRADA judges nothing suspicious, so `dropped` stays empty.

    Parameters
    ----------
    k : int
        At least 1.
    similarity : {"bm25", "cosine"}
        s: BM25 of passage j for the words of passage i (needs texts), or the cosine.
    query_penalty : float
        α, at least 0; 0.4 in the released code, 0 for its plain BM25 and embedding graphs.
    damping : float
        In [0, 1).
    saturation : float
        k1 of BM25, above 0; not asked with the cosine.

    Raises
    ------
    InputError
        A parameter out of range or one that would decide nothing; a pool without texts.

    References
    ----------
    Zheng et al. 2025, arXiv:2505.07546 (EMNLP 2025); the released code for the formula and 0.4.

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> rows = np.array([[1, 0, 0], [1, 1, 0.9], [1, 1, 1], [1, 1, 1.1]], np.float32)
    >>> axis = PolarizationAxis.fit(np.array([[1, 1, 0], [1, -1, 0]] * 2, np.float32))
    >>> pool = CandidatePool.from_vectors(rows[:1], rows, axis)
    >>> GRADA(k=3, similarity="cosine").select(pool)[0]  # the copy of the query has no edge
    array([3, 2, 1])
    """

    k: int = 5
    _: KW_ONLY
    similarity: str = "bm25"
    query_penalty: float = 0.4
    damping: float = 0.85
    saturation: float = _DEFAULT_SATURATION

    def __post_init__(self) -> None:
        _validate.integers_of(self, k=1)
        _validate.choice("similarity", self.similarity, SIMILARITIES)
        bounds = {"low": 0, "below": 1}
        _validate.numbers_of(
            self, query_penalty={"low": 0}, damping=bounds, saturation={"above": 0}
        )
        if self.similarity == "cosine" and self.saturation != _DEFAULT_SATURATION:
            expected = f"{_DEFAULT_SATURATION} with similarity='cosine'"
            raise InputError("saturation", expected, repr(self.saturation))

    @property
    def name(self) -> str:
        """Tell what differs from the defaults: "grada[similarity=cosine]"."""
        return short_name(self, "grada")

    def parameters(self) -> dict[str, object]:
        """Return the parameters as plain values.

        Returns
        -------
        dict
        """
        return {"defense": "grada", **asdict(self)}

    def select(self, pool: CandidatePool) -> Selection:
        """Select the `k` candidates of highest rank of each query, or all where there are fewer.

        Parameters
        ----------
        pool : CandidatePool
            With passage and query texts for BM25.

        Returns
        -------
        Selection
            With `n_isolated`: candidates without an edge.

        Raises
        ------
        InputError
            BM25 of a pool without texts.
        """
        chosen: list[Int64Array] = []
        isolated = np.zeros(pool.n_queries, np.int64)
        if self.similarity == "bm25":
            passages, queries = passage_texts(pool, self.name), query_texts(pool, self.name)
        for query, rows in enumerate(query_slices(pool)):
            if self.similarity == "bm25":
                terms = [lexical.content_words(text) for text in passages[rows]]
                asked = lexical.content_words(queries[query])
                mutual = lexical.bm25(terms, terms, self.saturation)
                to_query = lexical.bm25(terms, [asked], self.saturation)[:, 0]
            else:
                mutual = cosines(pool.embeddings[rows])
                to_query = pool.similarities[rows].astype(np.float64)
            weights = edges(mutual, to_query, self.query_penalty)
            isolated[query] = (weights.sum(axis=1) == 0).sum()
            ranks = page_rank(weights, self.damping).round(12)
            chosen.append(np.argsort(-ranks, kind="stable")[: self.k])
        return Selection.of_queries(
            pool.candidates_of_queries(), chosen, k=self.k, diagnostics={"n_isolated": isolated}
        )


def edges(mutual: Float64Array, to_query: Float64Array, query_penalty: float) -> Float64Array:
    """Weights of the graph: mutual similarity beyond what both share with the query.

    Parameters
    ----------
    mutual : float64 [n, n]
        Similarity of j for i.
    to_query : float64 [n]
    query_penalty : float

    Returns
    -------
    float64 [n, n]
        Symmetric, none below 0, 0 on the diagonal.

    Examples
    --------
    >>> edges(np.array([[9, 1], [2, 9.0]]), np.array([0.5, 0.5]), 0.4)
    array([[0. , 1.1],
           [1.1, 0. ]])
    """
    both = (mutual + mutual.T) / 2 - query_penalty * (to_query[:, None] + to_query)
    weights: Float64Array = np.maximum(both.round(12), 0)
    np.fill_diagonal(weights, 0)
    return weights


def page_rank(weights: Float64Array, damping: float) -> Float64Array:
    """Stationary distribution of the walk that follows edges, or jumps anywhere.

    Solved as a linear system: pools are small, and an iteration would need a tolerance.

    Parameters
    ----------
    weights : float64 [n, n]
        Of the edges from row to column; a row of zeros leads to all alike.
    damping : float
        Share of steps that follow an edge.

    Returns
    -------
    float64 [n]
        Adds up to 1.

    References
    ----------
    Brin and Page 1998, doi:10.1016/S0169-7552(98)00110-X.

    Examples
    --------
    >>> page_rank(np.array([[0, 1.0, 1], [1, 0, 0], [1, 0, 0]]), 0.5)
    array([0.44444444, 0.27777778, 0.27777778])
    """
    n = len(weights)
    if n == 0:
        return np.zeros(0)
    totals = weights.sum(axis=1, keepdims=True)
    steps = np.where(totals > 0, weights / np.where(totals > 0, totals, 1), 1 / n)
    jumps = np.full(n, (1 - damping) / n)
    return np.asarray(np.linalg.solve(np.eye(n) - damping * steps.T, jumps))
