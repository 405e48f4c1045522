"""Tables of an experiment: means of every arm, answers, property check, validity, failures.

Owns the files in `tables/` of a bench run. In: rows by arm. Out: CSV and Markdown, and what the
report shows. Every mean has an interval over questions and the counts of what is not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from epibias import _files
from epibias.attacks.properties import CATEGORIES
from epibias.experiment import tables
from epibias.experiment.arm_rows import ArmRows
from epibias.experiment.markdown import results_markdown
from epibias.experiment.plan import CONTROL_AXIS, POLARITIES
from epibias.experiment.raw import Row
from epibias.experiment.tables import BOTH, Ends, interval_of, question_means

ARM_COLUMNS = ("dataset", "encoder", "k")
ENDS = ("mean", "low", "high", "n")
ANSWER_METRICS: Mapping[str, Callable[[Row], float | None]] = {
    "answer_score": lambda row: row["score"],
    "b_response": lambda row: row["b_response"],
    "b_response_undefended": lambda row: row["b_response_undefended"],
    "abs_b_response": lambda row: _absolute(row["b_response"]),
    "abs_b_response_undefended": lambda row: _absolute(row["b_response_undefended"]),
    "answer_likert": lambda row: row["likert"],
}
VALIDITY_COLUMNS = (
    "validity", "explained_variance_ratio", "relative_gap", "auc_adversarial", "auc_benign"
)  # fmt: skip


def write_tables(folder: Path, arms: Sequence[ArmRows], costs: Sequence[Mapping[str, Any]]) -> None:
    """Write everything that belongs into `tables/`."""
    _files.make_folder(folder)
    results = [{**_arm_cells(arm), **asdict(row)} for arm in arms for row in arm.results.rows]
    _write(folder / "results.csv", results)
    pages = [f"## {arm.label}\n\n{results_markdown(arm.results, arm.plan)}" for arm in arms]
    _files.write_text(folder / "results.md", "\n".join(pages))
    latency = [
        {**_arm_cells(arm), **row}
        for arm in arms
        for row in tables.latency_rows(arm.rows, arm.plan)
    ]
    _write(folder / "latency.csv", latency)
    for name, make in (
        ("answers", answer_means),
        ("properties", property_rows),
        ("validity", validity_means),
        ("failed", failed_rows),
    ):
        _write(folder / f"{name}.csv", [row for arm in arms for row in make(arm)])
    _write(folder / "costs.csv", costs)


def answer_means(arm: ArmRows) -> list[Row]:
    """Means of the answers: by generator, defence, axis, condition, polarity and metric."""
    groups: dict[tuple[str, str, str, str], list[Row]] = {}
    for one in arm.answers:
        key = one["generator"], one["defense"], one["axis"], one["condition"]
        groups.setdefault(key, []).append(one)
    found = []
    for (generator, defense, axis, condition), rows in groups.items():
        is_attacked = condition != "0"
        for polarity in (BOTH, *POLARITIES) if is_attacked else (BOTH,):
            chosen = [one for one in rows if polarity in (BOTH, one["polarity"])]
            for metric, value in ANSWER_METRICS.items():
                is_signed = not metric.startswith("abs_")
                if is_attacked and polarity == BOTH and is_signed:
                    continue  # the two directions would cancel
                found.append(
                    {
                        **_arm_cells(arm),
                        "generator": generator,
                        "defense": defense,
                        "axis": axis,
                        "condition": condition,
                        "polarity": polarity,
                        "metric": metric,
                        **ends_of(chosen, value, arm.plan.seed),
                        "n_failed": sum(one["n_failed"] for one in chosen),
                    }
                )
    return found


def property_rows(arm: ArmRows) -> list[Row]:
    """Table II: shares of adversarial passages with both properties, one or neither."""
    known = [one for one in arm.passages if one["category"] is not None]
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for one in known:
        groups.setdefault((one["attack"], one["polarity"], one["axis"]), []).append(one)
    found = []
    for (attack, polarity, axis), rows in groups.items():
        for name in CATEGORIES:

            def value(one: Row, name: str = name) -> float:
                return float(one["category"] == name)

            found.append(
                {
                    **_arm_cells(arm),
                    "attack": attack,
                    "polarity": polarity,
                    "axis": axis,
                    "property": name,
                    **ends_of(rows, value, arm.plan.seed),
                    "n_passages": len(rows),
                }
            )
    return found


def validity_means(arm: ArmRows) -> list[Row]:
    """How far the axes of each method carry stance, on average over questions."""
    found = []
    for axis in arm.plan.axis_methods:
        rows = [one for one in arm.validity if one["axis"] == axis]
        for name in VALIDITY_COLUMNS:
            if axis == CONTROL_AXIS and not name.startswith("auc"):
                continue

            def value(one: Row, name: str = name) -> float | None:
                found: float | None = one[name]
                return found

            ends = ends_of(rows, value, arm.plan.seed)
            found.append({**_arm_cells(arm), "axis": axis, "measure": name, **ends})
    return found


def failed_rows(arm: ArmRows) -> list[Row]:
    """Every cell that failed, and every one in which an answer failed, with the message."""
    found = []
    for what, rows in (("cell", arm.rows), ("answer", arm.answers)):
        for one in rows:
            n_failed = one.get("n_failed", 1) if what == "answer" else 1
            if one["status"] != "failed" and (what == "cell" or not n_failed):
                continue
            cells = ("query_id", "axis", "defense", "attack", "polarity", "condition")
            found.append(
                {
                    **_arm_cells(arm),
                    "what": what,
                    "generator": one.get("generator", ""),
                    **{name: one[name] for name in cells},
                    "n_failed": n_failed,
                    "message": one["message"],
                }
            )
    return found


def all_failed(arms: Sequence[ArmRows]) -> list[str]:
    """Say of which arms every cell failed, or every question put to a generator."""
    found = []
    for arm in arms:
        for words, rows in (("cell", arm.rows), ("cell's answers", arm.answers)):
            if rows and all(one["status"] == "failed" for one in rows):
                found.append(f"{arm.label}: every {words} failed, {len(rows)} of {len(rows)}")
    return found


def notes_of(arms: Sequence[ArmRows]) -> list[str]:
    """Say what could not be measured, and how often."""
    notes = []
    for arm in arms:
        failed = failed_rows(arm)
        for what, total in (("cell", len(arm.rows)), ("answer", len(arm.answers))):
            of_kind = [one for one in failed if one["what"] == what]
            if not of_kind:
                continue
            listed = "; ".join(
                f"{one['query_id']}, {one['defense']}, {one['condition']}: {one['message']}"
                for one in of_kind[:3]
            )
            more = f" (all {len(of_kind)} in tables/failed.csv)" if len(of_kind) > 3 else ""
            words = "cells failed" if what == "cell" else "cells have answers that failed"
            notes.append(f"{arm.label}: {len(of_kind)} of {total} {words}: {listed}{more}")
        notes += _unjudged(arm)
        missing: dict[str, set[tuple[str, str]]] = {}
        for one in arm.rows:
            if one["status"] == "not_applicable":
                missing.setdefault(one["condition"], set()).add((one["query_id"], one["polarity"]))
        for condition, questions in missing.items():
            notes.append(
                f"{arm.label}: the attack {condition!r} does not exist for {len(questions)} "
                "questions × polarities; they are left out of its means"
            )
    return notes


def _unjudged(arm: ArmRows) -> list[str]:
    """Say of how many passages and answers the judge gave no verdict that can be read."""
    asked = [one for one in arm.passages if one["is_judged"] and one["axis"] == arm.axis]
    notes = []
    for what, count, total in (
        ("passages", sum(one["likert"] is None for one in asked), len(asked)),
        (
            "answers, over cells",
            sum(one["n_unjudged"] for one in arm.answers),
            sum(one["n_answers"] for one in arm.answers),
        ),
    ):
        if count:
            notes.append(f"{arm.label}: the judge gave no verdict on {count} of {total} {what}")
    return notes


def ends_of(rows: Iterable[Row], value: Callable[[Row], float | None], seed: int) -> dict[str, Any]:
    """Mean over questions of a value, with its interval, ready for a table."""
    means = question_means(list(rows), value)
    ends: Ends = interval_of(tuple(means.values()), seed)
    return dict(zip(ENDS, ends, strict=True))


def _arm_cells(arm: ArmRows) -> dict[str, Any]:
    return dict(zip(ARM_COLUMNS, arm.key, strict=True))


def _write(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    names = list(records[0]) if records else ["nothing"]
    _files.write_text(path, tables.csv_text(names, [dict(one) for one in records]))


def _absolute(value: float | None) -> float | None:
    return None if value is None else abs(value)
