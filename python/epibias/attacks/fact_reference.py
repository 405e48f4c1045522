"""The reference of a fact check: a corpus in sentences, searched by similarity.

Owns which sentences are evidence for a claim. In: a corpus that is trusted, an encoder. Out: for
each claim its most similar sentences, none of them from the claim's own passage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from epibias import _validate
from epibias.attacks.embedding import embedded
from epibias.corpus import Corpus
from epibias.corpus.sentences import sentences
from epibias.encoder import Encoder, encode_in_batches
from epibias.errors import InputError
from epibias.nli.evidence import nearest_of_others
from epibias.retrieval import CosineIndex

UNITS = ("sentence", "passage")


@dataclass(frozen=True)
class Evidence:
    """A text of the reference that is similar to a claim.

    Parameters
    ----------
    text : str
        A sentence, or a whole passage.
    passage_id : str
        Where it stands.
    similarity : float
        Cosine with the claim.
    """

    text: str
    passage_id: str
    similarity: float


class FactReference:
    """A corpus that claims are checked against.

    Parameters
    ----------
    corpus : Corpus
        What counts as known; titles are left out.
    encoder : Encoder
        Finds the evidence.
    unit : {"sentence", "passage"}
        What is one piece of evidence. Models of inference read little more than a sentence.
    progress : callable, optional
        Called with the number of texts encoded since the last call.

    Attributes
    ----------
    n_texts : int
        Sentences or passages.

    Raises
    ------
    InputError
        A corpus without a sentence.

    Examples
    --------
    >>> class Letters:
    ...     def encode(self, texts):
    ...         return np.array([[t.count("a"), t.count("b"), 1] for t in texts], np.float32)
    >>> from epibias.corpus import Passage
    >>> reference = FactReference(Corpus([Passage("p", "Aha aa. Bob bb.")]), Letters())
    >>> [one.text for one in reference.evidence(["a"], ["q"], n=1, min_similarity=0)[0]]
    ['Aha aa.']
    """

    def __init__(
        self,
        corpus: Corpus,
        encoder: Encoder,
        *,
        unit: str = "sentence",
        progress: Callable[[int], None] | None = None,
    ) -> None:
        _validate.choice("unit", unit, UNITS)
        self._texts, self._ids = units_of(corpus, unit)
        if not self._texts:
            raise InputError("reference", "a corpus with at least one passage", "none")
        self._encoder = encoder
        rows = encode_in_batches(encoder, self._texts, "passages", progress)
        self._index = CosineIndex(rows)
        self._owners = [frozenset((one,)) for one in self._ids]

    @property
    def n_texts(self) -> int:
        """Sentences or passages."""
        return len(self._texts)

    def evidence(
        self, claims: Sequence[str], own_ids: Sequence[str], *, n: int, min_similarity: float
    ) -> list[tuple[Evidence, ...]]:
        """Find evidence for claims.

        Parameters
        ----------
        claims : sequence of str
            Sentences.
        own_ids : sequence of str
            Id of the passage of each: it is not evidence for itself.
        n : int
            At most so many a claim.
        min_similarity : float
            Least cosine.

        Returns
        -------
        list of tuple of Evidence
            One tuple a claim, the most similar first; may be empty.
        """
        _validate.same_length("own_ids", len(own_ids), "claims", len(claims))
        if not claims:
            return []
        # A claim is compared with sentences, not asked: it is encoded as they are.
        rows = embedded(self._encoder, claims, "passages", "claims")
        least = float(np.float32(min_similarity))
        return [
            tuple(
                Evidence(self._texts[row], self._ids[row], similarity)
                for row, similarity in near
                if similarity >= least
            )
            for near in nearest_of_others(self._index, self._owners, rows, own_ids, n)
        ]


def units_of(corpus: Corpus, unit: str) -> tuple[list[str], list[str]]:
    """Give the texts that are evidence, and the id of the passage of each."""
    texts: list[str] = []
    ids: list[str] = []
    for passage in corpus:
        found = [passage.text] if unit == "passage" else sentences(passage.text)
        texts += found
        ids += [passage.id] * len(found)
    return texts, ids
