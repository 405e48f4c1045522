"""What the commands of `epibias attack` share: options, inputs, and how a made set is shown.

Owns the question whether the index is one's own, the choice of questions, and the reading of sets.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from epibias.cli.console import check_kept, check_output, json_text, show_table, write_output
from epibias.cli.streams import say
from epibias.errors import InputError

if TYPE_CHECKING:
    from epibias.attacks import AdversarialSet
    from epibias.data_sets import Question, QuestionSet
    from epibias.encoder import SentenceTransformerEncoder
    from epibias.generators import Failure

OWN: Any = typer.Option(
    False,
    "--i-own-this-index",
    help="Say that the passages are for the red-team evaluation of an index that you own.",
)
DATA: Any = typer.Option("debates", help="Question set: a shipped name, or a path.")
QUESTION: Any = typer.Option(
    None, help="Id of a question; may be given several times.", show_default="all"
)
POLARITY: Any = typer.Option("both", help="positive, negative or both.")
TEXTS: Any = typer.Option(
    None,
    help="Adversarial set whose texts are used.",
    show_default="the ready-made passages of the data",
)
OUTPUT: Any = typer.Option(..., "--output", "-o", help="File for the set (JSON lines).")
JSON: Any = typer.Option(False, "--json", help="One JSON document instead of a table.")
SEED: Any = typer.Option(0, help="Of everything that is random.")
SIDES = ("positive", "negative")
UNFINISHED = ".unfinished"


def confirm_ownership(own: bool) -> None:
    """Refuse to make adversarial passages without the word that the index is one's own."""
    if not own:
        expected = (
            "the option: adversarial passages are made only for the red-team evaluation of an "
            "index that you own, and are posted nowhere"
        )
        raise InputError("--i-own-this-index", expected, "none")


def sides_of(polarity: str) -> tuple[str, ...]:
    """Give the polarities that were asked for."""
    if polarity == "both":
        return SIDES
    if polarity not in SIDES:
        raise InputError("--polarity", "positive, negative or both", repr(polarity))
    return (polarity,)


def chosen_questions(data: QuestionSet, ids: Sequence[str] | None) -> tuple[Question, ...]:
    """Give the questions of these ids, all without any."""
    return tuple(data.question(one) for one in dict.fromkeys(ids)) if ids else data.questions


def ready_made(data: QuestionSet) -> AdversarialSet:
    """Give the adversarial passages that come with a question set.

    Questions may share a passage, as those on one topic of PROCON do. In a set each has a copy of
    its own, `<id>-<question>`, and `provenance` has the id that they share.
    """
    from epibias.attacks import AdversarialPassage, AdversarialSet

    given = [
        (question.id, polarity, passage)
        for question in data.questions
        for polarity, passages in question.adversarial.items()
        for passage in passages
    ]
    n_owners = Counter(passage.id for _, _, passage in given)
    found = []
    for question_id, polarity, passage in given:
        about: dict[str, object] = {"data": data.name}
        own = passage
        if n_owners[passage.id] > 1:
            about["shared_id"] = passage.id
            own = replace(passage, id=f"{passage.id}-{question_id}")
        found.append(AdversarialPassage(own, question_id, polarity, "ready-made", about))
    if not found:
        raise InputError("--data", "a set with ready-made adversarial passages", repr(data.name))
    return AdversarialSet(tuple(found))


def without_texts(
    asked: Sequence[Question], sides: Sequence[str], texts: AdversarialSet
) -> dict[str, list[str]]:
    """Give the questions, and their sides, for which there is no text to start from."""
    gone = {one.id: [side for side in sides if not texts.of(one.id, side)] for one in asked}
    return {question_id: missing for question_id, missing in gone.items() if missing}


def lines_of(gone: Mapping[str, Sequence[str]]) -> list[str]:
    """Say for which questions and sides nothing was made."""
    return [
        f"epibias: question {question_id}: no {side} text, so nothing was made"
        for question_id, missing in gone.items()
        for side in missing
    ]


def texts_for(data: QuestionSet, texts: str | None) -> AdversarialSet:
    """Give the texts that an attack starts from."""
    from epibias.attacks import AdversarialSet

    return ready_made(data) if texts is None else AdversarialSet.read(texts)


