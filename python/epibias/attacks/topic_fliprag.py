"""Topic-FlipRAG's two stages: an existing passage is edited in rounds, then a trigger goes first.

Stage 1 turns the stance of a passage by small edits, under a floor for the similarity to the
original and a bound on the change of length. Stage 2 prepends the words that bring the passage
closest to the questions of its topic, on a surrogate encoder. Owns the rounds, the limits and the
counts; the edits come from a generator (`fliprag_editor`) or from any function. For the evaluation
of an index you own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array
from epibias.attacks.adversarial_set import AdversarialPassage, AdversarialSet
from epibias.attacks.embedding import cosines, digest, embedded, identity_of, normal_form
from epibias.attacks.fliprag_editor import Edit, Editor
from epibias.attacks.ownership import confirm
from epibias.attacks.question_copies import texts_of
from epibias.attacks.token_search import SearchSettings
from epibias.attacks.trigger import trigger as search_trigger
from epibias.corpus import Passage
from epibias.corpus.columns import check_id
from epibias.encoder import Encoder
from epibias.errors import InputError
from epibias.polarization import PolarizationAxis

ATTACK = "topic-fliprag"


@dataclass(frozen=True)
class FlipSettings:
    """Limits of the edits, and how the trigger is found.

    Parameters
    ----------
    min_similarity : float
        Least cosine of an edited passage with the original.
    max_length_change : float
        Largest change of length, in words, as a share of the original's.
    n_rounds : int
        Rounds of edits; each starts from what the last took.
    trigger_length : int
        Words of a trigger that is searched for.
    max_evaluations : int
        Bound of that search.
    seed : int
        Of that search.

    Raises
    ------
    InputError
        The first that is out of range.

    Examples
    --------
    >>> FlipSettings().min_similarity, FlipSettings().max_length_change
    (0.85, 0.3)
    """

    min_similarity: float = 0.85
    max_length_change: float = 0.30
    n_rounds: int = 3
    trigger_length: int = 5
    max_evaluations: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        _validate.number("min_similarity", self.min_similarity, low=-1.0, high=1.0)
        _validate.number("max_length_change", self.max_length_change, low=0.0)
        _validate.integer("n_rounds", self.n_rounds, low=1)
        for name in ("trigger_length", "max_evaluations"):
            _validate.integer(name, getattr(self, name), low=1)
        _validate.integer("seed", self.seed, low=0)


def topic_fliprag(
    question_id: str,
    questions: Sequence[str],
    passages: Sequence[Passage],
    polarity: str,
    editor: Editor,
    encoder: Encoder,
    axis: PolarizationAxis,
    *,
    triggers: Sequence[str] | None = None,
    vocabulary: Sequence[str] | None = None,
    settings: FlipSettings | None = None,
    i_own_this_index: bool = False,
    progress: Callable[[int], None] | None = None,
) -> AdversarialSet:
    """Make adversarial passages out of existing ones.

    For the red-team evaluation of an index you own.

    Parameters
    ----------
    question_id : str
        Starts the ids of the passages.
    questions : sequence of str
        Questions of the topic, at least one; the editor and the trigger serve all of them.
    passages : sequence of Passage
        What is edited, such as the most similar passages of the index. They are not changed;
        titles are left out.
    polarity : {"positive", "negative"}
        Side to turn them to.
    editor : callable
        Takes the present text and the number of the round; gives `Edit`s, or fewer or none.
    encoder : Encoder
        The surrogate: limits, PS and trigger are measured on it.
    axis : PolarizationAxis
        Of this topic, fitted on embeddings of `encoder` with stances: an edit must move PS to the
        side, and only stances say which end of an axis is which side.
    triggers : sequence of str, optional
        Triggers to choose from; by default one is searched for each passage (`trigger`).
    vocabulary : sequence of str, optional
        Of that search.
    settings : FlipSettings, optional
    i_own_this_index : bool
        True, or nothing is made.
    progress : callable, optional
        Called with 1 for every passage that is done.

    Returns
    -------
    AdversarialSet
        One passage each, in order, but for those of which no edit was taken: they are counted as
        "no edit taken", and every edit that was refused by its reason. `provenance` has the
        similarity to the original, the change of length, PS before and after, and the trigger.
        The trigger itself is not under these limits: they are stage 1's.

    Raises
    ------
    InputError
        A wrong argument; `i_own_this_index` that is not True.

    References
    ----------
    Gong et al., Topic-FlipRAG: Topic-Orientated Adversarial Opinion Manipulation Attacks to
    Retrieval-Augmented Generation Models, arXiv:2502.01386 (USENIX Security 2025).

    Examples
    --------
    See docs/attacks.md.
    """
    confirm(i_own_this_index)
    check_id("question_id", question_id, None)  # before the editor is asked for anything
    given = texts_of(passages)
    _validate.choice("polarity", polarity, ("positive", "negative"))
    settings = FlipSettings() if settings is None else settings
    if isinstance(questions, str) or not questions:
        raise InputError("questions", "a sequence of at least one text", repr(questions)[:40])
    if axis.n_topics != 1:
        raise InputError("axis", "that of one topic", f"{axis.n_topics} topics")
    if axis.validity is None:
        expected = "one fitted with stances, which say which end is positive"
        raise InputError("axis", expected, "one that a rule oriented")
    if triggers is not None and not triggers:
        raise InputError("triggers", "at least one, or None to search", "none")
    for argument, several in (("triggers", triggers), ("vocabulary", vocabulary)):
        if isinstance(several, str):  # a sequence of letters, as Python sees it
            raise InputError(argument, "a sequence of texts", repr(several)[:40])
    stages = _Stages(questions, polarity, editor, encoder, axis, settings)
    made = []
    for number, original in enumerate(given, 1):
        edited = stages.edited(original)
        if edited is not None:
            text, facts = edited
            # The trigger of each passage is chosen for it: it stands before this text only.
            chosen, why = stages.trigger(text, triggers, vocabulary)
            name = f"{question_id}-{ATTACK}-{polarity}-{number:02d}"
            whole = f"{chosen} {text}"
            about = {**stages.about, **facts, **why, **stages.final(original.text, whole)}
            passage = Passage(name, whole)
            made.append(AdversarialPassage(passage, question_id, polarity, ATTACK, about))
        if progress is not None:
            progress(1)
    return AdversarialSet(tuple(made), stages.rejections)


class _Stages:
    """Both stages for one passage after the other, and the counts."""

    def __init__(
        self,
        questions: Sequence[str],
        polarity: str,
        editor: Editor,
        encoder: Encoder,
        axis: PolarizationAxis,
        settings: FlipSettings,
    ) -> None:
        self._questions, self._editor, self._encoder = list(questions), editor, encoder
        self._axis, self._settings = axis, settings
        self._sign = 1.0 if polarity == "positive" else -1.0
        self._targets = embedded(encoder, questions, "queries", "questions")
        self.rejections: dict[str, int] = {}
        self.about: dict[str, Any] = {
            "settings": asdict(settings),
            "encoder": identity_of(encoder),
            "editor": identity_of(editor),
            "questions_sha256": digest(questions),
            "axis_method": axis.method,
        }

    def edited(self, original: Passage) -> tuple[str, dict[str, Any]] | None:
        """Stage 1: the passage after all rounds, with what was measured; None without any edit."""
        start = self._rows([original.text])
        before = float(self._axis.score(start)[0])
        text, score, rounds = original.text, before, []
        for number in range(self._settings.n_rounds):
            best: tuple[str, float, Edit, float] | None = None
            allowed = self._allowed(original.text, text, self._editor(text, number))
            rows = self._rows([edit.text for edit in allowed]) if allowed else None
            for row, edit in enumerate(allowed):
                assert rows is not None  # noqa: S101  # there is a row for each
                similarity = float(cosines(rows[row : row + 1], start)[0, 0])
                moved = float(self._axis.score(rows[row : row + 1])[0])
                if similarity < self._settings.min_similarity:
                    self._reject("similarity below the floor")
                elif self._sign * (moved - score) <= 0:
                    self._reject("PS does not move to the side")
                elif best is not None and self._sign * (moved - best[1]) <= 0:
                    self._reject("a better edit in the round")
                else:
                    if best is not None:
                        self._reject("a better edit in the round")
                    best = edit.text, moved, edit, similarity
            if best is not None:
                text, score = best[0], best[1]
                rounds.append(
                    {"round": number, "ps": score, "similarity": best[3], **best[2].provenance}
                )
        if not rounds:
            self._reject("no edit taken")
            return None
        change = len(text.split()) / len(original.text.split()) - 1
        return text, {
            "original_id": original.id,
            "original_sha256": digest([original.text]),
            "rounds": rounds,
            "original_ps": before,
            "edited_ps": score,
            "similarity_to_original": rounds[-1]["similarity"],
            "length_change": change,
        }

    def trigger(
        self, text: str, triggers: Sequence[str] | None, vocabulary: Sequence[str] | None
    ) -> tuple[str, dict[str, Any]]:
        """Stage 2: the words that bring the edited passage closest to the questions."""
        if triggers is not None:
            rows = self._rows([f"{words} {text}" for words in triggers])
            values = cosines(rows, self._targets).mean(axis=1)
            row = int(np.argmax(values))  # the first of equal ones
            return triggers[row], {
                "trigger": triggers[row],
                "trigger_objective": float(values[row]),
                "n_triggers": len(triggers),
            }
        found = search_trigger(
            "search",
            self._questions,
            [Passage("edited", text)],
            "none",
            self._encoder,
            vocabulary=vocabulary,
            settings=SearchSettings(
                self._settings.trigger_length,
                self._settings.max_evaluations,
                seed=self._settings.seed,
            ),
            i_own_this_index=True,  # confirmed by the caller
        )
        return found.trigger, {
            "trigger": found.trigger,
            "trigger_objective": found.search.objective,
            "n_evaluations": found.search.n_evaluations,
        }

    def final(self, original: str, whole: str) -> dict[str, float]:
        """Measure the passage with its trigger."""
        rows = self._rows([whole, original])
        return {
            "ps": float(self._axis.score(rows[:1])[0]),
            "final_similarity_to_original": float(cosines(rows[:1], rows[1:])[0, 0]),
            "similarity_to_question": float(cosines(rows[:1], self._targets).mean()),
        }

    def _allowed(self, original: str, text: str, edits: Sequence[Edit]) -> list[Edit]:
        """Edits that are new and within the bound on length; what the editor says of others."""
        kept: list[Edit] = []
        n_words = len(original.split())
        known = {normal_form(original), normal_form(text)}
        for edit in edits:
            if not isinstance(edit, Edit):
                raise InputError("editor", "Edit objects", type(edit).__name__)
            if edit.failure is not None:
                self._reject(edit.failure)
            elif not edit.text.strip() or normal_form(edit.text) in known:
                self._reject("duplicate")
            elif abs(len(edit.text.split()) - n_words) > self._settings.max_length_change * n_words:
                self._reject("length change beyond the bound")
            else:
                known.add(normal_form(edit.text))
                kept.append(edit)
        return kept

    def _rows(self, texts: Sequence[str]) -> Float32Array:
        return embedded(self._encoder, texts, "passages", "passages")

    def _reject(self, reason: str) -> None:
        self.rejections[reason] = self.rejections.get(reason, 0) + 1
