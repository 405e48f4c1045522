"""`epibias score`: the polarization score of every passage, JSONL in and out."""

from __future__ import annotations

from typing import Any

import typer

from epibias._plain import shortest
from epibias.cli import options
from epibias.cli.console import check_output, guarded, json_text, write_output
from epibias.cli.streams import say
from epibias.errors import InputError


@guarded
def score(
    passages: str = typer.Argument(
        help="JSONL file, or - for stdin: a line has id and either text (and title) or vector."
    ),
    anchors: str | None = typer.Option(
        None, help="JSONL file of anchor passages: text or vector, and stance where it is known."
    ),
    axis: str | None = typer.Option(
        None, help="An axis that --save-axis wrote, instead of anchors."
    ),
    output: str = typer.Option("-", "--output", "-o", help="Where the scores go; - for stdout."),
    method: str | None = options.METHOD,
    penalty: float | None = options.PENALTY,
    center: bool | None = options.CENTER,
    encoder: str = options.ENCODER,
    cache: bool = options.CACHE,
    save_axis: str | None = typer.Option(None, help="Also write the axis to this file."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document instead of JSONL."),
) -> None:
    """Score passages on the polarization axis that anchor passages span.

    Every passage is given a PS in [-1, 1], whose sign is its side of the axis; with anchors of
    known stance, positive is the supporting side. How far the axis carries stance at all goes
    to stderr: read it before the scores.
    """
    from epibias.cli import axis_source, jsonl

    check_output(output)
    axis_source.check_save_axis(save_axis, output)
    lazy = axis_source.LazyEncoder(encoder, cache=cache)
    lines = jsonl.read_lines(passages, "passages")
    ids = jsonl.passage_ids(lines)
    fitted, names = axis_source.axis_of_options(
        anchors, axis, lazy, method=method, penalty=penalty, center=center
    )
    if fitted.n_topics != 1:
        raise InputError("--anchors", "anchors of one topic", f"{fitted.n_topics} topics")
    values = fitted.score(lazy.passages(lines, "passages"))
    records: list[dict[str, Any]] = [
        {"id": name, "polarization_score": shortest(value)}
        for name, value in zip(ids, values, strict=True)
    ]
    described = axis_source.describe(fitted, names)[0]
    text = jsonl.jsonl_text(records)
    if as_json:
        text = json_text({"axis": described, "scores": records})
    with axis_source.saving_axis(fitted, save_axis, lazy):
        write_output(output, text)
    if not as_json:
        say(axis_source.summary(described))
