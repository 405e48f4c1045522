"""`epibias filter`: BiasDef between any vector store and a generator, JSONL in and out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from epibias import _validate
from epibias._plain import described, finite_or_none, shortest
from epibias.cli import options
from epibias.cli.console import check_output, guarded, json_text, write_output
from epibias.cli.streams import say
from epibias.errors import InputError

if TYPE_CHECKING:
    from epibias._validate import Int64Array
    from epibias.cli.axis_source import LazyEncoder
    from epibias.cli.jsonl import Line
    from epibias.defenses import BiasDef
    from epibias.polarization import PolarizationAxis
    from epibias.pool import CandidatePool
    from epibias.selection import Selection

# More are a mistake, and a run over them would hardly end.
MAX_PERMUTATIONS = 1_000_000


@guarded
def filter_candidates(
    queries: str = typer.Argument(
        help=(
            "JSONL file, or - for stdin: a line has query (text) or query_vector, and candidates, "
            "a list of objects with id and text or vector."
        )
    ),
    anchors: str | None = typer.Option(
        None, help="JSONL file of anchor passages; topic on its lines, where there are several."
    ),
    axis: str | None = typer.Option(None, help="An axis that `score --save-axis` wrote."),
    output: str = typer.Option("-", "--output", "-o", help="Where the result goes; - for stdout."),
    method: str | None = options.METHOD,
    penalty: float | None = options.PENALTY,
    center: bool | None = options.CENTER,
    encoder: str = options.ENCODER,
    cache: bool = options.CACHE,
    preset: str = typer.Option("default", help="BiasDef: default, bare, or printed (Algorithm 1)."),
    k: int = typer.Option(5, help="Passages to select."),
    criterion: str | None = typer.Option(None, help="kl or mi."),
    gate: float | None = typer.Option(None, help="Act only when the p-value is at most this."),
    side: str | None = typer.Option(None, help="Which side is dropped: right, or auto."),
    mitigation: str | None = typer.Option(None, help="mahalanobis; none when absent."),
    fill: str | None = typer.Option(None, help="When fewer than k are kept: short or refill."),
    min_kept: int | None = typer.Option(None, help="Fewest candidates kept; k when absent."),
    min_side: int | None = typer.Option(None, help="Fewest candidates on either side."),
    slack: float | None = typer.Option(None, help="Least share of the candidates on a side."),
    kappa: float | None = typer.Option(None, help="Floor of the densities, as a share of n."),
    kappa_points: float | None = typer.Option(None, help="The same as a number of points."),
    bandwidth_factor: float | None = typer.Option(None, help="Kernel width / (sd * n^(-1/5))."),
    permutations: int | None = typer.Option(None, help="Shuffles for the p-value, with --gate."),
    seed: int | None = typer.Option(None, help="Of the shuffles."),
    tau: float | None = typer.Option(None, help="printed: thresholds from tau to 1 - tau."),
    n_thresholds: int | None = typer.Option(None, help="printed: number of thresholds."),
    floor: float | None = typer.Option(None, help="printed: added to both densities."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document instead of JSONL."),
) -> None:
    """Select k candidates of each query with BiasDef; say which were dropped and where it split."""
    from epibias.cli import axis_source, jsonl

    check_output(output)
    defense = _defense(
        preset,
        k,
        criterion=criterion,
        gate=gate,
        side=side,
        mitigation=mitigation,
        fill=fill,
        min_kept=min_kept,
        min_side=min_side,
        slack=slack,
        kappa=kappa,
        kappa_points=kappa_points,
        bandwidth_factor=bandwidth_factor,
        permutations=permutations,
        seed=seed,
        tau=tau,
        n_thresholds=n_thresholds,
        floor=floor,
    )
    lines = jsonl.read_lines(queries, "queries")
    query_ids = jsonl.query_ids(lines)
    lazy = axis_source.LazyEncoder(encoder, cache=cache)
    fitted, names = axis_source.axis_of_options(
        anchors, axis, lazy, method=method, penalty=penalty, center=center
    )
    pool, ids = _pool(lines, query_ids, lazy, fitted, names, k)
    selection = defense.select(pool)
    records = [_record(query_ids[row], row, pool, selection, ids[row]) for row in range(len(lines))]
    axes = axis_source.describe(fitted, names)
    if as_json:
        document = {"defense": defense.parameters(), "axes": axes, "queries": records}
        write_output(output, json_text(document))
    else:
        write_output(output, jsonl.jsonl_text(records))
        for one in axes:
            say(axis_source.summary(one))


def _defense(preset: str, k: int, **settings: Any) -> BiasDef:  # noqa: ANN401
    """Build the preset with the options that were given; one it does not read is refused."""
    from dataclasses import asdict, replace

    from epibias.defenses import BiasDef
    from epibias.defenses.biasdef_parameters import unread_parameters

    builders = {"default": BiasDef, "bare": BiasDef.bare, "printed": BiasDef.printed}
    if preset not in builders:
        raise InputError("--preset", " or ".join(map(repr, builders)), repr(preset))
    given = {name: value for name, value in settings.items() if value is not None}
    if "permutations" in given:
        _validate.integer("--permutations", given["permutations"], low=1, high=MAX_PERMUTATIONS)
    if given.keys() >= {"kappa", "kappa_points"}:
        raise InputError("--kappa, --kappa-points", "one of the two", "both")
    if "kappa" in given:
        given["kappa_points"] = None
    base = builders[preset](k=k)
    unread = unread_parameters({**asdict(base), **given})
    for name in given:
        if name in unread and given[name] is not None:
            reason = unread[name]
            if reason.startswith("rule="):
                reason = f"--preset {preset}"
            expected = f"no such option with {reason}"
            if reason == "gate=None":
                expected = "no such option without --gate"
            raise InputError(_option(name), expected, repr(given[name]))
    return replace(base, **given)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _pool(
    lines: list[Line],
    query_ids: list[str],
    lazy: LazyEncoder,
    fitted: PolarizationAxis,
    names: list[str | None],
    k: int,
) -> tuple[CandidatePool, list[list[str]]]:
    """Join the lines to a pool; also the candidates' ids of each query, in input order."""
    import numpy as np

    from epibias.cli import jsonl
    from epibias.corpus import query_keys
    from epibias.pool import CandidatePool

    per_query: list[list[Line]] = []
    ids: list[list[str]] = []
    for line in lines:
        values = jsonl.field(line, "candidates", list, "a list of candidates")
        members = []
        for place, value in enumerate(values):
            where = f"{line.where}, candidate {place}"
            if not isinstance(value, dict):
                raise InputError("candidates", "objects", type(value).__name__, where)
            members.append(jsonl.Line(value, where))
        if not members:
            raise InputError("candidates", "at least one", "none", line.where)
        per_query.append(members)
        ids.append(jsonl.passage_ids(members))
    query_rows = lazy.queries(lines)
    flat = lazy.passages([one for members in per_query for one in members], "candidates")
    ends = np.cumsum([len(members) for members in per_query])[:-1]
    rows = [np.ascontiguousarray(part) for part in np.split(flat, ends)]
    pool = CandidatePool.from_vectors(
        query_rows,
        rows,
        fitted,
        k=k,
        axis_of_query=_axis_of_query(lines, names),
        query_ids=query_keys(query_ids),
    )
    return pool, ids


