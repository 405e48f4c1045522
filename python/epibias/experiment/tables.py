"""Tables of a run: raw rows in, means with bootstrap intervals out.

Owns what is averaged over what. The unit is the question: the two polarities of an attack are
averaged within a question first, then the interval is taken over questions. Rows that failed, and
questions where an attack does not exist, are counted beside every mean.
"""

from __future__ import annotations

import csv
import functools
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from epibias import _files
from epibias._plain import finite_or_none
from epibias.experiment.plan import POLARITIES, NamedDefense, Plan
from epibias.experiment.raw import Row
from epibias.metrics.bias import b_retrieval
from epibias.metrics.intervals import Interval, bootstrap_interval, ratio_interval

BOTH = "both"
ANY_AXIS = "any"
RATIO = "adversarial_to_recall_ratio"
N_RESAMPLES = 10_000

# What is averaged: name to value of one raw row. Those in PER_AXIS depend on the axis whatever
# the defence; the signed ones would cancel between polarities, so they are given for each only.
Value = Callable[[Row], "float | None"]
Ends = tuple["float | None", "float | None", "float | None", int]  # mean, low, high, n
METRICS: dict[str, Value] = {
    "adversarial_precision": lambda row: row["adversarial_precision"],
    "adversarial_recall": lambda row: row["adversarial_recall"],
    "none_selected": lambda row: row["none_selected"],
    "recall_over_k": lambda row: row["recall_over_k"],
    "recall_over_relevant": lambda row: row["recall_over_relevant"],
    "n_selected": lambda row: float(row["n_selected"]),
    "short": lambda row: float(row["short"]),
    "mean_score": lambda row: row["mean_score"],
    "b_retrieval": lambda row: row["b_retrieval"],
    "b_retrieval_undefended": lambda row: row["b_retrieval_undefended"],
    "abs_b_retrieval": lambda row: _absolute(row["b_retrieval"]),
    "abs_b_retrieval_undefended": lambda row: _absolute(row["b_retrieval_undefended"]),
}
SIGNED = {"mean_score", "b_retrieval", "b_retrieval_undefended"}
PER_AXIS = SIGNED | {"abs_b_retrieval", "abs_b_retrieval_undefended"}


@dataclass(frozen=True)
class ResultRow:
    """One mean of the results.

    Parameters
    ----------
    defense, axis : str
        Axis "any" where it cannot change the value.
    condition : str
        "0", "1", "5", "10" injections or "decoys".
    polarity : str
        "both" (averaged within a question), "positive" or "negative".
    metric : str
        A name of `METRICS`, or `RATIO`.
    mean, low, high : float or None
        Mean over questions and its 95 % bootstrap interval; None where none has a value.
    n : int
        Questions in the mean.
    n_failed, n_not_applicable : int
        Raw rows that failed, and raw rows of questions where the attack does not exist.
    """

    defense: str
    axis: str
    condition: str
    polarity: str
    metric: str
    mean: float | None
    low: float | None
    high: float | None
    n: int
    n_failed: int
    n_not_applicable: int


class Results:
    """All means of a run, found by name.

    Parameters
    ----------
    rows : sequence of ResultRow
        In table order.
    """

    def __init__(self, rows: Sequence[ResultRow]) -> None:
        self.rows = tuple(rows)
        self._by_key = {
            (row.defense, row.axis, row.condition, row.polarity, row.metric): row for row in rows
        }

    def get(
        self, defense: str, axis: str, condition: str, metric: str, polarity: str = BOTH
    ) -> ResultRow:
        """Return one mean; axis falls back to "any" where the axis cannot matter."""
        key = (defense, axis, condition, polarity, metric)
        other = (defense, ANY_AXIS, condition, polarity, metric)
        return self._by_key[key if key in self._by_key else other]


def with_shifts(rows: Iterable[Row]) -> list[Row]:
    """Add B_retrieval to raw rows: attacked minus clean mean PS of the selection.

    `b_retrieval` compares with the clean selection of the same defence,
    `b_retrieval_undefended` with the clean selection without a defence; None where either
    selection is empty or failed.
    """
    rows = list(rows)
    clean = {
        (row["query_id"], row["axis"], row["defense"]): row["mean_score"]
        for row in rows
        if row["attack"] == "clean"
    }
    attacked = [_nan(row["mean_score"]) for row in rows]
    shifts = {}
    for reference, name in (
        ("same_defense", "b_retrieval"),
        ("undefended", "b_retrieval_undefended"),
    ):
        references = [
            clean.get(
                (row["query_id"], row["axis"], row["defense"] if name == "b_retrieval" else "none")
            )
            for row in rows
        ]
        found = b_retrieval(attacked, [_nan(value) for value in references], reference=reference)
        shifts[name] = [finite_or_none(value) for value in found.values]
    return [
        {**row, **{name: values[number] for name, values in shifts.items()}}
        for number, row in enumerate(rows)
    ]


