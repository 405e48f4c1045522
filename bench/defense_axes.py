"""How well each axis hears stance, and from which validity on it can be relied on.

In: settings. Out: rows of JSON: AUC of supporting against opposing passages that no axis was fitted
on, the leave-one-out validity beside it, and what a threshold on it is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from defense_run import Setting
from epibias.metrics import auc
from epibias.polarization import PolarizationAxis
from epibias.polarization.validity_report import validity_report

LEAST = 2  # passages a side
WORKS_ABOVE = (0.65, 0.75, 0.85)


def axis_rows(setting: Setting) -> list[dict[str, Any]]:
    """One row a question and axis."""
    made = []
    for case in setting.cases:
        found = dict(setting.found[case.name])
        if "combined" in found:
            found["combined of two"] = _sum(found["poles"], found["pooled"])
        stances = np.array(case.stances)
        benign = np.stack([setting.rows[text] for text in case.passages])
        sides = [
            np.stack([setting.rows[text] for text in case.adversarial[side]])
            for side in ("positive", "negative")
            if side in case.adversarial and all(t in setting.rows for t in case.adversarial[side])
        ]
        for name, axis in found.items():
            scores = axis.score(benign)
            validity = axis.validity
            both = (stances > 0).sum() >= LEAST and (stances < 0).sum() >= LEAST
            made.append(
                {
                    "family": setting.family,
                    "encoder": setting.encoder,
                    "question": case.name,
                    "axis": name,
                    "validity": None if validity is None or np.isnan(validity) else float(validity),
                    "auc_benign": float(auc(scores[stances > 0], scores[stances < 0]))
                    if both
                    else None,
                    "auc_adversarial": float(auc(axis.score(sides[0]), axis.score(sides[1])))
                    if len(sides) == 2
                    else None,
                }
            )
    return made


def _sum(first: PolarizationAxis, second: PolarizationAxis) -> PolarizationAxis:
    total = first.axis.astype(np.float64) + second.axis.astype(np.float64)
    unit = (total / np.sqrt(total @ total)).astype(np.float32)
    return PolarizationAxis(unit, "combined", np.nan, np.nan, None, np.nan, 0.0, True, 0)


def validity_rows(axes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Precision and recall of "the score works here", by a threshold chosen on other questions."""
    made = []
    keys = sorted({(row["encoder"], row["axis"]) for row in axes})
    for encoder, axis in keys:
        rows = [
            row
            for row in axes
            if (row["encoder"], row["axis"]) == (encoder, axis)
            and row["auc_benign"] is not None
            and row["validity"] is not None
        ]
        for works_above in WORKS_ABOVE:
            if len(rows) < 8:  # too few to cross-validate
                continue
            report = validity_report(
                [row["validity"] for row in rows],
                [row["auc_benign"] for row in rows],
                works_above=works_above,
            )
            made.append(
                {"encoder": encoder, "axis": axis}
                | {name: _plain(value) for name, value in vars(report).items()}
            )
    return made


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)
