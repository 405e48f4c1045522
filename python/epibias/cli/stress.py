"""`epibias stress`: a corpus of a stated size on disk, searched in little memory, checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epibias import _validate
from epibias.cli import options
from epibias.cli.console import console, guarded, json_text, progress_bar, rich_table, write_output
from epibias.cli.streams import say
from epibias.errors import InputError

if TYPE_CHECKING:
    from epibias.costs.data_folder import DataFolder
    from epibias.costs.stress import StressPlan
    from epibias.experiment.listener import Listener

DEFAULT_PASSAGES, DEFAULT_DIM = 1_000_000, 384
DEFAULT_FOLDER = Path("runs/stress-data")


@guarded
def stress(
    passages: str | None = typer.Option(
        None, help="Passages of the synthetic corpus, such as 1e7.", show_default="1e6"
    ),
    size: str | None = typer.Option(
        None, help="Size of the synthetic corpus on disk instead, such as 15GB."
    ),
    dim: int | None = typer.Option(
        None, help="Columns of the synthetic corpus.", show_default=str(DEFAULT_DIM)
    ),
    embeddings: Annotated[
        Path | None,
        typer.Option(help="A corpus of your own: float32 .npy, [n_passages, dim]; only read."),
    ] = None,
    points: str | None = typer.Option(
        None,
        help="Numbers of passages to search, such as 1e6,2e6,1e7; each a multiple of 64, or all.",
        show_default="a tenth, a fifth, half, all",
    ),
    data: Annotated[
        Path, typer.Option(help="Folder for corpus and index, on the disk to be tested.")
    ] = DEFAULT_FOLDER,
    keep: bool = typer.Option(False, "--keep", help="Leave corpus and index for another run."),
    memory_limit: str | None = typer.Option(
        None, help="Exit 1 when the process holds more anonymous memory, such as 2GiB."
    ),
    linear_within: float | None = typer.Option(
        None, help="Exit 1 when a time is farther from proportional to N than this share, e.g. .2."
    ),
    check: int = typer.Option(200, help="Queries whose answers are checked at every size."),
    timed: int = typer.Option(20, help="How many of them are timed, one a call."),
    rounds: int = typer.Option(5, help="Times that each is timed."),
    k: int = typer.Option(20, help="Passages to find."),
    scan: str = options.SCAN,
    threads: int | None = options.THREADS,
    seed: int = typer.Option(0, help="Of the corpus and the queries."),
    out: Annotated[Path | None, options.OUT] = None,
    as_json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Make a corpus of a stated size, search it memory-mapped, check every answer in float64.

    The corpus is written in chunks and searched where it lies, whole and in part. Every answer
    must be that of a float64 scan by NumPy: exit 1 otherwise. A killed run is resumed by the same
    command; what a run made is removed at its end, unless --keep.
    """
    from epibias.cli.terminal import Terminal
    from epibias.costs.data_folder import DataFolder
    from epibias.costs.page import check_out, write_out
    from epibias.costs.stress import FAILED
    from epibias.costs.stress_page import stress_page
    from epibias.kernels_threads import using_threads

    plan = _plan(
        passages,
        size,
        dim,
        embeddings,
        points,
        k=k,
        n_check=check,
        n_timed=timed,
        rounds=rounds,
        scan=scan,
        seed=seed,
        memory_limit=memory_limit,
        linear_within=linear_within,
    )
    if out is not None:
        check_out(out, "stress")
    folder = DataFolder(data)
    folder.check(plan.data_settings, plan.bytes_to_write(folder))
    with using_threads(threads), progress_bar() as progress:
        document = _run(plan, folder, keep, Terminal(progress, quiet=as_json))
    page = stress_page(document)
    if out is not None:
        write_out(out, "stress", document, page)
    if as_json:
        write_output("-", json_text(document))
    else:
        for table in page.tables:
            console().print(rich_table(table))
        for line in page.notices:
            console().print(line, markup=False, soft_wrap=True)
        if out is not None:
            console().print(f"Page: {out / 'stress.html'}", markup=False, soft_wrap=True)
    if FAILED in document["verdicts"].values():
        raise typer.Exit(1)


def _run(plan: StressPlan, folder: DataFolder, keep: bool, listener: Listener) -> dict[str, Any]:
    """Run in the folder, and clear it: not where it is to be kept, or can be resumed.

    Whatever ends the run early, data of this run are cleared after an error. Those of an earlier
    one, and those of a run that was interrupted, stay, and that is said.
    """
    from epibias.costs.stress import run_stress

    with folder.locked():
        was_there = folder.open(plan.data_settings)
        try:
            document = run_stress(plan, folder, listener)
        except BaseException as error:
            kept = was_there or not isinstance(error, Exception)
            try:
                if not kept:
                    folder.remove()
            except (InputError, OSError):  # the first error is the one to be told
                kept = True
            if kept:
                say(f"epibias: {folder.path} keeps what was made; the same command goes on with it")
            raise
        if not keep:
            folder.remove()
    return document


def _plan(
    passages: str | None,
    size: str | None,
    dim: int | None,
    embeddings: Path | None,
    points: str | None,
    *,
    k: int,
    memory_limit: str | None,
    **settings: Any,  # noqa: ANN401
) -> StressPlan:
    from epibias.costs.corpus_file import rows_of_size
    from epibias.costs.embeddings import opened_embeddings
    from epibias.costs.sizes import bytes_of, count_of, counts_of
    from epibias.costs.stress import StressPlan, default_points
    from epibias.costs.synthetic import LARGEST_DIM

    if embeddings is not None:
        for option, value in (("--passages", passages), ("--size", size), ("--dim", dim)):
            if value is not None:
                expected = "no such option with --embeddings"
                raise InputError(option, expected, "one; the file has its own")
        n_passages, columns = opened_embeddings(embeddings).shape
    else:
        columns = _validate.integer(
            "--dim", DEFAULT_DIM if dim is None else dim, low=1, high=LARGEST_DIM
        )
        if passages is not None and size is not None:
            raise InputError("--passages, --size", "one of the two", "both")
        if size is not None:
            n_passages = rows_of_size("--size", bytes_of("--size", size), columns)
        else:
            n_passages = DEFAULT_PASSAGES if passages is None else count_of("--passages", passages)
    if points is None:
        chosen = default_points(n_passages, k)
    else:
        chosen = tuple(counts_of("--points", points))
    limit = None if memory_limit is None else bytes_of("--memory-limit", memory_limit)
    return StressPlan(
        n_passages, columns, chosen, k=k, memory_limit=limit, embeddings=embeddings, **settings
    )
