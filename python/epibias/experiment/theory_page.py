"""The theory document in words, tables and charts: terminal, theory.html and docs/theory.md.

Owns how verdicts are worded and drawn; every number comes from the document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from epibias.costs.chart import LineChart, Series
from epibias.costs.page import Page, Table
from epibias.experiment.theory_checks import LEAST_REPEATS, LEAST_SIZE, TOO_FEW

HOLDS, FAILS, PARTLY, OPEN = "holds", "fails", "holds in part", "not decided"
CHARTS = (("touching", "touching"), ("overlap", "overlap"), ("normal", "overlap, normal scores"))
FAMILY = ("normal, shift 1, spread 1", 0.33)  # of the chart over ρ


def theory_page(document: Mapping[str, Any]) -> Page:
    """Give what is shown of a theory run."""
    second = document["theorem_2"]
    sizes = [row["n"] for row in second["runs"][0]["sizes"]]
    charts = [
        (name, error_chart(document, case), _caption(document, case)) for name, case in CHARTS
    ]
    return Page(
        title="Theorems 1 to 3, simulated",
        notices=[
            "How each statement is read, and why it fails where it does: docs/theory.md.",
            "Population: quadrature in float64. Samples: the thresholds of the real sweep.",
            *_too_few(document),
            *(f"{one}: {verdict}. {text}." for one, verdict, text in verdicts(document)),
        ],
        facts=[
            ("Cases of Theorem 1", str(len(document["theorem_1"]["cases"]))),
            ("Sample sizes", f"{sizes[0]:,} to {sizes[-1]:,}"),
            ("Cases of Theorem 3", str(len(document["theorem_3"]["cases"]))),
            ("CPU", f"{document['cpu_seconds']:g} s"),
        ],
        chart=bounds_chart(document),
        chart_caption=(
            f"Errors at the maximizer of L and the bounds of Theorem 3 by overlap; scores "
            f"{FAMILY[0]}, {FAMILY[1]:.0%} adversarial. Bounds above 1 would say nothing."
        ),
        tables=tables(document),
        more_charts=charts,
    )


def tables(document: Mapping[str, Any]) -> list[Table]:
    """Give verdicts, errors by n, FDR and FOR by n, and the counts of Theorem 3."""
    return [
        Table(
            "Verdicts",
            "One line a statement; the numbers are of this run.",
            ("statement", "verdict", "numbers"),
            verdicts(document),
        ),
        _by_size(document, "error", "0.95", "Error of the threshold, 95 % quantile"),
        _by_size(document, "error", "0.5", "Error of the threshold, median"),
        _by_size(document, "fdr", "mean", "FDR at the threshold, mean"),
        _by_size(document, "omission", "mean", "FOR at the threshold, mean"),
        _slopes(document),
        _groups(document),
    ]


def _too_few(document: Mapping[str, Any]) -> list[str]:
    """Say it first, where the samples decide nothing."""
    if all(run["verdict"] != TOO_FEW for run in document["theorem_2"]["runs"]):
        return []
    return [
        f"Too few samples for a verdict on Theorem 2: at least n = {LEAST_SIZE:,} and "
        f"{LEAST_REPEATS} samples a size are wanted. Slopes and errors below are for a look."
    ]


def verdicts(document: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Word every verdict: statement, verdict, numbers."""
    return [*_first(document), *_second(document), *_third(document)]


