"""SMART: a determinantal point process of relevance, similarity and contradiction.

In: a pool with texts and a model of natural language inference. Owns the kernel and its repair;
`kernels.dpp_greedy` selects.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from epibias import _validate, kernels
from epibias._validate import Float64Array, Int64Array
from epibias.defenses.selecting import cosines, passage_texts, query_slices, short_name
from epibias.errors import InputError
from epibias.nli import CONTRADICTION, NLI
from epibias.pool import CandidatePool
from epibias.selection import Selection

PAIRS_OF_A_CALL = 4096  # bounds what an NLI model holds at a time


@dataclass(frozen=True)
class SMART:
    """Select relevant candidates that neither repeat nor contradict each other.

    ::

        C_ij = ½ (P(i contradicts j) + P(j contradicts i))
        K_ij = cos(i, j) · exp(−γ (1 − C_ij)) for i ≠ j,  K_ii = 1
        L    = Diag(q) K Diag(q),  q_i = (max(r_i, 0) / max r)^(w / (1 − w))

    with r the similarities to the query and w the `relevance_weight`: the greedy choice maximises
    w · Σ log r_i² + (1 − w) · log det K over the selected, and w = ½ is L of the plain formula.
    Passages that contradict each other keep their whole similarity, so they repel each other
    most; others are taken for less similar than they are. L is in general not positive
    semidefinite: its negative eigenvalues are set to 0. Selection stops before `k` where the
    determinant can grow no more (a gain of at most 1e-10), and at candidates that are not similar
    to the query at all.

    **Cost**: n(n − 1) ordered pairs a query for the NLI model, 380 for 20 candidates; a pair of
    texts that stands in several queries of the pool is asked once. Put `nli.CachedNLI` around a
    model to keep the answers. Queries are independent as far as the model gives a pair the same
    probabilities in every batch.

    Parameters
    ----------
    nli : NLI
        Judges whether a passage contradicts another.
    k : int
        At least 1.
    conflict_weight : float
        γ, at least 0; at 0 contradictions do not count. No source that we could read states it.
        0.1 by default: at 1, passages that do not contradict each other hardly repel each other
        any more, copies included.
    relevance_weight : float
        w in [0, 1): 0 is similarity and contradiction alone.

    Raises
    ------
    InputError
        A parameter out of range; a pool without texts.

    References
    ----------
    Li, Hu and Wan 2024, arXiv:2409.13992, for the kernel.
    Chen, Zhang and Zhou 2018, arXiv:1709.05135, for the greedy choice and its weight.

    Examples
    --------
    >>> from epibias.nli import FixedNLI
    >>> from epibias.polarization import PolarizationAxis
    >>> def by_negation(premise, hypothesis):
    ...     return (0, 0, 1) if ("not" in premise) != ("not" in hypothesis) else (0, 1, 0)
    >>> rows = np.array([[1, 0.1], [1, 0.2], [1, -0.6]], np.float32)
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> texts = [["it is", "it is so", "it is not"]]
    >>> pool = CandidatePool.from_vectors(rows[:1], rows, axis, passage_texts=texts)
    >>> SMART(FixedNLI(by_negation), k=2).select(pool)[0]  # 1 is nearly a copy
    array([0, 2])
    >>> SMART(FixedNLI(by_negation), k=2, conflict_weight=1).select(pool)[0]  # 2 contradicts
    array([0, 1])
    """

    nli: NLI
    k: int = 5
    _: KW_ONLY
    conflict_weight: float = 0.1
    relevance_weight: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.nli, NLI):
            raise InputError("nli", "an NLI model", type(self.nli).__name__)
        _validate.integers_of(self, k=1)
        share = {"low": 0, "below": 1}
        _validate.numbers_of(self, conflict_weight={"low": 0}, relevance_weight=share)

    @property
    def name(self) -> str:
        """Tell what differs from the defaults: "smart[conflict_weight=2.0]"."""
        return short_name(self, "smart")

    def parameters(self) -> dict[str, object]:
        """Return the parameters as plain values; of the model its identity.

        Returns
        -------
        dict
        """
        return {
            "defense": "smart",
            "nli": dict(self.nli.identity),
            "k": self.k,
            "conflict_weight": self.conflict_weight,
            "relevance_weight": self.relevance_weight,
        }

    def contradictions(self, pool: CandidatePool) -> tuple[list[Float64Array], int]:
        """Ask the model about every two candidates of a query, each pair of texts once.

        Parameters
        ----------
        pool : CandidatePool
            With texts.

        Returns
        -------
        list of float64 [n_i, n_i], int
            C of each query, 0 on the diagonal; and how many pairs were asked.

        Examples
        --------
        >>> from epibias.nli import FixedNLI
        >>> from epibias.polarization import PolarizationAxis
        >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
        >>> rows = np.eye(2, dtype=np.float32)
        >>> pool = CandidatePool.from_vectors(rows[:1], rows, axis, passage_texts=[["a", "b"]])
        >>> nli = FixedNLI(lambda one, other: (0, 0.5, 0.5) if one == "a" else (0, 1, 0))
        >>> SMART(nli).contradictions(pool)
        ([array([[0.  , 0.25],
               [0.25, 0.  ]])], 2)
        """
        texts = passage_texts(pool, self.name)
        of_query = [texts[rows] for rows in query_slices(pool)]
        pairs = dict.fromkeys(
            (premise, hypothesis)
            for own in of_query
            for i, premise in enumerate(own)
            for j, hypothesis in enumerate(own)
            if i != j
        )
        asked = list(pairs)
        probability: dict[tuple[str, str], float] = {}
        for start in range(0, len(asked), PAIRS_OF_A_CALL):
            part = asked[start : start + PAIRS_OF_A_CALL]
            rows = self.nli.probabilities([p for p, _ in part], [h for _, h in part])
            column = rows[:, CONTRADICTION].astype(np.float64).tolist()
            probability |= dict(zip(part, column, strict=True))
        matrices = []
        for own in of_query:
            matrix = np.zeros((len(own), len(own)))
            for i, premise in enumerate(own):
                for j, hypothesis in enumerate(own):
                    if i != j:
                        matrix[i, j] = probability[premise, hypothesis]
            matrices.append((matrix + matrix.T) / 2)
        return matrices, len(asked)

    def select(self, pool: CandidatePool) -> Selection:
        """Select up to `k` candidates of each query, in the order of the greedy choice.

        Parameters
        ----------
        pool : CandidatePool
            With texts.

        Returns
        -------
        Selection
            With `least_eigenvalue` of L before the repair, NaN without candidates.

        Raises
        ------
        InputError
            A pool without texts; an NLI model that gives no probabilities.
        """
        chosen: list[Int64Array] = []
        least = np.full(pool.n_queries, np.nan)
        matrices, _ = self.contradictions(pool)
        for query, (rows, conflicts) in enumerate(zip(query_slices(pool), matrices, strict=True)):
            if len(conflicts) == 0:
                chosen.append(np.empty(0, np.int64))
                continue
            kernel = conflict_kernel(
                pool.similarities[rows].astype(np.float64),
                cosines(pool.embeddings[rows]),
                conflicts,
                self.conflict_weight,
                self.relevance_weight,
            )
            repaired, least[query] = positive_semidefinite(kernel)
            positions, n_selected = kernels.dpp_greedy(repaired[None], min(self.k, len(kernel)))
            chosen.append(positions[0, : n_selected[0]])
        return Selection.of_queries(
            pool.candidates_of_queries(),
            chosen,
            k=self.k,
            diagnostics={"least_eigenvalue": least},
        )


def conflict_kernel(
    relevance: Float64Array,
    similarity: Float64Array,
    conflicts: Float64Array,
    conflict_weight: float,
    relevance_weight: float,
) -> Float64Array:
    """L of `SMART`, before its repair.

    Parameters
    ----------
    relevance : float64 [n]
        Similarities to the query.
    similarity, conflicts : float64 [n, n]
        Symmetric.
    conflict_weight, relevance_weight : float
        γ and w.

    Returns
    -------
    float64 [n, n]
        Symmetric.

    Examples
    --------
    >>> one = np.ones((2, 2))
    >>> conflict_kernel(np.array([1, 0.5]), one, 0 * one, np.log(2), 0.5)
    array([[1.  , 0.25],
           [0.25, 0.25]])
    """
    weighted = similarity * np.exp(-conflict_weight * (1 - conflicts))
    np.fill_diagonal(weighted, 1.0)
    best = relevance.max()
    quality = np.maximum(relevance, 0) / best if best > 0 else np.zeros(len(relevance))
    quality = quality ** (relevance_weight / (1 - relevance_weight))
    return np.asarray(weighted * np.outer(quality, quality))


def positive_semidefinite(kernel: Float64Array) -> tuple[Float64Array, float]:
    """Set negative eigenvalues to 0; give the least one as it was, too.

    A kernel without any comes back unchanged.

    Parameters
    ----------
    kernel : float64 [n, n]
        Symmetric.

    Returns
    -------
    float64 [n, n], float
        The nearest positive semidefinite matrix in the Frobenius norm, symmetric to the bit.

    References
    ----------
    Higham 1988, doi:10.1016/0024-3795(88)90223-6.

    Examples
    --------
    >>> repaired, least = positive_semidefinite(np.array([[1.0, 2.0], [2.0, 1.0]]))
    >>> repaired.round(6), round(least, 6)  # eigenvalues 3 and -1
    (array([[1.5, 1.5],
           [1.5, 1.5]]), -1.0)
    """
    values, vectors = np.linalg.eigh(kernel)
    if values[0] >= 0:
        return kernel, float(values[0])
    repaired = (vectors * np.maximum(values, 0)) @ vectors.T
    return np.asarray((repaired + repaired.T) / 2), float(values[0])
