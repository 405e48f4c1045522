"""The typer application: joins the commands and answers `--version`."""

from __future__ import annotations

import typer

from epibias.cli.attack import attack
from epibias.cli.bench import bench
from epibias.cli.calibrate import calibrate
from epibias.cli.data import data
from epibias.cli.demo import demo
from epibias.cli.doctor import doctor
from epibias.cli.filter import filter_candidates
from epibias.cli.index import index
from epibias.cli.latency import latency
from epibias.cli.score import score
from epibias.cli.streams import write_stdout
from epibias.cli.stress import stress

app = typer.Typer(
    name="epibias",
    help=(
        "Measure, attack and defend one-sided retrieval. The attack side is for the "
        "red-team evaluation of indexes you own."
    ),
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo)
app.command("score")(score)
app.command("filter")(filter_candidates)
app.command("calibrate")(calibrate)
app.command("latency")(latency)
app.command("stress")(stress)
app.command("doctor")(doctor)
app.add_typer(data)
app.add_typer(index)
app.add_typer(attack)
app.add_typer(bench)


def _version(asked: bool) -> None:
    if asked:
        from epibias.experiment.manifest import importlib_version

        write_stdout(f"epibias {importlib_version('epibias') or '(not installed)'}\n")
        raise typer.Exit(0)


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    """Hold the options that stand before the command."""
