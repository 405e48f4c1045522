"""`epibias bench …`: experiments from a TOML file, and what is made of them."""

from __future__ import annotations

import typer

from epibias.cli import bench_run

bench = typer.Typer(
    name="bench",
    help=(
        "Experiments from a TOML file: data sets, encoders, attacks, defences, generators. "
        "Injection is for the evaluation of indexes you own."
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)
bench.command("run")(bench_run.run)
bench.command("report")(bench_run.report)
