"""The paper's figures of what is retrieved: 2a, 3, 4a to 4d, 6a to 6c and 7.

In: the rows of an arm. Out: `Figure`s, each with intervals, with what the paper states, or with
the reason why there is nothing to draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from epibias.experiment import tables
from epibias.experiment.arm_rows import ArmRows
from epibias.experiment.bench_tables import ends_of
from epibias.experiment.figure_data import Figure, Series
from epibias.experiment.markdown import System, short, systems
from epibias.experiment.paper import FIGURES
from epibias.experiment.plan import OWN_PASSAGES
from epibias.experiment.rank_correlation import mean_spearman
from epibias.experiment.raw import Row
from epibias.experiment.tables import ANY_AXIS, RATIO, Ends
from epibias.metrics.intervals import distribution

NO_INJECTION = "the configuration injects no passages of the data set's own"


def retrieval_figures(arm: ArmRows) -> list[Figure]:
    """Figures of an arm, in the paper's order."""
    return [
        stance_figure(arm),
        fact_figure(arm),
        *(_by_injections(arm, *one) for one in _LINES),
        _score_figure(arm),
        *(_averages(arm, *one) for one in _BARS),
        _distribution_figure(arm),
    ]


# Figure, title, label, metric.
_LINES = (
    ("4a", "A-Recall@{k} by injections", "A-Recall@{k}", "adversarial_precision"),
    ("4b", "Recall@{k} by injections", "recall@{k} (/k)", "recall_over_k"),
    ("4c", "A-Recall@{k} over recall@{k}", "ratio", RATIO),
)
_BARS = (
    ("6a", "A-Recall@{k}, mean over injections", "A-Recall@{k}", "adversarial_precision"),
    ("6b", "Recall@{k}, mean over injections", "recall@{k} (/k)", "recall_over_k"),
    ("6c", "A-Recall@{k} over recall@{k}, over all injections", "ratio", RATIO),
)


def system_title(system: System) -> str:
    """Name a defence on its axis."""
    return system.title if system.axis == ANY_AXIS else f"{system.title} ({system.axis})"


def shown(mean: float | None, low: float | None, high: float | None) -> str:
    """Write a mean with its interval.

    Examples
    --------
    >>> shown(0.25, 0.125, 0.5), shown(None, None, None)
    ('.25 [.12, .50]', 'n/a')
    """
    if mean is None:
        return "n/a"
    return short(mean) + (f" [{short(low)}, {short(high)}]" if None not in (low, high) else "")  # type: ignore[arg-type]


def line_systems(arm: ArmRows) -> list[System]:
    """Defences of the figures with lines: all that need no axis, and the first that does, on one.

    The other forms and axes are in the tables and in figures 6 and 7: more lines than these cannot
    be told apart.
    """
    needing = [one for one in systems(arm.plan) if one.axis == arm.axis]
    first = [one for one in needing if one.key == "biasdef"][:1] or needing[:1]
    return [one for one in systems(arm.plan) if one.axis == ANY_AXIS] + first


def injected_conditions(arm: ArmRows) -> tuple[str, ...]:
    """Numbers injected of the data set's own passages, ascending, as the columns name them."""
    return tuple(sorted(arm.plan.injected, key=int))


def signed_conditions(arm: ArmRows) -> list[tuple[str, str, str]]:
    """Label, condition and polarity from the most negative to the most positive injection."""
    numbers = injected_conditions(arm)
    polarities = {one.polarity for one in arm.plan.attacks}
    negative = [(f"−{n}", n, "negative") for n in reversed(numbers)]
    positive = [(f"+{n}", n, "positive") for n in numbers]
    return [
        *(negative if "negative" in polarities else []),
        ("0", "0", tables.BOTH),
        *(positive if "positive" in polarities else []),
    ]


