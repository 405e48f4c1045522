"""How well each axis hears stance, and what tells that it can be relied on.

In: settings. Out: rows of JSON: AUC of supporting against opposing passages that no axis was fitted
on; beside it the leave-one-out validity, and what the question's own unlabelled passages say
(agreement of axes made in different ways, coverage by the anchors); what a threshold on each is
worth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from defense_run import Setting
from defense_texts import Case
from epibias.metrics import auc
from epibias.polarization import PolarizationAxis
from epibias.polarization.agreement import agreement, coverage
from epibias.polarization.validity_report import validity_report

LEAST = 2  # passages a side
WORKS_ABOVE = (0.65, 0.75, 0.85)
INDEPENDENT = ("ridge", "poles", "pooled")  # none is made from what another one is made from
LEAST_QUESTIONS = 8
LEAST_PASSAGES = 3  # of which an agreement can be told
TELLS = ("validity", "agreement", "coverage", "both")


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
        evidence = _evidence(case, setting, found, benign)
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
                    **evidence,
                }
            )
    return made


def _evidence(
    case: Case, setting: Setting, found: Mapping[str, PolarizationAxis], benign: np.ndarray
) -> dict[str, float | None]:
    """Say what the unlabelled passages of a question tell; nothing where it has no anchors."""
    if not case.anchors or len(benign) < LEAST_PASSAGES:
        return dict.fromkeys(TELLS[1:])
    anchors = np.stack([setting.rows[text] for text in case.anchors])
    alike = agreement([found[name] for name in INDEPENDENT], benign)
    near = coverage(anchors, benign)
    return {"agreement": alike, "coverage": near, "both": (alike + near) / 2}


def _sum(first: PolarizationAxis, second: PolarizationAxis) -> PolarizationAxis:
    total = first.axis.astype(np.float64) + second.axis.astype(np.float64)
    unit = (total / np.sqrt(total @ total)).astype(np.float32)
    return PolarizationAxis(unit, "combined", np.nan, np.nan, None, np.nan, 0.0, True, 0)


def validity_rows(axes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Precision and recall of "the score works here", by a threshold chosen on other questions.

    Of all families together, and of each alone: what tells families apart need not tell questions.
    """
    made = []
    families = dict.fromkeys(row["family"] for row in axes)
    for encoder, axis in sorted({(row["encoder"], row["axis"]) for row in axes}):
        own = [row for row in axes if (row["encoder"], row["axis"]) == (encoder, axis)]
        for family in ("all", *families):
            for tells in TELLS:
                rows = [
                    row
                    for row in own
                    if family in ("all", row["family"])
                    and row["auc_benign"] is not None
                    and row[tells] is not None
                ]
                key = {"encoder": encoder, "axis": axis, "family": family, "tells": tells}
                made += [key | worth for worth in _worth(rows, tells)]
    return made


def _worth(rows: Sequence[dict[str, Any]], tells: str) -> list[dict[str, Any]]:
    """Report each number that may count as working, where there are enough to cross-validate."""
    if len(rows) < LEAST_QUESTIONS:
        return []
    reports = [
        validity_report(
            [row[tells] for row in rows],
            [row["auc_benign"] for row in rows],
            works_above=works_above,
            aim="balanced",
        )
        for works_above in WORKS_ABOVE
    ]
    return [{name: _plain(value) for name, value in vars(report).items()} for report in reports]


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)
