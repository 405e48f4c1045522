"""Attacks, for an index you own: its red-team evaluation (docs/attacks.md).

In: a `Corpus` and adversarial passages. Out: a new, labelled corpus (`InjectedCorpus`), or labelled
passages (`AdversarialSet`). Never edits the corpus it was given, never touches a store, never posts
anything.
"""

from epibias.attacks.adversarial_set import POLARITIES, AdversarialPassage, AdversarialSet
from epibias.attacks.decoys import decoys
from epibias.attacks.injection import InjectedCorpus, inject

__all__ = [
    "POLARITIES",
    "AdversarialPassage",
    "AdversarialSet",
    "InjectedCorpus",
    "decoys",
    "inject",
]
