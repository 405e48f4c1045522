"""HotpotQA, distractor setting: questions with ten paragraphs of Wikipedia, two of them needed.

The file of the publishers is a JSON list of objects: ``_id``, ``question``, ``answer``, ``type``,
``level``, ``supporting_facts`` [[title, sentence number], …], ``context`` [[title, [sentence, …]],
…]. On the hub ``_id`` is ``id``, and the pairs are columns ({"title": […], "sent_id": […]},
{"title": […], "sentences": [[…], …]}).

References
----------
HotpotQA, arXiv:1809.09600, doi:10.18653/v1/D18-1259.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from epibias._files import sha256_of
from epibias._plain import described
from epibias.corpus import Corpus, Passage
from epibias.data_sets.hub import hub_rows
from epibias.data_sets.question_set import Question, QuestionSet
from epibias.data_sets.rows import entries, take, take_list, take_text
from epibias.errors import InputError

LICENCE = "CC BY-SA 4.0"
FILE = "hotpot_dev_distractor_v1.json"
HUB, CONFIG, SPLIT = "hotpotqa/hotpot_qa", "distractor", "validation"


def hotpotqa_file(path: Path | str) -> QuestionSet:
    """Read the distractor file, such as ``hotpot_dev_distractor_v1.json``.

    Parameters
    ----------
    path : Path
        The file, or a folder that has it under this name.

    Returns
    -------
    QuestionSet
        One passage a paragraph: the corpus holds the paragraphs of all questions, each once, under
        its title (``title #2`` for another text of the same title). Relevant are the paragraphs
        that have a supporting fact. The topic of a question is its id: no two share one.

    Raises
    ------
    InputError
        File, entry and finding; a supporting fact whose paragraph is not in the context.
    """
    path = Path(path)
    if path.is_dir():
        path = path / FILE
    return _questions(entries(path), {path.name: sha256_of(path)})


def hotpotqa_hub(revision: str | None = None, split: str = SPLIT) -> QuestionSet:
    """Read the distractor setting from the hub (extra ``hub``).

    Parameters
    ----------
    revision : str, optional
        Commit, tag or branch; the newest without it.
    split : str
        "validation" is the distractor dev file.

    Returns
    -------
    QuestionSet
        As from `hotpotqa_file`.

    Raises
    ------
    MissingExtraError
        Without the package ``datasets``.
    InputError
        A hub that cannot be reached; rows that are not of this form.
    """
    files: dict[str, str] = {}
    rows = hub_rows(HUB, CONFIG, split, revision, files)
    placed = ((f"{HUB}, row {number}", _as_published(row)) for number, row in enumerate(rows))
    return _questions(placed, files)


def _as_published(row: Mapping[str, Any]) -> dict[str, Any]:
    """Turn the hub's columns of pairs into the pairs of the published file."""
    found = {("_id" if name == "id" else name): value for name, value in row.items()}
    for name, (first, second) in (
        ("supporting_facts", ("title", "sent_id")),
        ("context", ("title", "sentences")),
    ):
        columns = row.get(name)
        if isinstance(columns, Mapping) and first in columns and second in columns:
            found[name] = [list(pair) for pair in zip(columns[first], columns[second], strict=True)]
    return found


def _questions(
    rows: Iterable[tuple[str, Mapping[str, Any]]], files: Mapping[str, str]
) -> QuestionSet:
    passages: dict[tuple[str, str], Passage] = {}
    texts_of: dict[str, int] = {}
    questions, relevant, n_blank = [], {}, 0
    seen: dict[str, str] = {}
    for where, row in rows:
        question_id = take_text("_id", row, where)
        if question_id in seen:
            found = f"{question_id!r} in {seen[question_id]} and {where}"
            raise InputError("_id", "each id once", found)
        seen[question_id] = where
        here: dict[str, str] = {}
        for title, text in _paragraphs(row, where):
            if not text.strip():
                n_blank += 1
                continue
            if (title, text) not in passages:
                texts_of[title] = number = texts_of.get(title, 0) + 1
                passage_id = title if number == 1 else f"{title} #{number}"
                passages[title, text] = Passage(passage_id, text, title, source="wikipedia")
            here[title] = passages[title, text].id
        relevant[question_id] = tuple(dict.fromkeys(_supporting(row, here, where)))
        questions.append(Question(question_id, take_text("question", row, where), question_id))
    notes = (f"{n_blank} paragraphs with a blank text were left out",) if n_blank else ()
    corpus = Corpus(passages.values())
    return QuestionSet("hotpotqa", corpus, tuple(questions), relevant, LICENCE, files, notes)


def _paragraphs(row: Mapping[str, Any], where: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for pair in take_list("context", row, where):
        title, sentences = _pair("context", pair, where)
        if not isinstance(sentences, list) or not all(isinstance(one, str) for one in sentences):
            raise InputError("context", "a list of sentences", described(sentences), where)
        if title in dict(found):
            raise InputError("context", "each title once", f"{title!r} twice", where)
        found.append((title, "".join(sentences)))
    if not found:
        raise InputError("context", "at least one paragraph", "none", where)
    return found


def _supporting(row: Mapping[str, Any], here: Mapping[str, str], where: str) -> list[str]:
    found = []
    for pair in take_list("supporting_facts", row, where):
        title, number = _pair("supporting_facts", pair, where)
        if isinstance(number, bool) or not isinstance(number, int):
            raise InputError("supporting_facts", "a sentence number", described(number), where)
        if title not in here:
            expected = "the title of a paragraph of the context"
            raise InputError("supporting_facts", expected, described(title), where)
        found.append(here[title])
    return found


def _pair(name: str, value: object, where: str) -> tuple[str, Any]:
    if not isinstance(value, list) or len(value) != 2:
        raise InputError(name, "a pair", described(value), where)
    return take_text(name, {name: take(name, {name: value[0]}, where)}, where), value[1]
