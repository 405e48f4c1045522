"""The runs on the shipped debates: their summary, and the page of findings that quotes it.

    epibias bench run debates --out runs/debates --i-own-this-index
    epibias bench run debates_mpnet --out runs/debates_mpnet
    epibias bench run debates_nli --out runs/debates_nli --i-own-this-index
    EPIBIAS_GGUF=… epibias bench run debates_answers --out runs/debates_answers --i-own-this-index
    python bench/debates_run.py runs/debates*       # JSON and page; runs not named stay as they are
    python bench/debates_run.py --check             # exit 1 when the page says something else

Writes `bench/results/debates_run.json` and `docs/findings.md`. The page is `bench/findings.md.j2`
with the figures of the JSON in it: no number is typed. Differences between two defences are paired,
question by question, with a bootstrap interval over questions.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from debates_models import answers_run, nli_run
from epibias.experiment import tables
from epibias.experiment.arm_rows import ArmRows, read_arms
from epibias.experiment.markdown import short
from epibias.experiment.rank_correlation import pooled_spearman
from epibias.experiment.retrieval_figures import shown
from epibias.experiment.run_folder import RunFolder
from epibias.metrics.intervals import bootstrap_interval

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results" / "debates_run.json"
TEMPLATE = ROOT / "bench" / "findings.md.j2"
PAGE = ROOT / "docs" / "findings.md"
METRICS = ("adversarial_precision", "recall_over_k", "none_selected", "abs_b_retrieval")
# One defence on an axis against another: what the page says of differences.
PAIRS = (
    (("biasdef", "pca"), ("biasdef", "random")),
    (("biasdef", "ridge"), ("biasdef", "random")),
    (("biasdef-mi", "pca"), ("biasdef-mi", "random")),
    (("biasdef-mi", "pca"), ("biasdef", "pca")),
    (("biasdef", "pca"), ("none", "pca")),
    (("biasdef", "pca"), ("mmr", "pca")),
    (("biasdef", "pca"), ("ragdefender", "pca")),
    (("biasdef-mi", "pca"), ("ragdefender", "pca")),
    (("biasdef-printed", "pca"), ("biasdef", "pca")),
    (("brra", "pca"), ("none", "pca")),
    (("trustrag", "pca"), ("none", "pca")),
    (("tilt-bound", "pca"), ("none", "pca")),
    (("tilt-bound-memory", "pca"), ("none", "pca")),
    (("tilt-bound-memory", "pca"), ("tilt-bound-memory", "random")),
    (("tilt-bound-memory", "pca"), ("tilt-bound", "pca")),
    (("tilt-bound-memory", "pca"), ("ragdefender", "pca")),
    (("tilt-bound", "pca"), ("biasdef", "pca")),
)
COMPARED = ("adversarial_precision", "recall_over_k")


def summary(folder: Path) -> dict[str, Any]:
    """Read what the page quotes from a finished run."""
    if not (folder / "complete.json").is_file():
        raise SystemExit(f"{folder}: expected a finished run (complete.json), got none")
    run = RunFolder(folder)
    made = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    [arm] = read_arms(run)
    pairs = [one for one in PAIRS if all(name in made["arms"][0]["defenses"] for name, _ in one)]
    environment = made["environment"]
    return {
        "made_by": "python bench/debates_run.py runs/debates*",
        "commit": made["commit"],
        "started": made["started"],
        "machine": {name: environment[name] for name in ("processor", "n_cpus", "python")},
        "packages": environment["packages"],
        "encoder": arm.key[1],
        "n_questions": next(iter(made["data"].values()))["n_questions"],
        "n_passages": next(iter(made["data"].values()))["n_passages"],
        "n_cells": made["arms"][0]["n_cells"],
        "n_failed": made["arms"][0]["n_failed"],
        "n_not_applicable": made["arms"][0]["n_not_applicable"],
        "notes": made["notes"],
        "defenses": made["arms"][0]["defenses"],
        "conditions": list(arm.plan.conditions),
        "validity": _rounded(made["arms"][0]["validity"]),
        "properties": _rounded(made["arms"][0]["properties"]),
        "stance": next(one["facts"] for one in made["figures"] if one["key"] == "2a"),
        "differences": differences(arm, pairs),
        "axis_and_defence": axis_and_defence(arm),
        "by_question": by_question(arm),
        "costs": made["costs"],
        "results": [
            one for one in made["arms"][0]["results"] if one[4] in METRICS and one[3] == "both"
        ],
    }


def _means(arm: ArmRows, system: tuple[str, str], condition: str, metric: str) -> dict[str, float]:
    rows = [
        one
        for one in arm.rows
        if (one["defense"], one["axis"]) == system
        and one["condition"] == condition
        and one["status"] == "ok"
    ]
    found = tables.question_means(rows, tables.METRICS[metric])
    return {question: value for (_, question), value in found.items()}


def differences(arm: ArmRows, pairs: Sequence[Any]) -> list[list[Any]]:
    """Paired differences: first minus second, mean and interval over questions."""
    found = []
    for first, second in pairs:
        for condition in arm.plan.conditions:
            for metric in COMPARED:
                one = _means(arm, first, condition, metric)
                other = _means(arm, second, condition, metric)
                values = [one[name] - other[name] for name in sorted(one.keys() & other.keys())]
                if not values:
                    continue
                ends = bootstrap_interval(values, n_resamples=tables.N_RESAMPLES)
                numbers = [round(value, 4) for value in (ends.mean, ends.low, ends.high)]
                found.append([*first, *second, condition, metric, *numbers, ends.n])
    return found


def axis_and_defence(arm: ArmRows) -> list[dict[str, Any]]:
    """Whether BiasDef does better where its axis hears stance better: Spearman over questions."""
    found = []
    for axis in arm.plan.axis_methods:
        heard = {
            one["query_id"]: one["auc_adversarial"]
            for one in arm.validity
            if one["axis"] == axis and one["auc_adversarial"] is not None
        }
        for condition in arm.plan.injected:
            got = _means(arm, ("biasdef", axis), condition, "adversarial_precision")
            points = {
                name: [(heard[name], got[name])] for name in sorted(heard.keys() & got.keys())
            }
            mean, low, high, n = pooled_spearman(points, 0)
            ends = [None if one is None else round(one, 4) for one in (mean, low, high)]
            found.append({"axis": axis, "condition": condition, "ends": ends, "n": n})
    return found


def by_question(arm: ArmRows) -> list[list[Any]]:
    """A-Recall of BiasDef on every question at 10 injections, worst first, with how its axis is."""
    condition = arm.plan.injected[-1]
    got = _means(arm, ("biasdef", arm.axis), condition, "adversarial_precision")
    heard = {one["query_id"]: one for one in arm.validity if one["axis"] == arm.axis}
    topic = {one["query_id"]: one["topic"] for one in arm.validity}
    rows = [
        [topic[name], round(value, 4), round(heard[name]["auc_adversarial"], 4)]
        for name, value in got.items()
    ]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def _rounded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {n: round(v, 4) if isinstance(v, float) else v for n, v in one.items() if n not in _ARM}
        for one in rows
    ]


_ARM = ("dataset", "encoder", "k")


class Quoted:
    """What the template calls: figures of the JSON by name, written as elsewhere."""

    def __init__(self, found: dict[str, Any]) -> None:
        self._found = found
        self._results = {tuple(one[:5]): one[5:] for one in found["results"]}
        self._differences = {tuple(one[:6]): one[6:] for one in found["differences"]}

    def ends(self, defense: str, axis: str, condition: str, metric: str) -> list[Any]:
        """Give mean, low, high, n."""
        key = (defense, axis, condition, "both", metric)
        other = (defense, "any", condition, "both", metric)
        return self._results[key if key in self._results else other]

    def cell(self, defense: str, axis: str, condition: str, metric: str) -> str:
        """Write a mean with its interval."""
        return shown(*self.ends(defense, axis, condition, metric)[:3])

    def adversarial(self, defense: str, condition: str, axis: str = "pca") -> str:
        return self.cell(defense, axis, condition, "adversarial_precision")

    def recall(self, defense: str, condition: str, axis: str = "pca") -> str:
        return self.cell(defense, axis, condition, "recall_over_k")

    def _difference(self, one: str, other: str, condition: str, metric: str) -> list[Any]:
        first, second = (tuple((name + "/pca").split("/")[:2]) for name in (one, other))
        return self._differences[(*first, *second, condition, metric)]

    def difference(self, one: str, other: str, condition: str, metric: str) -> str:
        """Write a paired difference with its interval; names are defence or defence/axis."""
        return shown(*self._difference(one, other, condition, metric)[:3])

    def verdict(
        self, one: str, other: str, condition: str, metric: str = "adversarial_precision"
    ) -> str:
        """Say lower, higher or not told apart, by the interval of the difference."""
        _, low, high, _ = self._difference(one, other, condition, metric)
        return "lower" if high < 0 else "higher" if low > 0 else "not told apart"

    def validity(self, axis: str, measure: str) -> str:
        for one in self._found["validity"]:
            if (one["axis"], one["measure"]) == (axis, measure):
                return shown(one["mean"], one["low"], one["high"])
        raise KeyError(axis, measure)

    def share(self, attack: str, polarity: str, name: str, axis: str = "pca") -> str:
        for one in self._found["properties"]:
            key = one["attack"], one["polarity"], one["property"], one["axis"]
            if key == (attack, polarity, name, axis):
                return shown(one["mean"], one["low"], one["high"])
        raise KeyError(attack, polarity, name)

    def cost(self, defense: str, stage: str) -> str:
        for one in self._found["costs"]:
            if (one["defense"], one["stage"]) == (defense, stage):
                return f"{_digits(one['p50_ms'])} / {_digits(one['p95_ms'])}"
        return ""

    def best(self, condition: str) -> str:
        """Name the defence with the smallest A-Recall, with both metrics."""
        found = [
            (one[5], one[0], one[1])
            for one in self._found["results"]
            if one[2] == condition and one[4] == "adversarial_precision" and one[1] != "random"
        ]  # fmt: skip
        _, defense, axis = min(found)
        title = self._found["defenses"][defense]
        where = "" if axis == "any" else f" ({axis})"
        return (
            f"{title}{where}: {self.cell(defense, axis, condition, 'adversarial_precision')}, at "
            f"recall@5 {self.cell(defense, axis, condition, 'recall_over_k')}"
        )

    def helps(self) -> str:
        """Say on how many of the fitted axes a better axis means fewer adversarial passages."""
        ends = [
            one["ends"] for one in self._found["axis_and_defence"]
            if one["axis"] != "random" and one["condition"] != "1"
        ]  # fmt: skip
        told = sum(high is not None and high < 0 for _, _, high in ends)
        return f"{told} of the {len(ends)} intervals lie below 0"

    def systems(self) -> list[tuple[str, str, str]]:
        """Give key, title and axis of every row of the table."""
        seen = dict.fromkeys((one[0], one[1]) for one in self._found["results"]
                             if one[4] == "adversarial_precision")  # fmt: skip
        return [(key, self._found["defenses"][key], axis) for key, axis in seen]


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def page(found: dict[str, Any]) -> str:
    """Write the page from the figures."""
    import jinja2

    environment = jinja2.Environment(  # noqa: S701 (Markdown, from our own figures)
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    second = found["second"]
    models = {name: found.get(name) for name in ("nli", "answers")}
    return template.render(
        run=found, q=Quoted(found), second=second, s=Quoted(second), short=short, **models
    )


def compact(value: dict[str, Any]) -> str:
    """JSON with one entry a line where entries are many: small, and its changes can be read."""
    lines = []
    for name, one in value.items():
        if isinstance(one, dict) and ("results" in one or "table" in one):
            lines.append(f" {json.dumps(name)}: {compact(one).strip()}")
            continue
        if isinstance(one, list) and one and isinstance(one[0], list | dict):
            inner = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in one)
            lines.append(f" {json.dumps(name)}: [\n{inner}\n ]")
        else:
            lines.append(f" {json.dumps(name)}: {json.dumps(one, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def merged(kept: dict[str, Any], folders: Sequence[Path]) -> dict[str, Any]:
    """Put the summaries of some runs in the place of those that were there, by their names."""
    second, nli, answers = (kept.get(name) for name in ("second", "nli", "answers"))
    first = {name: one for name, one in kept.items() if name not in ("second", "nli", "answers")}
    for folder in folders:
        name = RunFolder(folder).manifest()["settings"]["config"]["name"]
        if name == "debates":
            first = summary(folder)
        elif name == "debates_mpnet":
            second = summary(folder)
        elif name == "debates_nli":
            nli = nli_run(folder)
        elif name == "debates_answers":
            answers = answers_run(folder)
        else:
            raise SystemExit(f"{folder}: expected a run of a shipped debates file, got {name!r}")
    first.pop("small", None)
    return {**first, "second": second, "nli": nli, "answers": answers}


def main() -> int:
    """Write, or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path, nargs="*", help="folders of finished runs")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if it differs")
    arguments = parser.parse_args()
    if arguments.run and not arguments.check:
        found = merged(json.loads(RESULTS.read_text(encoding="utf-8")), arguments.run)
        RESULTS.write_text(compact(found), encoding="utf-8")
    text = page(json.loads(RESULTS.read_text(encoding="utf-8")))
    if arguments.check:
        return int(text != PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
