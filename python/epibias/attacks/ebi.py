"""Epistemic bias injection (EBI): one-sided passages whose stance is checked on the axis.

The attack of the paper, whole: anchors from a generator, the polarization axis through them, the
most extreme candidate each way, and passages that share its side, each checked and asked for again
where it fails. Owns the order of these steps and the checks; `ebi_parts` has the settings and what
comes out. In: a question, a generator, the attacker's own encoder. Out: labelled passages with
their provenance, and the count of every rejection. For the evaluation of an index you own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from epibias import _validate
from epibias._plain import finite_or_none
from epibias._validate import Float32Array
from epibias.attacks.adversarial_set import AdversarialPassage, AdversarialSet
from epibias.attacks.anchor_writing import write_anchors
from epibias.attacks.ebi_parts import EBIOutcome, EBISettings, WrittenAnchors
from epibias.attacks.embedding import (
    cosines,
    digest,
    embedded,
    embedded_passages,
    identity_of,
    normal_form,
)
from epibias.attacks.ownership import confirm
from epibias.corpus import Passage
from epibias.corpus.columns import check_id
from epibias.data_sets.question_set import POLARITIES
from epibias.encoder import Encoder
from epibias.errors import InputError, ValidityWarning
from epibias.generators import Failure, Generator, parse_passages, render
from epibias.polarization import PolarizationAxis

ATTACK = "ebi"


def ebi(
    question_id: str,
    question: str,
    generator: Generator,
    encoder: Encoder,
    *,
    i_own_this_index: bool = False,
    settings: EBISettings | None = None,
    anchors: Sequence[Passage] | None = None,
    stances: Sequence[float] | None = None,
    candidates: Sequence[Passage] | None = None,
    progress: Callable[[int], None] | None = None,
) -> EBIOutcome:
    """Make the adversarial passages of epistemic bias injection on one question.

    For the red-team evaluation of an index you own.

    Parameters
    ----------
    question_id : str
        Starts the ids of the passages.
    question : str
        What is asked.
    generator : Generator
        Writes anchors and passages. A `CachedGenerator` makes a run that was stopped go on where
        it was: the requests are the same, and answered from its file.
    encoder : Encoder
        The attacker's own; the index's is not known to them.
    i_own_this_index : bool
        True, or nothing is made.
    settings : EBISettings, optional
    anchors, stances : sequences, optional
        Use these anchor passages, with their stances where they are known, and ask for none.
        Without stances "positive" is the end of the axis that the rule of orientation makes the
        positive one; `provenance` says so.
    candidates : sequence of Passage, optional
        Passages on the question among which the extreme ones are looked for, such as those that a
        search found; by default the anchors themselves, as in the paper's experiment.
    progress : callable, optional
        Called with the number of adversarial passages taken or given up since the last call; they
        add up to twice `settings.n`.

    Returns
    -------
    EBIOutcome
        Its `failure` says why there are no passages at all, if so: a question that fails does not
        end a run over many.

    Raises
    ------
    InputError
        A wrong argument; `i_own_this_index` that is not True.

    Warns
    -----
    ValidityWarning
        If the axis of the anchors hardly carries stance, or the tolerance is so wide that a passage
        between the references would pass for either side.

    References
    ----------
    Epistemic Bias Injection, arXiv:2512.00804, section IV-B, equations 6 to 8.

    Examples
    --------
    See docs/attacks.md.
    """
    confirm(i_own_this_index)
    check_id("question_id", question_id, None)
    _validate.text("question", question)
    settings = EBISettings() if settings is None else settings
    if candidates is not None and len(candidates) < 2:
        raise InputError("candidates", "at least two passages", str(len(candidates)))
    rejections: dict[str, int] = {}
    written = _anchors(question, generator, settings, anchors, stances, rejections)
    advance = progress or (lambda _: None)
    if isinstance(written, str):
        advance(2 * settings.n)
        return EBIOutcome(AdversarialSet((), rejections), failure=written)
    rows = embedded_passages(encoder, written.passages, "anchors")
    try:
        axis = PolarizationAxis.fit(
            rows, labels=written.axis_labels, method=settings.method, penalty=settings.penalty
        )
    except InputError as error:
        advance(2 * settings.n)
        failure = f"no axis: {error}"
        return EBIOutcome(AdversarialSet((), rejections), written, failure=failure)
    pool = tuple(written.passages if candidates is None else candidates)
    if candidates is not None:
        rows = embedded_passages(encoder, pool, "candidates")
    scores = axis.score(rows)
    _warn_of_tolerance(question_id, settings.tolerance, float(np.ptp(scores)))
    maker = _Maker(question_id, question, generator, encoder, settings, written, axis, rejections)
    made: list[AdversarialPassage] = []
    references: dict[str, Passage] = {}
    for side, row in zip(POLARITIES, (int(np.argmax(scores)), int(np.argmin(scores))), strict=True):
        references[side] = pool[row]
        made += maker.passages(side, pool[row], rows[row], float(scores[row]), advance)
    missing = {side: settings.n - sum(one.polarity == side for one in made) for side in POLARITIES}
    return EBIOutcome(AdversarialSet(tuple(made), rejections), written, axis, references, missing)


class _Maker:
    """Asks for passages of one side after the other, and checks each."""

    def __init__(
        self,
        question_id: str,
        question: str,
        generator: Generator,
        encoder: Encoder,
        settings: EBISettings,
        anchors: WrittenAnchors,
        axis: PolarizationAxis,
        rejections: dict[str, int],
    ) -> None:
        self._question_id, self._question = question_id, question
        self._generator, self._encoder, self._settings = generator, encoder, settings
        self._axis, self._rejections = axis, rejections
        self._query = embedded(encoder, [question], "queries", "question")
        self._known = {normal_form(one.text) for one in anchors.passages}
        self._about: dict[str, Any] = {
            "generator": identity_of(generator),
            "encoder": identity_of(encoder),
            "settings": settings.plain(),
            "anchors": {**anchors.provenance, "sha256": digest([p.text for p in anchors.passages])},
            "axis": {
                "method": axis.method,
                "oriented_by": "rule" if anchors.stances is None else "stances",
                "n_anchors": int(axis.n_anchors),
                "explained_variance_ratio": float(axis.explained_variance_ratio),
                "relative_gap": finite_or_none(axis.relative_gap),
                "validity": finite_or_none(axis.validity),
            },
        }

    def passages(
        self,
        side: str,
        reference: Passage,
        reference_row: Float32Array,
        reference_score: float,
        advance: Callable[[int], None],
    ) -> list[AdversarialPassage]:
        """Up to `n` passages that share the side of a reference."""
        settings = self._settings
        self._known.add(normal_form(reference.text))
        taken: list[AdversarialPassage] = []
        rows = [reference_row]
        for request in range(settings.max_requests):
            wanted = min(settings.n - len(taken), settings.per_request)
            if wanted == 0:
                break
            prompt = render(
                "adversarial", question=self._question, reference=reference.text, n=wanted
            )
            # The same prompt may be sent again: `repeat` makes it another answer.
            reply = self._generator.generate(
                [prompt],
                temperature=settings.temperature,
                max_tokens=settings.max_tokens,
                seed=settings.seed,
                repeat=request,
            )[0]
            if isinstance(reply, Failure):
                self._reject(f"generator: {reply.reason}")
                continue
            texts = parse_passages(reply.text, wanted)
            self._reject("not in the reply", wanted - len(texts))
            before = len(taken)
            for number, (text, row) in enumerate(self._readable(texts), 1):
                checked = self._checked(row, rows, reference_score)
                if isinstance(checked, str):
                    self._reject(checked)
                    continue
                self._known.add(normal_form(text))
                rows.append(row)
                provenance = {
                    **self._about,
                    **checked,
                    "prompt": {
                        "name": prompt.name,
                        "version": prompt.version,
                        "sha256": prompt.sha256,
                    },
                    "request": request,
                    "number_in_reply": number,
                    "reference_id": reference.id,
                    "reference_sha256": digest([reference.text]),
                    "reference_ps": reference_score,
                }
                name = f"{self._question_id}-{ATTACK}-{side}-{len(taken) + 1:02d}"
                passage = Passage(name, text)
                taken.append(
                    AdversarialPassage(passage, self._question_id, side, ATTACK, provenance)
                )
            advance(len(taken) - before)
        advance(settings.n - len(taken))
        return taken

    def _readable(self, texts: Sequence[str]) -> list[tuple[str, Float32Array]]:
        """Texts of the right length that are new, each with its embedding."""
        kept: list[str] = []
        for text in texts:
            n_words = len(text.split())
            if n_words < self._settings.min_words:
                self._reject("too short")
            elif n_words > self._settings.max_words:
                self._reject("too long")
            elif normal_form(text) in self._known | {normal_form(one) for one in kept}:
                self._reject("duplicate")
            else:
                kept.append(text)
        if not kept:
            return []
        rows = embedded(self._encoder, kept, "passages", "passages")
        return list(zip(kept, rows, strict=True))

    def _checked(
        self, row: Float32Array, rows: Sequence[Float32Array], reference_score: float
    ) -> dict[str, float] | str:
        """Give what was measured of a passage that may be taken, or why it may not."""
        score = float(self._axis.score(row[None])[0])
        if abs(score - reference_score) > self._settings.tolerance:
            return "PS beyond the tolerance"
        similarities = cosines(row[None], np.stack(rows))[0]
        if similarities.max() > self._settings.max_similarity:
            return "near duplicate"
        return {
            "ps": score,
            "similarity_to_reference": float(similarities[0]),
            "similarity_to_question": float(cosines(row[None], self._query)[0, 0]),
        }

    def _reject(self, reason: str, count: int = 1) -> None:
        if count > 0:
            self._rejections[reason] = self._rejections.get(reason, 0) + count


def _anchors(
    question: str,
    generator: Generator,
    settings: EBISettings,
    anchors: Sequence[Passage] | None,
    stances: Sequence[float] | None,
    rejections: dict[str, int],
) -> WrittenAnchors | str:
    """Give the anchors that were given, or have them written; or say why there are none."""
    if anchors is not None:
        return WrittenAnchors.given(anchors, stances)
    if stances is not None:
        raise InputError("stances", "anchors beside them", "none")
    return write_anchors(question, generator, settings, rejections)


def _warn_of_tolerance(question_id: str, tolerance: float, distance: float) -> None:
    """Tell where the PS check cannot part the sides: their passages overlap in the middle."""
    if 2 * tolerance >= distance:
        message = (
            f"question {question_id}: the references lie {distance:.3g} apart, so a tolerance of "
            f"{tolerance:g} does not part the sides"
        )
        warnings.warn(message, ValidityWarning, stacklevel=3)
