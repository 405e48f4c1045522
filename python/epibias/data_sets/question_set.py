"""Questions with the passages that belong to them: what every loader gives, whatever it reads.

Owns what a question is, and that ids meet: relevant and adversarial passages, anchors and stances
belong to questions and passages that are there. In: passages and texts that a loader has read.
Out: `QuestionSet`, checked when it is made and not changed afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from epibias import _validate
from epibias._plain import described
from epibias.corpus import Corpus, Passage
from epibias.corpus.columns import check_id
from epibias.errors import InputError

POLARITIES = ("positive", "negative")
LARGEST_STANCE = 3.0  # of the 7-point Likert scale, −3 … 3


class _Pickled:
    """Frozen dataclasses whose mappings cannot be written to; they go to other processes whole."""

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        names = [one.name for one in fields(self) if one.init]  # type: ignore[arg-type]
        values = (getattr(self, name) for name in names)
        return type(self), tuple(
            dict(value) if isinstance(value, Mapping) else value for value in values
        )


@dataclass(frozen=True)
class Question(_Pickled):
    """A question, with the passages that span its viewpoints and those that an attacker has.

    Parameters
    ----------
    id : str
        Unique within a set.
    text : str
        What is asked.
    topic : str
        What it is about, in a few words; several questions may share it.
    anchors : tuple of Passage
        Passages that the polarization axis is fitted on; none where the set has none.
    stances : tuple of float, optional
        Stance of each anchor on the 7-point Likert scale, from −3 (against) to 3 (for).
    poles : pair of str, optional
        Short statements of the two sides, con and pro.
    adversarial : mapping
        "positive" and "negative" to ready-made one-sided passages.

    Raises
    ------
    InputError
        The field that is not like this, with the id of the question.

    Examples
    --------
    >>> question = Question("q1", "Are trains better than cars?", "trains")
    >>> question.anchors, question.stances, dict(question.adversarial)
    ((), None, {})
    """

    id: str
    text: str
    topic: str
    anchors: tuple[Passage, ...] = ()
    stances: tuple[float, ...] | None = None
    poles: tuple[str, str] | None = None
    adversarial: Mapping[str, tuple[Passage, ...]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_id("question id", self.id, None)
        where = f"question {self.id!r}"
        _validate.text("question", self.text, where)
        _validate.text("topic", self.topic, where)
        anchors = tuple(self.anchors)
        checked_passages("anchors", anchors, where)
        object.__setattr__(self, "anchors", anchors)
        if self.stances is not None:
            stances = tuple(self.stances)
            if len(stances) != len(anchors):
                expected = f"{len(anchors)}, one an anchor"
                raise InputError("stances", expected, f"{len(stances)}", where)
            for anchor, stance in zip(anchors, stances, strict=True):
                place = f"{where}, anchor {anchor.id!r}"
                bound = LARGEST_STANCE
                _validate.number("stance", stance, low=-bound, high=bound, where=place)
            object.__setattr__(self, "stances", tuple(float(one) for one in stances))
        if self.poles is not None:
            poles = tuple(self.poles)
            if len(poles) != 2:
                raise InputError("poles", "two texts, con and pro", f"{len(poles)}", where)
            for name, text in zip(("con", "pro"), poles, strict=True):
                _validate.text(f"{name} pole", text, where)
            object.__setattr__(self, "poles", poles)
        object.__setattr__(self, "adversarial", self._checked_adversarial(where))

    def _checked_adversarial(self, where: str) -> Mapping[str, tuple[Passage, ...]]:
        sides: dict[str, tuple[Passage, ...]] = {}
        for polarity, passages in self.adversarial.items():
            if polarity not in POLARITIES:
                expected = "'positive' or 'negative'"
                raise InputError("polarity", expected, described(polarity), where)
            sides[polarity] = tuple(passages)
        checked_passages("adversarial", [one for side in sides.values() for one in side], where)
        return MappingProxyType(sides)


@dataclass(frozen=True)
class QuestionSet(_Pickled):
    """A corpus of benign passages, the questions asked of it, and where all of it came from.

    Parameters
    ----------
    name : str
        Of the set.
    corpus : Corpus
        The benign passages. Anchors and adversarial passages are no part of it.
    questions : tuple of Question
        At least one.
    relevant : mapping
        Question id to the ids of the benign passages that answer it. A question may be left out:
        the set has all of them, with () where nothing is known.
    licence : str
        Under which the texts were published, as the publisher names it; "not stated" where none is.
    files : mapping
        Name of every file that was read to its SHA-256, in hexadecimal.
    notes : tuple of str
        What a reader should know of how it was loaded: what was left out, and why.

    Raises
    ------
    InputError
        The first question or passage id that stands twice or is not known; the first checksum
        that is none.

    Examples
    --------
    >>> corpus = Corpus([Passage("p1", "Trains are fast.")])
    >>> question = Question("q1", "Are trains better than cars?", "trains")
    >>> found = QuestionSet("trains", corpus, (question,), {"q1": ("p1",)}, "CC0-1.0", {})
    >>> found.question("q1").topic, found.relevant["q1"]
    ('trains', ('p1',))
    """

    name: str
    corpus: Corpus
    questions: tuple[Question, ...]
    relevant: Mapping[str, tuple[str, ...]] = field(hash=False)
    licence: str
    files: Mapping[str, str] = field(hash=False)
    notes: tuple[str, ...] = ()
    _by_id: Mapping[str, Question] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        _validate.text("name", self.name)
        _validate.text("licence", self.licence)
        if not isinstance(self.corpus, Corpus):
            raise InputError("corpus", "a Corpus", type(self.corpus).__name__)
        questions = tuple(self.questions)
        for place, one in enumerate(questions):
            if not isinstance(one, Question):
                found = type(one).__name__
                raise InputError("questions", "Question objects", found, f"place {place}")
        if not questions:
            raise InputError("questions", "at least one", "none", self.name)
        _validate.unique("questions", (one.id for one in questions), self.name)
        object.__setattr__(self, "questions", questions)
        object.__setattr__(self, "_by_id", {one.id: one for one in questions})
        self._check_adversarial()
        object.__setattr__(self, "relevant", self._checked_relevant())
        for name, digest in self.files.items():
            is_hex = isinstance(digest, str) and set(digest) <= set("0123456789abcdef")
            if not is_hex or len(digest) != 64:
                raise InputError("files", "a SHA-256 in hexadecimal", described(digest), name)
        object.__setattr__(self, "files", MappingProxyType(dict(self.files)))
        for note in self.notes:
            _validate.text("notes", note)
        object.__setattr__(self, "notes", tuple(self.notes))

    def _check_adversarial(self) -> None:
        """Refuse an adversarial id that a benign passage or another adversarial text has."""
        known: dict[str, Passage] = {}
        for question in self.questions:
            for passage in (one for side in question.adversarial.values() for one in side):
                # Questions on one topic may share a passage, but not its id alone.
                if passage.id in self.corpus or known.setdefault(passage.id, passage) != passage:
                    owner = "a benign passage" if passage.id in self.corpus else "another text"
                    where = f"question {question.id!r}"
                    found = f"{passage.id!r}, which is {owner}"
                    raise InputError("adversarial", "ids of their own", found, where)

    def _checked_relevant(self) -> Mapping[str, tuple[str, ...]]:
        known = {one.id for one in self.questions}
        checked: dict[str, tuple[str, ...]] = {one.id: () for one in self.questions}
        for question_id, passage_ids in self.relevant.items():
            where = f"relevant passages of {described(question_id)}"
            if question_id not in known:
                expected = "the id of a question"
                raise InputError("relevant", expected, f"unknown {described(question_id)}", where)
            for passage_id in passage_ids:
                if passage_id not in self.corpus:
                    expected = "the id of a passage"
                    found = f"unknown {described(passage_id)}"
                    raise InputError("relevant", expected, found, where)
            _validate.unique("relevant", passage_ids, where)
            checked[question_id] = tuple(passage_ids)
        return MappingProxyType(checked)

    def question(self, question_id: str) -> Question:
        """Give the question of an id.

        Parameters
        ----------
        question_id : str

        Returns
        -------
        Question

        Raises
        ------
        InputError
            An id that no question has.
        """
        if question_id not in self._by_id:
            expected = f"the id of one of {len(self.questions)} questions"
            raise InputError("question_id", expected, f"unknown {described(question_id)}")
        return self._by_id[question_id]

    def __repr__(self) -> str:
        counts = f"{len(self.questions)} questions, {len(self.corpus)} passages"
        return f"QuestionSet({self.name!r}, {counts}, {self.licence})"


def checked_passages(argument: str, passages: Sequence[Passage], where: str) -> None:
    """Check passages as a corpus would: text, ids that stand once, fields.

    Raises
    ------
    InputError
        The first passage that is wrong, and whose it is.

    Examples
    --------
    >>> checked_passages("anchors", [Passage("a", "yes"), Passage("a", "no")], "question 'q1'")
    Traceback (most recent call last):
        ...
    epibias.errors.InputError: anchors: expected each id once, got 'a' in rows 0 and 1 \
(question 'q1')
    """
    try:
        Corpus(passages)
    except InputError as error:
        places = ", ".join(part for part in (where, error.where) if part)
        name = argument if error.argument == "_id" else f"{argument}, {error.argument}"
        raise InputError(name, error.expected, error.got, places) from None