def aggregate(rows: Iterable[Row], plan: Plan) -> Results:
    """Average raw rows into results, in the order of the plan.

    Parameters
    ----------
    rows : iterable of rows
        All raw rows of a run.
    plan : Plan
        Gives the order, and the seed of the bootstrap.
    """
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in with_shifts(rows):
        groups[row["defense"], row["axis"], row["condition"]].append(row)
    found = []
    for named in plan.defenses:
        for number, axis in enumerate(plan.axis_methods):
            for condition in plan.conditions:
                group = groups[named.key, axis, condition]
                found += _means(named, axis, number == 0, condition, group, plan.seed)
    return Results(found)


def _means(
    named: NamedDefense, axis: str, is_first: bool, condition: str, group: list[Row], seed: int
) -> list[ResultRow]:
    attacked = condition != "0"
    found = []
    for polarity in (BOTH, *(POLARITIES if attacked else ())):
        chosen = [row for row in group if polarity in (BOTH, row["polarity"])]
        counts = (
            sum(row["status"] == "failed" for row in chosen),
            sum(row["status"] == "not_applicable" for row in chosen),
        )
        usable = [row for row in chosen if row["status"] == "ok"]
        for metric, value in METRICS.items():
            per_axis = named.uses_axis or metric in PER_AXIS
            if (not per_axis and not is_first) or (
                polarity == BOTH and attacked and metric in SIGNED
            ):
                continue
            label = axis if per_axis else ANY_AXIS
            of_questions = question_means(usable, value)
            interval = interval_of(tuple(of_questions.values()), seed)
            found.append(
                ResultRow(named.key, label, condition, polarity, metric, *interval, *counts)
            )
        if attacked and (named.uses_axis or is_first):
            label = axis if named.uses_axis else ANY_AXIS
            ratio = ratio_of(usable, seed)
            found.append(ResultRow(named.key, label, condition, polarity, RATIO, *ratio, *counts))
    return found


def question_means(rows: list[Row], value: Value) -> dict[tuple[str, str], float]:
    """One value a question: the mean over its polarities; those without a value are left out.

    In the order of topics and ids: the bootstrap draws by place, so that its interval would
    otherwise depend on the order of the rows.
    """
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        one = value(row)
        if one is not None:
            values[row["topic"], row["query_id"]].append(one)
    return {question: float(np.mean(values[question])) for question in sorted(values)}


@functools.lru_cache(maxsize=4096)  # many cells have the same values, above all zeros
def interval_of(values: tuple[float, ...], seed: int) -> Ends:
    """Mean of one value a question, with the ends of its interval, and how many there are."""
    if not values:
        return None, None, None, 0
    return _ends(bootstrap_interval(values, n_resamples=N_RESAMPLES, seed=seed))


def ratio_of(rows: list[Row], seed: int) -> Ends:
    """Mean adversarial precision over mean recall, with its interval over questions."""
    precision = question_means(rows, METRICS["adversarial_precision"])
    recall = question_means(rows, METRICS["recall_over_k"])
    both = sorted(precision.keys() & recall.keys())
    if not both:
        return None, None, None, 0
    return _ends(
        ratio_interval(
            [precision[question] for question in both],
            [recall[question] for question in both],
            n_resamples=N_RESAMPLES,
            seed=seed,
        )
    )


def _ends(interval: Interval) -> Ends:
    """Take an interval apart; None for what is not known, as the ends for a single question."""
    low, high = finite_or_none(interval.low), finite_or_none(interval.high)
    return finite_or_none(interval.mean), low, high, interval.n


def latency_rows(rows: Iterable[Row], plan: Plan) -> list[dict[str, object]]:
    """Median and 95th percentile of the time of one `select` call on one query, by defence."""
    times: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row["latency_ms"] is not None:
            times[row["defense"]].append(row["latency_ms"])
    return [
        {
            "defense": named.key,
            "n_calls": len(times[named.key]),
            "median_ms": round(float(np.median(times[named.key])), 4),
            "p95_ms": round(float(np.percentile(times[named.key], 95)), 4),
        }
        for named in plan.defenses
        if times[named.key]
    ]


def write_tables(folder: Path, results: Results, rows: Sequence[Row], plan: Plan) -> None:
    """Write results.csv, results.md and latency.csv; the last is all that depends on time."""
    from epibias.experiment.markdown import results_markdown

    _files.make_folder(folder)
    names = [field.name for field in fields(ResultRow)]
    _files.write_text(
        folder / "results.csv", csv_text(names, [asdict(row) for row in results.rows])
    )
    _files.write_text(folder / "results.md", results_markdown(results, plan))
    latency = latency_rows(rows, plan)
    names = ["defense", "n_calls", "median_ms", "p95_ms"]
    _files.write_text(folder / "latency.csv", csv_text(names, latency))


def csv_text(names: Sequence[str], records: Sequence[dict[str, object]]) -> str:
    """Write records as CSV with these columns: floats to six places, None as nothing."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    for record in records:
        writer.writerow([_cell(record[name]) for name in names])
    return stream.getvalue()


def _cell(value: object) -> object:
    if value is None:
        return ""
    return f"{value:.6f}" if isinstance(value, float) else value


def _nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _absolute(value: float | None) -> float | None:
    return None if value is None else abs(value)
