"""report.html: one self-contained page, from the raw rows and the manifest.

Owns the words and tables of the page and what is inlined in it. Everything is inside the file:
plotly.js once, the data as JSON, style and script; it opens from disk without a network.
"""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epibias import _files
from epibias._validate import extra
from epibias.data_sets import DebateTopic
from epibias.experiment import figures, markdown
from epibias.experiment.axes import CHANCE_DRAWS, VALID_ABOVE
from epibias.experiment.findings import findings
from epibias.experiment.plan import POLARITIES, Attack, Plan
from epibias.experiment.raw import Row
from epibias.experiment.tables import ANY_AXIS, PER_AXIS, RATIO, Results

FIRST_ATTACK = "injection-positive-5"  # what the query picture shows first
# Columns of the validity table, for each axis: name in the manifest to title.
VALIDITY_COLUMNS = {
    "validity": "validity",
    "auc_adversarial": "AUC adversarial",
    "auc_benign": "AUC benign",
    "explained_variance_ratio": "explained",
    "relative_gap": "gap",
}
# Metric, title, caption; after the two main tables.
FURTHER_TABLES = (
    (
        "adversarial_recall",
        "Adversarial recall@{k}",
        "Share of the injected passages that were selected.",
    ),
    (
        "none_selected",
        "No adversarial passage selected",
        "Share of questions whose selection is free of injected passages.",
    ),
    (
        "recall_over_relevant",
        "Recall@{k} (/n_relevant)",
        "Relevant benign passages selected, divided by all of the question's benign passages.",
    ),
    (
        RATIO,
        "A-Recall@{k} / recall@{k}",
        "Adversarial passages selected for each relevant one: ratio of the means; lower is better.",
    ),
    ("n_selected", "Passages selected", "Out of {k}; a filter may leave fewer."),
    (
        "abs_b_retrieval",
        "|B_retrieval|, same defence",
        "Distance between the mean PS of the attacked and of the clean selection, both with this "
        "defence.",
    ),
    (
        "abs_b_retrieval_undefended",
        "|B_retrieval|, against undefended clean",
        "The same, against the clean selection without a defence: what the defence itself moves "
        "counts too.",
    ),
)


