"""Tables, figures and report.html of an experiment, from its rows alone.

Owns the page: what stands on it, in which order, beside what of the paper. In: a run folder whose
rows are joined. Out: `tables/`, `figures/*.svg`, `report.html` (self-contained, without script) and
`summary.json` (the means that a page of findings quotes). Nothing is measured here.
"""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epibias import _files
from epibias._validate import extra
from epibias.attacks.properties import CATEGORIES
from epibias.experiment import bench_tables, markdown
from epibias.experiment.answer_figures import across_figures, answer_figures
from epibias.experiment.arm_rows import ArmRows, read_arms
from epibias.experiment.draw import svg_of
from epibias.experiment.figure_data import Figure
from epibias.experiment.paper import FIGURES, TABLE_II
from epibias.experiment.plan import CONTROL_AXIS
from epibias.experiment.raw import Row
from epibias.experiment.retrieval_figures import retrieval_figures, shown
from epibias.experiment.run_folder import RunFolder
from epibias.experiment.stage_costs import STAGES
from epibias.experiment.tables import ANY_AXIS

# Metrics of `summary.json`, with which a page of findings is written.
SUMMARY_METRICS = (
    "adversarial_precision", "adversarial_recall", "none_selected", "recall_over_k", "n_selected",
    "short", "abs_b_retrieval", "abs_b_retrieval_undefended", "mean_score",
)  # fmt: skip


@dataclass(frozen=True)
class BenchReport:
    """What was made: rows read, notes on what could not be measured, figures that were drawn.

    `all_failed` names the parts of the run of which nothing is left.
    """

    n_rows: int
    notes: list[str]
    figures: list[str]
    all_failed: list[str]


def report_bench(folder: RunFolder) -> BenchReport:
    """Write tables, figures, summary and report of a run.

    Parameters
    ----------
    folder : RunFolder
        Held by this process, with its joined tables.

    Raises
    ------
    InputError
        Tables that are damaged, or of a run that is no bench run; a full disk.
    """
    manifest = folder.manifest()
    arms = read_arms(folder)
    costs = json.loads((folder.path / "costs.json").read_text(encoding="utf-8"))
    bench_tables.write_tables(folder.path / "tables", arms, costs)
    figures = [one for arm in arms for one in (*retrieval_figures(arm), *answer_figures(arm))]
    figures = sorted([*figures, *across_figures(arms)], key=_order)
    drawn = _draw(folder.path / "figures", figures)
    notes = [*_orientation(manifest["settings"]), *bench_tables.notes_of(arms)]
    folder.write_json("summary.json", _summary(manifest, arms, costs, figures, notes))
    page = _page(manifest, arms, costs, figures, drawn, notes)
    _files.write_text(folder.path / "report.html", page)
    n_rows = sum(len(arm.rows) for arm in arms)
    files = sorted(drawn[id(one)][0] for one in figures if not one.missing)
    return BenchReport(n_rows, notes, files, bench_tables.all_failed(arms))


def _orientation(settings: Mapping[str, Any]) -> list[str]:
    """Say which axes a rule oriented, where anchors have no stances: which side is positive."""
    axes = ", ".join(settings["config"]["axes"])
    return [
        f"{name}: the axes ({axes}) of {n_by_rule} of {one['n_questions']} questions were oriented "
        "by a rule, as their anchors have no stances: which side is positive is the rule's choice "
        "there, and means over questions mix sides"
        for name, one in settings["data"].items()
        if (n_by_rule := one.get("n_oriented_by_rule", 0))
    ]


def _order(figure: Figure) -> tuple[int, str]:
    number = re.match(r"\d+", figure.key)
    return int(number.group()) if number else 99, figure.key


def _draw(folder: Path, figures: Sequence[Figure]) -> dict[int, tuple[str, str]]:
    """Write every figure that has something in it; its file name and SVG, by the figure."""
    _files.make_folder(folder)
    for old in folder.glob("*.svg"):
        old.unlink()
    found: dict[int, tuple[str, str]] = {}
    taken: set[str] = set()
    for one in figures:
        if one.missing:
            continue
        name, number = f"figure_{one.key}.svg", 2
        while name in taken:
            name, number = f"figure_{one.key}_{number}.svg", number + 1
        taken.add(name)
        svg = svg_of(one)
        _files.write_text(folder / name, svg)
        found[id(one)] = name, svg
    return found


