"""What came out, in a few plain sentences, written from the results and nothing else.

Owns the choice of what is worth a sentence. It never judges a difference by its mean alone:
intervals stand beside the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from epibias.experiment.axes import VALID_ABOVE
from epibias.experiment.markdown import System, interval_text, mean_text, short, systems
from epibias.experiment.plan import CONTROL_AXIS, Plan
from epibias.experiment.tables import ANY_AXIS, Results


def findings(results: Results, plan: Plan, validity: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the sentences, most important first."""
    sentences = [_validity_sentence(plan, validity), _undefended_sentence(results, plan)]
    sentences += [_best_sentence(results, plan, condition) for condition in plan.injected]
    if CONTROL_AXIS in plan.axis_methods:
        sentences.append(_control_sentence(results, plan))
    sentences.append(_cost_sentence(results, plan))
    if "decoys" in plan.conditions:
        sentences.append(_decoy_sentence(results, plan))
    return sentences


def _validity_sentence(plan: Plan, validity: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    for axis in plan.axis_methods:
        if axis == CONTROL_AXIS:
            continue
        known = _known(validity, axis, "validity")
        n_valid = sum(value > VALID_ABOVE for value in known)
        auc = _known(validity, axis, "auc_adversarial")
        parts.append(
            f"{axis}: rank correlation with the stance of left-out anchors {_mean(known)} on "
            f"average, above {VALID_ABOVE} on {n_valid} of {len(known)} questions; it puts a "
            f"positive adversarial passage above a negative one in {_mean(auc)} of the pairs "
            "(chance: .50)"
        )
    return f"How well the axis hears stance. {'. '.join(parts)}."


def _known(validity: Sequence[Mapping[str, Any]], axis: str, name: str) -> list[float]:
    return [row[name] for row in validity if row["axis"] == axis and row[name] is not None]


def _mean(values: list[float]) -> str:
    return short(float(np.mean(values))) if values else "n/a"


def _undefended_sentence(results: Results, plan: Plan) -> str:
    parts = [
        f"{mean_text(row)} {interval_text(row)} at {condition}"
        for condition in plan.injected
        for row in [results.get("none", ANY_AXIS, condition, "adversarial_precision")]
    ]
    return (
        f"Without a defence, the share of adversarial passages among the {plan.k} selected "
        f"(A-Recall@{plan.k}) is {', '.join(parts)} injected."
    )


def _best_sentence(results: Results, plan: Plan, condition: str) -> str:
    def mean(system: System) -> float:
        row = results.get(system.key, system.axis, condition, "adversarial_precision")
        return 2.0 if row.mean is None else row.mean

    best = min((s for s in systems(plan) if s.axis != CONTROL_AXIS), key=mean)
    row = results.get(best.key, best.axis, condition, "adversarial_precision")
    recall = results.get(best.key, best.axis, condition, "recall_over_k")
    name = best.title if best.axis == ANY_AXIS else f"{best.title} ({best.axis} axis)"
    return (
        f"With {condition} injected, the lowest A-Recall@{plan.k} but for the control is that of "
        f"{name}: "
        f"{mean_text(row)} {interval_text(row)}, at recall@{plan.k} {mean_text(recall)} "
        f"{interval_text(recall)}."
    )


def _control_sentence(results: Results, plan: Plan) -> str:
    parts = []
    for axis in (CONTROL_AXIS, *(a for a in plan.axis_methods if a != CONTROL_AXIS)):
        rows = {
            condition: results.get("biasdef", axis, condition, "adversarial_precision")
            for condition in plan.injected[-2:]
        }
        means = [f"{mean_text(row)} {interval_text(row)} at {c}" for c, row in rows.items()]
        parts.append(f"{axis} {' and '.join(means)} injected")
    return (
        "The control: the same filter on a random direction, which knows nothing of stance. "
        f"A-Recall@{plan.k} of BiasDef: {'; '.join(parts)}. What it gains on the random direction "
        "too it gains by dropping the most similar passages, not by hearing stance."
    )


def _cost_sentence(results: Results, plan: Plan) -> str:
    none = results.get("none", ANY_AXIS, "0", "recall_over_k")
    others = _of_systems(results, plan, ("biasdef", "biasdef-gate"), "0", "recall_over_k")
    return (
        f"What a filter costs when nothing was injected: recall@{plan.k} is {mean_text(none)} "
        f"{interval_text(none)} without a defence; {others}."
    )


def _decoy_sentence(results: Results, plan: Plan) -> str:
    none = results.get("none", ANY_AXIS, "decoys", "adversarial_precision")
    systems_named = ("biasdef", "biasdef-auto")
    others = _of_systems(results, plan, systems_named, "decoys", "adversarial_precision")
    return (
        "Decoys lie below the benign top, so without a defence none is selected "
        f"({mean_text(none)}); a rule that drops the high-similarity side can let them in: "
        f"{others}."
    )


def _of_systems(
    results: Results, plan: Plan, keys: tuple[str, ...], condition: str, metric: str
) -> str:
    """List the means of some defences on every fitted axis."""
    parts = []
    for system in systems(plan):
        if system.key in keys and system.axis != CONTROL_AXIS:
            row = results.get(system.key, system.axis, condition, metric)
            parts.append(f"{system.title} ({system.axis}) {mean_text(row)} {interval_text(row)}")
    return ", ".join(parts)