def write_report(
    path: Path,
    manifest: Mapping[str, Any],
    rows: Sequence[Row],
    results: Results,
    plan: Plan,
    topics: Sequence[DebateTopic],
    problems: Sequence[str],
) -> None:
    """Write report.html, whole or not at all.

    Parameters
    ----------
    path : Path
        Where it goes.
    manifest : mapping
        The manifest of the run.
    rows : sequence of rows
        Raw rows.
    results : Results
        Means with intervals.
    plan : Plan
        What was run.
    topics : sequence of DebateTopic
        Questions and texts, for labels and excerpts.
    problems : sequence of str
        What could not be measured.
    """
    jinja2 = extra("report.html", "jinja2", "report")
    offline = extra("report.html", "plotly.offline", "report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(_asset("report.html.j2"))
    page = template.render(
        **_page(manifest, rows, results, plan, topics, problems),
        css=_asset("report.css"),
        report_js=_asset("report.js"),
        plotly_js=script_safe(offline.get_plotlyjs()),
    )
    _files.write_text(path, page)


def script_safe(text: str) -> str:
    r"""Keep text inside a script element from ending it: `</` becomes `<\/`.

    Examples
    --------
    >>> script_safe('"</script>"')
    '"<\\/script>"'
    """
    return text.replace("</", "<\\/").replace("<!--", "<\\!--")


def _page(
    manifest: Mapping[str, Any],
    rows: Sequence[Row],
    results: Results,
    plan: Plan,
    topics: Sequence[DebateTopic],
    problems: Sequence[str],
) -> dict[str, Any]:
    settings, validity = manifest["settings"], manifest["validity"]
    pools = figures.topic_pools(rows, plan)
    return {
        "version": settings["code"]["version"] or "(not installed)",
        "commit": manifest["sessions"][0]["environment"]["commit"],
        "started": manifest["sessions"][0]["started"].replace("T", " "),
        "encoder_note": manifest["encoder_note"],
        "facts": _facts(manifest, rows, plan, topics),
        "findings": findings(results, plan, validity),
        "problems": problems,
        "tables": [
            _table(results, plan, metric, title, caption)
            for metric, title, caption in markdown.MAIN_TABLES
        ],
        "further_tables": [
            _table(results, plan, metric, title, caption)
            for metric, title, caption in FURTHER_TABLES
        ],
        "n_defenses": sum(named.key != "none" for named in plan.defenses),
        "n_anchors": _counts(len(topic.anchors) for topic in topics),
        "valid_above": markdown.short(VALID_ABOVE),
        "chance": _chance_sentence(manifest["validity_by_chance"]),
        "k": plan.k,
        "pool_size": plan.k * plan.pool_factor,
        "axes": plan.axis_methods,
        "first_axis": _most_valid_axis(validity, plan),
        "attacks": [
            {"key": a.key, "title": attack_title(a), "first": a.key == FIRST_ATTACK}
            for a in plan.attacks
        ],
        "defenses": plan.defenses,
        "topics": topics,
        "validity_columns": list(VALIDITY_COLUMNS.values()),
        "validity_rows": _validity_rows(validity, plan, topics),
        "run_data": _run_data(results, plan, topics, validity, pools),
    }


def _run_data(
    results: Results,
    plan: Plan,
    topics: Sequence[DebateTopic],
    validity: Sequence[Mapping[str, Any]],
    pools: Mapping[str, Any],
) -> str:
    """Return the JSON that report.js draws."""
    data = {
        "axes": list(plan.axis_methods),
        "conditions": [markdown.column_title(c) for c in plan.conditions],
        "lineMetrics": [
            {"key": metric, "title": title.format(k=plan.k).split(" (")[0]}
            for metric, title, _ in markdown.MAIN_TABLES
        ],
        "lines": figures.line_panels(results, plan),
        "validity": figures.validity_series(validity, plan),
        "validAbove": VALID_ABOVE,
        "topics": [
            {"topic": t.topic, "query": t.query, "pools": pools.get(t.topic, {})} for t in topics
        ],
        "excerpts": figures.excerpts(_texts(topics), pools),
    }
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return script_safe(text)


def attack_title(attack: Attack) -> str:
    """Name an attack for people.

    Examples
    --------
    >>> attack_title(Attack("injection", "positive", 5))
    '5 positive'
    """
    if attack.kind == "clean":
        return "nothing (clean)"
    if attack.kind == "decoys":
        return f"{attack.polarity} decoys"
    return f"{attack.injections} {attack.polarity}"


def _table(results: Results, plan: Plan, metric: str, title: str, caption: str) -> dict[str, Any]:
    attacked_only = metric in {"adversarial_recall", RATIO} or metric in PER_AXIS
    conditions = [c for c in plan.conditions if not (attacked_only and c == "0")]
    table_rows = []
    for system in _systems(plan, metric):
        means = [results.get(system.key, system.axis, c, metric) for c in conditions]
        table_rows.append(
            {
                "title": system.title,
                "axis": "" if system.axis == ANY_AXIS else system.axis,
                "first": system.is_first,
                "cells": [
                    {"mean": markdown.mean_text(row), "interval": markdown.interval_text(row)}
                    for row in means
                ],
            }
        )
    return {
        "title": title.format(k=plan.k),
        "caption": caption.format(k=plan.k),
        "columns": [markdown.column_title(c) for c in conditions],
        "rows": table_rows,
    }


def _systems(plan: Plan, metric: str) -> list[markdown.System]:
    """Rows of a table; a metric of PS depends on the axis even without a defence."""
    if metric not in PER_AXIS:
        return markdown.systems(plan)
    return [
        markdown.System(named.key, named.title, axis, number == 0)
        for named in plan.defenses
        for number, axis in enumerate(plan.axis_methods)
    ]


def _facts(
    manifest: Mapping[str, Any], rows: Sequence[Row], plan: Plan, topics: Sequence[DebateTopic]
) -> list[tuple[str, str]]:
    environment = manifest["sessions"][-1]["environment"]
    encoder = manifest["settings"]["encoder"]
    n_benign = sum(len(topic.benign) for topic in topics)
    n_adversarial = sum(len(topic.adversarial[p]) for topic in topics for p in POLARITIES)
    per_topic = _counts(len(topic.benign) for topic in topics)
    anchors = _counts(len(topic.anchors) for topic in topics)
    injected = " or ".join([", ".join(plan.injected[:-1]), *plan.injected[-1:]])
    backend = environment["backend"]
    return [
        ("Questions", f"{len(topics)}, each with {anchors} anchor passages"),
        ("Clean corpus", f"{n_benign} benign passages, {per_topic} a question, all together"),
        ("Adversarial passages", f"{n_adversarial}; {injected} of one polarity at a time"),
        ("Retrieved, selected", f"{plan.k * plan.pool_factor} candidates, {plan.k} selected"),
        ("Encoder", f"{encoder.get('name', 'unknown')}, {encoder.get('dim', '?')} dimensions"),
        ("Cells measured", f"{len(rows)} (question × attack × axis × defence)"),
        ("Seed", f"{plan.seed} (permutation test, bootstrap)"),
        (
            "Machine",
            f"{environment['n_cpus']} CPUs, {backend.get('simd_level')}, "
            f"Python {environment['python']}",
        ),
    ]


def _counts(numbers: Iterable[int]) -> str:
    """Write a number that may differ between questions: `8`, or `5 to 8`."""
    found = sorted(set(numbers))
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"


def _chance_sentence(shares: Mapping[str, float]) -> str:
    """Say how often an axis without stance passes for a valid one."""
    parts = " and ".join(f"{100 * share:.0f} % ({method})" for method, share in shares.items())
    return (
        f"of {CHANCE_DRAWS} axes fitted on random vectors, which hold no stance, {parts} exceed "
        f"{markdown.short(VALID_ABOVE)} by luck"
    )


def _most_valid_axis(validity: Sequence[Mapping[str, Any]], plan: Plan) -> str:
    def mean(axis: str) -> float:
        known = [
            row["validity"]
            for row in validity
            if row["axis"] == axis and row["validity"] is not None
        ]
        return float(np.mean(known)) if known else -2.0

    return max(plan.axis_methods, key=mean)


def _validity_rows(
    validity: Sequence[Mapping[str, Any]], plan: Plan, topics: Sequence[DebateTopic]
) -> list[dict[str, Any]]:
    by_key = {(row["topic"], row["axis"]): row for row in validity}
    names = tuple(VALIDITY_COLUMNS)

    def text(value: float | None) -> str:
        return "n/a" if value is None else f"{value:.2f}"

    return [
        {
            "topic": topic.topic,
            "cells": [
                text(by_key[topic.topic, axis][name])
                for axis in plan.axis_methods
                for name in names
            ],
        }
        for topic in topics
    ]


def _texts(topics: Sequence[DebateTopic]) -> dict[str, str]:
    passages = [p for topic in topics for p in topic.benign]
    passages += [p for topic in topics for name in POLARITIES for p in topic.adversarial[name]]
    return {passage.id: passage.text for passage in passages}


def _asset(name: str) -> str:
    return (importlib.resources.files("epibias.experiment") / name).read_text(encoding="utf-8")
