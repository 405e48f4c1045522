"""RAGDefender: estimate how many candidates are adversarial, then drop the most mutually similar.

In: a pool, with texts for the clustering estimate. Owns both estimates and the identification.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, asdict, dataclass

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.defenses import lexical
from epibias.defenses.selecting import (
    cosines,
    passage_texts,
    query_slices,
    select_what_is_left,
    short_name,
    unit_rows,
)
from epibias.errors import InputError
from epibias.pool import CandidatePool
from epibias.selection import Selection

GROUPINGS = ("clustering", "concentration")
VARIANTS = ("paper", "released")
_DEFAULT_TERMS = 5


@dataclass(frozen=True)
class RAGDefender:
    """Select from what is left without the N candidates that are most similar to each other.

    **How many**, by `grouping`:

    - "clustering" (single-hop questions): two clusters by Ward linkage of the unit embeddings.
      A passage with more than half of the `n_terms` terms of largest TF-IDF is one of N_terms.
      N is the smaller cluster's size if N_terms ≤ ⌊n/2⌋, else the larger's.
    - "concentration" (multi-hop): N counts the passages whose mean and whose median cosine with the
      others lie above the mean of the means and the median of the medians.

    **Which**: of the max(1, N(N − 1)/2) most similar pairs, each adds sgn(s)·|s|^power to both its
    passages; the N of largest sum are dropped. Ties go to the pair, and the passage, that stands
    first in the pool. The clustering estimate always drops something: there is no clean pool for
    it, only a smaller cluster.

    Parameters
    ----------
    k : int
        At least 1.
    grouping : {"clustering", "concentration"}
    n_terms : int
        m, at least 1; not asked with "concentration".
    power : float
        p, above 0.
    variant : {"paper", "released"}
        "released" does as the released code where it differs. Clustering: a term counts where its
        letters occur anywhere in the raw text. Concentration: cosine with itself counts, medians
        are lower medians, one of both conditions is enough, the second asks for more than halfway
        between the median of the medians and the mean of the means, and N becomes n − N when
        nothing was counted or the mean of the means is at least the median of the medians.

    Raises
    ------
    InputError
        A parameter out of range or one that would decide nothing; a pool without texts.

    References
    ----------
    Kim, Lee and Koo 2025, doi:10.1109/ACSAC67867.2025.00093, arXiv:2511.01268, section 4.

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> rows = np.array([[1, 0, 0], [1, 0.1, 0], [1, 0, 0.9], [1, 0.9, 0], [1, 2, 2]], np.float32)
    >>> axis = PolarizationAxis.fit(np.array([[1, 1, 0], [1, -1, 0]] * 2, np.float32))
    >>> pool = CandidatePool.from_vectors(rows[:1], rows, axis)
    >>> chosen = RAGDefender(k=3, grouping="concentration").select(pool)
    >>> chosen[0], chosen.dropped[0]
    (array([2, 3, 4]), array([0, 1]))
    """

    k: int = 5
    _: KW_ONLY
    grouping: str = "clustering"
    n_terms: int = _DEFAULT_TERMS
    power: float = 2.0
    variant: str = "paper"

    def __post_init__(self) -> None:
        _validate.integers_of(self, k=1, n_terms=1)
        _validate.choice("grouping", self.grouping, GROUPINGS)
        _validate.choice("variant", self.variant, VARIANTS)
        _validate.numbers_of(self, power={"above": 0})
        if self.grouping == "concentration" and self.n_terms != _DEFAULT_TERMS:
            expected = f"{_DEFAULT_TERMS} with grouping='concentration'"
            raise InputError("n_terms", expected, repr(self.n_terms))

    @property
    def name(self) -> str:
        """Tell what differs from the defaults: "ragdefender[grouping=concentration]"."""
        return short_name(self, "ragdefender")

    def parameters(self) -> dict[str, object]:
        """Return the parameters as plain values.

        Returns
        -------
        dict
        """
        return {"defense": "ragdefender", **asdict(self)}

    def select(self, pool: CandidatePool) -> Selection:
        """Select the `k` most similar candidates of each query that were not dropped.

        Parameters
        ----------
        pool : CandidatePool
            With texts for the clustering estimate.

        Returns
        -------
        Selection
            `n_dropped` is the estimate of how many were adversarial.

        Raises
        ------
        InputError
            The clustering estimate of a pool without texts.
        """
        texts: tuple[str, ...] = ()
        if self.grouping == "clustering":
            texts = passage_texts(pool, self.name)
        dropped: list[Int64Array] = []
        for rows in query_slices(pool):
            similarity = cosines(pool.embeddings[rows])
            if self.grouping == "clustering":
                number = self._by_clusters(pool.embeddings[rows], texts[rows])
            else:
                number = by_concentration(similarity, self.variant)
            dropped.append(most_alike(similarity, number, self.power))
        return select_what_is_left(pool, dropped, k=self.k)

    def _by_clusters(self, embeddings: Float32Array, texts: tuple[str, ...]) -> int:
        """Estimate the number of adversarial passages from two clusters and the leading terms."""
        n = len(texts)
        if n < 2:
            return 0
        from scipy.cluster.hierarchy import linkage

        merges = linkage(unit_rows(embeddings), method="ward")
        # The two clusters are what the last merge joined: passages below n, earlier merges above.
        first = int(merges[-1, 0])
        size = 1 if first < n else int(merges[first - n, 3])
        smaller = min(size, n - size)
        terms = [lexical.content_words(text) for text in texts]
        leading = lexical.leading_terms(terms, self.n_terms)
        if self.variant == "released":
            holds = [sum(term in text for term in leading) for text in texts]
        else:
            holds = [len(set(leading) & set(words)) for words in terms]
        n_with_terms = sum(held > len(leading) // 2 for held in holds)
        return smaller if n_with_terms <= n // 2 else n - smaller


def by_concentration(similarity: Float64Array, variant: str = "paper") -> int:
    """Estimate the number of adversarial passages from how near each is to the others.

    Parameters
    ----------
    similarity : float64 [n, n]
        Cosines, 1 on the diagonal.
    variant : {"paper", "released"}
        As of `RAGDefender`.

    Returns
    -------
    int

    Examples
    --------
    >>> by_concentration(np.array([[1, 0.9, 0.1], [0.9, 1, 0.2], [0.1, 0.2, 1]]))
    1
    """
    n = len(similarity)
    if n < 2:
        return 0
    if variant == "released":
        means = similarity.mean(axis=1).round(12)
        middle = (n - 1) // 2
        medians = np.sort(similarity, axis=1)[:, middle]
        mean, median = float(means.mean().round(12)), float(np.sort(medians)[middle])
        counted = int(((means > mean) | (medians > (median + mean) / 2)).sum())
        return counted if counted > 0 and mean < median else n - counted
    others = similarity[~np.eye(n, dtype=bool)].reshape(n, n - 1)
    means, medians = others.mean(axis=1).round(12), np.median(others, axis=1).round(12)
    near = (means > means.mean().round(12)) & (medians > np.median(medians).round(12))
    return int(near.sum())


def most_alike(similarity: Float64Array, number: int, power: float) -> Int64Array:
    """Take the passages that occur most in the most similar pairs.

    Parameters
    ----------
    similarity : float64 [n, n]
        Symmetric.
    number : int
        How many passages; at most n.
    power : float
        Exponent of the similarities that are summed.

    Returns
    -------
    int64 [number]
        Positions, ascending.

    Examples
    --------
    >>> most_alike(np.array([[1, 0.9, 0.1], [0.9, 1, 0.2], [0.1, 0.2, 1]]), 2, 2.0)
    array([0, 1])
    """
    if number == 0:
        return np.empty(0, np.int64)
    first, second = np.triu_indices(len(similarity), 1)
    pairs = similarity[first, second]
    best = np.argsort(-pairs, kind="stable")[: max(1, number * (number - 1) // 2)]
    weights = np.sign(pairs[best]) * np.abs(pairs[best]) ** power
    sums = np.zeros(len(similarity))
    np.add.at(sums, first[best], weights)
    np.add.at(sums, second[best], weights)
    return np.sort(np.argsort(-sums.round(12), kind="stable")[:number])