def _first(document: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    found = document["theorem_1"]
    n, touching = len(found["cases"]), found["n_touching"]
    gap, beyond = found["gap"], found["beyond"]
    return [
        (
            "1(a) L is largest at x′",
            HOLDS if found["largest_at_split"] == n else FAILS,
            f"{found['largest_at_split']} of {n} cases",
        ),
        (
            "1(a) … and at x′ alone",
            PARTLY if found["unique_when_touching"] == touching else FAILS,
            f"{found['unique_when_touching']} of {touching} where the intervals touch and KL is "
            f"finite. With a gap every threshold of it ties (width {gap['width']:g}), all without "
            f"error. With infinite KL all from x′ on tie (width {beyond['width']:.1f}), with FDR "
            f"up to {beyond['worst_fdr_of_ties']:.2f}",
        ),
        (
            "1(b) FDR(x′) = FOR(x′) = 0",
            HOLDS if found["zero_error"] == n else FAILS,
            f"{found['zero_error']} of {n} cases",
        ),
    ]


def _second(document: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    runs = document["theorem_2"]["runs"]
    named = {(run["case"], run["rule"]): run for run in runs}
    found = []
    for rule, statement in (
        ("all thresholds", "2, eq. 12: rate n^(−2/5), argmax over all t"),
        ("with slack", "2, eq. 12: the same, 5 % of the points a side"),
        ("default", "2, eq. 12: BiasDef's sweep, which adds a floor"),
    ):
        chosen = [run for run in runs if run["rule"] == rule]
        kinds = {run["verdict"] for run in chosen}
        if TOO_FEW in kinds:
            verdict = TOO_FEW
        elif kinds <= {"does not shrink", "slower"}:
            verdict = FAILS
        elif kinds == {"as fast, or faster"}:
            verdict = HOLDS
        else:
            verdict = PARTLY if "as fast, or faster" in kinds else OPEN
        numbers = "; ".join(f"{run['case']}: {_slope(run)}, {run['verdict']}" for run in chosen)
        found.append((statement, verdict, f"slopes of the 95 % quantile: {numbers}"))
    overlap = named["overlap", "with slack"]
    last, limit = overlap["sizes"][-1], overlap["limit"]
    # What stays at a limit above 0 does not shrink as the bounds do.
    stays = any(limit[one] > 0 and last[one]["high"] >= limit[one] for one in ("fdr", "omission"))
    found.append(
        (
            "2, eq. 13 and 14: FDR and FOR shrink as n^(−2/5)",
            TOO_FEW if overlap["verdict"] == TOO_FEW else FAILS if stays else OPEN,
            f"overlap, with slack, n = {last['n']:,}: FDR {_interval(last['fdr'])}, FOR "
            f"{_interval(last['omission'])}. Their limits are FDR(x′) = {limit['fdr']:.4f} and "
            f"FOR(x′) = {limit['omission']:.4f}, and the bounds go to 0",
        )
    )
    return found


def _third(document: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    found = document["theorem_3"]
    n = len(found["cases"])
    rows = []
    for name, label, key in (("fdr", "FDR", "worst_fdr"), ("omission", "FOR", "worst_omission")):
        counts = ", ".join(f"{one[f'{name}_holds']} of {one['n']}" for one in found["groups"][:2])
        holds = sum(one[f"{name}_holds"] for one in found["groups"][:2])
        worst = found[key]
        rows.append(
            (
                f"3, eq. {15 if name == 'fdr' else 16}: the bound on {label}",
                HOLDS if holds == n else FAILS,
                f"holds in {counts} (equal spreads and at most half adversarial; others). "
                f"Counterexample: scores {worst['scores']}, w2 = {worst['w2']:g}, means "
                f"{worst['distance']:g} spreads apart, ρ = {worst['rho']:.4f}: t̂ = "
                f"{worst['threshold']:.4f}, {label} {worst[name]:.4f} > "
                f"{worst[f'{name}_bound']:.4f}",
            )
        )
    rows.append(
        (
            "3: one of the two bounds holds (ours)",
            HOLDS if found["one_holds"] == n else FAILS,
            f"{found['one_holds']} of {n}. That on FDR fails past the crossing of f1 and f2 alone "
            f"({found['fdr_explained']} of {n}), that on FOR before it alone "
            f"({found['omission_explained']} of {n})",
        )
    )
    grows = found["monotone"]
    rows.append(
        (
            "Summary: both bounds grow with ρ",
            HOLDS if grows["fdr_bound"] == grows["omission_bound"] == grows["n"] else FAILS,
            f"{grows['fdr_bound']} and {grows['omission_bound']} of {grows['n']} families; FDR "
            f"itself in {grows['fdr']}, FOR in {grows['omission']}",
        )
    )
    return rows


def error_chart(document: Mapping[str, Any], case: str) -> LineChart:
    """95 % quantile of |t̂ − x′| by n, one line a rule, beside n^(−2/5)."""
    runs = [run for run in document["theorem_2"]["runs"] if run["case"] == case]
    sizes = [row["n"] for row in runs[0]["sizes"]]
    series = [
        Series(run["rule"], sizes, [max(row["error"]["0.95"], 1e-6) for row in run["sizes"]])
        for run in runs
    ]
    first = runs[0]["sizes"][0]["error"]["0.95"]
    rate = [first * (n / sizes[0]) ** document["theorem_2"]["rate"] for n in sizes]
    series.append(Series("slope −2/5", sizes, rate, marks=False))
    title = f"Error of the threshold, 95 % quantile: {case}"
    return LineChart(title, "passages n", "|t̂ − x′|, similarity", series, is_log=True)


def bounds_chart(document: Mapping[str, Any]) -> LineChart:
    """FDR and FOR at t̂ and their bounds by ρ, of one family."""
    rows = sorted(
        (row for row in document["theorem_3"]["cases"] if (row["scores"], row["w2"]) == FAMILY),
        key=lambda row: row["rho"],
    )
    overlap = [row["rho"] for row in rows]
    series = [
        Series(name, overlap, [row[key] for row in rows])
        for name, key in (
            ("FDR", "fdr"),
            ("bound on FDR", "fdr_bound"),
            ("FOR", "omission"),
            ("bound on FOR", "omission_bound"),
        )
    ]
    return LineChart("Theorem 3: errors and bounds", "overlap ρ", "share", series)


def markdown(document: Mapping[str, Any]) -> str:
    """Give the tables of docs/theory.md."""
    parts = []
    for table in tables(document):
        lines = [table.columns, ["---"] * len(table.columns), *table.rows]
        body = "\n".join("| " + " | ".join(cell for cell in line) + " |" for line in lines)
        parts.append(f"### {table.title}\n\n{table.caption}\n\n{body}")
    settings, environment = document["settings"], document["environment"]
    made = (
        f"Made by `epibias bench theory --out …` on {document['started'][:10]}, seed "
        f"{settings['seed']}, {document['cpu_seconds']:g} s of one CPU "
        f"({environment['processor']})."
    )
    return "\n\n".join([made, *parts])


def _by_size(document: Mapping[str, Any], value: str, kind: str, title: str) -> Table:
    runs = document["theorem_2"]["runs"]
    columns = ["setting", "rule", *(f"n = {row['n']:,}" for row in runs[0]["sizes"])]
    rows = []
    for run in runs:
        cells = []
        for row in run["sizes"]:
            found = row[value]
            half = (found["high"] - found["low"]) / 2
            mean = f"{found['mean']:.3f} ± {half:.3f}"
            cells.append(mean if kind == "mean" else f"{found[kind]:.4f}")
        rows.append([run["case"], run["rule"], *cells])
    limits = {run["case"]: run["limit"] for run in runs}
    caption = "In similarity, from x′."
    if kind == "mean":
        at_best = "; ".join(f"{case}: {limit[value]:.4f}" for case, limit in limits.items())
        caption = f"Over samples, ± half of the 95 % interval. At x′ itself: {at_best}."
    return Table(title, caption, columns, rows)


def _slopes(document: Mapping[str, Any]) -> Table:
    runs = document["theorem_2"]["runs"]
    first, last = runs[0]["slopes"]["sizes"]
    rows = [
        [run["case"], run["rule"], _slope(run, "0.5"), _slope(run), run["verdict"]] for run in runs
    ]
    caption = (
        f"Of log error against log n, n from {first:,} to {last:,}, with 95 % bootstrap intervals; "
        "the theorem has −0.4 or steeper. The verdict is on the 95 % quantile."
    )
    columns = ("setting", "rule", "median", "95 % quantile", "verdict")
    return Table("Slopes", caption, columns, rows)


def _groups(document: Mapping[str, Any]) -> Table:
    rows = [
        [
            one["group"],
            str(one["n"]),
            str(one["fdr_holds"]),
            str(one["omission_holds"]),
            str(one["at_edge"]),
        ]
        for one in document["theorem_3"]["groups"]
    ]
    columns = ("cases", "n", "FDR ≤ bound", "FOR ≤ bound", "maximum at the edge")
    mass = document["theorem_3"]["least_mass"]
    caption = (
        f"At the edge: L grows until a side has a share of {mass:g} of the passages, so that in "
        "the limit the rule drops nothing, or everything."
    )
    return Table("Theorem 3 in population", caption, columns, rows)


def _slope(run: Mapping[str, Any], quantile: str = "0.95") -> str:
    found = run["slopes"][quantile]
    return f"{found['slope']:.2f} [{found['low']:.2f}, {found['high']:.2f}]"


def _interval(found: Mapping[str, float]) -> str:
    return f"{found['mean']:.4f} [{found['low']:.4f}, {found['high']:.4f}]"


def _caption(document: Mapping[str, Any], case: str) -> str:
    run = next(one for one in document["theorem_2"]["runs"] if one["case"] == case)
    rules: Sequence[str] = [f"{n}: {what}" for n, what in document["theorem_2"]["rules"].items()]
    return (
        f"{case}: scores {run['scores']}, {run['w2']:.0%} adversarial, x′ = {run['best']:.4f}. "
        + "; ".join(rules)
        + "."
    )
