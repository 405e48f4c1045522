"""The main table of a run as Markdown and as plain cells, for files, README and terminal.

Owns how a mean with its interval is written. It computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from epibias.experiment.plan import Plan
from epibias.experiment.tables import ANY_AXIS, ResultRow, Results

# Metric, title, what the numbers mean. The first two are the main table.
MAIN_TABLES = (
    (
        "adversarial_precision",
        "A-Recall@{k} (adversarial precision@{k})",
        "Share of the {k} selected places that went to injected passages; lower is better.",
    ),
    (
        "recall_over_k",
        "Recall@{k} (/k)",
        "Share of the {k} selected places that went to the question's own benign passages; "
        "higher is better.",
    ),
)


@dataclass(frozen=True)
class System:
    """A row of the main table: a defence on an axis."""

    key: str
    title: str
    axis: str
    is_first: bool


def systems(plan: Plan) -> list[System]:
    """Rows of the main table, in order; a defence without an axis stands once."""
    return [
        System(named.key, named.title, axis, number == 0)
        for named in plan.defenses
        for number, axis in enumerate(plan.axis_methods if named.uses_axis else (ANY_AXIS,))
    ]


def mean_text(row: ResultRow) -> str:
    """Write a mean: `.19`, `1.00`, or `n/a`.

    Examples
    --------
    >>> mean_text(ResultRow("none", "any", "5", "both", "x", 0.187, 0.1, 0.3, 16, 0, 0))
    '.19'
    """
    return "n/a" if row.mean is None else short(row.mean)


def interval_text(row: ResultRow) -> str:
    """Write an interval: `[.10, .30]`, or nothing."""
    if row.low is None or row.high is None:
        return ""
    return f"[{short(row.low)}, {short(row.high)}]"


def results_markdown(results: Results, plan: Plan) -> str:
    """Return the main tables: one a metric, a row a defence × axis, a column a condition."""
    parts = []
    for metric, title, meaning in MAIN_TABLES:
        heads = [column_title(condition) for condition in plan.conditions]
        lines = [
            f"**{title.format(k=plan.k)}**: {meaning.format(k=plan.k)}",
            "",
            f"| defence | axis | {' | '.join(heads)} |",
            f"|---|---|{'---|' * len(heads)}",
        ]
        for system in systems(plan):
            cells = []
            for condition in plan.conditions:
                row = results.get(system.key, system.axis, condition, metric)
                cells.append(f"{mean_text(row)} {interval_text(row)}".strip())
            axis = "" if system.axis == ANY_AXIS else system.axis
            lines.append(f"| {system.title} | {axis} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def column_title(condition: str) -> str:
    """Title of a condition's column.

    Examples
    --------
    >>> [column_title(condition) for condition in ("0", "5", "decoys", "verbatim-5")]
    ['clean', '5 inj.', 'decoys', 'verbatim 5']
    """
    if condition == "0":
        return "clean"
    return f"{condition} inj." if condition.isdecimal() else condition.replace("-", " ")


def short(value: float) -> str:
    """Write a number with two decimals and no leading zero."""
    text = f"{value:.2f}"
    return text.replace("0.", ".", 1) if abs(float(text)) < 1 else text
