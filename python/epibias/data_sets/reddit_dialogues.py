"""Reddit-Dialogues: the SIGIR 2022 set for the retrieval of sentences for open-ended dialogues.

``dialogues.json`` and ``wikipedia_grounded_dialogues.json``: a dialogue is an object with ``id``,
``subreddit``, ``title``, ``target`` (the last turn), ``context`` (the turns before it: each
``author_id``, ``author_name``, ``body``, ``score``) and ``candidates`` (50 sentences of Wikipedia:
each ``id``, ``title``, ``body``, ``score``, ``label``, 1 for relevant). ``val_test_splits.json``:
{"dev": [id, …], "test": [id, …], …}.

The fields are those that the set's README names, and the splits were seen. The two files of
dialogues were not: whether they are a list of dialogues is taken from the README's wording.

References
----------
A Dataset for Sentence Retrieval for Open-Ended Dialogues, doi:10.1145/3477495.3531727,
arXiv:2205.11685.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epibias import _validate
from epibias._plain import described
from epibias.corpus import Corpus, Passage
from epibias.data_sets.checksums import checksums
from epibias.data_sets.question_set import Question, QuestionSet
from epibias.data_sets.rows import entries, read_document, take, take_list, take_text
from epibias.errors import InputError

LICENCE = "MIT (of the repository; the texts are of Reddit's users and of Wikipedia)"
FILES = ("dialogues.json", "wikipedia_grounded_dialogues.json")
SPLITS = "val_test_splits.json"
ASKS = ("title", "last_turn")


def reddit_dialogues(
    folder: Path | str, split: str | None = None, *, ask: str = "title"
) -> QuestionSet:
    """Read Reddit-Dialogues from a local folder.

    Parameters
    ----------
    folder : Path
        With one or both files of dialogues, and ``val_test_splits.json`` where a split is asked.
    split : str, optional
        "dev" or "test"; all dialogues without it.
    ask : {"title", "last_turn"}
        What stands for the question: the title, which opens the dialogue, or the last turn before
        the target. [EBI] does not say which it took.

    Returns
    -------
    QuestionSet
        The corpus holds the candidate sentences of all chosen dialogues, each once; relevant are
        those with label 1. The topic is the subreddit.

    Raises
    ------
    InputError
        File, entry and finding; a sentence id with two texts; a split that the file does not have.
    """
    folder = Path(folder)
    _validate.choice("ask", ask, ASKS)
    paths = [folder / name for name in FILES if (folder / name).is_file()]
    if not paths:
        raise InputError("folder", f"{FILES[0]} or {FILES[1]}", "neither", str(folder))
    chosen = None if split is None else _split(folder / SPLITS, split)
    passages: dict[str, Passage] = {}
    questions: list[Question] = []
    relevant: dict[str, tuple[str, ...]] = {}
    for where, row in (placed for path in paths for placed in entries(path)):
        question_id = take_text("id", row, where)
        if question_id in relevant:
            raise InputError("id", "each id once", f"{question_id!r} again", where)
        if chosen is not None and question_id not in chosen:
            continue
        relevant[question_id] = _candidates(row, passages, where)
        topic = take_text("subreddit", row, where)
        questions.append(Question(question_id, _asked(row, ask, where), topic))
    if not questions:
        expected = f"at least one dialogue of the split {split!r}"
        raise InputError("split", expected, "none", str(folder))
    used = [*paths, *([folder / SPLITS] if split is not None else [])]
    return QuestionSet(
        "reddit-dialogues",
        Corpus(passages.values()),
        tuple(questions),
        relevant,
        LICENCE,
        checksums(folder, used),
        (f"the question is the {ask.replace('_', ' ')} of the dialogue",),
    )


def _asked(row: Mapping[str, Any], ask: str, where: str) -> str:
    turns = take_list("context", row, where)
    for number, turn in enumerate(turns):
        if not isinstance(turn, dict):
            place = f"{where}, turn {number}"
            raise InputError("context", "objects, one a turn", described(turn), place)
    if ask == "title":
        return take_text("title", row, where)
    if not turns:
        raise InputError("context", "at least one turn", "none", where)
    return take_text("body", turns[-1], f"{where}, turn {len(turns) - 1}")


def _candidates(
    row: Mapping[str, Any], passages: dict[str, Passage], where: str
) -> tuple[str, ...]:
    """Add the candidates to the passages; the ids of the relevant ones."""
    found, here = [], set()
    for number, one in enumerate(take_list("candidates", row, where)):
        place = f"{where}, candidate {number}"
        if not isinstance(one, dict):
            raise InputError("candidates", "objects, one a sentence", described(one), place)
        passage_id = take_text("id", one, place)
        if passage_id in here:
            raise InputError("id", "each sentence once", f"{passage_id!r} again", place)
        here.add(passage_id)
        title = one.get("title") or ""
        passage = Passage(passage_id, take_text("body", one, place), title, source="wikipedia")
        if passages.setdefault(passage_id, passage) != passage:
            found_text = f"{passage_id!r} with another text or title"
            raise InputError("id", "the sentence that has this id elsewhere", found_text, place)
        # As the README has it: 1 if relevant, otherwise not.
        if take("label", one, place) in (1, "1"):
            found.append(passage_id)
    return tuple(found)


def _split(path: Path, split: str) -> frozenset[str]:
    document = read_document(path)
    if not isinstance(document, dict):
        raise InputError("split", "an object of lists", described(document), path.name)
    if split not in document:
        raise InputError("split", f"one of {sorted(document)}", repr(split), path.name)
    return frozenset(str(one) for one in take_list(split, document, path.name))
