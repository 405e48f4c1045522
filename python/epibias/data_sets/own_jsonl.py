r"""A question set as one file of JSON lines: the layout for sets of one's own.

One object a line, told apart by ``kind``; the order is free, except that a question stands before
its anchors and adversarial passages.

- ``{"kind": "set", "name", "licence", "notes"?, "files"?, "counts"?}``: once, first. ``counts`` is
  {"questions", "passages", "anchors", "adversarial"}: where it stands, a file that was cut off
  between two lines is noticed.
- ``{"kind": "question", "id", "text", "topic", "poles"?: [con, pro], "relevant"?: [passage id]}``
- ``{"kind": "passage", "passage": {"_id", "text", "title"?, "source"?, …}}``: a benign passage.
- ``{"kind": "anchor", "question", "stance"?: -3 … 3, "passage"}``: all anchors of a question have
  a stance, or none has.
- ``{"kind": "adversarial", "question", "polarity": "positive" or "negative", "passage"}``
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epibias import _validate
from epibias._files import sha256_of
from epibias._plain import described
from epibias.corpus import METADATA_FIELDS, Corpus, Passage
from epibias.corpus.readers import json_lines, passage_row, write_json_lines
from epibias.data_sets.question_set import LARGEST_STANCE, POLARITIES, Question, QuestionSet
from epibias.data_sets.rows import take, take_list, take_text
from epibias.errors import InputError

KINDS = ("set", "question", "passage", "anchor", "adversarial")


def write_questions(questions: QuestionSet, path: Path | str) -> None:
    """Write a question set to one file, whole or not at all, mode 0600.

    Parameters
    ----------
    questions : QuestionSet
    path : Path
        The folder must exist.

    Raises
    ------
    InputError
        A path that cannot be written, a full disk; a field that JSON cannot hold.

    Examples
    --------
    >>> import tempfile
    >>> from epibias.data_sets import load_questions
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_questions(load_questions("debates"), Path(folder, "debates.jsonl"))
    ...     load_questions(Path(folder, "debates.jsonl"))
    QuestionSet('debates', 16 questions, 288 passages, Apache-2.0)
    """
    write_json_lines(_rows(questions), path)


def read_questions(path: Path | str) -> QuestionSet:
    """Read a question set from one file of JSON lines.

    Parameters
    ----------
    path : Path
        The layout is at the top of this module, and in docs/data.md.

    Returns
    -------
    QuestionSet
        `files` has this file, and those that it says it was made from.

    Raises
    ------
    InputError
        File, line and finding: a kind that is none, an id twice or unknown, a wrong stance, counts
        that differ.
    """
    path = Path(path)
    parts = _Parts()
    for number, row in json_lines(path, "questions"):
        parts.add(row, f"{path.name}, line {number}")
    head = parts.head
    if head is None:
        raise InputError("kind", "a first line of kind 'set'", "none", path.name)
    sources = take("files", head, path.name) if head.get("files") else {}
    if not isinstance(sources, dict):
        raise InputError("files", "an object of name to SHA-256", described(sources), path.name)
    notes = [str(note) for note in take_list("notes", head, path.name)] if head.get("notes") else []
    parts.check_counts(path.name)
    for question_id, where, passage_ids in parts.relevant_at:
        for passage_id in passage_ids:
            if passage_id not in parts.passages:
                found = f"unknown {described(passage_id)}"
                raise InputError("relevant", "ids of passages", found, where)
        _validate.unique("relevant", passage_ids, f"{where}, question {question_id!r}")
    return QuestionSet(
        take_text("name", head, path.name),
        Corpus(parts.passages.values()),
        tuple(parts.question(one) for one in parts.questions),
        {one: tuple(ids) for one, _, ids in parts.relevant_at},
        take_text("licence", head, path.name),
        {**sources, path.name: sha256_of(path)},
        tuple(notes),
    )


def _rows(questions: QuestionSet) -> Iterator[dict[str, Any]]:
    yield {
        "kind": "set",
        "name": questions.name,
        "licence": questions.licence,
        "notes": list(questions.notes),
        "files": dict(questions.files),
        "counts": counts_of(questions),
    }
    for question in questions.questions:
        row = {"kind": "question", "id": question.id, "text": question.text}
        relevant = list(questions.relevant[question.id])
        yield {**row, "topic": question.topic, "poles": question.poles, "relevant": relevant}
        stances = question.stances or (None,) * len(question.anchors)
        for anchor, stance in zip(question.anchors, stances, strict=True):
            row = {"kind": "anchor", "question": question.id}
            yield {**row, "stance": stance, "passage": passage_row(anchor)}
        for polarity, passages in question.adversarial.items():
            row = {"kind": "adversarial", "question": question.id, "polarity": polarity}
            yield from ({**row, "passage": passage_row(one)} for one in passages)
    for passage in questions.corpus:
        yield {"kind": "passage", "passage": passage_row(passage)}


def counts_of(questions: QuestionSet) -> dict[str, int]:
    """Count questions, benign passages, anchors and adversarial passages, as a file has them."""
    sides = [side for one in questions.questions for side in one.adversarial.values()]
    return {
        "questions": len(questions.questions),
        "passages": len(questions.corpus),
        "anchors": sum(len(one.anchors) for one in questions.questions),
        "adversarial": sum(map(len, sides)),
    }


@dataclass
class _Parts:
    """What has been read so far."""

    head: dict[str, Any] | None = None
    questions: dict[str, dict[str, Any]] = field(default_factory=dict)
    relevant_at: list[tuple[str, str, list[str]]] = field(default_factory=list)
    passages: dict[str, Passage] = field(default_factory=dict)
    anchors: dict[str, list[tuple[Passage, Any]]] = field(default_factory=dict)
    adversarial: dict[str, dict[str, list[Passage]]] = field(default_factory=dict)

    def add(self, row: dict[str, Any], where: str) -> None:
        kind = take("kind", row, where)
        if kind not in KINDS:
            raise InputError("kind", f"one of {', '.join(KINDS)}", described(kind), where)
        if (kind == "set") != (self.head is None):
            found = f"kind {kind!r}"
            raise InputError("kind", "'set' in the first line, and only there", found, where)
        if kind == "set":
            self.head = row
        elif kind == "question":
            self._add_question(row, where)
        elif kind == "passage":
            passage = _passage(row, where)
            if passage.id in self.passages:
                raise InputError("_id", "each id once", f"{passage.id!r} again", where)
            self.passages[passage.id] = passage
        else:
            self._add_to_question(kind, row, where)

    def _add_question(self, row: dict[str, Any], where: str) -> None:
        question_id = take_text("id", row, where)
        if question_id in self.questions:
            raise InputError("id", "each question once", f"{question_id!r} again", where)
        try:  # what a question checks of itself, told with the line
            Question(question_id, take_text("text", row, where), take_text("topic", row, where))
        except InputError as error:
            raise InputError(error.argument, error.expected, error.got, where) from None
        self.questions[question_id] = row
        ids = take_list("relevant", row, where) if row.get("relevant") is not None else []
        self.relevant_at.append((question_id, where, ids))

    def _add_to_question(self, kind: str, row: dict[str, Any], where: str) -> None:
        question_id = take_text("question", row, where)
        if question_id not in self.questions:
            expected = "the id of a question above"
            raise InputError("question", expected, f"unknown {described(question_id)}", where)
        passage = _passage(row, where)
        if kind == "adversarial":
            polarity = take("polarity", row, where)
            if polarity not in POLARITIES:
                expected = "'positive' or 'negative'"
                raise InputError("polarity", expected, described(polarity), where)
            sides = self.adversarial.setdefault(question_id, {})
            sides.setdefault(polarity, []).append(passage)
            return
        stance = row.get("stance")
        if stance is not None:
            bound = LARGEST_STANCE
            _validate.number("stance", stance, low=-bound, high=bound, where=where)
        before = self.anchors.setdefault(question_id, [])
        if before and (before[0][1] is None) != (stance is None):
            expected = "a stance on all anchors of a question, or on none"
            raise InputError("stance", expected, described(stance), where)
        before.append((passage, stance))

    def check_counts(self, name: str) -> None:
        """Compare with what the first line announces."""
        announced = (self.head or {}).get("counts")
        if announced is None:
            return
        sides = [side for one in self.adversarial.values() for side in one.values()]
        found = {
            "questions": len(self.questions),
            "passages": len(self.passages),
            "anchors": sum(map(len, self.anchors.values())),
            "adversarial": sum(map(len, sides)),
        }
        if announced != found:
            hint = f"{found}: is the file cut off?"
            raise InputError("counts", str(announced), hint, name)

    def question(self, question_id: str) -> Question:
        row = self.questions[question_id]
        anchors = self.anchors.get(question_id, [])
        has_stances = bool(anchors) and anchors[0][1] is not None
        poles = row.get("poles")
        sides = self.adversarial.get(question_id, {})
        return Question(
            question_id,
            row["text"],
            row["topic"],
            tuple(passage for passage, _ in anchors),
            tuple(stance for _, stance in anchors) if has_stances else None,
            None if poles is None else (tuple(poles)),
            {polarity: tuple(passages) for polarity, passages in sides.items()},
        )


def _passage(row: Mapping[str, Any], where: str) -> Passage:
    fields = take("passage", row, where)
    if not isinstance(fields, dict):
        raise InputError("passage", "an object", described(fields), where)
    extra = {name: value for name, value in fields.items() if value is not None}
    passage_id, text = extra.pop("_id", None), extra.pop("text", None)
    known = {name: extra.pop(name) for name in METADATA_FIELDS if name in extra}
    passage = Passage(passage_id, text, **known, extra=extra)
    try:
        Corpus([passage])
    except InputError as error:
        raise InputError(error.argument, error.expected, error.got, where) from None
    return passage