def sets_of(data: QuestionSet, files: Sequence[str] | None, own: bool) -> AdversarialSet:
    """Join the sets that are to be checked."""
    from epibias.attacks import AdversarialSet

    if not files and not own:
        raise InputError("SETS", "at least one file, or --ready-made", "neither")
    found = [AdversarialSet.read(file) for file in files or ()]
    return AdversarialSet.joined([*([ready_made(data)] if own else []), *found])


def loaded_encoder(name: str, *, cache: bool) -> SentenceTransformerEncoder:
    """Load an encoder without a bar of its own."""
    from epibias.encoder import SentenceTransformerEncoder

    return SentenceTransformerEncoder(name, cache=cache, progress=False)


def check_before(output: str, own: bool, replies: str | None = None) -> None:
    """Settle what can be before any work: ownership, and that all files can be written."""
    confirm_ownership(own)
    if output == "-":
        raise InputError("--output", "a file", "'-'")
    check_output(output, "--output")
    check_kept(replies, output, "--replies")


@contextlib.contextmanager
def going_on(replies: str | None) -> Iterator[None]:
    """Say, where a command is interrupted, that it can go on."""
    try:
        yield
    except KeyboardInterrupt:
        if replies is not None:
            say(f"epibias: the same command goes on: it asks only for what {replies} does not hold")
        raise


def write_made(
    made: AdversarialSet,
    output: str,
    *,
    as_json: bool,
    more: Mapping[str, Any] | None = None,
    lines: Sequence[str] = (),
    stopped: Sequence[Failure] = (),
    replies: str | None = None,
) -> None:
    """Write a set, then say what is in it; exit code 1 where it is not whole or has nothing.

    A set without passages is not written. One whose generator went away is kept beside `output`,
    under a name that does not call it done.

    Parameters
    ----------
    made : AdversarialSet
    output : str
        A file.
    as_json : bool
        Say it in one JSON document.
    more : mapping, optional
        Added to the document.
    lines : sequence of str
        Said to people.
    stopped : sequence of Failure
        Why the generator stopped answering, a failure for each work that it left unfinished.
    replies : str, optional
        File that kept its replies.
    """
    path = None
    if len(made):
        path = f"{output}{UNFINISHED}" if stopped else output
        made.write(path)
    if not stopped and path is not None:
        Path(f"{output}{UNFINISHED}").unlink(missing_ok=True)  # all of it is in the whole set
    lines = [*lines, *_how_to_go_on(made, path, stopped, replies)]
    counted = list(counts_of(made))
    if as_json:
        document = {
            "output": path,
            "n_passages": len(made),
            "passages": counted,
            "rejections": dict(made.rejections),
            **(more or {}),
        }
        if stopped:
            document["stopped"] = lines[-2:]
        write_output("-", json_text(document))
    else:
        rows = [tuple(one.values()) for one in counted]
        caption = ", ".join(f"{reason}: {count}" for reason, count in made.rejections.items())
        show_table(
            f"{len(made)} adversarial passages in {path or 'no file'}",
            ("attack", "polarity", "questions", "passages"),
            rows,
            f"rejected: {caption or 'none'}",
        )
    if not as_json or path is None or stopped:
        for line in lines:
            say(line)
    if not len(made) or stopped:
        raise typer.Exit(1)


def _how_to_go_on(
    made: AdversarialSet,
    path: str | None,
    stopped: Sequence[Failure],
    replies: str | None,
) -> list[str]:
    """Say why there is no whole set, what is kept, and how to go on."""
    if not stopped:
        return [] if len(made) else ["epibias: no passage could be made, so no file is written"]
    what = f"{len(made)} passages are kept in {path}" if path else "no passage was made"
    again = "give --replies FILE, and what the generator has answered is not asked again"
    if replies is not None:
        again = f"the same command goes on: it asks only for what {replies} does not hold"
    n_works = f"{len(stopped)} question{'s' * (len(stopped) > 1)} unfinished"
    return [
        f"epibias: the generator went away, {n_works}: {stopped[0].message}",
        f"epibias: {what}; {again}",
    ]


def counts_of(made: AdversarialSet) -> Iterator[dict[str, Any]]:
    """Give the passages and questions of each attack and polarity."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in made.passages:
        groups.setdefault((one.attack, one.polarity), []).append(one.question_id)
    for (attack, polarity), ids in groups.items():
        yield {
            "attack": attack,
            "polarity": polarity,
            "n_questions": len(set(ids)),
            "n_passages": len(ids),
        }
