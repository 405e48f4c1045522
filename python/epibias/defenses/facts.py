"""Checking claims against reference texts: sentences, evidence by retrieval, a verdict each.

In: texts that are taken for true, an encoder that finds evidence in them, an NLI model that judges.
Out: SUPPORTS, REFUTES or NOT ENOUGH INFO for every claim. `fact_check` filters by it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from epibias import _validate
from epibias.corpus import Corpus
from epibias.encoder import Encoder, encode_in_batches
from epibias.errors import InputError
from epibias.nli import CONTRADICTION, ENTAILMENT, NLI
from epibias.retrieval import CosineIndex

SUPPORTS, REFUTES, NOT_ENOUGH_INFO = "SUPPORTS", "REFUTES", "NOT ENOUGH INFO"
# A full stop ends a sentence where white space and a capital, digit or quotation mark follow.
_END = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-Z0-9])")
_ABBREVIATION = re.compile(r"\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|No|vs|etc|e\.g|i\.e)\.$")


def sentences(text: str) -> list[str]:
    """Split a text into sentences, each without white space around it.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str
        The whole text if nothing in it ends a sentence; none of a blank text.

    Examples
    --------
    >>> sentences("Dr. Hill said no. Is it 3.5 % now? Yes")
    ['Dr. Hill said no.', 'Is it 3.5 % now?', 'Yes']
    """
    parts: list[str] = []
    start = 0
    for gap in _END.finditer(text):
        part = text[start : gap.end()].strip()
        if not _ABBREVIATION.search(part):
            parts.append(part)
            start = gap.end()
    rest = text[start:].strip()
    return [*parts, rest] if rest else parts


@dataclass(frozen=True, eq=False)
class FactReference:
    """Sentences that are taken for true, prepared for retrieval.

    Parameters
    ----------
    sentences : tuple of str
        Each once.
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
    index: CosineIndex
    encoder: Encoder
    identity: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def build(cls, reference: Corpus | Sequence[str], encoder: Encoder) -> FactReference:
        """Split a reference into sentences and encode them.

        Parameters
        ----------
        reference : Corpus or sequence of str
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
        texts = reference.encoded_texts if isinstance(reference, Corpus) else reference
        if isinstance(texts, str):
            raise InputError("reference", "a corpus or a sequence of texts", "one text")
        for row, text in enumerate(texts):
            _validate.text("reference", text, f"row {row}")
        unique = tuple(dict.fromkeys(one for text in texts for one in sentences(text)))
        if not unique:
            raise InputError("reference", "at least one sentence", "none")
        digest = hashlib.sha256("\n".join(unique).encode()).hexdigest()
        identity: dict[str, object] = {"n_sentences": len(unique), "sha256": digest}
        encoder_identity = getattr(encoder, "identity", None)
        if isinstance(encoder_identity, Mapping):
            identity["encoder"] = dict(encoder_identity)
        return cls(
            unique, CosineIndex(encode_in_batches(encoder, unique, "passages")), encoder, identity
        )

    def evidence(self, claims: Sequence[str], n_evidence: int) -> list[list[str]]:
        """Find the sentences most similar to each claim.

        Parameters
        ----------
        claims : sequence of str
        n_evidence : int
            All sentences where there are fewer.

        Returns
        -------
        list of list of str

        Examples
        --------
        >>> class Letters:
        ...     def encode(self, texts):
        ...         return np.array([[t.count("a"), t.count("o")] for t in texts], np.float32) + 1
        >>> reference = FactReference.build(["A tax was paid. No one knew."], Letters())
        >>> reference.evidence(["A fat cat sat."], 1)
        [['A tax was paid.']]
        """
        if not claims:
            return []
        rows = encode_in_batches(self.encoder, claims, "queries")
        found = self.index.search(rows, min(n_evidence, len(self.sentences))).indices.tolist()
        return [[self.sentences[row] for row in part] for part in found]

    def verdicts(
        self, claims: Sequence[str], nli: NLI, *, n_evidence: int = 3, threshold: float = 0.5
    ) -> list[str]:
        """Judge claims by their evidence.

        A claim is supported when the largest probability that some evidence entails it reaches
        `threshold` and is at least the largest that some evidence contradicts it; refuted when
        the latter reaches `threshold` and is the larger.

        Parameters
        ----------
        claims : sequence of str
        nli : NLI
            Takes the evidence as premise and the claim as hypothesis.
        n_evidence : int
        threshold : float

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
        pairs = [
            (fact, claim)
            for claim, facts in zip(claims, self.evidence(claims, n_evidence), strict=True)
            for fact in facts
        ]
        if not pairs:
            return []
        rows = nli.probabilities([fact for fact, _ in pairs], [claim for _, claim in pairs])
        best = np.asarray(rows, np.float64).reshape(len(claims), -1, 3).max(axis=1)
        verdicts = []
        for supported, refuted in best[:, [ENTAILMENT, CONTRADICTION]].tolist():
            verdict = NOT_ENOUGH_INFO
            if max(supported, refuted) >= threshold:
                verdict = SUPPORTS if supported >= refuted else REFUTES
            verdicts.append(verdict)
        return verdicts
