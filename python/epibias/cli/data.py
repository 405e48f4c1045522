"""`epibias data`: what a question set holds, and its conversion to one file of JSON lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epibias.cli.console import (
    check_output,
    console,
    guarded,
    json_text,
    progress_bar,
    rich_table,
    write_output,
)
from epibias.errors import InputError

if TYPE_CHECKING:
    from epibias.data_sets import QuestionSet

EXCERPT_LENGTH = 160

data = typer.Typer(
    name="data",
    help="Question sets: show what one holds, or convert it to one file of JSON lines.",
    no_args_is_help=True,
)

NAME: Any = typer.Argument(
    metavar="NAME_OR_PATH",
    help="debates; wiki-balance or hotpotqa (from the hub); or a folder or file.",
)
LAYOUT: Any = typer.Option(
    None, help="Layout of the files, as docs/data.md lists them.", show_default="recognised"
)
SPLIT: Any = typer.Option(None, help="Part of the set, where its layout has such.")
BLANK: Any = typer.Option(
    None,
    help="Passages whose text is blank: error or skip.",
    show_default="error, but skip for WIKI-BALANCE",
)
REVISION: Any = typer.Option(None, help="Revision of a set from the hub.")
LICENCE: Any = typer.Option(None, help="Licence of files whose layout has no place for it.")
PER_SIDE: Any = typer.Option(
    None,
    "--labelled-anchors",
    help="Make anchors of so many labelled passages a side; they leave the corpus.",
)
JSON: Any = typer.Option(False, "--json", help="One JSON document on stdout.")


@data.command("show")
@guarded
def show(
    name: str = NAME,
    layout: str | None = LAYOUT,
    split: str | None = SPLIT,
    blank: str | None = BLANK,
    revision: str | None = REVISION,
    licence: str | None = LICENCE,
    labelled_anchors: int | None = PER_SIDE,
    as_json: bool = JSON,
) -> None:
    """Show counts, licence, checksums and an example."""
    found = _load(name, layout, split, blank, revision, licence, labelled_anchors)
    document = describe(found)
    if as_json:
        write_output("-", json_text(document))
    else:
        _print(document)


@data.command("convert")
@guarded
def convert(
    name: str = NAME,
    out: Annotated[Path, typer.Option(help="File of JSON lines; it must not exist yet.")] = Path(),
    layout: str | None = LAYOUT,
    split: str | None = SPLIT,
    blank: str | None = BLANK,
    revision: str | None = REVISION,
    licence: str | None = LICENCE,
    labelled_anchors: int | None = PER_SIDE,
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace a file that exists."),
    as_json: bool = JSON,
) -> None:
    """Write a set as one file of JSON lines, which every command reads; whole or not at all."""
    from epibias._files import sha256_of
    from epibias.data_sets import write_questions

    if out in (Path(), Path("-")):
        raise InputError("--out", "a file", "none" if out == Path() else "'-'")
    check_output(str(out), "--out")
    if out.exists() and not overwrite:
        raise InputError("--out", "a new file, or --overwrite", "one that exists", str(out))
    found = _load(name, layout, split, blank, revision, licence, labelled_anchors)
    write_questions(found, out)
    document = {**describe(found), "out": str(out), "sha256": sha256_of(out)}
    if as_json:
        write_output("-", json_text(document))
    else:
        _print(document)
        written = f"Written: {out}, SHA-256 {document['sha256']}"
        console().print(written, markup=False, soft_wrap=True)


def _load(
    name: str,
    layout: str | None,
    split: str | None,
    blank: str | None,
    revision: str | None,
    licence: str | None,
    per_side: int | None,
) -> QuestionSet:
    from epibias.data_sets import labelled_anchors, load_questions

    with progress_bar() as progress:
        progress.add_task(f"reading {name}", total=None)  # how long a file takes, nobody knows
        try:
            found = load_questions(
                name, layout=layout, split=split, blank=blank, revision=revision, licence=licence
            )
        except InputError as error:
            if "not blank" not in error.expected or error.argument != "text":
                raise
            expected = f"{error.expected} (where the layout allows it, --blank skip leaves it out)"
            raise InputError(error.argument, expected, error.got, error.where) from None
        return found if per_side is None else labelled_anchors(found, per_side)


def describe(questions: QuestionSet) -> dict[str, Any]:
    """Give what `show` tells of a set, as plain values."""
    from epibias.data_sets.own_jsonl import counts_of

    asked = questions.questions
    example = next((one for one in asked if questions.relevant[one.id]), asked[0])
    passages = [questions.corpus.index_of(one) for one in questions.relevant[example.id]]
    return {
        "name": questions.name,
        "licence": questions.licence,
        "counts": {
            **counts_of(questions),
            "topics": len({one.topic for one in asked}),
            "judgements": sum(map(len, questions.relevant.values())),
            "questions_with_relevant": sum(bool(ids) for ids in questions.relevant.values()),
            "questions_with_anchors": sum(bool(one.anchors) for one in asked),
            "questions_with_stances": sum(one.stances is not None for one in asked),
        },
        "notes": list(questions.notes),
        "files": dict(questions.files),
        "example": {
            "id": example.id,
            "text": example.text,
            "topic": example.topic,
            "anchors": len(example.anchors),
            "stances": None if example.stances is None else list(example.stances),
            "relevant": list(questions.relevant[example.id]),
            "passage": _excerpt(questions.corpus[passages[0]].text) if passages else None,
        },
    }


def _print(document: Mapping[str, Any]) -> None:
    from epibias.costs.page import Table

    example = document["example"]
    rows = [(name.replace("_", " "), f"{n:,}") for name, n in document["counts"].items()]
    title = document["name"]
    to = console()
    to.print(rich_table(Table(title, "", ("of", "count"), rows)))
    lines = [
        f"Licence: {document['licence']}",
        f"Question {example['id']} ({example['topic']}): {example['text']}",
        f"  {example['anchors']} anchors, {len(example['relevant'])} relevant passages",
        *([f"  {example['passage']}"] if example["passage"] else []),
        *(f"Note: {note}" for note in document["notes"]),
        *(f"SHA-256 {digest}  {name}" for name, digest in document["files"].items()),
    ]
    for line in lines:
        to.print(line, markup=False, soft_wrap=True)


def _excerpt(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= EXCERPT_LENGTH else f"{words[:EXCERPT_LENGTH]}…"
