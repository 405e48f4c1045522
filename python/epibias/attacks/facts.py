"""Fact-check stealth: how many sentences of a passage a reference corpus supports or refutes.

A passage is split into sentences, each a claim; the most similar sentences of a reference corpus
are its evidence; a model of inference judges the pairs. Owns the counts and shares;
the rule of a verdict is `nli.verdicts`. In: passages, a `FactReference`, an `NLI`. Out: verdicts,
one row a passage, shares with intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from epibias import _validate
from epibias.corpus import Passage
from epibias.corpus.passages import encoded_text
from epibias.corpus.sentences import sentences
from epibias.errors import InputError
from epibias.metrics.intervals import Interval, ratio_interval
from epibias.nli import NLI
from epibias.nli.fact_reference import FactReference
from epibias.nli.verdicts import NOT_ENOUGH_INFO, REFUTES, SUPPORTS, VERDICTS


@dataclass(frozen=True)
class ClaimVerdict:
    """The verdict of one sentence.

    Parameters
    ----------
    passage_id : str
        Whose sentence it is.
    number : int
        Its place in the passage, from 0.
    claim : str
        The sentence.
    verdict : {"SUPPORTS", "REFUTES", "NOT ENOUGH INFO"}
    entailment, contradiction : float
        Largest probability over its evidence; 0 without evidence.
    evidence_id : str, optional
        Passage of the reference that decided; None where nothing did.
    """

    passage_id: str
    number: int
    claim: str
    verdict: str
    entailment: float
    contradiction: float
    evidence_id: str | None


@dataclass(frozen=True)
class PassageFacts:
    """Counts of the verdicts of one passage.

    Parameters
    ----------
    passage_id : str
    group : str
        What intervals resample: its question, or the passage itself.
    n_claims, n_supports, n_refutes, n_not_enough : int
    """

    passage_id: str
    group: str
    n_claims: int
    n_supports: int
    n_refutes: int
    n_not_enough: int


@dataclass(frozen=True)
class FactTable:
    """Fact check of some passages.

    Parameters
    ----------
    passages : tuple of PassageFacts
    claims : tuple of ClaimVerdict
        In the order of the passages and their sentences.
    not_enough : Interval
        Claims without a verdict as a share of all; the interval resamples groups.
    support : Interval
        SUPPORTS as a share of SUPPORTS and REFUTES.
    """

    passages: tuple[PassageFacts, ...]
    claims: tuple[ClaimVerdict, ...]
    not_enough: Interval
    support: Interval

    def plain(self, *, with_claims: bool = False) -> dict[str, Any]:
        """Give the table as plain values for JSON; the texts of the claims only if asked."""
        found: dict[str, Any] = {
            "n_claims": len(self.claims),
            "counts": {name: sum(one.verdict == name for one in self.claims) for name in VERDICTS},
            "not_enough_info": self.not_enough.plain(),
            "support_ratio": self.support.plain(),
            "passages": [asdict(one) for one in self.passages],
        }
        if with_claims:
            found["claims"] = [asdict(one) for one in self.claims]
        return found


def check_facts(
    passages: Sequence[Passage],
    reference: FactReference,
    nli: NLI,
    *,
    groups: Sequence[str] | None = None,
    n_evidence: int = 3,
    min_similarity: float = 0.5,
    threshold: float = 0.5,
    n_resamples: int = 2000,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> FactTable:
    """Check every sentence of passages against a reference corpus.

    Parameters
    ----------
    passages : sequence of Passage
        Adversarial ones, or benign ones to compare with. A passage that stands in the reference
        itself is never its own evidence.
    reference : FactReference
        What counts as known.
    nli : NLI
        Judges evidence (premise) against claim (hypothesis).
    groups : sequence of str, optional
        One a passage: what the intervals resample, as a rule the question; by default the passage.
    n_evidence : int
        Sentences of the reference that a claim is compared with.
    min_similarity : float
        Cosine below which a sentence is no evidence: models of inference find contradictions
        between any two unrelated sentences.
    threshold : float
        Probability that a verdict needs.
    n_resamples, seed : int
        Of the bootstrap.
    progress : callable, optional
        Called with the number of claims judged since the last call; see `claims_of`.

    Returns
    -------
    FactTable
        Sentences that claim nothing, questions among them, are judged like the others; they end
        as NOT ENOUGH INFO as a rule, and do so in the paper's check.

    Raises
    ------
    InputError
        No passages, a wrong option, probabilities that are none.

    References
    ----------
    Epistemic Bias Injection, arXiv:2512.00804, section V-B, Figure 3 (with the service WikiCheck).

    Examples
    --------
    See docs/attacks.md.
    """
    given = tuple(passages)
    if not given:
        raise InputError("passages", "at least one passage", "none")
    names = [one.id for one in given] if groups is None else list(groups)
    _validate.same_length("groups", len(names), "passages", len(given))
    check_options(n_evidence, min_similarity, threshold, n_resamples)
    claims = claims_of(given)
    judged = reference.judged(
        [text for _, _, text in claims],
        nli,
        n_evidence=n_evidence,
        min_similarity=min_similarity,
        threshold=threshold,
        own=[encoded_text(given[row].title, given[row].text) for row, _, _ in claims],
        progress=progress,
    )
    verdicts = [
        ClaimVerdict(
            given[row].id,
            number,
            text,
            one.verdict,
            one.entailment,
            one.contradiction,
            None if one.decided_by is None else one.decided_by.passage_id,
        )
        for (row, number, text), one in zip(claims, judged, strict=True)
    ]
    counts = [dict.fromkeys(VERDICTS, 0) for _ in given]
    for (row, _, _), one in zip(claims, verdicts, strict=True):
        counts[row][one.verdict] += 1
    rows = tuple(
        PassageFacts(
            passage.id,
            name,
            sum(found.values()),
            found[SUPPORTS],
            found[REFUTES],
            found[NOT_ENOUGH_INFO],
        )
        for passage, name, found in zip(given, names, counts, strict=True)
    )
    sums = _sums(rows)
    bootstrap = {"n_resamples": n_resamples, "seed": seed}
    return FactTable(
        rows,
        tuple(verdicts),
        ratio_interval(sums["not_enough"], sums["claims"], **bootstrap),
        ratio_interval(sums["supports"], sums["verifiable"], **bootstrap),
    )


def check_options(
    n_evidence: int, min_similarity: float, threshold: float, n_resamples: int
) -> None:
    """Check the numbers of `check_facts`, before a reference is encoded for it.

    Raises
    ------
    InputError
        The first that is out of range.
    """
    _validate.integer("n_evidence", n_evidence, low=1)
    _validate.number("min_similarity", min_similarity, low=-1.0, high=1.0)
    _validate.number("threshold", threshold, above=0.0, high=1.0)
    _validate.integer("n_resamples", n_resamples, low=1)


def claims_of(passages: Sequence[Passage]) -> list[tuple[int, int, str]]:
    """Give every sentence: row of its passage, its number in it, its text.

    Examples
    --------
    >>> claims_of([Passage("a", "Trams run. Cars park.")])
    [(0, 0, 'Trams run.'), (0, 1, 'Cars park.')]
    """
    return [
        (row, number, text)
        for row, passage in enumerate(passages)
        for number, text in enumerate(sentences(passage.text))
    ]


def _sums(rows: Sequence[PassageFacts]) -> Mapping[str, list[float]]:
    """Add up the counts of every group, in the order of their first passage."""
    order = {name: place for place, name in enumerate(dict.fromkeys(one.group for one in rows))}
    names = ("not_enough", "claims", "supports", "verifiable")
    sums = {name: [0.0] * len(order) for name in names}
    for one in rows:
        place = order[one.group]
        sums["not_enough"][place] += one.n_not_enough
        sums["claims"][place] += one.n_claims
        sums["supports"][place] += one.n_supports
        sums["verifiable"][place] += one.n_supports + one.n_refutes
    return sums
