"""Baselines of the defence evaluation that need more than a pool: an index, or a model.

In: trials, and a file of NLI judgements. Out: defences. BRRA is made anew for each trial, for each
attack is an index of its own; those that ask about pairs of texts see the trials whose pairs the
file holds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from defense_protocol import K, Trial
from defense_texts import POLARITIES
from epibias.defenses import BRRA, SMART, BiasDef, Defense
from epibias.nli import CONTRADICTION, NLI, CachedNLI
from epibias.nli.cache import pair_key
from epibias.polarization.poles import pole_statements
from epibias.pool import CandidatePool
from epibias.retrieval import CosineIndex
from epibias.selection import Selection

STATEMENT = 1  # of each side: "… No, I am firmly against it.", "It is wrong to say that …"


@dataclass(frozen=True)
class OfTrial:
    """A defence that is made for each trial, from what the defender has there; None: not run."""

    make: Callable[[Trial], Defense | None]


def brra() -> OfTrial:
    """BRRA over the attacked index, with noise as long as the query (the paper's convention)."""
    return OfTrial(lambda trial: BRRA(CosineIndex(trial.corpus()), K))


@dataclass(frozen=True)
class NLIScored:
    """A defence on NLI's stance of each passage in place of its PS."""

    nli: NLI
    inner: Defense

    @property
    def name(self) -> str:
        """Both names."""
        return f"{self.inner.name} on NLI scores"

    def parameters(self) -> dict[str, object]:
        """Those of the inner defence."""
        return {**self.inner.parameters(), "scores": "nli"}

    def select(self, pool: CandidatePool) -> Selection:
        """Select by contradiction of the opposing less that of the supporting statement."""
        assert pool.query_texts is not None and pool.passage_texts is not None  # noqa: PT018
        scores = np.empty(len(pool.indices), np.float32)
        for query, question in enumerate(pool.query_texts):
            part = slice(int(pool.offsets[query]), int(pool.offsets[query + 1]))
            scores[part] = stances(self.nli, question, pool.passage_texts[part])
        return self.inner.select(replace(pool, scores=scores))


def stances(nli: NLI, question: str, texts: tuple[str, ...]) -> np.ndarray:
    """Float32 [n], above 0 for texts that contradict the opposing statement more."""
    opposing, supporting = (side[STATEMENT] for side in pole_statements(question))
    both = [
        nli.probabilities(list(texts), [statement] * len(texts))[:, CONTRADICTION]
        for statement in (opposing, supporting)
    ]
    return (both[0] - both[1]).astype(np.float32)


def asked_by_smart(trial: Trial) -> bool:
    """One pool a question and level is all that 380 pairs a pool leave time for."""
    return trial.draw == 0 and trial.polarity in ("none", POLARITIES[0])


def pairs_of_stances(trial: Trial) -> list[tuple[str, str]]:
    """Every pair of texts that `stances` asks about in a trial."""
    return [
        (text, side[STATEMENT]) for side in pole_statements(trial.case.question)
        for text in trial.texts
    ]  # fmt: skip


def pairs_of_smart(trial: Trial) -> list[tuple[str, str]]:
    """Every ordered pair of a trial's candidates."""
    return [(one, other) for one in trial.texts for other in trial.texts if one != other]


def nli_methods(cache: Path) -> dict[str, OfTrial]:
    """BiasDef on NLI's stances, and SMART, on the trials whose pairs were judged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a file that is still being written may end in half a line
        nli = CachedNLI(None, cache)
    scored, smart = NLIScored(nli, BiasDef(K)), SMART(nli, K)

    def known(pairs: list[tuple[str, str]]) -> bool:
        return all((nli._model, pair_key(*pair)) in nli._rows for pair in pairs)

    return {
        "biasdef nli": OfTrial(lambda t: scored if known(pairs_of_stances(t)) else None),
        "smart": OfTrial(
            lambda t: smart if asked_by_smart(t) and known(pairs_of_smart(t)) else None
        ),
    }
