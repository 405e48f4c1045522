"""The axes of a run, one a topic and method, and how far each carries stance.

In: the encoded inputs and the plan. Out: axes, and plain numbers about them for the manifest.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from epibias._plain import finite_or_none
from epibias._validate import Float64Array
from epibias.corpus import Passage
from epibias.data_sets import DebateTopic
from epibias.errors import ValidityWarning
from epibias.experiment.inputs import ExperimentInputs
from epibias.experiment.plan import CONTROL_AXIS, POLARITIES, Plan
from epibias.metrics import auc
from epibias.polarization import PolarizationAxis

VALID_ABOVE = 0.3  # a rank correlation at or below it is no evidence that an axis hears stance
CHANCE_DRAWS = 300


def fit_axes(inputs: ExperimentInputs, plan: Plan) -> dict[str, list[PolarizationAxis]]:
    """Fit one axis a topic, by each method of the plan; "random" draws one instead, as a control.

    Weak axes are no surprise here and the report shows the validity of each, so the warnings
    about it are not repeated on the terminal.
    """
    axes: dict[str, list[PolarizationAxis]] = {}
    stances = [_stances(topic) for topic in inputs.topics]
    n_topics = len(inputs.topics)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        for method in plan.axis_methods:
            if method == CONTROL_AXIS:
                axes[method] = [_random_axis(inputs, row, plan.seed) for row in range(n_topics)]
                continue
            batch = PolarizationAxis.fit(list(inputs.anchors), stances, method=method)
            axes[method] = [batch.topic(row) for row in range(n_topics)]
    return axes


def _random_axis(inputs: ExperimentInputs, row: int, seed: int) -> PolarizationAxis:
    """Draw a direction, seeded by the topic, and orient and centre it on the anchors as a fit is.

    Its validity is None: nothing was fitted that an anchor could be left out of.
    """
    topic = inputs.topics[row]
    generator = np.random.default_rng([seed, zlib.crc32(topic.topic.encode())])
    direction = generator.standard_normal(inputs.queries.shape[1])
    axis = PolarizationAxis(
        axis=(direction / np.linalg.norm(direction)).astype(np.float32),
        method=CONTROL_AXIS,
        explained_variance_ratio=float("nan"),
        relative_gap=float("nan"),
        validity=None,
        neutral_centre=0.0,
        mean_anchor_score=0.0,
        normalize=True,
        n_anchors=len(topic.anchors),
    )
    scores = axis.score(inputs.anchors[row]).astype(np.float64)
    supporting = _stances(topic) > 0
    means = float(scores[supporting].mean()), float(scores[~supporting].mean())
    sign = np.float32(1 if means[0] >= means[1] else -1)
    return replace(axis, axis=axis.axis * sign, neutral_centre=float(sign) * sum(means) / 2)


def validity_rows(
    inputs: ExperimentInputs, axes: Mapping[str, list[PolarizationAxis]]
) -> list[dict[str, Any]]:
    """Say how far every axis carries stance, ready for JSON.

    Beside the leave-one-out validity on the anchors: how often a passage of the supporting side
    has a larger PS than one of the opposing side (AUC; 0.5 is chance), among the adversarial
    passages of both polarities and among the benign ones whose stance is not 0. The axis has seen
    none of these.
    """
    return [
        {
            "topic": topic.topic,
            "axis": method,
            "validity": finite_or_none(fitted[row].validity),
            "explained_variance_ratio": finite_or_none(fitted[row].explained_variance_ratio),
            "relative_gap": finite_or_none(fitted[row].relative_gap),
            "auc_adversarial": finite_or_none(
                auc(
                    *(
                        fitted[row].score(inputs.adversarial[topic.topic, polarity][1])
                        for polarity in POLARITIES
                    )
                )
            ),
            "auc_benign": _benign_auc(inputs, topic, fitted[row]),
        }
        for row, topic in enumerate(inputs.topics)
        for method, fitted in axes.items()
    ]


def _benign_auc(
    inputs: ExperimentInputs, topic: DebateTopic, axis: PolarizationAxis
) -> float | None:
    places = np.array([inputs.benign.index_of(passage.id) for passage in topic.benign])
    stances = np.array([_stance(passage) for passage in topic.benign])
    scores = axis.score(np.ascontiguousarray(inputs.benign_embeddings[places]))
    return finite_or_none(auc(scores[stances > 0], scores[stances < 0]))


def _stance(passage: Passage) -> float:
    stance = passage.extra.get("stance")
    return float(stance) if isinstance(stance, int | float) else 0.0


def validity_by_chance(inputs: ExperimentInputs, plan: Plan) -> dict[str, float]:
    """Say how often an axis without any stance in it would pass for a valid one.

    Random unit vectors stand in for the anchors, with the anchors' stances and dimensions.

    Returns
    -------
    dict
        Fitted method to the share of `CHANCE_DRAWS` draws whose validity exceeds `VALID_ABOVE`.
    """
    generator = np.random.default_rng(plan.seed)
    stances = [_stances(inputs.topics[draw % len(inputs.topics)]) for draw in range(CHANCE_DRAWS)]
    dim = inputs.queries.shape[1]
    draws = [generator.standard_normal((len(one), dim)).astype(np.float32) for one in stances]
    shares = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        for method in plan.axis_methods:
            if method != CONTROL_AXIS:
                validity = PolarizationAxis.fit(draws, stances, method=method).validity
                shares[method] = float(np.mean(np.asarray(validity) > VALID_ABOVE))
    return shares


def _stances(topic: DebateTopic) -> Float64Array:
    return np.asarray(topic.stances, dtype=np.float64)
