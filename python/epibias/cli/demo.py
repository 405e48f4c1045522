"""`epibias demo`: the main job on the shipped debates, from text to report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epibias.cli.console import console, guarded, json_text, progress_bar, write_output
from epibias.cli.terminal import Terminal
from epibias.encoder import PACKAGED_MODEL

if TYPE_CHECKING:
    from epibias.experiment.demo import DemoResult

DEFAULT_FOLDER = Path("runs/demo")
WIDTH_WITH_INTERVALS = 126  # columns of the main table


@guarded
def demo(
    out: Annotated[
        Path, typer.Option(help="Run folder: made, resumed or rendered again.")
    ] = DEFAULT_FOLDER,
    resume: bool = typer.Option(
        True,
        "--resume/--overwrite",
        help="Go on where an earlier run stopped, or throw it away and start anew.",
    ),
    topic: Annotated[
        list[str] | None,
        typer.Option(help="Only these topics, two or more: repeat it. The corpus is theirs alone."),
    ] = None,
    encoder: str = typer.Option(PACKAGED_MODEL, help="A SentenceTransformer by name or path."),
    seed: int = typer.Option(0, help="Of the permutation test and the bootstrap."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Inject, retrieve, defend, measure, report: on 16 questions that come with epibias.

    Adversarial passages (1, 5 or 10 of a polarity, and decoys) are added to a corpus of 288
    benign ones; 20 candidates are retrieved a question; seven defences select 5 of them. The run
    folder gets a manifest, raw.parquet, TREC files, tables and report.html. The injection is for
    the evaluation of indexes you own; nothing leaves this machine.
    """
    from epibias.cli.demo_encoder import encoder_note, load_encoder
    from epibias.experiment.demo import run_demo

    with progress_bar() as progress:
        listener = Terminal(progress, quiet=as_json)
        note = encoder_note(encoder)
        listener.say(note)
        listener.start("loading the encoder", None)
        model = load_encoder(encoder)
        facts = {"identity": dict(model.identity), "note": note}
        result = run_demo(
            out,
            model,
            facts,
            overwrite=not resume,
            topics=topic,
            seed=seed,
            listener=listener,
        )
    if as_json:
        write_output("-", json_text(_document(result)))
    else:
        _show(result)


def _show(result: DemoResult) -> None:
    """Print the main table, what could not be measured, and where the report is."""
    from rich.table import Table
    from rich.text import Text

    from epibias.experiment import markdown
    from epibias.experiment.tables import ANY_AXIS

    out, plan = console(), result.plan
    with_intervals = out.width >= WIDTH_WITH_INTERVALS
    what = "mean over questions" + (" [95 % interval]" if with_intervals else "")
    for metric, title, meaning in markdown.MAIN_TABLES:
        table = Table(
            title=Text(f"{title.format(k=plan.k)}, {what}"),
            caption=Text(meaning.format(k=plan.k)),
            title_justify="left",
            caption_justify="left",
        )
        table.add_column("defence", no_wrap=True)
        table.add_column("axis", no_wrap=True)
        for condition in plan.conditions:
            table.add_column(markdown.column_title(condition), justify="right", no_wrap=True)
        for system in markdown.systems(plan):
            cells = []
            for condition in plan.conditions:
                row = result.results.get(system.key, system.axis, condition, metric)
                interval = f" {markdown.interval_text(row)}" if with_intervals else ""
                cells.append(Text(markdown.mean_text(row) + interval))
            axis = "" if system.axis == ANY_AXIS else system.axis
            table.add_row(system.title, axis, *cells)
        out.print(table)
    if not with_intervals:
        out.print("Intervals: in the report and in tables/ (or in a wider terminal).")
    for note in result.notes:
        out.print(note, markup=False)
    out.print(f"{len(result.rows)} cells in {result.seconds:.0f} s.", markup=False)
    out.print(f"Report: {result.report}", markup=False, soft_wrap=True)


def _document(result: DemoResult) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "folder": str(result.folder),
        "report": str(result.report),
        "state": result.state,
        "n_cells": len(result.rows),
        "seconds": round(result.seconds, 2),
        "notes": result.notes,
        "results": [asdict(row) for row in result.results.rows],
    }
