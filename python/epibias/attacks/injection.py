"""Injection: adversarial passages are added to a corpus, for the evaluation of an index you own.

Owns the labels (which ids were injected). In: a corpus and passages. Out: a new corpus that has
the original passages first, in their order, and the adversarial ones after them. The corpus given
is never edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epibias._plain import described
from epibias.corpus import Corpus, Passage
from epibias.errors import InputError


@dataclass(frozen=True)
class InjectedCorpus:
    """A corpus with adversarial passages at its end, and the labels that say which they are.

    Parameters
    ----------
    corpus : Corpus
        Original passages, then the injected ones.
    n_original : int
        Rows below this number are original (benign).
    adversarial_ids : tuple of str
        Ids of the injected passages, in the order of their rows.

    Examples
    --------
    >>> from epibias.corpus import Corpus, Passage
    >>> attacked = inject(Corpus([Passage("b1", "Trains are fast.")]), [Passage("a1", "Ban cars.")])
    >>> attacked.adversarial_ids, attacked.is_adversarial.tolist()
    (('a1',), [False, True])
    """

    corpus: Corpus
    n_original: int
    adversarial_ids: tuple[str, ...]

    @property
    def is_adversarial(self) -> NDArray[np.bool_]:
        """One flag a row of the corpus, bool `[n_passages]`."""
        flags = np.zeros(len(self.corpus), dtype=np.bool_)
        flags[self.n_original :] = True
        return flags


def inject(corpus: Corpus, adversarial: Sequence[Passage]) -> InjectedCorpus:
    """Add adversarial passages to a corpus: a new corpus, labelled.

    For indexes you own: this measures what a poisoned index would do to retrieval. It changes
    nothing outside the process.

    Parameters
    ----------
    corpus : Corpus
        The clean corpus; it is left as it is.
    adversarial : sequence of Passage
        Passages to add, after the original ones and in this order. May be empty.

    Returns
    -------
    InjectedCorpus
        The new corpus with its labels.

    Raises
    ------
    InputError
        If an injected id stands twice or is already in the corpus.

    References
    ----------
    Epistemic Bias Injection, arXiv:2512.00804, section IV (injection of 1, 5 or 10 passages).

    Examples
    --------
    >>> from epibias.corpus import Corpus, Passage
    >>> clean = Corpus([Passage("b1", "Trains are fast.")])
    >>> inject(clean, [Passage("a1", "Trains are a folly.")]).corpus.ids[-1]
    'a1'
    >>> len(clean)
    1
    """
    known = set(corpus.ids)
    for row, passage in enumerate(adversarial):
        if not isinstance(passage, Passage):
            raise InputError("adversarial", "passages", type(passage).__name__, f"row {row}")
        if passage.id in known:
            found = f"{described(passage.id)}, which stands in the corpus or in an earlier row"
            raise InputError("adversarial", "ids that are new to the corpus", found, f"row {row}")
        known.add(passage.id)
    ids = tuple(passage.id for passage in adversarial)
    return InjectedCorpus(corpus.extended(adversarial), len(corpus), ids)
