"""The axes of a run, one a question and method, and how far each carries stance.

In: the encoded inputs and the plan. Out: axes, and plain numbers about them for the manifest. An
axis that cannot be fitted is an error that the question's rows carry, not the end of a run.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from epibias._plain import finite_or_none
from epibias._validate import Float64Array
from epibias.corpus import Passage
from epibias.data_sets import Question
from epibias.errors import InputError, ValidityWarning
from epibias.experiment.inputs import ExperimentInputs
from epibias.experiment.plan import CONTROL_AXIS, OWN_PASSAGES, POLARITIES, Plan
from epibias.metrics import auc
from epibias.polarization import PolarizationAxis

VALID_ABOVE = 0.3  # a rank correlation at or below it is no evidence that an axis hears stance
CHANCE_DRAWS = 300
# Method to one axis a question, or why there is none.
Axes = Mapping[str, Sequence[PolarizationAxis | InputError]]


def fit_axes(
    inputs: ExperimentInputs, plan: Plan
) -> dict[str, list[PolarizationAxis | InputError]]:
    """Fit one axis a question, by each method of the plan; "random" draws one, as a control.

    Weak axes are no surprise here and the report shows the validity of each, so the warnings
    about it are not repeated on the terminal.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        return {
            method: [_fit_axis(inputs, row, method, plan) for row in range(len(inputs.questions))]
            for method in plan.axis_methods
        }


def _fit_axis(
    inputs: ExperimentInputs, row: int, method: str, plan: Plan
) -> PolarizationAxis | InputError:
    question, anchors = inputs.questions[row], inputs.anchors[row]
    if not len(anchors):
        return InputError("anchors", "passages to fit an axis on", "none", question.id)
    try:
        if method == CONTROL_AXIS:
            return _random_axis(inputs, row, plan.seed)
        return PolarizationAxis.fit(anchors, stances_of(question), method=method)
    except InputError as error:
        return error


def _random_axis(inputs: ExperimentInputs, row: int, seed: int) -> PolarizationAxis:
    """Draw a direction, seeded by the topic, and orient and centre it on the anchors as a fit is.

    Its validity is None: nothing was fitted that an anchor could be left out of.
    """
    question, anchors = inputs.questions[row], inputs.anchors[row]
    generator = np.random.default_rng([seed, zlib.crc32(question.topic.encode())])
    direction = generator.standard_normal(anchors.shape[1])
    axis = PolarizationAxis(
        axis=(direction / np.linalg.norm(direction)).astype(np.float32),
        method=CONTROL_AXIS,
        explained_variance_ratio=float("nan"),
        relative_gap=float("nan"),
        validity=None,
        neutral_centre=0.0,
        mean_anchor_score=0.0,
        normalize=True,
        n_anchors=len(anchors),
    )
    scores = axis.score(anchors).astype(np.float64)
    stances = stances_of(question)
    # Without stances the ends are the extreme anchors, as for a fit by "pca".
    supporting = scores == scores.max() if stances is None else stances > 0
    opposing = scores == scores.min() if stances is None else stances <= 0
    means = float(scores[supporting].mean()), float(scores[opposing].mean())
    sign = np.float32(1 if means[0] >= means[1] else -1)
    return replace(axis, axis=axis.axis * sign, neutral_centre=float(sign) * sum(means) / 2)


def validity_rows(inputs: ExperimentInputs, axes: Axes) -> list[dict[str, Any]]:
    """Say how far every axis carries stance, ready for JSON.

    Beside the leave-one-out validity on the anchors: how often a passage of the supporting side
    has a larger PS than one of the opposing side (AUC; 0.5 is chance), among the adversarial
    passages of both polarities and among the benign ones whose stance is not 0. The axis has seen
    none of these. All are None for an axis that could not be fitted.
    """
    return [
        {
            "topic": question.topic,
            "axis": method,
            **_validity(inputs, question, fitted[row]),
        }
        for row, question in enumerate(inputs.questions)
        for method, fitted in axes.items()
    ]


_VALIDITY = (
    "validity", "explained_variance_ratio", "relative_gap", "auc_adversarial", "auc_benign"
)  # fmt: skip


def _validity(
    inputs: ExperimentInputs, question: Question, axis: PolarizationAxis | InputError
) -> dict[str, float | None]:
    if isinstance(axis, InputError):
        return dict.fromkeys(_VALIDITY)
    values = (
        axis.validity,
        axis.explained_variance_ratio,
        axis.relative_gap,
        _adversarial_auc(inputs, question, axis),
        _benign_auc(inputs, question, axis),
    )
    return dict(zip(_VALIDITY, map(finite_or_none, values), strict=True))


def _adversarial_auc(inputs: ExperimentInputs, question: Question, axis: PolarizationAxis) -> float:
    sides = []
    for polarity in POLARITIES:
        found = inputs.injectable.get((question.id, OWN_PASSAGES, polarity))
        if found is None or not found.passages:
            return float("nan")
        sides.append(axis.score(found.ps_embeddings))
    return auc(*sides)


def _benign_auc(inputs: ExperimentInputs, question: Question, axis: PolarizationAxis) -> float:
    relevant, clean = inputs.relevant.get(question.id, ()), inputs.clean
    if not relevant:
        return float("nan")
    places = np.array([clean.corpus.index_of(name) for name in relevant])
    stances = np.array([stance_of(clean.corpus[int(place)]) or 0.0 for place in places])
    scores = axis.score(np.ascontiguousarray(clean.ps_embeddings[places]))
    return auc(scores[stances > 0], scores[stances < 0])


def stance_of(passage: Passage) -> float | None:
    """Stance that the data set states of a passage; None where it states none."""
    stance = passage.extra.get("stance")
    is_number = isinstance(stance, int | float) and not isinstance(stance, bool)
    return float(stance) if is_number else None  # type: ignore[arg-type]


def validity_by_chance(inputs: ExperimentInputs, plan: Plan) -> dict[str, float]:
    """Say how often an axis without any stance in it would pass for a valid one.

    Random unit vectors stand in for the anchors, with the anchors' stances and dimensions.

    Returns
    -------
    dict
        Fitted method to the share of `CHANCE_DRAWS` draws whose validity exceeds `VALID_ABOVE`;
        empty where no question has stances.
    """
    generator = np.random.default_rng(plan.seed)
    known = [one for one in map(stances_of, inputs.questions) if one is not None]
    if not known:
        return {}
    stances = [known[draw % len(known)] for draw in range(CHANCE_DRAWS)]
    dim = inputs.clean.ps_embeddings.shape[1]
    draws = [generator.standard_normal((len(one), dim)).astype(np.float32) for one in stances]
    shares = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        for method in plan.axis_methods:
            if method != CONTROL_AXIS:
                validity = PolarizationAxis.fit(draws, stances, method=method).validity
                shares[method] = float(np.mean(np.asarray(validity) > VALID_ABOVE))
    return shares


def stances_of(question: Question) -> Float64Array | None:
    """Stances of the anchors as an array; None where they are not known."""
    if question.stances is None:
        return None
    return np.asarray(question.stances, dtype=np.float64)
