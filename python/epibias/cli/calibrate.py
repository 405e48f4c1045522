"""`epibias calibrate`: what TiltBound needs to know of clean selections, to a file."""

from __future__ import annotations

import typer

from epibias.cli import options
from epibias.cli.console import check_output, guarded
from epibias.cli.streams import say
from epibias.errors import InputError


@guarded
def calibrate(
    queries: str = typer.Argument(
        help=(
            "JSONL file, or - for stdin, as `filter` takes it, of a trusted index: query and "
            "text on every line and candidate, beside vectors or to be encoded."
        )
    ),
    output: str = typer.Option(..., "--output", "-o", help="The memory's file, mode 0600."),
    anchors: str | None = typer.Option(
        None, help="JSONL file of anchor passages; topic on its lines, where there are several."
    ),
    axis: str | None = typer.Option(None, help="An axis that `score --save-axis` wrote."),
    method: str | None = options.METHOD,
    penalty: float | None = options.PENALTY,
    center: bool | None = options.CENTER,
    encoder: str = options.ENCODER,
    cache: bool = options.CACHE,
    k: int = typer.Option(5, help="Passages of a selection."),
    false_removal: float = typer.Option(
        0.05, help="Most clean questions, as a share, that may lose anything where none is known."
    ),
    newcomer_share: float = typer.Option(
        0.02, help="Share of the index that will come honestly until the next calibration."
    ),
    remember: bool = typer.Option(
        True, help="Keep of each question numbers of its clean pool; its text only as a digest."
    ),
) -> None:
    """Learn from clean pools what `filter --defense tilt_bound --memory` goes by."""
    from epibias.cli import axis_source, candidates, jsonl
    from epibias.defenses import TiltBound
    from epibias.defenses.tilt_bound_file import SavedTiltBound, write_tilt_bound

    if output == "-":
        raise InputError("--output", "a file", "'-'")
    check_output(output)
    lines = jsonl.read_lines(queries, "queries")
    lazy = axis_source.LazyEncoder(encoder, cache=cache)
    fitted, names = axis_source.axis_of_options(
        anchors, axis, lazy, method=method, penalty=penalty, center=center
    )
    pool, _ = candidates.pool_of_lines(
        lines, jsonl.query_ids(lines), lazy, fitted, names, k, texts=True
    )
    defense = TiltBound.calibrated(
        pool,
        k,
        false_removal=false_removal,
        remember=remember,
        newcomer_share=newcomer_share,
    )
    write_tilt_bound(SavedTiltBound.of(defense, fitted, names), output)
    for one in axis_source.describe(fitted, names):
        say(axis_source.summary(one))
    kept = f"{len(defense.memory)} questions" if defense.memory is not None else "no question"
    say(f"{defense.name} from {pool.n_queries} clean pools; {kept} remembered in {output}")
