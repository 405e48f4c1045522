"""`epibias calibrate`: what TiltBound needs to know of clean selections, to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import typer

from epibias.cli import options
from epibias.cli.console import check_output, guarded
from epibias.cli.streams import say
from epibias.errors import InputError

if TYPE_CHECKING:
    from epibias.cli.axis_source import LazyEncoder
    from epibias.defenses.trusted_index import TrustedIndex
    from epibias.pool import CandidatePool


@guarded
def calibrate(
    queries: str | None = typer.Argument(
        None,
        help=(
            "JSONL file, or - for stdin, as `filter` takes it, of a trusted index: query and "
            "text on every line and candidate, beside vectors or to be encoded. With "
            "--trusted-index it may be left out."
        ),
    ),
    output: str = typer.Option(
        ..., "--output", "-o", help="What `filter --memory` reads, mode 0600."
    ),
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
    false_removal: float | None = typer.Option(
        None,
        help="Most clean questions, as a share, that may lose anything where none is known: .05.",
    ),
    newcomer_share: float = typer.Option(
        0.02, help="Share of the index that will come honestly until the next calibration."
    ),
    trusted_index: str | None = typer.Option(
        None,
        help=(
            "JSONL file of all passages of the trusted index, id and text or vector: eight numbers "
            "of each are kept, and any other passage is a newcomer, whatever the question."
        ),
    ),
    remember: bool | None = typer.Option(
        None,
        "--remember/--no-remember",
        help="Keep of each question numbers of its clean pool; its text only as a digest. Yes.",
    ),
) -> None:
    """Learn from clean pools, or of a whole index, what `filter --memory` goes by."""
    from epibias.cli import axis_source, candidates, jsonl
    from epibias.defenses import TiltBound
    from epibias.defenses.tilt_bound_file import SavedTiltBound, write_tilt_bound

    if output == "-":
        raise InputError("--output", "a file", "'-'")
    if queries is None and trusted_index is None:
        raise InputError("queries", "a file of clean pools, or --trusted-index", "none")
    check_output(output)
    lazy = axis_source.LazyEncoder(encoder, cache=cache)
    trusted = None if trusted_index is None else _index_of(trusted_index, lazy)
    if queries is None:
        remembering = "--no-remember" if remember is False else "--remember"
        unread = {
            "--anchors": anchors,
            "--axis": axis,
            "--method": method,
            "--penalty": penalty,
            "--center": center,
            "--false-removal": false_removal,
            remembering: remember,
        }
        for option, value in unread.items():
            if value is not None:
                raise InputError(option, "no such option without clean pools", "it")
        assert trusted is not None  # noqa: S101  for mypy; one of the two is there
        guard = TiltBound.of_index(trusted, k, newcomer_share=newcomer_share)
        write_tilt_bound(SavedTiltBound(guard, {}), output)
        say(f"{guard.name}, for any question and axis, in {output}")
        return
    fitted, names = axis_source.axis_of_options(
        anchors, axis, lazy, method=method, penalty=penalty, center=center
    )
    lines = jsonl.read_lines(queries, "queries")
    pool, _ = candidates.pool_of_lines(
        lines, jsonl.query_ids(lines), lazy, fitted, names, k, texts=True
    )
    if trusted is not None:
        _check_index(trusted, pool, remembered=remember is not False)
    defense = TiltBound.calibrated(
        pool,
        k,
        false_removal=0.05 if false_removal is None else false_removal,
        remember=remember is not False,
        newcomer_share=newcomer_share,
        trusted_index=trusted,
    )
    write_tilt_bound(SavedTiltBound.of(defense, fitted, names), output)
    for one in axis_source.describe(fitted, names):
        say(axis_source.summary(one))
    kept = f"{len(defense.memory)} questions" if defense.memory is not None else "no question"
    say(f"{defense.name} from {pool.n_queries} clean pools; {kept} remembered in {output}")


def _index_of(path: str, lazy: LazyEncoder) -> TrustedIndex:
    from epibias.cli import jsonl
    from epibias.defenses.trusted_index import TrustedIndex

    passages = jsonl.read_lines(path, "--trusted-index")
    jsonl.passage_ids(passages)  # refuses one that is there twice
    return TrustedIndex.of(lazy.passages(passages, "--trusted-index"))


def _check_index(trusted: TrustedIndex, pool: CandidatePool, *, remembered: bool) -> None:
    """Refuse an index that has none of the clean candidates; warn of one that lacks some."""
    if trusted.dim != pool.embeddings.shape[1]:
        expected = f"vectors of {pool.embeddings.shape[1]} columns, as the clean pools have"
        raise InputError("--trusted-index", expected, str(trusted.dim))
    new = trusted.newcomers(pool, np.ones(pool.n_queries, np.bool_))
    count, total = np.count_nonzero(new), len(new)
    if count == total:
        expected = "the passages that the clean pools are of"
        raise InputError("--trusted-index", expected, f"none of their {total} candidates")
    if count:
        to_whom = "any question but theirs" if remembered else "any question"
        say(
            f"epibias: warning: {count} of {total} candidates of the clean pools are not in "
            f"--trusted-index: `filter` will take them for newcomers to {to_whom}"
        )