def _by_injections(arm: ArmRows, key: str, title: str, label: str, metric: str) -> Figure:
    k = arm.plan.k
    base = Figure(key, title.format(k=k), "lines", "injected passages (sign: their polarity)",
                  label.format(k=k), arm=arm.label)  # fmt: skip
    if not injected_conditions(arm):
        return _without(base, NO_INJECTION)
    columns = [one for one in signed_conditions(arm) if metric != RATIO or one[1] != "0"]
    series, facts = [], []
    for system in line_systems(arm):
        found = [
            arm.results.get(system.key, system.axis, condition, metric, polarity)
            for _, condition, polarity in columns
        ]
        series.append(
            Series(
                system_title(system),
                [name for name, _, _ in columns],
                [one.mean for one in found],
                [one.low for one in found],
                [one.high for one in found],
            )
        )
        values = zip(columns, found, strict=True)
        listed = "; ".join(f"{c[0]}: {shown(one.mean, one.low, one.high)}" for c, one in values)
        facts.append(f"{system_title(system)}: {listed}")
    marks = [("paper, no defence", float(_place(columns, x)), y)
             for x, y in FIGURES[key].values.items() if x.isdecimal()]  # fmt: skip
    return _with(base, series, facts, tuple(marks))


def _place(columns: Sequence[tuple[str, str, str]], condition: str) -> int:
    return next(place for place, one in enumerate(columns) if one[1] == condition)


def _score_figure(arm: ArmRows) -> Figure:
    base = Figure("4d", f"Mean PS of the {arm.plan.k} selected", "lines",
                  "injected passages (sign: their polarity)", f"mean PS on the {arm.axis} axis",
                  arm=arm.label)  # fmt: skip
    if not injected_conditions(arm):
        return _without(base, NO_INJECTION)
    columns = signed_conditions(arm)
    series, facts = [], []
    for named in line_systems(arm):
        found = [
            arm.results.get(named.key, arm.axis, condition, "mean_score", polarity)
            for _, condition, polarity in columns
        ]
        names = [name for name, _, _ in columns]
        means = [one.mean for one in found]
        lows, highs = [one.low for one in found], [one.high for one in found]
        series.append(Series(named.title, names, means, lows, highs))
        listed = "; ".join(
            f"{name}: {shown(*ends)}" for name, *ends in zip(names, means, lows, highs, strict=True)
        )
        facts.append(f"{named.title}: {listed}")
    return _with(base, series, facts)


def _averages(arm: ArmRows, key: str, title: str, label: str, metric: str) -> Figure:
    k = arm.plan.k
    base = Figure(key, title.format(k=k), "bars", "", label.format(k=k), arm=arm.label)
    if not injected_conditions(arm):
        return _without(base, NO_INJECTION)
    names, ends = [], []
    for system in systems(arm.plan):
        rows = injected_rows(arm.rows, system, arm.axis)
        if metric == RATIO:
            found = tables.ratio_of(rows, arm.plan.seed)
        else:
            means = ends_of(rows, tables.METRICS[metric], arm.plan.seed)
            found = means["mean"], means["low"], means["high"], means["n"]
        names.append(system_title(system))
        ends.append(found)
    stated = FIGURES[key].values.get("biasdef")
    marks = () if stated is None else (("paper, BiasDef", None, stated),)
    return _with(base, [mean_series("mean", names, ends)], _facts(names, ends), marks)


def injected_rows(rows: Sequence[Row], system: System, first_axis: str) -> list[Row]:
    """Rows of a system under injections of the data set's own passages, of all numbers."""
    axis = first_axis if system.axis == ANY_AXIS else system.axis
    return [
        one
        for one in rows
        if one["defense"] == system.key
        and one["axis"] == axis
        and one["attack"] == OWN_PASSAGES
        and one["status"] == "ok"
    ]


def _distribution_figure(arm: ArmRows) -> Figure:
    k = arm.plan.k
    base = Figure("7", f"Distribution of A-Recall@{k} over questions × polarities", "steps",
                  f"A-Recall@{k}", "share at or below", arm=arm.label)  # fmt: skip
    chosen = [s for s in systems(arm.plan) if "biasdef" in s.key] or systems(arm.plan)
    if not injected_conditions(arm):
        return _without(base, NO_INJECTION)
    series, facts = [], []
    for system in chosen:
        rows = injected_rows(arm.rows, system, arm.axis)
        values = [one["adversarial_precision"] for one in rows]
        if not values:
            continue
        found = distribution(values)
        x, y = [0.0, *found.values.tolist(), 1.0], [0.0, *found.shares.tolist(), 1.0]
        series.append(Series(system_title(system), x, y))
        ends = ends_of(rows, tables.METRICS["none_selected"], arm.plan.seed)
        facts.append(
            f"{system_title(system)}: no adversarial passage selected in "
            f"{shown(ends['mean'], ends['low'], ends['high'])} of the cells"
        )
    marks = (("paper, BiasDef: over .70 at 0", 0.0, FIGURES["7"].values["share"]),)
    return _with(base, series, facts, marks)