def _axis_of_query(lines: list[Line], names: list[str | None]) -> Int64Array | None:
    """Give the number of the axis of each query; None where there is one axis for all."""
    import numpy as np

    from epibias.cli import jsonl

    known = [name for name in names if name is not None]
    expected = "no topic, for the axis has none"
    if known:
        more = ", …" if len(known) > 5 else ""
        expected = f"a topic of the anchors ({', '.join(map(repr, known[:5]))}{more})"
    numbers = []
    for line in lines:
        if len(names) == 1 and "topic" not in line.fields:
            numbers.append(0)
            continue
        topic = jsonl.text(line, "topic") if "topic" in line.fields else None
        if topic not in known:
            found = "none" if topic is None else described(topic)
            raise InputError("topic", expected, found, line.where)
        numbers.append(names.index(topic))
    return None if len(names) == 1 else np.asarray(numbers, dtype=np.int64)


def _record(
    query_id: str, row: int, pool: CandidatePool, selection: Selection, ids: list[str]
) -> dict[str, Any]:
    start, end = pool.offsets[row], pool.offsets[row + 1]
    of_index = {
        int(index): {
            "id": ids[int(index)],
            "similarity": shortest(pool.similarities[place]),
            "polarization_score": shortest(pool.scores[place]),
        }
        for place, index in zip(range(start, end), pool.indices[start:end], strict=True)
    }
    diagnostics = {name: values[row] for name, values in selection.diagnostics.items()}
    n_selected = int(selection.n_selected[row])
    return {
        "query_id": query_id,
        "selected": [of_index[int(index)] for index in selection[row]],
        "dropped": [of_index[int(index)] for index in selection.dropped[row]],
        "threshold": shortest(diagnostics["threshold"]),
        "sweep_threshold": shortest(diagnostics["sweep_threshold"]),
        "side": str(diagnostics["side"]),
        "n_kept": int(diagnostics["n_kept"]),
        "divergence": float(diagnostics["divergence"]),
        "p_value": finite_or_none(diagnostics["p_value"]),
        "n_selected": n_selected,
        "short": n_selected < pool.k,
    }
