"""Tables of the sweep, the axis, BiasDef's selection and the stress run, for tables.py.

`bench/threshold_sweep.py`, `polarization_axis.py` and `biasdef_select.py` write those files;
`epibias stress --out` writes the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

NOT_RUN = "–"

Results = dict[str, Any]


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Give a table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def figure(value: object) -> str:
    """Give a number with three significant digits, and anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if value == 0 or isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2e}" if abs(value) < 1e-3 else f"{value:.3g}"


def names(parts: Iterable[dict[str, Any]]) -> list[str]:
    """Give every key once, in order of appearance."""
    return list(dict.fromkeys(name for part in parts for name in part))


def threshold_sweep(results: Results) -> str:
    """Give microseconds a query beside the floor and the errors, p-values, and binned sweeps."""
    sweeps = results["sweeps"]
    peers = [name for name in names(s["microseconds"] for s in sweeps) if name != "float32"]
    lines = []
    for sweep in sweeps:
        ours = sweep["microseconds"]["float32"]
        others = [sweep["microseconds"].get(peer) for peer in peers]
        floor = sweep.get("floor")
        lines.append(
            [figure(sweep["n"]), sweep["level"], figure(ours)]
            + [NOT_RUN if other is None else f"× {figure(other / ours)}" for other in others]
            + ([figure(floor["microseconds"])] if floor else [NOT_RUN])
            + ([f"{floor['share_reached']:.0%}"] if floor else [NOT_RUN])
        )
    head = ["candidates", "level", "float32, µs a query", *peers, "floor, µs", "share reached"]
    parts = ["#### One sweep", markdown(head, lines)]
    kinds = names(sweep["errors"] for sweep in sweeps)
    errors = [
        [figure(sweep["n"]), sweep["level"], *(error_of(sweep, kind) for kind in kinds)]
        for sweep in sweeps
    ]
    parts += [
        "#### Largest error of a divergence",
        markdown(["candidates", "level", *kinds], errors),
    ]
    tests = results.get("permutations", [])
    if tests:
        kinds = names(test["clean"] for test in tests)
        lines = [
            [test["level"], pool, *(figure(test[pool].get(kind, NOT_RUN)) for kind in kinds)]
            for test in tests
            for pool in ("clean", "leaning")
        ]
        parts += [
            "#### Permutation p-values, n = 20, µs a query",
            markdown(["level", "pools", *kinds], lines),
        ]
    binned = results.get("binned_milliseconds", [])
    if binned:
        sizes = [name for name in names(binned) if name != "level"]
        lines = [[one["level"], *(figure(one[size]) for size in sizes)] for one in binned]
        head = ["level", *(f"n = {int(size):,}" for size in sizes)]
        parts += ["#### Binned sweeps, ms a query", markdown(head, lines)]
    return "\n\n".join(parts)


def error_of(sweep: dict[str, Any], kind: str) -> str:
    """Give an error, or a dash where that contender did not run."""
    return figure(sweep["errors"][kind]) if kind in sweep["errors"] else NOT_RUN


def polarization_axis(results: Results) -> str:
    """Give a table for each shape: CPU and wall time, ratio, angle to the definition."""
    parts = []
    for case in results["cases"]:
        parts.append(f"#### {case['case']}")
        lines = []
        for name, found in case["contenders"].items():
            error = found.get("error", {})
            eigenvalues = [error[part] for part in ("explained", "relative_gap") if part in error]
            values = [found["cpu_ms"], found["wall_ms"], f"× {figure(found['cpu_ratio'])}"]
            values += [error.get("angle", NOT_RUN), max(eigenvalues, default=NOT_RUN)]
            lines.append([name, *map(figure, values)])
        head = ["contender", "CPU, ms", "wall, ms", "CPU ratio", "angle", "error of the ratios"]
        parts.append(markdown(head, lines))
    return "\n\n".join(parts)


def biasdef_select(results: Results) -> str:
    """Give percentiles of single calls, ratios of the ways in Python, and where the time goes."""
    stages = names(case["split_cpu_us"] for case in results["cases"])
    lines = []
    for case in results["cases"]:
        fused, general = case["fused"], case["general"]
        lines.append(
            [case["dim"], case["pool"], figure(case["n_queries"])]
            + [figure(fused[f"wall_p{p}_us"]) for p in (50, 95, 99)]
            + [figure(fused[name]) for name in ("wall_p99_quietest_us", "cpu_p50_us")]
            + [figure(general["wall_p50_us"])]
            + [f"× {figure(case[f'ratio_{way}'])}" for way in ("float32", "general", "staged")]
            + [figure(case["split_cpu_us"].get(stage, NOT_RUN)) for stage in stages]
        )
    head = ["dim", "pool", "queries", "p50, µs", "p95", "p99", "quietest p99", "CPU, p50"]
    ways = ["general, p50", "float32", "general", "staged"]
    table = markdown([*head, *ways, *stages], lines)
    goal = results.get("goal")
    if goal:
        where = f"{goal['n_queries']} query, {goal['pool']} candidates, dim {goal['dim']}"
        table += f"\n\nGoal: p99 of at most {goal['wall_p99_us']:g} µs for {where}."
    return table


def stress(results: Results) -> str:
    """Give the time of a query for each number of passages, the memory, and the verdicts."""
    lines = []
    for point, deviation in zip(results["points"], results["linearity"]["deviations"], strict=True):
        query = f"{figure(point['ms'])} ({point['scan']})"
        together = figure(round(point["batch_queries_per_second"]))
        lines.append([figure(point["n_passages"]), query, f"{100 * deviation:+.0f} %", together])
        lines[-1].append(figure(point["p95_ms"]))
    columns = ["passages", "a query, ms (scan)", "from linear"]
    columns += [f"queries a second, {results['points'][0]['batch_size']} a call", "p95, ms"]
    exact, memory = results["exactness"], results["memory"]
    phases = [
        [name, *(figure(round(found[kind] / 2**20)) for kind in ("anonymous", "file_mapped"))]
        for name, found in memory["phases"].items()
    ]
    verdicts = ", ".join(f"{name} {verdict}" for name, verdict in results["verdicts"].items())
    said = (
        f"{exact['n_wrong']} of {figure(exact['n_answers'])} answers differ from float64; "
        f"made in {figure(results['corpus']['seconds'])} s, prepared in "
        f"{figure(results['index']['seconds'])} s. Verdicts: {verdicts}."
    )
    table = markdown(["while", "anonymous, MiB", "file-mapped, MiB"], phases)
    return "\n\n".join([markdown(columns, lines), table, said])
