"""Checking claims against reference texts: sentences, evidence by retrieval, a verdict each.

In: texts that are taken for true, an encoder that finds evidence in them, an NLI model that judges.
Out: SUPPORTS, REFUTES or NOT ENOUGH INFO for every claim. `fact_check` filters by it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from epibias import _validate
from epibias.corpus import Corpus
from epibias.corpus.sentences import sentences
from epibias.encoder import Encoder, encode_in_batches
from epibias.errors import InputError
from epibias.nli import CONTRADICTION, ENTAILMENT, NLI
from epibias.nli.evidence import nearest_of_others
from epibias.nli.verdicts import NOT_ENOUGH_INFO, verdict_of
from epibias.retrieval import CosineIndex


@dataclass(frozen=True, eq=False)
class FactReference:
    """Sentences that are taken for true, prepared for retrieval.

    Parameters
    ----------
    sentences : tuple of str
        Each once.
    passages : tuple of frozenset of str
        Hashes of the texts that each sentence stands in: none is evidence for itself.
    index : CosineIndex
        Of their embeddings.
    encoder : Encoder
        That made them; encodes the claims.
    identity : mapping
        How many sentences, and the hash of their texts.

    Examples
    --------
    >>> class Letters:
    ...     def encode(self, texts):
    ...         return np.array([[1 + t.count("a"), 1 + t.count("o")] for t in texts], np.float32)
    >>> reference = FactReference.build(["A tax was paid. No one knew."], Letters())
    >>> reference.sentences, reference.identity["n_sentences"]
    (('A tax was paid.', 'No one knew.'), 2)
    """

    sentences: tuple[str, ...]
    passages: tuple[frozenset[str], ...]
    index: CosineIndex
    encoder: Encoder
    identity: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def build(cls, reference: Corpus | Sequence[str], encoder: Encoder) -> FactReference:
        """Split a reference into sentences and encode them.

        Parameters
        ----------
        reference : Corpus or sequence of str
            Titles of a corpus are no sentences, and left out.
        encoder : Encoder

        Returns
        -------
        FactReference

        Raises
        ------
        InputError
            No sentence in it, a text that is blank, rows that no index takes.

        Examples
        --------
        See the class.
        """
        if isinstance(reference, str):
            raise InputError("reference", "a corpus or a sequence of texts", "one text")
        if isinstance(reference, Corpus):
            # What a pool has as a passage's text, by which its own sentences are known.
            wholes, bodies = list(reference.encoded_texts), [one.text for one in reference]
        else:
            wholes = bodies = list(reference)
        passages: dict[str, set[str]] = {}
        for row, (whole, body) in enumerate(zip(wholes, bodies, strict=True)):
            for sentence in sentences(_validate.text("reference", body, f"row {row}")):
                passages.setdefault(sentence, set()).add(_hashed(whole))
        if not passages:
            raise InputError("reference", "at least one sentence", "none")
        unique = tuple(passages)
        digest = _hashed("\n".join(unique))
        identity: dict[str, object] = {"n_sentences": len(unique), "sha256": digest}
        encoder_identity = getattr(encoder, "identity", None)
        if isinstance(encoder_identity, Mapping):
            identity["encoder"] = dict(encoder_identity)
        index = CosineIndex(encode_in_batches(encoder, unique, "passages"))
        return cls(unique, tuple(map(frozenset, passages.values())), index, encoder, identity)

    def evidence(
        self, claims: Sequence[str], n_evidence: int, own: Sequence[str] | None = None
    ) -> list[list[str]]:
        """Find the sentences most similar to each claim.

        Parameters
        ----------
        claims : sequence of str
        n_evidence : int
            At most so many a claim.
        own : sequence of str, optional
            Text of the passage of each claim. Where the reference holds it, too, sentences that
            stand in no other passage are no evidence: whatever is written would support itself.

        Returns
        -------
        list of list of str

        Examples
        --------
        >>> class Letters:
        ...     def encode(self, texts):
        ...         return np.array([[t.count("a"), t.count("o")] for t in texts], np.float32) + 1
        >>> texts = ["A tax was paid. No one knew.", "An apple."]
        >>> reference = FactReference.build(texts, Letters())
        >>> reference.evidence(["A tax was paid."] * 2, 1, own=["Another text.", texts[0]])
        [['A tax was paid.'], ['An apple.']]
        """
        if not claims:
            return []
        hashes = [None] * len(claims) if own is None else [_hashed(text) for text in own]
        # A claim is compared with sentences, not asked: it is encoded as they are.
        rows = encode_in_batches(self.encoder, claims, "passages")
        near = nearest_of_others(self.index, self.passages, rows, hashes, n_evidence)
        return [[self.sentences[row] for row, _ in some] for some in near]

    def verdicts(
        self,
        claims: Sequence[str],
        nli: NLI,
        *,
        n_evidence: int = 3,
        threshold: float = 0.5,
        own: Sequence[str] | None = None,
    ) -> list[str]:
        """Judge claims by their evidence.

        By `nli.verdicts.verdict_of`, from the largest probabilities that some evidence entails it
        and that some contradicts it. Without evidence nothing is known.

        Parameters
        ----------
        claims : sequence of str
        nli : NLI
            Takes the evidence as premise and the claim as hypothesis.
        n_evidence : int
        threshold : float
        own : sequence of str, optional
            As in `evidence`.

        Returns
        -------
        list of str
            "SUPPORTS", "REFUTES" or "NOT ENOUGH INFO" for each.

        Examples
        --------
        >>> from epibias.nli import FixedNLI
        >>> class Letters:
        ...     def encode(self, texts):
        ...         return np.array([[t.count("a"), t.count("o")] for t in texts], np.float32) + 1
        >>> reference = FactReference.build(["A tax was paid. No one knew."], Letters())
        >>> nli = FixedNLI(lambda fact, claim: (0.9, 0.1, 0) if claim in fact else (0, 0.3, 0.7))
        >>> reference.verdicts(["A tax was paid", "No tax was paid"], nli)
        ['SUPPORTS', 'REFUTES']
        """
        evidence = self.evidence(claims, n_evidence, own)
        pairs = [
            (fact, claim) for claim, facts in zip(claims, evidence, strict=True) for fact in facts
        ]
        rows = np.zeros((0, 3))
        if pairs:
            given = nli.probabilities([fact for fact, _ in pairs], [claim for _, claim in pairs])
            rows = np.asarray(given, np.float64)
        verdicts, start = [], 0
        for facts in evidence:
            part = rows[start : start + len(facts), [ENTAILMENT, CONTRADICTION]]
            start += len(facts)
            supported, refuted = part.max(axis=0, initial=0.0).tolist()
            verdicts.append(verdict_of(supported, refuted, threshold) if facts else NOT_ENOUGH_INFO)
        return verdicts


def _hashed(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
