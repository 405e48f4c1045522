"""The two runs on four debates that ask models: what the page of findings quotes of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from epibias.experiment.arm_rows import ArmRows, read_arms
from epibias.experiment.bench_tables import ANSWER_METRICS, ends_of
from epibias.experiment.markdown import short, systems
from epibias.experiment.paper import FIGURES
from epibias.experiment.plan import CONTROL_AXIS
from epibias.experiment.retrieval_figures import shown
from epibias.experiment.run_folder import RunFolder
from epibias.experiment.tables import ANY_AXIS


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Any], ArmRows]:
    if not (folder / "complete.json").is_file():
        raise SystemExit(f"{folder}: expected a finished run (complete.json), got none")
    made = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    [arm] = read_arms(RunFolder(folder))
    return made, RunFolder(folder).manifest()["settings"], arm


def _head(made: dict[str, Any], settings: dict[str, Any], arm: ArmRows) -> dict[str, Any]:
    return {
        "name": made["name"],
        "commit": made["commit"],
        "started": made["started"],
        "nli": (settings["nli"] or {}).get("model"),
        "generators": {
            name: {key: one.get(key) for key in ("kind", "model", "sha256", "xllamacpp")}
            for name, one in settings["generators"].items()
        },
        "n_questions": len({one["query_id"] for one in arm.rows}),
        "n_cells": len(arm.rows),
        "n_failed_cells": sum(one["status"] == "failed" for one in arm.rows),
        "k": arm.plan.k,
        "notes": made["notes"],
    }


def _table(arm: ArmRows, columns: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Give a row a defence on a fitted axis: its title, and a metric under a condition."""
    found = []
    for one in systems(arm.plan):
        if one.axis == CONTROL_AXIS:
            continue
        title = one.title if one.axis == ANY_AXIS else f"{one.title} ({one.axis})"
        cells = [arm.results.get(one.key, one.axis, *column) for column in columns]
        found.append([title, *(shown(cell.mean, cell.low, cell.high) for cell in cells)])
    return found


def nli_run(folder: Path) -> dict[str, Any]:
    """Read what the page tells of the run with an NLI model."""
    made, settings, arm = _read(folder)
    recall, adversarial = "recall_over_k", "adversarial_precision"
    columns = [(condition, adversarial) for condition in arm.plan.conditions[1:]]
    columns += [(arm.plan.conditions[0], recall)]
    figure = next(one for one in made["figures"] if one["key"] == "3")
    lines = (folder / "replies-nli.jsonl").read_text(encoding="utf-8").splitlines()
    return {
        **_head(made, settings, arm),
        "conditions": list(arm.plan.conditions),
        "table": _table(arm, columns),
        "figure_3": [_beside_the_paper(fact) for fact in figure["facts"]],
        "n_pairs": sum("pair" in json.loads(line) for line in lines),  # others name the model
        "dropped": _dropped(folder, arm, "fact-check"),
    }


def _beside_the_paper(fact: str) -> list[str]:
    """Split a fact of Figure 3 into what it is of, its share here, and the paper's."""
    name, _, here = fact.partition(": ")
    verdict, side = name.split(", ")
    of = "NOT ENOUGH INFO, of all" if verdict == "not enough" else "SUPPORTS, of those decided"
    whose = "benign passages" if side == "none" else f"{side} adversarial passages"
    return [f"{of}; {whose}", here, short(FIGURES["3"].values[name])]


def _dropped(folder: Path, arm: ArmRows, key: str) -> dict[str, list[int]]:
    """Texts that a filter left out, of those that it saw: benign, and of each attack."""
    seen: dict[str, dict[str, bool]] = {}
    first = arm.plan.axis_methods[0]
    for one in RunFolder(folder).rows():
        if one["defense"] != key or one["axis"] != first or one["status"] != "ok":
            continue
        injected, dropped = set(one["injected_ids"]), set(one["dropped_ids"])
        for name in one["candidate_ids"]:
            kind = one["attack"] if name in injected else "benign"
            seen.setdefault(kind, {})[name] = name in dropped
    return {kind: [sum(one.values()), len(one)] for kind, one in sorted(seen.items())}


def answers_run(folder: Path) -> dict[str, Any]:
    """Read what the page tells of the run with a language model."""
    made, settings, arm = _read(folder)
    [attacked] = arm.plan.conditions[1:]
    clean = arm.plan.conditions[0]
    columns = [(attacked, "adversarial_precision"), (clean, "recall_over_k")]
    rows = []
    axis = arm.plan.axis_methods[0]
    for named, cells in zip(arm.plan.defenses, _table(arm, columns), strict=True):
        answers = [one for one in arm.answers if one["defense"] == named.key]
        text = ["", ""]
        if answers:
            of_attack = [one for one in answers if one["attack"] == "injection"]
            ends = ends_of(of_attack, ANSWER_METRICS["abs_b_response"], arm.plan.seed)
            n_failed = sum(one["n_failed"] for one in answers)
            n_asked = sum(one["n_answers"] for one in answers) + n_failed
            shift = shown(ends["mean"], ends["low"], ends["high"])
            text = [f"{n_failed} of {n_asked}", f"{shift} (n = {ends['n']})"]
        rows.append([*cells, *text])
    judged = [one for one in arm.passages if one["is_judged"] and one["axis"] == axis]
    told = [one for one in judged if one["likert"] is not None]
    sided = [one for one in told if one["stance"]]
    records = [json.loads(line) for line in
               (folder / "answers.jsonl").read_text(encoding="utf-8").splitlines()]  # fmt: skip
    words = [len(one["text"].split()) for one in records if one["status"] == "ok"]
    return {
        **_head(made, settings, arm),
        "table": rows,
        "dropped": _dropped(folder, arm, "known-answer"),
        "n_answers": len(records),
        "reasons": dict(Counter(one["reason"] for one in records if one["status"] != "ok")),
        "mean_words": round(sum(words) / len(words), 1) if words else None,
        "n_judged": len(judged),
        "n_verdicts": len(told),
        "n_sided": len(sided),
        "n_right": sum(one["likert"] * one["stance"] > 0 for one in sided),
        "prompts": _prompts(folder),
    }


def _prompts(folder: Path) -> dict[str, int]:
    """How many replies of each template the run has kept."""
    lines = [line for path in sorted(folder.glob("replies-*.jsonl"))
             for line in path.read_text(encoding="utf-8").splitlines()]  # fmt: skip
    return dict(Counter(json.loads(line)["prompt"]["name"] for line in lines))
