"""Fact-check filter: drop candidates whose claims the reference refutes.

In: a pool with texts; reference texts and an NLI model at construction. `nli.fact_reference` judges
the claims; this file owns what follows from the verdicts.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from epibias import _validate
from epibias._validate import Int64Array
from epibias.corpus.sentences import sentences
from epibias.defenses.selecting import passage_texts, query_slices, select_what_is_left, short_name
from epibias.errors import InputError
from epibias.nli import NLI
from epibias.nli.fact_reference import FactReference
from epibias.nli.verdicts import REFUTES, SUPPORTS
from epibias.pool import CandidatePool
from epibias.selection import Selection

CLAIMS_OF_A_CALL = 1024  # bounds what the NLI model holds at a time


@dataclass(frozen=True)
class FactCheckFilter:
    """Select from the candidates that a reference does not refute.

    Each candidate is split into sentences, each sentence is judged against its nearest
    `n_evidence` sentences of the reference. A candidate is dropped when the refuted sentences are
    more than `max_refuted` of those that are supported or refuted. One without such a sentence is
    kept: that nothing is known of it proves nothing. A candidate that stands in the reference is no
    evidence for itself, so the clean corpus may be the reference. A sentence is judged alone, so a
    claim that its context limits may be refuted wrongly; epistemically biased but true passages
    pass.

    Parameters
    ----------
    nli : NLI
    reference : FactReference
        What is taken for true.
    k : int
        At least 1.
    n_evidence : int
        At least 1.
    threshold : float
        Smallest probability that decides, in [0, 1].
    max_refuted : float
        In [0, 1).

    Raises
    ------
    InputError
        A parameter out of range; a pool without texts.

    References
    ----------
    arXiv:2512.00804, section V-A (sentence by sentence, three verdicts); Thorne et al. 2018,
    arXiv:1803.05355, for the verdicts. The rule from verdicts to passages is this project's own.

    Examples
    --------
    >>> from epibias.nli import FixedNLI
    >>> from epibias.polarization import PolarizationAxis
    >>> class Letters:
    ...     def encode(self, texts):
    ...         return np.array([[1 + t.count("a"), 1 + t.count("o")] for t in texts], np.float32)
    >>> reference = FactReference.build(["A tax was paid. No one knew."], Letters())
    >>> nli = FixedNLI(lambda fact, claim: (0.9, 0.1, 0) if claim in fact else (0, 0.3, 0.7))
    >>> rows = np.array([[1, 0.1], [1, 0.2]], np.float32)
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> texts = [["No tax was paid.", "A tax was paid."]]
    >>> pool = CandidatePool.from_vectors(rows[:1], rows, axis, passage_texts=texts)
    >>> chosen = FactCheckFilter(nli, reference, k=1).select(pool)
    >>> chosen[0], chosen.dropped[0]
    (array([1]), array([0]))
    """

    nli: NLI
    reference: FactReference
    k: int = 5
    _: KW_ONLY
    n_evidence: int = 3
    threshold: float = 0.5
    max_refuted: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.nli, NLI):
            raise InputError("nli", "an NLI model", type(self.nli).__name__)
        if not isinstance(self.reference, FactReference):
            found = type(self.reference).__name__
            raise InputError("reference", "a FactReference; see FactReference.build", found)
        _validate.integers_of(self, k=1, n_evidence=1)
        share = {"low": 0, "below": 1}
        _validate.numbers_of(self, threshold={"low": 0, "high": 1}, max_refuted=share)

    @property
    def name(self) -> str:
        """Tell what differs from the defaults: "fact_check[max_refuted=0.0]"."""
        return short_name(self, "fact_check")

    def parameters(self) -> dict[str, object]:
        """Return the parameters as plain values; of model and reference their identities.

        Returns
        -------
        dict
        """
        return {
            "defense": "fact_check",
            "nli": dict(self.nli.identity),
            "reference": dict(self.reference.identity),
            "k": self.k,
            "n_evidence": self.n_evidence,
            "threshold": self.threshold,
            "max_refuted": self.max_refuted,
        }

    def select(self, pool: CandidatePool) -> Selection:
        """Select the `k` most similar candidates of each query that were not dropped.

        Parameters
        ----------
        pool : CandidatePool
            With texts.

        Returns
        -------
        Selection
            With `n_claims`, `n_supported` and `n_refuted`: sentences of all candidates.

        Raises
        ------
        InputError
            A pool without texts.
        """
        texts = passage_texts(pool, self.name)
        claims = {text: sentences(text) for text in dict.fromkeys(texts)}
        verdicts = self._verdicts([(one, text) for text, own in claims.items() for one in own])
        dropped: list[Int64Array] = []
        totals = np.zeros((3, pool.n_queries), np.int64)
        for query, rows in enumerate(query_slices(pool)):
            gone = []
            for position, text in enumerate(texts[rows]):
                found = [verdicts[claim, text] for claim in claims[text]]
                supported, refuted = found.count(SUPPORTS), found.count(REFUTES)
                totals[:, query] += (len(found), supported, refuted)
                if refuted > self.max_refuted * (supported + refuted):
                    gone.append(position)
            dropped.append(np.array(gone, np.int64))
        names = ("n_claims", "n_supported", "n_refuted")
        return select_what_is_left(
            pool, dropped, k=self.k, diagnostics=dict(zip(names, totals, strict=True))
        )

    def _verdicts(self, claims: list[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Judge every sentence of every different text once, however many queries it stands in."""
        verdicts: dict[tuple[str, str], str] = {}
        for start in range(0, len(claims), CLAIMS_OF_A_CALL):
            part = claims[start : start + CLAIMS_OF_A_CALL]
            judged = self.reference.judged(
                [claim for claim, _ in part],
                self.nli,
                n_evidence=self.n_evidence,
                threshold=self.threshold,
                own=[text for _, text in part],
            )
            verdicts |= {key: one.verdict for key, one in zip(part, judged, strict=True)}
        return verdicts
