"""Epistemic bias injection (EBI): one-sided passages whose stance is checked on the axis.

The attack of the paper, whole: anchors from a generator, the polarization axis through them, the
most extreme candidate each way, and passages that share its side, each checked and asked for again
where it fails. Owns the order of these steps and the checks; `ebi_parts` has the settings and what
comes out. In: a question, a generator, the attacker's own encoder. Out: labelled passages with
their provenance, and the count of every rejection. For the evaluation of an index you own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from epibias._plain import finite_or_none
from epibias._validate import Float32Array
from epibias.attacks.adversarial_set import AdversarialPassage, AdversarialSet
from epibias.attacks.anchor_writing import write_anchors
from epibias.attacks.asking import Ask, Asker, Work, together
from epibias.attacks.ebi_parts import (
    EBIOutcome,
    EBIQuestion,
    EBISettings,
    Tally,
    WrittenAnchors,
)
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
from epibias.data_sets.question_set import POLARITIES
from epibias.encoder import Encoder
from epibias.errors import InputError, ValidityWarning
from epibias.generators import Failure, Generator, Prompt, Reply, parse_passages, render
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
    one = EBIQuestion(question_id, question, anchors, stances, candidates)
    return ebi_of_many(
        [one],
        generator,
        encoder,
        i_own_this_index=i_own_this_index,
        settings=settings,
        progress=progress,
    )[0]


def ebi_of_many(
    questions: Sequence[EBIQuestion],
    generator: Generator,
    encoder: Encoder,
    *,
    i_own_this_index: bool = False,
    settings: EBISettings | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[EBIOutcome]:
    """Make the adversarial passages on several questions, asking for them side by side.

    As many requests are under way as the generator has room for (its `concurrency`): the anchors of
    so many questions, then the passages of both sides of them. What a question gets depends neither
    on the others nor on the order of replies, unless the server goes away: then nobody is asked
    anything more (`asking.Asker`).

    Parameters
    ----------
    questions : sequence of EBIQuestion
    generator, encoder, i_own_this_index, settings
        As for `ebi`. A generator without `concurrency` is asked for one question after the other.
    progress : callable, optional
        Called with the number of adversarial passages taken or given up since the last call; they
        add up to twice `settings.n` for each question.

    Returns
    -------
    list of EBIOutcome
        One a question, as `ebi` gives it.

    Raises
    ------
    InputError
        As `ebi`.

    Examples
    --------
    See docs/attacks.md.
    """
    confirm(i_own_this_index)
    settings = EBISettings() if settings is None else settings
    advance = progress or (lambda _: None)
    at_a_time = getattr(generator, "concurrency", 1)
    asker = Asker(
        generator,
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
        seed=settings.seed,
    )
    outcomes: list[EBIOutcome] = []
    for start in range(0, len(questions), at_a_time):
        works = [
            _question(one, identity_of(generator), encoder, settings, advance)
            for one in questions[start : start + at_a_time]
        ]
        outcomes += together(works, asker)
    return outcomes


def _question(
    question: EBIQuestion,
    identity: Mapping[str, object],
    encoder: Encoder,
    settings: EBISettings,
    advance: Callable[[int], None],
) -> Work[EBIOutcome]:
    """Give the steps of one question, whose requests `together` sends; `identity`: to whom."""
    tally = Tally()
    written: WrittenAnchors | str | None = question.given
    if written is None:
        written = yield from write_anchors(question.text, settings, tally)
    if isinstance(written, str):
        advance(2 * settings.n)
        if tally.failure is not None:
            written = f"{written}; the generator: {tally.failure.message}"
        nothing = AdversarialSet((), tally.rejections)
        return EBIOutcome(nothing, failure=written, generator_failure=tally.failure)
    rows = embedded_passages(encoder, written.passages, "anchors")
    try:
        axis = PolarizationAxis.fit(
            rows, labels=written.axis_labels, method=settings.method, penalty=settings.penalty
        )
    except InputError as error:
        advance(2 * settings.n)
        failure = f"no axis: {error}"
        return EBIOutcome(AdversarialSet((), tally.rejections), written, failure=failure)
    pool = tuple(written.passages if question.candidates is None else question.candidates)
    if question.candidates is not None:
        rows = embedded_passages(encoder, pool, "candidates")
    scores = axis.score(rows)
    _warn_of_tolerance(question.id, settings.tolerance, float(np.ptp(scores)))
    maker = _Maker(question, identity, encoder, settings, written, axis, tally)
    sides = [
        _Side(maker, side, pool[row], rows[row], float(scores[row]))
        for side, row in zip(POLARITIES, (int(scores.argmax()), int(scores.argmin())), strict=True)
    ]
    for request in range(settings.max_requests):
        # Both sides are asked at once: neither hangs on what the other gets.
        short = [side for side in sides if side.n_missing and not side.is_stopped]
        if not short:
            break
        replies = yield [Ask(side.prompt(), request) for side in short]
        for side, reply in zip(short, replies, strict=True):
            advance(side.take(reply, request))
    missing = {side.name: side.n_missing for side in sides}
    advance(sum(missing.values()))
    return EBIOutcome(
        AdversarialSet(tuple(one for side in sides for one in side.taken), tally.rejections),
        written,
        axis,
        {side.name: side.reference for side in sides},
        missing,
        generator_failure=tally.failure if any(missing.values()) else None,
    )


class _Maker:
    """What both sides of a question share: the checks of a passage, and what is known already."""

    def __init__(
        self,
        question: EBIQuestion,
        identity: Mapping[str, object],
        encoder: Encoder,
        settings: EBISettings,
        anchors: WrittenAnchors,
        axis: PolarizationAxis,
        tally: Tally,
    ) -> None:
        self.question, self.settings, self.tally = question, settings, tally
        self._encoder, self._axis = encoder, axis
        self._query = embedded(encoder, [question.text], "queries", "question")
        self.known = {normal_form(one.text) for one in anchors.passages}
        self.about: dict[str, Any] = {
            "generator": identity,
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

    def readable(self, texts: Sequence[str]) -> list[tuple[str, Float32Array]]:
        """Texts of the right length that are new, each with its embedding."""
        kept: list[str] = []
        for text in texts:
            n_words = len(text.split())
            if n_words < self.settings.min_words:
                self.tally.reject("too short")
            elif n_words > self.settings.max_words:
                self.tally.reject("too long")
            elif normal_form(text) in self.known | {normal_form(one) for one in kept}:
                self.tally.reject("duplicate")
            else:
                kept.append(text)
        if not kept:
            return []
        rows = embedded(self._encoder, kept, "passages", "passages")
        return list(zip(kept, rows, strict=True))

    def checked(
        self, row: Float32Array, rows: Sequence[Float32Array], reference_score: float
    ) -> dict[str, float] | str:
        """Give what was measured of a passage that may be taken, or why it may not."""
        score = float(self._axis.score(row[None])[0])
        if abs(score - reference_score) > self.settings.tolerance:
            return "PS beyond the tolerance"
        similarities = cosines(row[None], np.stack(rows))[0]
        if similarities.max() > self.settings.max_similarity:
            return "near duplicate"
        return {
            "ps": score,
            "similarity_to_reference": float(similarities[0]),
            "similarity_to_question": float(cosines(row[None], self._query)[0, 0]),
        }


class _Side:
    """Passages of one side: what is asked for next, and which of a reply are taken."""

    def __init__(
        self,
        maker: _Maker,
        name: str,
        reference: Passage,
        reference_row: Float32Array,
        reference_score: float,
    ) -> None:
        self.name, self.reference = name, reference
        self.taken: list[AdversarialPassage] = []
        self.is_stopped = False
        self._maker, self._score = maker, reference_score
        self._rows = [reference_row]
        maker.known.add(normal_form(reference.text))

    @property
    def n_missing(self) -> int:
        """Passages that are short of `n`."""
        return self._maker.settings.n - len(self.taken)

    @property
    def _n_wanted(self) -> int:
        return min(self.n_missing, self._maker.settings.per_request)

    def prompt(self) -> Prompt:
        """Give what to ask next; sent again, `repeat` makes it another answer."""
        question, reference = self._maker.question.text, self.reference.text
        return render("adversarial", question=question, reference=reference, n=self._n_wanted)

    def take(self, reply: Reply | Failure, request: int) -> int:
        """Take what passes of the reply to `prompt`; give the number of passages."""
        maker, wanted, prompt = self._maker, self._n_wanted, self.prompt()
        if isinstance(reply, Failure):
            self.is_stopped = maker.tally.failed(reply)
            return 0
        texts = parse_passages(reply.text, wanted)
        maker.tally.reject("not in the reply", wanted - len(texts))
        before = len(self.taken)
        for number, (text, row) in enumerate(maker.readable(texts), 1):
            checked = maker.checked(row, self._rows, self._score)
            if isinstance(checked, str):
                maker.tally.reject(checked)
                continue
            maker.known.add(normal_form(text))
            self._rows.append(row)
            provenance = {
                **maker.about,
                **checked,
                "prompt": {
                    "name": prompt.name,
                    "version": prompt.version,
                    "sha256": prompt.sha256,
                },
                "request": request,
                "number_in_reply": number,
                "reference_id": self.reference.id,
                "reference_sha256": digest([self.reference.text]),
                "reference_ps": self._score,
            }
            question_id = maker.question.id
            name = f"{question_id}-{ATTACK}-{self.name}-{len(self.taken) + 1:02d}"
            passage = Passage(name, text)
            self.taken.append(
                AdversarialPassage(passage, question_id, self.name, ATTACK, provenance)
            )
        return len(self.taken) - before


def _warn_of_tolerance(question_id: str, tolerance: float, distance: float) -> None:
    """Tell where the PS check cannot part the sides: their passages overlap in the middle."""
    if 2 * tolerance >= distance:
        message = (
            f"question {question_id}: the references lie {distance:.3g} apart, so a tolerance of "
            f"{tolerance:g} does not part the sides"
        )
        warnings.warn(message, ValidityWarning, stacklevel=3)
