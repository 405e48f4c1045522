"""`epibias latency`: what a defence costs at deployment, stage by stage, cold and warm."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epibias import _validate
from epibias.cli import options
from epibias.cli.console import console, guarded, json_text, progress_bar, rich_table, write_output
from epibias.cli.streams import say
from epibias.encoder import PACKAGED_MODEL
from epibias.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from epibias.costs.cold import ColdStart
    from epibias.costs.latency_inputs import LatencyInputs
    from epibias.costs.stages import Deployment
    from epibias.encoder import Encoder
    from epibias.experiment.listener import Listener

DEFAULT_DIM = 384


@guarded
def latency(
    corpus: str | None = typer.Option(
        None, help="JSONL file, or - for stdin: a line has text (and title) or vector."
    ),
    embeddings: Annotated[
        Path | None, typer.Option(help="Embeddings of a corpus instead: float32 .npy, mapped.")
    ] = None,
    passages: str | None = typer.Option(
        None, help="So many synthetic passages instead, such as 2e5."
    ),
    dim: int | None = typer.Option(
        None, help="Columns of synthetic vectors.", show_default=str(DEFAULT_DIM)
    ),
    defense: str = typer.Option(
        "biasdef",
        help=(
            "none, mmr, biasdef, biasdef-bare, biasdef-printed, biasdef-gate or biasdef-auto, as "
            "in the demo."
        ),
    ),
    k: int = typer.Option(5, help="Passages to select; four times as many are retrieved."),
    encoder: str | None = typer.Option(
        None, help="Encoder for texts: a name or a path.", show_default=PACKAGED_MODEL
    ),
    encode: bool = typer.Option(
        True, "--encode/--no-encode", help="Measure encoding too; else vectors stand in."
    ),
    batches: str = typer.Option("1,4,16,64,256,1024", help="Queries in a call, 1 to 1024."),
    repeats: int = typer.Option(200, help="Calls timed for each batch size, at most."),
    seconds: float = typer.Option(
        5.0,
        help="Time for each batch size, and again for encoding it; three calls in any case, one of "
        "the encoder.",
    ),
    cold: int = typer.Option(3, help="Fresh processes for the cold times; 0 for none."),
    scan: str = options.SCAN,
    threads: int | None = options.THREADS,
    seed: int | None = typer.Option(
        None, help="Of synthetic vectors and queries.", show_default="0"
    ),
    out: Annotated[Path | None, options.OUT] = None,
    as_json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Time a deployed defence: encode, search, project, sweep, select, and all of it.

    Percentiles of warm calls for several batch sizes, and of cold ones. Cold is the first call of
    a fresh process whose page cache is as it is; imports, model and index are told apart. The
    corpus is that of the shipped debates, unless one is named. Texts are encoded anew and nothing
    is kept. Before anything is timed, the stages must select what the deployed calls select: exit 1
    otherwise.
    """
    from epibias.cli.terminal import Terminal
    from epibias.costs.cold import INDEX
    from epibias.costs.latency import LatencyPlan, defense_of, measure_latency
    from epibias.costs.latency_page import latency_page, notes
    from epibias.costs.page import check_out, write_out
    from epibias.costs.sizes import counts_of
    from epibias.costs.stages import Deployment, StagesDifferError
    from epibias.kernels_threads import using_threads
    from epibias.retrieval import CosineIndex

    plan = LatencyPlan(tuple(counts_of("--batches", batches)), repeats, seconds, cold)
    chosen = defense_of(defense, k)
    _check_source(corpus, embeddings, passages, dim)
    if encoder is not None and not encode:
        raise InputError("--encoder", "no such option with --no-encode", repr(encoder))
    if out is not None:
        check_out(out, "latency")
    with using_threads(threads) as n_threads, progress_bar() as progress:
        listener = Terminal(progress, quiet=as_json)
        model, note = _encoder(encoder, encode, listener)
        inputs = _inputs(corpus, embeddings, passages, dim, model, seed, listener)
        listener.start("preparing the index", None)
        with tempfile.TemporaryDirectory(prefix="epibias-latency-") as folder:
            if embeddings is None:
                index = CosineIndex(inputs.passages, scan=scan)
            else:  # as one does with a corpus on disk
                index = CosineIndex.prepare(inputs.passages, Path(folder) / INDEX, scan)
            deployment = Deployment(index, inputs.axis, chosen, k, options.POOL_FACTOR, model)
            start = None
            if cold:
                start = _cold_start(
                    Path(folder),
                    inputs,
                    deployment,
                    embeddings,
                    defense=defense,
                    n_threads=n_threads,
                    encoder=None if model is None else encoder or PACKAGED_MODEL,
                )
            try:
                document = measure_latency(inputs, deployment, plan, start, listener)
            except StagesDifferError as error:
                say(f"epibias: check failed: {error}; nothing was timed")
                raise typer.Exit(1) from None
    name = None if model is None else encoder or PACKAGED_MODEL
    document["encoder"] = {"name": name, "note": note}
    page = latency_page(document)
    if out is not None:
        write_out(out, "latency", document, page)
    if as_json:
        write_output("-", json_text(document))
        return
    for table in page.tables:
        console().print(rich_table(table))
    for line in notes(document):
        console().print(line, markup=False, soft_wrap=True)
    if out is not None:
        console().print(f"Page: {out / 'latency.html'}", markup=False, soft_wrap=True)


