"""`epibias filter`: a defence between any vector store and a generator, JSONL in and out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from epibias import _validate
from epibias._plain import finite_or_none, shortest
from epibias.cli import options
from epibias.cli.console import check_output, guarded, json_text, write_output
from epibias.cli.streams import say
from epibias.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from epibias.defenses import BiasDef, TiltBound
    from epibias.defenses.tilt_bound_file import SavedTiltBound
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
    defense: str = typer.Option("biasdef", help="biasdef, or tilt_bound (with --memory)."),
    memory: str | None = typer.Option(None, help="tilt_bound: what `epibias calibrate` wrote."),
    trusted_until: str | None = typer.Option(
        None, help="tilt_bound: candidates of a later time, or none, are newcomers."
    ),
    preset: str | None = typer.Option(
        None, help="BiasDef: default, bare, or printed (Algorithm 1)."
    ),
    k: int | None = typer.Option(None, help="Passages to select: 5, or the memory's."),
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
    """Select k candidates of each query; say which were dropped, and why."""
    from epibias.cli import axis_source, candidates, jsonl

    check_output(output)
    settings = dict(
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
    saved = _saved(defense, memory, trusted_until, k, preset, settings)
    if saved is None:
        chosen: BiasDef | TiltBound = _biasdef(preset or "default", 5 if k is None else k, settings)
    else:
        chosen = saved.defense
    lines = jsonl.read_lines(queries, "queries")
    query_ids = jsonl.query_ids(lines)
    lazy = axis_source.LazyEncoder(encoder, cache=cache)
    fitted, names = axis_source.axis_of_options(
        anchors, axis, lazy, method=method, penalty=penalty, center=center
    )
    if saved is not None:
        saved.check_axes(fitted, names)
    pool, ids = candidates.pool_of_lines(
        lines, query_ids, lazy, fitted, names, chosen.k, texts=saved is not None
    )
    trusted = None if saved is None else saved.defense.trusted_index
    if trusted is not None and trusted.dim != pool.embeddings.shape[1]:
        expected, found = f"an index of {pool.embeddings.shape[1]} columns", str(trusted.dim)
        raise InputError("--memory", f"{expected}, as the candidates have", found, memory)
    # Of TiltBound all that it leaves out is told.
    selection = chosen.select(pool) if saved is None else saved.defense.select(pool, judge_all=True)
    told = _why if saved is None else _why_tilt_bound
    records = [
        _record(query_ids[row], row, pool, selection, ids[row], told) for row in range(len(lines))
    ]
    axes = axis_source.describe(fitted, names)
    if as_json:
        document = {"defense": chosen.parameters(), "axes": axes, "queries": records}
        write_output(output, json_text(document))
    else:
        write_output(output, jsonl.jsonl_text(records))
        for one in axes:
            say(axis_source.summary(one))
    if saved is not None:
        _say_unknown(saved.defense, selection)
        _say_refused(saved.defense.k, selection)


def _saved(
    defense: str,
    memory: str | None,
    trusted_until: str | None,
    k: int | None,
    preset: str | None,
    settings: dict[str, Any],
) -> SavedTiltBound | None:
    """Read TiltBound's memory, where it was asked for; options that nothing reads are refused."""
    from dataclasses import replace

    from epibias.defenses.tilt_bound_file import read_tilt_bound

    if defense not in ("biasdef", "tilt_bound"):
        raise InputError("--defense", "'biasdef' or 'tilt_bound'", repr(defense))
    if defense == "biasdef":
        for option, value in (("--memory", memory), ("--trusted-until", trusted_until)):
            if value is not None:
                raise InputError(option, "no such option without --defense tilt_bound", repr(value))
        return None
    for name, value in {"preset": preset, **settings}.items():
        if value is not None:
            raise InputError(_option(name), "no such option with --defense tilt_bound", repr(value))
    if memory is None:
        raise InputError("--memory", "a file that `epibias calibrate` wrote", "none")
    saved = read_tilt_bound(memory)
    if k is not None and k != saved.defense.k:
        if saved.defense.memory is not None or saved.defense.has_echo_limit:
            raise InputError("--k", f"{saved.defense.k}, as the memory was made for", repr(k))
        saved = replace(saved, defense=replace(saved.defense, k=k))
    if trusted_until is None:
        return saved
    return replace(saved, defense=replace(saved.defense, trusted_until=trusted_until))


def _say_unknown(defense: TiltBound, selection: Selection) -> None:
    """Tell of how many questions nothing is known, and what guards them then."""
    known = selection.diagnostics["known"].tolist()
    unknown = known.count("nothing")
    if not unknown:
        return
    why = "are not in the memory"
    left = (
        "echoes are left out"
        if defense.has_echo_limit
        else ("and it has no echo limit: they are not defended")
    )
    if defense.trusted_index is not None:
        why = f"have fewer than {max(defense.k, 2)} candidates that are in the trusted index"
        left = "newcomers are refused"
    say(
        f"epibias: warning: {unknown} of {len(known)} questions {why}: their tilt is not "
        f"bounded, {left}"
    )


def _say_refused(k: int, selection: Selection) -> None:
    """Tell how many questions got too little because their candidates are new."""
    told = selection.diagnostics
    missing = k - told["n_selected"]
    short = int(((missing > 0) & (told["n_refused"] >= missing)).sum())
    if short:
        say(
            f"epibias: warning: {short} of {len(selection)} questions got fewer passages than "
            "asked for, the others being newcomers (n_refused): with another encoder, index or "
            "precision of the vectors than `epibias calibrate` had, all are"
        )


def _biasdef(preset: str, k: int, settings: dict[str, Any]) -> BiasDef:
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


def _record(
    query_id: str,
    row: int,
    pool: CandidatePool,
    selection: Selection,
    ids: list[str],
    told: Callable[[dict[str, Any]], dict[str, Any]],
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
    n_selected = int(selection.n_selected[row])
    return {
        "query_id": query_id,
        "selected": [of_index[int(index)] for index in selection[row]],
        "dropped": [of_index[int(index)] for index in selection.dropped[row]],
        **told({name: values[row] for name, values in selection.diagnostics.items()}),
        "n_selected": n_selected,
        "short": n_selected < pool.k,
    }


def _why(diagnostics: dict[str, Any]) -> dict[str, Any]:
    return {
        "threshold": shortest(diagnostics["threshold"]),
        "sweep_threshold": shortest(diagnostics["sweep_threshold"]),
        "side": str(diagnostics["side"]),
        "n_kept": int(diagnostics["n_kept"]),
        "divergence": float(diagnostics["divergence"]),
        "p_value": finite_or_none(diagnostics["p_value"]),
    }


def _why_tilt_bound(diagnostics: dict[str, Any]) -> dict[str, Any]:
    return {
        "known": str(diagnostics["known"]),
        "unchanged": bool(diagnostics["unchanged"]),
        "tilt_before": finite_or_none(diagnostics["tilt_before"]),
        "tilt_after": finite_or_none(diagnostics["tilt_after"]),
        **{name: int(diagnostics[name]) for name in ("n_echo", "n_repeat", "n_refused")},
    }
