"""`epibias bench run` and `bench report`: an experiment of a TOML file, and its tables and figures.

Owns what is shown of them; `experiment.bench` and `experiment.bench_report` do the work.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epibias.cli.console import console, guarded, json_text, progress_bar, write_output
from epibias.cli.terminal import Terminal

if TYPE_CHECKING:
    from epibias.experiment.dry_run import DryRun


@guarded
def run(
    config: Annotated[
        str,
        typer.Argument(
            help="A TOML file; or one that is shipped: debates, debates_mpnet, debates_nli, "
            "debates_answers, paper."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Run folder: made, resumed or rendered again.")
    ] = None,
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Count cells, prompts and texts; check all that needs no network."
    ),
    jobs: int = typer.Option(1, min=1, help="Questions that are measured at once."),
    offline: bool = typer.Option(
        False, "--offline", help="Answers only from caches; what is not there has failed."
    ),
    i_own_this_index: bool = typer.Option(
        False,
        "--i-own-this-index",
        help="Needed where an attack of the file writes passages: verbatim, poisonedrag.",
    ),
    resume: bool = typer.Option(
        True,
        "--resume/--overwrite",
        help="Go on where an earlier run stopped, or throw it away and start anew.",
    ),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Run the experiment of a configuration: inject, retrieve, defend, answer, measure, report.

    Every data set × encoder × k × attack × polarity × number injected × axis × defence; answers by
    every generator. A run that is killed goes on where it was. Nothing is injected but in memory,
    and nothing is sent but prompts to the generators that the file names.
    """
    from epibias.cli.attack_options import confirm_ownership
    from epibias.experiment.bench import UNANSWERED, run_bench
    from epibias.experiment.bench_inputs import writing_attacks
    from epibias.experiment.config import read_config
    from epibias.experiment.dry_run import dry_run as plan_only

    read = read_config(config)
    folder = out or Path("runs") / read.name
    if dry_run:
        found = plan_only(read, folder, offline=offline)
        if as_json:
            write_output("-", json_text(found.document()))
        else:
            _show_plan(found)
        raise typer.Exit(0 if found.ready else 1)
    if writing_attacks(read):
        confirm_ownership(i_own_this_index)
    with progress_bar() as progress:
        listener = Terminal(progress, quiet=as_json)
        result = run_bench(
            read,
            folder,
            jobs=jobs,
            offline=offline,
            overwrite=not resume,
            i_own_this_index=i_own_this_index,
            listener=listener,
        )
    document: dict[str, Any] = {
        "folder": str(result.folder),
        "report": str(result.folder / "report.html"),
        "state": result.state,
        "n_rows": result.n_rows,
        "seconds": round(result.seconds, 2),
        "notes": result.notes,
        "figures": result.figures,
        "all_failed": result.all_failed,
    }
    _tell(document, as_json)
    raise typer.Exit(1 if result.all_failed or result.state == UNANSWERED else 0)


@guarded
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    as_json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Make tables, figures and report.html of a finished run again, from its rows alone."""
    from epibias.errors import InputError
    from epibias.experiment.bench_report import report_bench
    from epibias.experiment.run_folder import RunFolder

    if not (folder / "complete.json").is_file():
        raise InputError("folder", "a finished run (complete.json)", "none", str(folder))
    run_folder = RunFolder(folder)
    with run_folder.locked():
        run_folder.check()
        found = report_bench(run_folder)
    document: dict[str, Any] = {
        "folder": str(folder),
        "report": str(folder / "report.html"),
        "n_rows": found.n_rows,
        "notes": found.notes,
        "figures": found.figures,
        "all_failed": found.all_failed,
    }
    _tell(document, as_json)
    raise typer.Exit(1 if found.all_failed else 0)


def _tell(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        write_output("-", json_text(document))
        return
    out = console()
    for note in (*document["notes"], *document["all_failed"]):
        out.print(note, markup=False)
    seconds = f" in {document['seconds']:.0f} s" if "seconds" in document else ""
    out.print(f"{document['n_rows']} cells{seconds}, {len(document['figures'])} figures.")
    out.print(f"Report: {document['report']}", markup=False, soft_wrap=True)


def _show_plan(found: DryRun) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    table = Table(title=Text(f"{found.name}: what would be run"), title_justify="left")
    for column in ("data set", "encoder", "k", "questions", "passages", "cells", "texts"):
        is_word = column in ("data set", "encoder")
        table.add_column(column, justify="left" if is_word else "right")
    for arm in found.arms:
        cells = (arm.dataset, arm.encoder, arm.k, arm.questions, arm.passages, arm.cells, arm.texts)
        table.add_row(*(Text("?" if one is None else str(one)) for one in cells))
    out.print(table)
    for line in found.lines():
        out.print(line, markup=False)
