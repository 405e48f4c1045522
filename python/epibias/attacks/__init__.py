"""Attacks, for an index you own: its red-team evaluation (docs/attacks.md).

In: a `Corpus` and adversarial passages. Out: a new, labelled corpus (`InjectedCorpus`).
Never edits the corpus it was given, never touches a store, never posts anything.
"""

from epibias.attacks.decoys import decoys
from epibias.attacks.injection import InjectedCorpus, inject

__all__ = ["InjectedCorpus", "decoys", "inject"]
