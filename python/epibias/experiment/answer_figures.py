"""The paper's figures of answers: 2b to 2d, 4e, 4f, 6d and 6e; they need a generator.

In: the rows of the arms. Out: `Figure`s; without a generator each says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from epibias.experiment.arm_rows import ArmRows
from epibias.experiment.bench_tables import ANSWER_METRICS, ends_of
from epibias.experiment.figure_data import Figure, Series
from epibias.experiment.markdown import System, systems
from epibias.experiment.plan import OWN_PASSAGES
from epibias.experiment.rank_correlation import pooled_spearman
from epibias.experiment.raw import Row
from epibias.experiment.retrieval_figures import (
    injected_rows,
    line_systems,
    mean_series,
    shown,
    signed_conditions,
    system_title,
)
from epibias.experiment.tables import ANY_AXIS, BOTH, Ends

NO_GENERATOR = "Not in this run: it needs answers, so a [[generator]]."
INJECTED = "injected passages (sign: their polarity)"


def answer_figures(arm: ArmRows) -> list[Figure]:
    """Figures of one arm that are made of answers, in the paper's order."""
    generators = list(dict.fromkeys(one["generator"] for one in arm.answers))
    return [
        _correlation(arm, generators),
        *(_scores(arm, name) for name in generators or [""]),
        *(_shifts(arm, name) for name in generators or [""]),
    ]


def across_figures(arms: Sequence[ArmRows]) -> list[Figure]:
    """Figures 4f and 6e: every data set and generator of the run beside each other."""
    return [_scores_across(arms), _shifts_across(arms)]


def _of(arm: ArmRows, generator: str) -> list[Row]:
    return [one for one in arm.answers if one["generator"] == generator]


def _correlation(arm: ArmRows, generators: Sequence[str]) -> Figure:
    base = Figure("2b-d", "Bias of the context against bias of the answer", "points",
                  f"B_retrieval ({arm.axis} axis)", "B_response", arm=arm.label)  # fmt: skip
    if not generators:
        return replace(base, missing=NO_GENERATOR)
    cells = ("query_id", "axis", "defense", "attack", "polarity", "condition")
    shift = {tuple(one[name] for name in cells): one["b_retrieval"] for one in arm.rows}
    series, facts = [], []
    for generator in generators:
        points: dict[str, list[tuple[float, float]]] = {}
        for one in _of(arm, generator):
            if (one["defense"], one["axis"], one["attack"]) != ("none", arm.axis, OWN_PASSAGES):
                continue
            x, y = shift.get(tuple(one[name] for name in cells)), one["b_response"]
            if x is not None and y is not None:
                points.setdefault(one["query_id"], []).append((x, y))
        flat = [point for group in points.values() for point in group]
        if not flat:
            facts.append(f"{generator}: no answer to an attack with a clean one beside it")
            continue
        series.append(Series(generator, [x for x, _ in flat], [y for _, y in flat]))
        mean, low, high, n = pooled_spearman(points, arm.plan.seed)
        facts.append(
            f"{generator}: Spearman {shown(mean, low, high)} over {len(flat)} attacks on {n} "
            "questions, no defence"
        )
    if not series:
        return replace(base, missing=f"Not in this run: {'; '.join(facts)}.")
    return replace(base, series=tuple(series), facts=tuple(facts))


def _scores(arm: ArmRows, generator: str) -> Figure:
    base = Figure("4e", f"Mean PS of the answers{_by(generator)}", "lines", INJECTED,
                  f"PS on the {arm.axis} axis", arm=arm.label)  # fmt: skip
    if not generator:
        return replace(base, missing=NO_GENERATOR)
    rows, columns = _of(arm, generator), signed_conditions(arm)
    series, facts = [], []
    for named in line_systems(arm):
        ends = [
            _mean(arm, rows, named.key, condition, polarity, "answer_score")
            for _, condition, polarity in columns
        ]
        if not any(one[3] for one in ends):
            continue
        names = [name for name, _, _ in columns]
        series.append(mean_series(named.title, names, ends))
        listed = "; ".join(f"{n}: {shown(*e[:3])}" for n, e in zip(names, ends, strict=True))
        facts.append(f"{named.title}: {listed}")
    if not series:
        return replace(base, missing="Not in this run: no answer came.")
    return replace(base, series=tuple(series), facts=tuple(facts))