def _check_source(
    corpus: str | None, embeddings: Path | None, passages: str | None, dim: int | None
) -> None:
    given = [
        name
        for name, value in (
            ("--corpus", corpus),
            ("--embeddings", embeddings),
            ("--passages", passages),
        )
        if value is not None
    ]
    if len(given) > 1:
        expected = "at most one of --corpus, --embeddings, --passages"
        raise InputError(given[1], expected, " and ".join(given))
    if dim is not None and (corpus is not None or embeddings is not None):
        raise InputError("--dim", f"no such option with {given[0]}", "one; the file has its own")


def _encoder(name: str | None, asked: bool, listener: Listener) -> tuple[Encoder | None, str]:
    """Load the encoder, or say why encoding is not measured."""
    if not asked:
        return None, "Encoder: none (--no-encode); vectors stand in for texts."
    from epibias.cli.demo_encoder import encoder_note

    listener.start("loading the encoder", None)
    try:
        model = load_encoder(name or PACKAGED_MODEL)
        note = encoder_note(name or PACKAGED_MODEL)
    except MissingExtraError as error:
        if name is not None:  # somebody asked for it
            raise
        return None, f"Encoder: none ({error}); vectors stand in for texts."
    return model, note


def load_encoder(name: str) -> Encoder:
    """Load an encoder that keeps nothing: what comes from a cache was not encoded."""
    from epibias.encoder import SentenceTransformerEncoder

    return SentenceTransformerEncoder(name, cache=False, progress=False)


def _inputs(
    corpus: str | None,
    embeddings: Path | None,
    passages: str | None,
    dim: int | None,
    model: Encoder | None,
    seed: int | None,
    listener: Listener,
) -> LatencyInputs:
    from epibias.costs import latency_inputs
    from epibias.costs.sizes import count_of
    from epibias.costs.synthetic import LARGEST_DIM

    if model is not None and (corpus or embeddings or passages) is None:
        for option, value in (("--dim", dim), ("--seed", seed)):
            if value is not None:
                expected = "no such option with the debates, which are encoded"
                raise InputError(option, expected, str(value))
    columns = _validate.integer(
        "--dim", DEFAULT_DIM if dim is None else dim, low=1, high=LARGEST_DIM
    )
    seed = _validate.integer("--seed", 0 if seed is None else seed, low=0)
    if embeddings is not None:
        return latency_inputs.file_inputs(embeddings, seed)
    if passages is not None:
        return latency_inputs.synthetic_inputs(count_of("--passages", passages), columns, seed)
    if corpus is not None:
        name = "stdin" if corpus == "-" else Path(corpus).name
        return latency_inputs.vector_inputs(name, _rows(corpus, model, listener), seed)
    return latency_inputs.debate_inputs(model, columns, seed, listener)


def _rows(corpus: str, model: Encoder | None, listener: Listener) -> Any:  # noqa: ANN401
    """Vectors of a corpus file, or its texts encoded."""
    from epibias.cli import jsonl
    from epibias.encoder import encode_in_batches

    lines = jsonl.read_lines(corpus, "corpus")
    if jsonl.holds_vectors(lines, "corpus"):
        return jsonl.vectors(lines, "corpus")
    if model is None:
        raise InputError("corpus", "vectors, where no encoder is loaded", "texts", corpus)
    listener.start("encoding the corpus", len(lines))
    texts = jsonl.encoded_texts(lines, "corpus")
    return encode_in_batches(model, texts, "passages", listener.advance)


def _cold_start(
    folder: Path,
    inputs: LatencyInputs,
    deployment: Deployment,
    embeddings: Path | None,
    *,
    defense: str,
    n_threads: int,
    encoder: str | None,
) -> Any:  # noqa: ANN401
    """Lay out what a fresh process loads; returns the call that starts one."""
    import numpy as np

    from epibias.costs import cold
    from epibias.polarization.axis_file import VECTORS, write_axis

    batch = inputs.batch(1)
    if embeddings is None:
        np.save(folder / cold.PASSAGES, inputs.passages)
        deployment.index.save(folder / cold.INDEX)
    np.save(folder / cold.QUERIES, batch.queries)
    write_axis(inputs.axis.topic(int(batch.axis_of_query[0])), folder / cold.AXIS, VECTORS)
    path = folder / cold.PASSAGES if embeddings is None else embeddings.absolute()
    cold.ColdSettings(
        defense,
        deployment.k,
        deployment.pool_factor,
        n_threads,
        batch.texts[0],
        encoder,
        str(path),
    ).write(folder)

    def start() -> ColdStart:
        return cold.run_cold(folder)

    return start
