"""`epibias bench …`: experiments from a TOML file, what is made of them, and the theory check."""

from __future__ import annotations

import typer

from epibias.cli import bench_run, bench_theory

bench = typer.Typer(
    name="bench",
    help=(
        "Experiments from a TOML file: data sets, encoders, attacks, defences, generators; and the "
        "paper's theorems, simulated. Injection is for the evaluation of indexes you own."
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)
bench.command("run")(bench_run.run)
bench.command("report")(bench_run.report)
bench.command("theory")(bench_theory.theory)
