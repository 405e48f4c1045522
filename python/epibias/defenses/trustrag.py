"""TrustRAG's first stage: two clusters, and what is too alike within them.

In: a pool with texts. Owns the rule that judges the clusters. The later stages of TrustRAG ask a
generator about its own knowledge and are no selection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from epibias import _validate
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.defenses import lexical
from epibias.defenses.selecting import (
    cosines,
    passage_texts,
    query_slices,
    select_what_is_left,
    short_name,
)
from epibias.defenses.two_means import two_means
from epibias.pool import CandidatePool
from epibias.selection import Selection

VARIANTS = ("paper", "released")


@dataclass(frozen=True)
class TrustRAGClusters:
    """Select from what two clusters leave of which one may be a set of planted near-copies.

    1. **Ask.** With `precheck`, keep everything where no two candidates have a ROUGE-L above
       `overlap_threshold`.
    2. **Cluster.** Standardise each column over the query's candidates, scale rows to unit length,
       split by 2-means (`two_means`: no seed).
    3. **Judge** by the mean cosine within each cluster, T of the tighter and L of the looser one:

       ====================  ==========================================================
       L > threshold         drop both
       T < threshold         drop near-copies within each
       else                  drop the tighter one, and near-copies within the looser
       one single passage    drop the others if T > threshold, and the single one too if
                             its cosine with the first of them is above; else drop it
       two single passages   drop nothing
       ====================  ==========================================================

       Where all embeddings are equal they are one cluster, dropped if T > threshold.

    Near-copies are passages with a ROUGE-L above `overlap_threshold` with another of the cluster.

    Parameters
    ----------
    k : int
        At least 1.
    similarity_threshold : float
        In [−1, 1]; 0.88 in the released code, for another encoder than yours.
    overlap_threshold : float
        In [0, 1].
    precheck : bool
    variant : {"paper", "released"}
        "released" takes as near-copies what one pass of the released code removes: in the pool's
        order, each passage not yet removed goes with the first later one that it overlaps, and
        whatever overlaps the very first so removed goes too.

    Raises
    ------
    InputError
        A parameter out of range; a pool without texts.

    References
    ----------
    Zhou et al. 2025, arXiv:2501.00879, section 3 (stage 1); thresholds and the cases of single
    passages from the released code. Its ROUGE-L stems words first; this one does not.

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> rows = np.array([[1, 0, 0], [1, 0.05, 0], [1, 0.1, 0], [1, 0, 1], [1, -1, 1.5]], np.float32)
    >>> texts = ["tax the rich now", "tax the rich today", "tax the rich", "a budget", "one vote"]
    >>> axis = PolarizationAxis.fit(np.array([[1, 1, 0], [1, -1, 0]] * 2, np.float32))
    >>> pool = CandidatePool.from_vectors(rows[:1], rows, axis, passage_texts=[texts])
    >>> chosen = TrustRAGClusters(k=3).select(pool)
    >>> chosen[0], chosen.dropped[0]
    (array([3, 4]), array([0, 1, 2]))
    """

    k: int = 5
    _: KW_ONLY
    similarity_threshold: float = 0.88
    overlap_threshold: float = 0.25
    precheck: bool = True
    variant: str = "paper"

    def __post_init__(self) -> None:
        _validate.integers_of(self, k=1)
        cosine, share = {"low": -1, "high": 1}, {"low": 0, "high": 1}
        _validate.numbers_of(self, similarity_threshold=cosine, overlap_threshold=share)
        object.__setattr__(self, "precheck", _validate.flag("precheck", self.precheck))
        _validate.choice("variant", self.variant, VARIANTS)

    @property
    def name(self) -> str:
        """Tell what differs from the defaults: "trustrag[precheck=False]"."""
        return short_name(self, "trustrag")

    def parameters(self) -> dict[str, object]:
        """Return the parameters as plain values.

        Returns
        -------
        dict
        """
        return {"defense": "trustrag", **asdict(self)}

    def select(self, pool: CandidatePool) -> Selection:
        """Select the `k` most similar candidates of each query that were not dropped.

        Parameters
        ----------
        pool : CandidatePool
            With texts.

        Returns
        -------
        Selection
            With `clustered` (false where the precheck kept everything) and `tightness`, the mean
            cosine within the tighter cluster (NaN where there was none to judge).

        Raises
        ------
        InputError
            A pool without texts.
        """
        texts = passage_texts(pool, self.name)
        dropped: list[Int64Array] = []
        clustered = np.zeros(pool.n_queries, bool)
        tightness = np.full(pool.n_queries, np.nan)
        for query, rows in enumerate(query_slices(pool)):
            overlap = lexical.rouge_l(texts[rows])
            alike = (overlap > self.overlap_threshold) & ~np.eye(len(overlap), dtype=bool)
            if len(alike) < 2 or (self.precheck and not alike.any()):
                dropped.append(np.empty(0, np.int64))
                continue
            clustered[query] = True
            gone, tightness[query] = self._judge(pool.embeddings[rows], alike)
            dropped.append(np.array(sorted(gone), np.int64))
        return select_what_is_left(
            pool,
            dropped,
            k=self.k,
            diagnostics={"clustered": clustered, "tightness": tightness},
        )

    def _judge(self, embeddings: Float32Array, alike: NDArray[np.bool_]) -> tuple[list[int], float]:
        """Positions to drop, and the mean cosine within the tighter cluster."""
        similarity = cosines(embeddings)
        cluster = two_means(standardised(embeddings))
        sides = [np.flatnonzero(cluster == side).tolist() for side in (0, 1)]
        within = [_mean_within(similarity, side) for side in sides]
        limit = self.similarity_threshold
        if not sides[1]:  # all embeddings are equal
            return (sides[0] if within[0] > limit else []), within[0]
        if len(sides[0]) == len(sides[1]) == 1:
            return [], float("nan")
        if 1 in (len(sides[0]), len(sides[1])):
            many, single = sides if len(sides[1]) == 1 else sides[::-1]
            tight = _mean_within(similarity, many)
            if tight <= limit:
                return single, tight
            return many + (single if similarity[many[0], single[0]] > limit else []), tight
        tighter = int(within[1] > within[0])
        tight, loose = within[tighter], within[1 - tighter]
        if loose > limit:
            return sides[0] + sides[1], tight
        if tight < limit:
            return self._near_copies(alike, sides[0]) + self._near_copies(alike, sides[1]), tight
        return sides[tighter] + self._near_copies(alike, sides[1 - tighter]), tight

    def _near_copies(self, alike: NDArray[np.bool_], side: Sequence[int]) -> list[int]:
        """Members of a cluster that overlap another one."""
        if self.variant == "paper":
            return [i for i in side if any(alike[i, j] for j in side)]
        gone: set[int] = set()
        first_gone: int | None = None
        for place, i in enumerate(side):
            if i not in gone:
                later = [j for j in side[place + 1 :] if alike[i, j]]
                if later:
                    gone |= {i, later[0]}
                    first_gone = i if first_gone is None else first_gone
            if first_gone is not None and alike[i, first_gone]:
                gone.add(i)
        return sorted(gone)


def standardised(embeddings: Float32Array) -> Float64Array:
    """Columns of mean 0 and variance 1 over the rows, then rows of length 1.

    A column without variance, and a row that is the mean, stay 0.

    Parameters
    ----------
    embeddings : float32 [n, dim]

    Returns
    -------
    float64 [n, dim]

    Examples
    --------
    >>> standardised(np.array([[1, 5], [3, 5]], np.float32))
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    rows = embeddings.astype(np.float64)
    rows -= rows.mean(axis=0)
    deviation = np.sqrt((rows**2).mean(axis=0))
    varies = deviation > 1e-12 * np.abs(embeddings).max(axis=0, initial=0)
    rows = np.where(varies, rows / np.where(varies, deviation, 1), 0)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1))


def _mean_within(similarity: Float64Array, side: Sequence[int]) -> float:
    """Mean cosine of all pairs within a cluster; NaN for a single passage."""
    if len(side) < 2:
        return float("nan")
    part = similarity[np.ix_(side, side)]
    return float(part[np.triu_indices(len(side), 1)].mean().round(12))
