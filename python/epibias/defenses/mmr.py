"""Maximal marginal relevance: candidates that are similar to the query but not to each other."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from epibias import _validate, kernels
from epibias._validate import Int64Array
from epibias.pool import CandidatePool
from epibias.selection import Selection


@dataclass(frozen=True)
class MMR:
    """Select greedily by λ · similarity − (1 − λ) · largest similarity to what is selected.

    The first pick is the most similar candidate; ties go to the one that ranks higher. MMR judges
    nothing suspicious, so `dropped` stays empty.

    Parameters
    ----------
    k : int
        At least 1; the `k` of a pool is not asked.
    relevance_weight : float
        λ in [0, 1]: 1 is pure relevance, 0 pure diversity.

    Raises
    ------
    InputError
        A parameter out of range.

    References
    ----------
    Carbonell and Goldstein 1998, doi:10.1145/290941.291025.

    Examples
    --------
    >>> from epibias.pool import CandidatePool
    >>> from epibias.polarization import PolarizationAxis
    >>> rows = np.array([[1, 0], [1, 0.1], [1, -0.9]], np.float32)
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> MMR(k=2).select(CandidatePool.from_vectors(rows[1:2], rows, axis))[0]
    array([1, 2])
    """

    k: int = 5
    relevance_weight: float = 0.5

    def __post_init__(self) -> None:
        _validate.integers_of(self, k=1)
        _validate.numbers_of(self, relevance_weight={"low": 0, "high": 1})

    @property
    def name(self) -> str:
        """Tell the weight where it is not 0.5."""
        weight = self.relevance_weight
        return "mmr" if weight == 0.5 else f"mmr[relevance_weight={weight:g}]"

    def parameters(self) -> dict[str, object]:
        """Return the parameters as plain values.

        Returns
        -------
        dict
        """
        return {"defense": "mmr", **asdict(self)}

    def select(self, pool: CandidatePool) -> Selection:
        """Select `k` candidates of each query, or all where there are fewer.

        Parameters
        ----------
        pool : CandidatePool

        Returns
        -------
        Selection
        """
        positions: list[Int64Array] = [np.empty(0, np.int64)] * pool.n_queries
        for group in pool.groups():
            if group.size == 0:
                continue
            chosen = kernels.mmr(
                group.similarities,
                pool.embeddings[group.rows],
                min(self.k, group.size),
                self.relevance_weight,
            )
            for query, row in zip(group.queries.tolist(), chosen, strict=True):
                positions[query] = row
        return Selection.of_queries(pool.candidates_of_queries(), positions, k=self.k)
