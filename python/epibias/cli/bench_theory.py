"""`epibias bench theory`: Theorems 1 to 3 of the paper, simulated with the real sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epibias.cli import options
from epibias.cli.console import console, guarded, json_text, progress_bar, rich_table, write_output


@guarded
def theory(
    quick: bool = typer.Option(
        False, "--quick", help="Small samples, seconds: too few for a verdict on rates."
    ),
    seed: int = typer.Option(0, help="Of the samples."),
    out: Annotated[Path | None, options.OUT] = None,
    as_json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Say which statements of the theorems hold, with numbers, intervals and counterexamples.

    A statement that fails is a finding, not an error: the exit code is 0. About 25 s of one CPU.
    """
    from epibias.cli.terminal import Terminal
    from epibias.costs.page import check_out, write_out
    from epibias.experiment.theory import TheoryPlan, run_theory
    from epibias.experiment.theory_page import theory_page

    plan = TheoryPlan.quick(seed) if quick else TheoryPlan(seed=seed)
    if out is not None:
        check_out(out, "theory", "epibias bench theory")
    with progress_bar() as progress:
        document = run_theory(plan, Terminal(progress, quiet=as_json))
    page = theory_page(document)
    if out is not None:
        write_out(out, "theory", document, page)
    if as_json:
        write_output("-", json_text(document))
        return
    for notice in page.notices[2:]:
        if notice.startswith("Too few"):
            console().print(notice, markup=False)
    for table in page.tables:
        console().print(rich_table(table))
    if out is not None:
        console().print(f"Page: {out / 'theory.html'}", markup=False, soft_wrap=True)