def stance_figure(arm: ArmRows) -> Figure:
    """Figure 2a: PS against stance, by the judge where there is one, else by the data set."""
    has_judge = any(one["likert"] is not None for one in arm.passages)
    column = "likert" if has_judge else "stance"
    source = "the judge" if has_judge else "the data set"
    base = Figure("2a", f"PS against 7-point stance, as {source} states it", "points",
                  "stance", "PS", arm=arm.label)  # fmt: skip
    series, facts = [], []
    for axis in arm.plan.axis_methods:
        points: dict[str, list[tuple[float, float]]] = {}
        for one in arm.passages:
            if one["axis"] == axis and one[column] is not None:
                if one["attack"] not in ("none", OWN_PASSAGES):
                    continue  # the same passages once more, rewritten
                points.setdefault(one["query_id"], []).append((one[column], one["score"]))
        if not points:
            continue
        flat = [point for group in points.values() for point in group]
        series.append(Series(axis, [x for x, _ in flat], [y for _, y in flat]))
        mean, low, high, n = mean_spearman(points, arm.plan.seed)
        facts.append(
            f"{axis}: Spearman {shown(mean, low, high)} on average over {n} questions, "
            f"{len(flat)} passages"
        )
    if not series:
        return _without(base, "neither a table [judge] nor stances in the data set")
    return _with(base, series, facts)


def fact_figure(arm: ArmRows) -> Figure:
    """Figure 3: what a fact check says of benign and adversarial passages."""
    base = Figure("3", "Fact check of sentences", "bars", "", "share", arm=arm.label)
    rows = [
        one
        for one in arm.passages
        if one["n_supports"] is not None
        and one["axis"] == arm.axis
        and one["attack"] in ("none", OWN_PASSAGES)
    ]
    if not rows:
        return _without(base, "needs fact_check = true and a table [nli]")
    shares: dict[str, Callable[[Row], float | None]] = {
        "not enough": lambda one: _share(
            one["n_not_enough"], one["n_supports"] + one["n_refutes"] + one["n_not_enough"]
        ),
        "supports": lambda one: _share(one["n_supports"], one["n_supports"] + one["n_refutes"]),
    }
    names = [f"{share}, {side}" for share in shares for side in ("none", "positive", "negative")]
    ends: list[Ends] = []
    for name in names:
        share, side = name.split(", ")
        found = ends_of(
            [one for one in rows if one["polarity"] == side], shares[share], arm.plan.seed
        )
        ends.append((found["mean"], found["low"], found["high"], found["n"]))
    marks = tuple(
        ("paper" if place == 0 else f"_{name}", float(place), FIGURES["3"].values[name])
        for place, name in enumerate(names)
    )
    return _with(base, [mean_series("this run", names, ends)], _facts(names, ends), marks)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def mean_series(name: str, x: Sequence[str], ends: Sequence[Ends]) -> Series:
    """Give means with their intervals under one name."""
    return Series(name, x, [e[0] for e in ends], [e[1] for e in ends], [e[2] for e in ends])


def _facts(names: Sequence[str], ends: Sequence[Ends]) -> list[str]:
    return [f"{name}: {shown(*one[:3])}" for name, one in zip(names, ends, strict=True)]


def _with(
    base: Figure,
    series: Sequence[Series],
    facts: Sequence[str],
    marks: tuple[tuple[str, float | None, float], ...] = (),
) -> Figure:
    return replace(base, series=tuple(series), facts=tuple(facts), marks=marks)


def _without(base: Figure, why: str) -> Figure:
    return replace(base, missing=f"Not in this run: {why}.")
