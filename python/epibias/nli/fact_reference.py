"""What claims are checked against: texts that are taken for true, searched by similarity.

Owns which texts are evidence for a claim, and what an NLI model makes of both. In: a corpus that is
trusted, an encoder that finds evidence in it. Out: for each claim its nearest texts, none of them
from the claim's own passage alone, and a judgement. Attacks measure their stealth by it
(`attacks.facts`), the defence `fact_check` filters by it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from epibias import _validate
from epibias._plain import described
from epibias._validate import Float32Array
from epibias.corpus import Corpus
from epibias.corpus.sentences import sentences
from epibias.encoder import Encoder, encode_in_batches
from epibias.errors import InputError
from epibias.nli.base import CONTRADICTION, ENTAILMENT, NLI
from epibias.nli.evidence import nearest_of_others
from epibias.nli.verdicts import NOT_ENOUGH_INFO, SUPPORTS, verdict_of
from epibias.retrieval import CosineIndex

UNITS = ("sentence", "passage")
PAIRS_AT_ONCE = 256  # of evidence and claim, between two reports of progress


@dataclass(frozen=True)
class Evidence:
    """A text of the reference that is similar to a claim.

    Parameters
    ----------
    text : str
        A sentence, or a whole passage.
    passage_id : str
        Where it stands first; of texts without ids, their place, from 0.
    similarity : float
        Cosine with the claim.
    """

    text: str
    passage_id: str
    similarity: float


@dataclass(frozen=True)
class Judgement:
    """What the evidence says of a claim.

    Parameters
    ----------
    verdict : {"SUPPORTS", "REFUTES", "NOT ENOUGH INFO"}
        By `nli.verdicts.verdict_of`.
    entailment, contradiction : float
        Largest probability over its evidence; 0 without evidence.
    decided_by : Evidence, optional
        None where nothing did.
    """

    verdict: str
    entailment: float
    contradiction: float
    decided_by: Evidence | None


@dataclass(frozen=True, eq=False)
class FactReference:
    """Texts that are taken for true, prepared for retrieval.

    Parameters
    ----------
    texts : tuple of str
        Sentences or passages, each once.
    passage_ids : tuple of str
        The passage that each stands in first.
    owners : tuple of frozenset of str
        Hashes of the passages that each stands in: none is evidence for itself.
    index : CosineIndex
        Of their embeddings.
    encoder : Encoder
        That made them; encodes the claims.
    identity : mapping
        How many texts, their unit, and the hash of all.

    Examples
    --------
    >>> class Letters:
    ...     def encode(self, texts):
    ...         return np.array([[1 + t.count("a"), 1 + t.count("o")] for t in texts], np.float32)
    >>> reference = FactReference.build(["A tax was paid. No one knew."], Letters())
    >>> reference.texts, reference.identity["n_sentences"]
    (('A tax was paid.', 'No one knew.'), 2)
    """

    texts: tuple[str, ...]
    passage_ids: tuple[str, ...]
    owners: tuple[frozenset[str], ...]
    index: CosineIndex
    encoder: Encoder
    identity: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        reference: Corpus | Sequence[str],
        encoder: Encoder,
        *,
        unit: str = "sentence",
        progress: Callable[[int], None] | None = None,
    ) -> FactReference:
        """Split a reference into its units and encode them.

        Parameters
        ----------
        reference : Corpus or sequence of str
            Titles of a corpus are no claims, and left out.
        encoder : Encoder
            Finds the evidence.
        unit : {"sentence", "passage"}
            What is one piece of evidence. Models of inference read little more than a sentence.
        progress : callable, optional
            Called with the number of texts encoded since the last call; they add up to
            ``len(units_of(reference, unit))``.

        Returns
        -------
        FactReference

        Raises
        ------
        InputError
            No text in it, a text that is blank, rows that no index takes.

        Examples
        --------
        See the class.
        """
        found = units_of(reference, unit)
        if not found:
            raise InputError("reference", f"at least one {unit}", "none")
        unique = tuple(found)
        identity: dict[str, object] = {
            f"n_{unit}s": len(unique),
            "sha256": _hashed("\n".join(unique)),
        }
        encoder_identity = getattr(encoder, "identity", None)
        if isinstance(encoder_identity, Mapping):
            identity["encoder"] = dict(encoder_identity)
        rows = encode_in_batches(encoder, unique, "passages", progress)
        ids = tuple(passage_id for passage_id, _ in found.values())
        owners = tuple(frozenset(some) for _, some in found.values())
        return cls(unique, ids, owners, CosineIndex(rows), encoder, identity)

    def evidence(
        self,
        claims: Sequence[str],
        n_evidence: int,
        own: Sequence[str] | None = None,
        *,
        min_similarity: float = -1.0,
    ) -> list[tuple[Evidence, ...]]:
        """Find the texts most similar to each claim.

        Parameters
        ----------
        claims : sequence of str
        n_evidence : int
            At most so many a claim.
        own : sequence of str, optional
            The passage of each claim, as an index encodes it (title and text). Where the reference
            holds it, too, texts that stand in no other passage are no evidence: whatever is
            written would support itself.
        min_similarity : float
            Least cosine.

        Returns
        -------
        list of tuple of Evidence
            One tuple a claim, the most similar first; may be empty.

        Raises
        ------
        InputError
            A claim that is blank, another number of `own`.

        Examples
        --------
        >>> class Letters:
        ...     def encode(self, texts):
        ...         return np.array([[t.count("a"), t.count("o")] for t in texts], np.float32) + 1
        >>> texts = ["A tax was paid. No one knew.", "An apple."]
        >>> reference = FactReference.build(texts, Letters())
        >>> found = reference.evidence(["A tax was paid."] * 2, 1, own=["Another text.", texts[0]])
        >>> [[one.text for one in some] for some in found]
        [['A tax was paid.'], ['An apple.']]
        """
        if own is not None:
            _validate.same_length("own", len(own), "claims", len(claims))
        if not claims:
            return []
        for row, claim in enumerate(claims):
            _validate.text("claims", claim, f"row {row}")
        hashes = [None] * len(claims) if own is None else [_hashed(text) for text in own]
        # A claim is compared with texts, not asked: it is encoded as they are.
        rows = encode_in_batches(self.encoder, claims, "passages")
        least = float(np.float32(min_similarity))
        return [
            tuple(
                Evidence(self.texts[row], self.passage_ids[row], similarity)
                for row, similarity in near
                if similarity >= least
            )
            for near in nearest_of_others(self.index, self.owners, rows, hashes, n_evidence)
        ]

    def judged(
        self,
        claims: Sequence[str],
        nli: NLI,
        *,
        n_evidence: int = 3,
        min_similarity: float = -1.0,
        threshold: float = 0.5,
        own: Sequence[str] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[Judgement]:
        """Judge claims by their evidence.

        From the largest probabilities that some evidence entails the claim and that some
        contradicts it. Without evidence nothing is known.

        Parameters
        ----------
        claims : sequence of str
        nli : NLI
            Takes the evidence as premise and the claim as hypothesis.
        n_evidence, min_similarity, own
            As in `evidence`.
        threshold : float
            Probability that a verdict needs.
        progress : callable, optional
            Called with the number of claims judged since the last call.

        Returns
        -------
        list of Judgement
            One a claim.

        Raises
        ------
        InputError
            As `evidence`; probabilities that are none.

        Examples
        --------
        >>> from epibias.nli import FixedNLI
        >>> class Letters:
        ...     def encode(self, texts):
        ...         return np.array([[t.count("a"), t.count("o")] for t in texts], np.float32) + 1
        >>> reference = FactReference.build(["A tax was paid. No one knew."], Letters())
        >>> nli = FixedNLI(lambda fact, claim: (0.9, 0.1, 0) if claim in fact else (0, 0.3, 0.7))
        >>> [one.verdict for one in reference.judged(["A tax was paid", "No tax was paid"], nli)]
        ['SUPPORTS', 'REFUTES']
        """
        owners = [None] * len(claims) if own is None else list(own)
        _validate.same_length("own", len(owners), "claims", len(claims))
        # A sentence that a passage repeats is judged once.
        counts = Counter(zip(claims, owners, strict=True))
        asked = [claim for claim, _ in counts]
        given = None if own is None else [str(owner) for _, owner in counts]
        evidence = self.evidence(asked, n_evidence, given, min_similarity=min_similarity)
        n_of_each = list(counts.values())
        found: list[Judgement] = []
        while len(found) < len(asked):
            start = end = len(found)
            n_pairs = 0
            while end < len(asked) and (
                end == start or n_pairs + len(evidence[end]) <= PAIRS_AT_ONCE
            ):
                n_pairs += len(evidence[end])
                end += 1
            values = _probabilities(nli, asked[start:end], evidence[start:end])
            place = 0
            for some in evidence[start:end]:
                found.append(_judgement(some, values[place : place + len(some)], threshold))
                place += len(some)
            if progress is not None:
                progress(sum(n_of_each[start:end]))
        of_claim = dict(zip(counts, found, strict=True))
        return [of_claim[key] for key in zip(claims, owners, strict=True)]


def units_of(reference: Corpus | Sequence[str], unit: str) -> dict[str, tuple[str, set[str]]]:
    """Give each text that may be evidence, with where it stands first and the hashes of all.

    Raises
    ------
    InputError
        One text, a text that is blank, an unknown unit.

    Examples
    --------
    >>> list(units_of(["A tax was paid. No one knew.", "No one knew."], "sentence"))
    ['A tax was paid.', 'No one knew.']
    """
    _validate.choice("unit", unit, UNITS)
    if isinstance(reference, str):
        raise InputError("reference", "a corpus or a sequence of texts", "one text")
    if isinstance(reference, Corpus):
        # What a pool has as a passage's text, by which its own sentences are known.
        wholes, bodies = list(reference.encoded_texts), [one.text for one in reference]
        ids = list(reference.ids)
    else:
        wholes = bodies = list(reference)
        ids = list(map(str, range(len(bodies))))
    found: dict[str, tuple[str, set[str]]] = {}
    for row, (whole, body, passage_id) in enumerate(zip(wholes, bodies, ids, strict=True)):
        _validate.text("reference", body, f"row {row}")
        for text in [body] if unit == "passage" else sentences(body):
            found.setdefault(text, (passage_id, set()))[1].add(_hashed(whole))
    return found


def _probabilities(
    nli: NLI, claims: Sequence[str], evidence: Sequence[Sequence[Evidence]]
) -> Float32Array:
    """Ask the model about every claim with each of its evidence, float32 `[n_pairs, 3]`."""
    pairs = [
        (one.text, claim) for claim, some in zip(claims, evidence, strict=True) for one in some
    ]
    if not pairs:
        return np.zeros((0, 3), np.float32)
    values = nli.probabilities([fact for fact, _ in pairs], [claim for _, claim in pairs])
    if getattr(values, "shape", None) != (len(pairs), 3):
        raise InputError("nli", f"{len(pairs)} rows of 3", described(values))
    return _validate.finite("nli", values)


def _judgement(evidence: Sequence[Evidence], values: Float32Array, threshold: float) -> Judgement:
    entailment, contradiction = (
        float(values[:, column].max(initial=0.0)) for column in (ENTAILMENT, CONTRADICTION)
    )
    verdict = verdict_of(entailment, contradiction, threshold)
    decided = None
    if verdict != NOT_ENOUGH_INFO:
        column = ENTAILMENT if verdict == SUPPORTS else CONTRADICTION
        decided = evidence[int(np.argmax(values[:, column]))]
    return Judgement(verdict, entailment, contradiction, decided)


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
