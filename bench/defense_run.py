"""One family and encoder through every method and condition: means and intervals, plain numbers.

In: a `Setting`. Out: rows of JSON. Owns which conditions go with which methods; knows neither files
nor figures.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import defense_methods as methods
from defense_protocol import (
    CLEAN,
    GOAL_LEVELS,
    NEWCOMER_SHARES,
    SEED,
    Condition,
    K,
    Trial,
    conditions,
    paired_bootstrap,
    trials,
)
from defense_texts import Case
from defense_trials import Axes, Reference, columns, references, run
from epibias.defenses import MMR, BiasDef
from epibias.polarization import PolarizationAxis

METRICS = ("a_recall", "kept", "touched", "recall", "tilt", "stance_tilt")
FRONTIER = (CLEAN, *(Condition("ebi", n) for n in GOAL_LEVELS))
# Under every condition; baselines, variants and parts left out under those of the frontier.
BASELINES = ("none", "biasdef", "mmr", "biasdef gate .1", "grada", "ragdefender", "trustrag",
             "brra")  # fmt: skip
MAIN = ("none", "biasdef", "tilt_bound", "tilt_bound memory", "tilt_bound index",
        "tilt_bound stale memory", "tilt_bound stale index", "tilt_bound version")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Setting:
    """A family under one encoder.

    `groups` are the folds; `reported` the questions of each part; `related` names labelled
    questions from which no axis of some fold learnt, for they are about the same.
    """

    family: str
    encoder: str
    cases: Sequence[Case]
    rows: Mapping[str, np.ndarray]
    groups: Sequence[Sequence[str]]
    reported: Mapping[str, Sequence[str]]
    found: Mapping[str, Mapping[str, PolarizationAxis]]
    related: Sequence[str] = ()
    nli_cache: Path | None = None


def results(setting: Setting, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """Every row of one setting."""
    axes = {name: methods.used_axis(found) for name, found in setting.found.items()}
    paper = {name: found.get("pca", axes[name]) for name, found in setting.found.items()}
    clean = trials(setting.cases, setting.rows, CLEAN)
    reference = references(clean, axes, setting.rows)
    base = methods.calibrations(clean, axes, setting.groups)
    memory = methods.memories(setting.cases, setting.rows, clean, axes)
    plain = {name: (of, False) for name, of in methods.plain_methods(setting.nli_cache).items()}
    index = methods.trusted_indexes(setting.cases, setting.rows)
    tilt = methods.tilt_methods(base, memory, index)
    sweeps = _sweeps(clean, axes, setting.groups, memory)
    known = {name: axis.axis.astype(np.float64) for name, axis in axes.items()}
    rows: list[dict[str, Any]] = []
    for condition in conditions():
        try:
            some = trials(setting.cases, setting.rows, condition, scores=known)
        except KeyError:  # forms of the texts that were not encoded
            tell(f"{setting.family} {setting.encoder} {condition.key}: texts not encoded, left out")
            continue
        if not some:
            continue
        tell(f"{setting.family} {setting.encoder} {condition.key}: {len(some)} pools")
        used = {**plain, **tilt}
        if condition not in FRONTIER:
            used = {name: used[name] for name in MAIN}
        outcomes = {}
        for name, (of, origins) in used.items():
            outcomes[name] = _measured(some, axes, of, reference, provenance=origins)
        if condition in FRONTIER:
            outcomes["biasdef pca"] = _measured(
                some, axes, plain["biasdef"][0], reference, seen=paper
            )
            for name, (of, origins) in sweeps.items():
                outcomes[name] = _measured(some, axes, of, reference, provenance=origins)
        rows += _rows(setting, condition, some, outcomes)
    return rows


def _sweeps(
    clean: Sequence[Trial], axes: Axes, groups: Sequence[Sequence[str]], memory: Mapping[str, Any]
) -> dict[str, tuple[methods.Of, bool]]:
    """Curves of the frontier: one parameter of a method over its range."""
    made: dict[str, tuple[methods.Of, bool]] = {}
    for weight in (0.3, 0.7, 0.9):
        made[f"mmr λ={weight}"] = (methods.fixed(MMR(K, relevance_weight=weight)), False)
    for gate in (0.5, 0.2, 0.05, 0.01):
        made[f"biasdef gate={gate}"] = (methods.fixed(BiasDef(K, gate=gate)), False)
    for share in methods.SWEEP:
        of = methods.calibrations(clean, axes, groups, false_removal=share)
        made[f"tilt_bound removal={share}"] = (of, False)
    base = methods.calibrations(clean, axes, groups)
    version = methods.changed(base, trusted_until=methods.TRUSTED_UNTIL)
    for share in NEWCOMER_SHARES:  # what is said of honest newcomers; .1 is true
        told = {"newcomer_share": share}
        for known, memory_of in (("memory", "fresh"), ("stale", "stale")):
            of = methods.remembering(methods.changed(base, **told), memory[memory_of])
            made[f"tilt_bound {known} share={share}"] = (of, False)
        made[f"tilt_bound version share={share}"] = (methods.changed(version, **told), True)
    return made


def _measured(
    some: Sequence[Trial],
    axes: Axes,
    of: methods.Of,
    reference: Mapping[str, Reference],
    *,
    provenance: bool = False,
    seen: Axes | None = None,
) -> dict[str, np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of baselines, about pools that no cluster fits
        return columns(run(some, axes, of, reference, provenance=provenance, seen=seen))


def _rows(
    setting: Setting,
    condition: Condition,
    some: Sequence[Trial],
    outcomes: Mapping[str, dict[str, np.ndarray]],
) -> list[dict[str, Any]]:
    """Means over each part's pools, with intervals over questions, alone and against two others."""
    names = np.array([trial.case.name for trial in some])
    made = []
    for part, questions in setting.reported.items():
        of_part = np.isin(names, list(questions))
        for method, values in outcomes.items():
            inside = of_part & np.isfinite(values["n_selected"])  # the trials that it was run on
            if not inside.any():
                continue
            clusters = names[inside].tolist()
            row: dict[str, Any] = {
                "family": setting.family,
                "encoder": setting.encoder,
                "part": part,
                "attack": condition.attack,
                "injected": condition.n_injected,
                "pool": condition.pool,
                "strength": condition.strength,
                "method": method,
                "n_pools": int(inside.sum()),
                "n_questions": len(set(clusters)),
                "short": float((values["n_selected"][inside] < K).mean()),
            }
            for metric in METRICS:
                own = values[metric][inside]
                row[metric] = _interval(own, np.zeros_like(own), clusters)
                n_known = int(np.isfinite(own).sum())
                if n_known < len(own):  # nothing selected, or one benign passage: told, not hidden
                    row.setdefault("n_known", {})[metric] = n_known
                if metric in ("a_recall", "tilt"):
                    for other in BASELINES if method.startswith("tilt_bound") else BASELINES[:2]:
                        if other not in outcomes:
                            continue
                        difference = _interval(own, outcomes[other][metric][inside], clusters)
                        row[f"{metric}_less_{other}"] = difference
            made.append(row)
    return made


def _interval(
    values: np.ndarray, others: np.ndarray, clusters: Sequence[str]
) -> list[float] | None:
    """Mean and 95 % interval, four decimals; None where nothing is known."""
    known = np.isfinite(values) & np.isfinite(others)
    if not known.any():
        return None
    kept = [name for name, good in zip(clusters, known, strict=True) if good]
    return [round(v, 4) for v in paired_bootstrap(values[known], others[known], kept, draws=500)]


__all__ = ["SEED", "Setting", "results"]
