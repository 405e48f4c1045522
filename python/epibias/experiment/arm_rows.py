"""The rows of a finished run, sorted into its arms, with the plan they were made by.

In: a run folder. Out: for each data set × encoder × k its rows, results, answers and passages. The
lists of ids stay on disk: what is read is one number or word a cell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from epibias.defenses import NoDefense
from epibias.experiment import raw, tables
from epibias.experiment.answers import ANSWERS
from epibias.experiment.passage_rows import PASSAGES, VALIDITY
from epibias.experiment.plan import Attack, NamedDefense, Plan
from epibias.experiment.raw import Row
from epibias.experiment.run_folder import RunFolder

ArmKey = tuple[str, str, int]


@dataclass(frozen=True, eq=False)
class ArmRows:
    """All that was measured of one data set × encoder × k.

    Parameters
    ----------
    key : tuple
        Data set, encoder, k.
    plan : Plan
        Its attacks, axes and defences; the defences are names only, they cannot select.
    rows, answers, passages, validity : sequence of rows
        Raw rows with their shifts, and the rows of the other tables.
    results : Results
        Means of the raw rows.
    """

    key: ArmKey
    plan: Plan
    rows: Sequence[Row]
    answers: Sequence[Row]
    passages: Sequence[Row]
    validity: Sequence[Row]
    results: tables.Results = field(repr=False)

    @property
    def label(self) -> str:
        """Data set, encoder and k, for people."""
        return f"{self.key[0]}, {self.key[1]}, k = {self.key[2]}"

    @property
    def axis(self) -> str:
        """The axis of figures that show one: the first of the configuration."""
        return self.plan.axis_methods[0]


def read_arms(folder: RunFolder) -> list[ArmRows]:
    """Read the rows of a run, arm by arm, in the order of the configuration."""
    settings = folder.manifest()["settings"]
    sorted_rows = {
        table: _by_arm(folder, table, columns)
        for table, columns in (
            (raw.RAW, raw.SCALARS),
            (ANSWERS, None),
            (PASSAGES, None),
            (VALIDITY, None),
        )
    }
    config = settings["config"]
    found = []
    for dataset in config["datasets"]:
        for encoder in config["encoders"]:
            for k in config["k"]:
                key = dataset["name"], encoder["name"], k
                plan = plan_of_settings(settings, k)
                rows = tables.with_shifts(sorted_rows[raw.RAW].get(key, []))
                found.append(
                    ArmRows(
                        key,
                        plan,
                        rows,
                        answers_with_shifts(sorted_rows[ANSWERS].get(key, [])),
                        sorted_rows[PASSAGES].get(key, []),
                        sorted_rows[VALIDITY].get(key, []),
                        tables.aggregate(rows, plan),
                    )
                )
    return found


def plan_of_settings(settings: Mapping[str, Any], k: int) -> Plan:
    """Give the plan that a manifest records, with defences that have a name and no rule."""
    recorded = settings["plans"][str(k)]
    defenses = tuple(
        NamedDefense(one["key"], one["title"], NoDefense(k), one["uses_axis"])
        for one in settings["defenses"]
    )
    attacks = tuple(_attack(key) for key in recorded["attacks"])
    return Plan(
        k, recorded["pool_factor"], recorded["seed"], defenses, attacks,
        tuple(recorded["axis_methods"]),
    )  # fmt: skip


def _attack(key: str) -> Attack:
    """Read an attack back from its key, as `Attack.key` writes it."""
    kind, *rest = key.split("-")
    if kind == "clean":
        return Attack(kind)
    if kind == "decoys":
        from epibias.experiment.plan import DECOY_LIMIT

        return Attack(kind, rest[0], DECOY_LIMIT)
    return Attack(kind, rest[0], int(rest[1]))


def answers_with_shifts(answers: Sequence[Row]) -> list[Row]:
    """Add B_response: attacked minus clean mean PS of the answers.

    `b_response` compares with the clean answers under the same defence, `b_response_undefended`
    with those without one.
    """
    clean = {
        (one["generator"], one["query_id"], one["axis"], one["defense"]): one["score"]
        for one in answers
        if one["attack"] == "clean"
    }
    found = []
    for one in answers:
        shifts = {}
        for name, defense in (
            ("b_response", one["defense"]),
            ("b_response_undefended", "none"),
        ):
            reference = clean.get((one["generator"], one["query_id"], one["axis"], defense))
            is_known = reference is not None and one["score"] is not None
            shifts[name] = one["score"] - reference if is_known else None
        found.append({**one, **shifts})
    return found


def _by_arm(
    folder: RunFolder, table: raw.Table, columns: Sequence[str] | None
) -> dict[ArmKey, list[Row]]:
    found: dict[ArmKey, list[Row]] = defaultdict(list)
    for row in raw.read(folder.path / f"{table.name}.parquet", None, table, columns):
        found[row["dataset"], row["encoder"], row["k"]].append(row)
    return found
