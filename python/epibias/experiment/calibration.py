"""Defences that know clean pools: thresholds from other questions, a memory of the question's own.

Owns which pools a defence of an experiment may have seen. In: the clean corpus and the questions of
a set. Out: for a question, the defence calibrated on the clean pools of *other* questions (the
first `MOST_POOLS` of the set, the question itself left out), with a memory of its own clean pool
where the configuration says `remember`, and with the whole clean index where it says `trust_index`.
Nothing that was injected is ever looked at.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from epibias.data_sets import Question
from epibias.defenses import TiltBound
from epibias.defenses.base import Defense
from epibias.defenses.clean_memory import CleanMemory
from epibias.defenses.trusted_index import TrustedIndex
from epibias.encoder import Encoder, encode_in_batches
from epibias.errors import InputError
from epibias.experiment.inputs import EncodedCorpus
from epibias.polarization import PolarizationAxis
from epibias.pool import CandidatePool
from epibias.retrieval import CosineIndex

MOST_POOLS = 64  # a false removal of .05 wants 39 for a limit without assumptions


@dataclass
class Learner:
    """Makes a calibrated TiltBound for each question; called by several threads.

    Parameters
    ----------
    k, pool_factor : int
        Of the experiment.
    parameters : mapping
        Of the class.
    others : callable, optional
        Questions of the set and the encoder that retrieves, when they are wanted first.
    false_removal : float, optional
        Of the calibration, which needs `others`; None: nothing is learnt from other questions.
    remember : bool
        Whether the question's own clean pool is known.
    trust_index : bool
        Whether all passages of the clean corpus are.
    """

    k: int
    pool_factor: int
    parameters: Mapping[str, Any]
    others: Callable[[], tuple[Sequence[Question], Encoder]] | None = None
    false_removal: float | None = None
    remember: bool = False
    trust_index: bool = False
    _made: dict[str, TiltBound] = field(default_factory=dict)
    _trusted: tuple[CosineIndex, TrustedIndex] | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, clean: EncodedCorpus, question: str, own: CandidatePool) -> Defense:
        """Give the defence of a question.

        Parameters
        ----------
        clean : EncodedCorpus
        question : str
            Its id.
        own : CandidatePool
            Its clean pool, on the axis that the defence will see.

        Raises
        ------
        InputError
            No other question to learn from.
        """
        with self._turn:
            made = self._calibrated(clean, question)
            if self.trust_index:
                made = replace(made, trusted_index=self._index(clean.index))
        return replace(made, memory=CleanMemory.of(own, self.k)) if self.remember else made

    def _index(self, index: CosineIndex) -> TrustedIndex:
        if self._trusted is None or self._trusted[0] is not index:
            self._trusted = index, TrustedIndex.of(index)
        return self._trusted[1]

    def _calibrated(self, clean: EncodedCorpus, question: str) -> TiltBound:
        if self.false_removal is None:
            return TiltBound(self.k, **self.parameters)
        assert self.others is not None  # noqa: S101  a calibration without them would be none
        questions, encoder = self.others()
        known = questions[: MOST_POOLS + 1]
        # Those beyond the first few leave out the same last one, and share a defence.
        left_out = question if any(one.id == question for one in known) else known[-1].id
        if left_out not in self._made:
            chosen = [one for one in known if one.id != left_out]
            if not chosen:
                expected = "another question of the set, whose clean pool is learnt from"
                raise InputError("calibrate", expected, "none", question)
            pool = clean_pools(clean, chosen, encoder, self.k, self.pool_factor)
            self._made[left_out] = TiltBound.calibrated(
                pool, self.k, false_removal=self.false_removal, remember=False, **self.parameters
            )
        return self._made[left_out]


def clean_pools(
    clean: EncodedCorpus, questions: Sequence[Question], encoder: Encoder, k: int, pool_factor: int
) -> CandidatePool:
    """Give the clean pools of some questions, with their texts.

    Scores are those of one arbitrary direction: what is learnt here is read from texts alone.
    """
    texts = [one.text for one in questions]
    direction = np.zeros(clean.index.dim, np.float32)
    direction[0] = 1
    nan = float("nan")
    axis = PolarizationAxis(
        axis=direction, method="none", explained_variance_ratio=nan, relative_gap=nan,
        validity=None, neutral_centre=0.0, mean_anchor_score=0.0, normalize=True, n_anchors=0,
    )  # fmt: skip
    return CandidatePool.build(
        clean.index,
        encode_in_batches(encoder, texts, "queries"),
        axis,
        k=k,
        pool_factor=pool_factor,
        query_texts=texts,
        corpus=clean.corpus,
    )