def _mean(
    arm: ArmRows, rows: Sequence[Row], defense: str, condition: str, polarity: str, metric: str
) -> Ends:
    chosen = [
        one
        for one in rows
        if one["defense"] == defense
        and one["axis"] == arm.axis
        and one["condition"] == condition
        and polarity in (BOTH, one["polarity"])
    ]
    found = ends_of(chosen, ANSWER_METRICS[metric], arm.plan.seed)
    return found["mean"], found["low"], found["high"], found["n"]


def _shifts(arm: ArmRows, generator: str) -> Figure:
    base = Figure("6d", f"|B_response|, mean over injections{_by(generator)}", "bars", "",
                  f"|B_response| on the {arm.axis} axis", arm=arm.label)  # fmt: skip
    if not generator:
        return replace(base, missing=NO_GENERATOR)
    names, ends = [], []
    for system in systems(arm.plan):
        if system.axis not in (ANY_AXIS, arm.axis):
            continue  # scores on another axis are in other units
        found = _shift(arm, _of(arm, generator), system)
        if found[3]:
            names.append(system_title(system))
            ends.append(found)
    if not names:
        return replace(base, missing="Not in this run: no answer came under an attack.")
    facts = [f"{name}: {shown(*one[:3])}" for name, one in zip(names, ends, strict=True)]
    return replace(base, series=(mean_series("mean", names, ends),), facts=tuple(facts))


def _shift(arm: ArmRows, rows: Sequence[Row], system: System) -> Ends:
    chosen = injected_rows(rows, system, arm.axis)
    found = ends_of(chosen, ANSWER_METRICS["abs_b_response"], arm.plan.seed)
    return found["mean"], found["low"], found["high"], found["n"]


def _scores_across(arms: Sequence[ArmRows]) -> Figure:
    base = Figure("4f", "Mean PS of undefended answers, by data set and generator", "lines",
                  INJECTED, "PS on the first axis")  # fmt: skip
    pairs = _pairs(arms)
    if not pairs:
        return replace(base, missing=NO_GENERATOR)
    series, facts = [], []
    for arm, generator in pairs:
        columns = signed_conditions(arm)
        names = [name for name, _, _ in columns]
        rows = _of(arm, generator)
        ends = [_mean(arm, rows, "none", c, polarity, "answer_score") for _, c, polarity in columns]
        title = f"{arm.label}, {generator}"
        series.append(mean_series(title, names, ends))
        listed = "; ".join(f"{n}: {shown(*e[:3])}" for n, e in zip(names, ends, strict=True))
        facts.append(f"{title}: {listed}")
    return replace(base, series=tuple(series), facts=tuple(facts))


def _shifts_across(arms: Sequence[ArmRows]) -> Figure:
    base = Figure("6e", "|B_response| by data set and generator", "bars", "", "|B_response|")
    pairs = _pairs(arms)
    if not pairs:
        return replace(base, missing=NO_GENERATOR)
    titles = [f"{arm.label}, {generator}" for arm, generator in pairs]
    first = pairs[0][0]
    wanted = [
        one
        for one in systems(first.plan)
        if one.key == "none" or ("biasdef" in one.key and one.axis == first.axis)
    ]
    series, facts = [], []
    for system in wanted:
        ends = [_shift(arm, _of(arm, name), system) for arm, name in pairs]
        series.append(mean_series(system_title(system), titles, ends))
        facts += [
            f"{system_title(system)}, {title}: {shown(*one[:3])}"
            for title, one in zip(titles, ends, strict=True)
        ]
    return replace(base, series=tuple(series), facts=tuple(facts))


def _pairs(arms: Sequence[ArmRows]) -> list[tuple[ArmRows, str]]:
    return [
        (arm, generator)
        for arm in arms
        for generator in dict.fromkeys(one["generator"] for one in arm.answers)
    ]


def _by(generator: str) -> str:
    return f" of {generator}" if generator else ""