def _page(
    manifest: Mapping[str, Any],
    arms: Sequence[ArmRows],
    costs: Sequence[Mapping[str, Any]],
    figures: Sequence[Figure],
    drawn: Mapping[int, tuple[str, str]],
    notes: Sequence[str],
) -> str:
    jinja2 = extra("report.html", "jinja2", "report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    settings, session = manifest["settings"], manifest["sessions"][0]
    text: str = environment.from_string(_asset("bench_report.html.j2")).render(
        css=_asset("report.css"),
        name=settings["config"]["name"],
        version=settings["code"]["version"] or "(not installed)",
        commit=session["environment"]["commit"],
        started=session["started"].replace("T", " "),
        facts=_facts(manifest, arms),
        notes=notes,
        tables=[table for arm in arms for table in _tables(arm)],
        properties=[_properties(arm) for arm in arms],
        paper_properties=TABLE_II,
        property_names=CATEGORIES,
        validity=[_validity(arm) for arm in arms],
        figures=[
            {"figure": one, "svg": drawn[id(one)][1] if id(one) in drawn else ""} for one in figures
        ],
        cost_table=_cost_table(costs),
        cost_of_paper=FIGURES["cost"].words,
        stages=STAGES,
    )
    return text


def _facts(manifest: Mapping[str, Any], arms: Sequence[ArmRows]) -> list[tuple[str, str]]:
    settings, environment = manifest["settings"], manifest["sessions"][-1]["environment"]
    plan = arms[0].plan
    data = [
        f"{name}: {one['n_questions']} questions, {one['n_passages']} passages ({one['licence']})"
        for name, one in settings["data"].items()
    ]
    generators = [one["name"] for one in settings["config"]["generators"]]
    backend = environment["backend"]
    return [
        ("Data", "; ".join(data)),
        ("Encoders", "; ".join(one["name"] for one in settings["config"]["encoders"])),
        ("Attacks", ", ".join(dict.fromkeys(one.kind for one in plan.attacks[1:])) or "none"),
        ("Injected", ", ".join(str(one) for one in settings["config"]["injections"])),
        ("Axes", ", ".join(plan.axis_methods)),
        ("Defences", ", ".join(one.title for one in plan.defenses)),
        ("Generators", ", ".join(generators) or "none: figures of answers are empty"),
        ("Cells", f"{sum(len(arm.rows) for arm in arms)}"),
        ("Intervals", f"95 %, bootstrap over questions, seed {plan.seed}"),
        (
            "Machine",
            f"{environment['n_cpus']} CPUs, {backend.get('simd_level')}, "
            f"Python {environment['python']}",
        ),
    ]


def _tables(arm: ArmRows) -> list[dict[str, Any]]:
    """Give the main tables of an arm: a row a defence on an axis, a column a condition."""
    found = []
    for metric, title, caption in markdown.MAIN_TABLES:
        rows = []
        for system in markdown.systems(arm.plan):
            means = [
                arm.results.get(system.key, system.axis, condition, metric)
                for condition in arm.plan.conditions
            ]
            rows.append(
                {
                    "title": system.title,
                    "axis": "" if system.axis == ANY_AXIS else system.axis,
                    "first": system.is_first,
                    "cells": [
                        {"mean": markdown.mean_text(one), "interval": markdown.interval_text(one)}
                        for one in means
                    ],
                }
            )
        found.append(
            {
                "title": f"{title.format(k=arm.plan.k)}: {arm.label}",
                "caption": caption.format(k=arm.plan.k),
                "columns": [markdown.column_title(one) for one in arm.plan.conditions],
                "rows": rows,
            }
        )
    return found


def _properties(arm: ArmRows) -> dict[str, Any]:
    rows: dict[tuple[str, str, str], list[str]] = {}
    for one in bench_tables.property_rows(arm):
        key = one["attack"], one["polarity"], one["axis"]
        rows.setdefault(key, []).append(shown(one["mean"], one["low"], one["high"]))
    return {"label": arm.label, "rows": rows}


def _validity(arm: ArmRows) -> dict[str, Any]:
    rows: dict[str, dict[str, str]] = {}
    for one in bench_tables.validity_means(arm):
        text = shown(one["mean"], one["low"], one["high"])
        rows.setdefault(one["axis"], {})[one["measure"]] = text
    names = bench_tables.VALIDITY_COLUMNS
    return {
        "label": arm.label,
        "columns": names,
        "rows": {axis: [cells.get(name, "") for name in names] for axis, cells in rows.items()},
        "control": CONTROL_AXIS,
    }


def _cost_table(costs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: dict[tuple[str, str, int, str], dict[str, str]] = {}
    for one in costs:
        key = one["dataset"], one["encoder"], one["k"], one["defense"]
        text = f"{one['p50_ms']:.3g} / {one['p95_ms']:.3g}"
        found.setdefault(key, {})[one["stage"]] = text
    return [
        {"arm": f"{key[0]}, {key[1]}, k = {key[2]}", "defense": key[3],
         "cells": [cells.get(stage, "") for stage in STAGES]}
        for key, cells in found.items()
    ]  # fmt: skip


def _summary(
    manifest: Mapping[str, Any],
    arms: Sequence[ArmRows],
    costs: Sequence[Row],
    figures: Sequence[Figure],
    notes: Sequence[str],
) -> dict[str, Any]:
    """Give what a page of findings quotes: means with intervals, without ids and texts."""
    settings, session = manifest["settings"], manifest["sessions"][-1]
    points = {"points"}  # clouds of points stay in the run folder; their facts are enough
    return {
        "name": settings["config"]["name"],
        "commit": session["environment"]["commit"],
        "code": settings["code"],
        "started": session["started"],
        "environment": session["environment"],
        "data": settings["data"],
        "encoders": settings["encoders"],
        "notes": list(notes),
        "arms": [
            {
                "label": arm.label,
                "n_cells": len(arm.rows),
                "n_failed": sum(one["status"] == "failed" for one in arm.rows),
                "n_not_applicable": sum(one["status"] == "not_applicable" for one in arm.rows),
                "defenses": {one.key: one.title for one in arm.plan.defenses},
                "results": [
                    [one.defense, one.axis, one.condition, one.polarity, one.metric,
                     *map(_rounded, (one.mean, one.low, one.high)), one.n]
                    for one in arm.results.rows if one.metric in SUMMARY_METRICS
                ],
                "answers": [
                    {**one, **{name: _rounded(one[name]) for name in ("mean", "low", "high")}}
                    for one in bench_tables.answer_means(arm)
                ],
                "properties": bench_tables.property_rows(arm),
                "validity": bench_tables.validity_means(arm),
            }
            for arm in arms
        ],
        "costs": list(costs),
        "figures": [
            {name: value for name, value in one.plain().items()
             if name != "series" or one.kind not in points}
            for one in figures
        ],
    }  # fmt: skip


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _asset(name: str) -> str:
    return (importlib.resources.files("epibias.experiment") / name).read_text(encoding="utf-8")
