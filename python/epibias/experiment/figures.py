"""Figures of the report as plain data: what `report.js` draws.

Owns which numbers are drawn, not how they look. In: raw rows and results. Out: one JSON-able
dict. Every sweep is computed again from the candidates in the raw rows, with the parameters of
the defence, so the picture shows what the defence saw.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from epibias._validate import Float32Array
from epibias.defenses import BiasDef
from epibias.experiment.markdown import MAIN_TABLES
from epibias.experiment.plan import CONTROL_AXIS, Attack, NamedDefense, Plan
from epibias.experiment.raw import Row
from epibias.experiment.tables import Results
from epibias.threshold import side_densities, smallest_side

EXCERPT_LENGTH = 110
# Parameters of BiasDef that act on a split when it is there.
_AFTER_THE_SWEEP = {"gate", "permutations", "seed", "fill", "mitigation"}


def line_panels(results: Results, plan: Plan) -> list[dict[str, Any]]:
    """One panel a metric × axis, one series a defence: means and intervals by condition."""
    panels = []
    for metric, _, _ in MAIN_TABLES:
        for axis in plan.axis_methods:
            series = []
            for style, named in enumerate(plan.defenses):
                means = [results.get(named.key, axis, c, metric) for c in plan.conditions]
                series.append(
                    {
                        "defense": named.key,
                        "title": named.title,
                        "style": style,
                        "mean": [_number(row.mean) for row in means],
                        "low": [_number(row.low) for row in means],
                        "high": [_number(row.high) for row in means],
                    }
                )
            panels.append({"metric": metric, "axis": axis, "series": series})
    return panels


def validity_series(validity: Sequence[Mapping[str, Any]], plan: Plan) -> list[dict[str, Any]]:
    """Give the validity of the axis of every topic, one series a method."""
    return [
        {
            "axis": axis,
            "values": [_number(row["validity"]) for row in validity if row["axis"] == axis],
        }
        for axis in plan.axis_methods
        if axis != CONTROL_AXIS
    ]


def topic_pools(rows: Iterable[Row], plan: Plan) -> dict[str, dict[str, dict[str, Any]]]:
    """Topic → axis → attack → the candidates, the sweeps over them, each defence's verdict."""
    topics: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        if row["status"] != "ok":
            continue
        named = next(one for one in plan.defenses if one.key == row["defense"])
        attacks = topics.setdefault(row["topic"], {}).setdefault(row["axis"], {})
        pool = attacks.setdefault(Attack.of_row(row).key, _pool(row))
        pool["verdicts"][named.key] = _verdict(row, named, pool)
    return topics


def excerpts(texts: Mapping[str, str], pools: Mapping[str, Any]) -> dict[str, str]:
    """First words of every passage that stands in a pool."""
    used = {
        passage
        for axes in pools.values()
        for attacks in axes.values()
        for pool in attacks.values()
        for passage in pool["ids"]
    }
    return {passage: _shortened(texts[passage]) for passage in sorted(used & set(texts))}


def _pool(row: Row) -> dict[str, Any]:
    injected = set(row["injected_ids"])
    return {
        "ids": row["candidate_ids"],
        "similarities": [_number(value) for value in row["candidate_similarities"]],
        "scores": [_number(value) for value in row["candidate_scores"]],
        "adversarial": [int(name in injected) for name in row["candidate_ids"]],
        "sweeps": {},
        "verdicts": {},
    }


def _verdict(row: Row, named: NamedDefense, pool: dict[str, Any]) -> dict[str, Any]:
    place = {name: number for number, name in enumerate(row["candidate_ids"])}
    key = None
    if isinstance(named.defense, BiasDef):
        key = _sweep_key(named.defense)
        if key not in pool["sweeps"]:
            pool["sweeps"][key] = sweep_figure(
                named.defense,
                np.asarray(row["candidate_similarities"], dtype=np.float32),
                np.asarray(row["candidate_scores"], dtype=np.float32),
            )
    return {
        "selected": [place[name] for name in row["selected_ids"]],
        "dropped": [place[name] for name in row["dropped_ids"]],
        "sweep": key,
        "side": row["side"],
        "p_value": _number(row["p_value"]),
    }


def _number(value: float | None) -> float | None:
    """Round for the page: five significant digits are more than a screen shows."""
    if value is None or not np.isfinite(value):
        return None
    return float(f"{value:.5g}")


def _shortened(text: str) -> str:
    words = " ".join(text.split())
    if len(words) <= EXCERPT_LENGTH:
        return words
    return words[:EXCERPT_LENGTH].rsplit(" ", 1)[0] + " …"


def _sweep_key(defense: BiasDef) -> str:
    """Name a sweep: defences that split alike share it."""
    used = {n: v for n, v in defense.parameters().items() if n not in _AFTER_THE_SWEEP}
    return ", ".join(f"{name}={value}" for name, value in used.items())


def sweep_figure(
    defense: BiasDef, similarities: Float32Array, scores: Float32Array
) -> dict[str, Any]:
    """Give threshold, divergence curve and side densities of one query under a defence's sweep.

    Parameters
    ----------
    defense : BiasDef
        Its parameters are used; gate and side are not asked.
    similarities, scores : float32 [n]
        The candidates of one query.
    """
    n = len(similarities)
    cut = defense.sweep(similarities[None], scores[None], curve=True)
    if defense.rule == "printed":
        at = np.linspace(defense.tau, 1 - defense.tau, defense.n_thresholds)
        allowed = np.ones(len(at), dtype=np.bool_)
    else:
        # Column m - 1 keeps m candidates; its threshold is the smallest similarity not kept.
        at = np.sort(similarities)[1:].astype(np.float64)
        n_kept = np.arange(1, n)
        dropped = smallest_side(n, slack=defense.slack, min_side=defense.min_side)
        kept = max(dropped, defense.least_kept)
        allowed = (n_kept >= kept) & (n - n_kept >= dropped)
    assert cut.curve is not None  # noqa: S101 (for the type checker: it was asked for)
    known = np.isfinite(cut.curve[0])
    threshold = float(cut.threshold[0])
    return {
        "threshold": _number(threshold),
        "divergence": _number(float(cut.divergence[0])),
        "curve": {
            "x": [_number(value) for value in at[known]],
            "y": [_number(value) for value in cut.curve[0][known]],
            "allowed": [int(value) for value in allowed[known]],
        },
        **_densities(similarities, scores, threshold, defense.bandwidth_factor),
    }


def _densities(
    similarities: Float32Array, scores: Float32Array, threshold: float, bandwidth_factor: float
) -> dict[str, Any]:
    sides = side_densities(similarities, scores, threshold, bandwidth_factor=bandwidth_factor)
    named = [("all", sides.left)]
    if np.isfinite(threshold):
        named = [("left", sides.left), ("right", sides.right)]
    return {
        "grid": [_number(value) for value in sides.grid],
        "densities": [
            {"side": side, "values": [_number(value) for value in values]} for side, values in named
        ],
    }
