"""What a defended query costs, stage by stage: encode, search, project, sweep, select.

In: an arm of an experiment. Out: seconds of every stage for one query at a time, on the clean
corpus, as a service would spend them; the encoder's cache is off. After one query that warms
everything up, each query is timed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from epibias.corpus import query_keys
from epibias.costs.clock import seconds_of
from epibias.defenses import BiasDef
from epibias.defenses.base import Defense
from epibias.encoder import Encoder
from epibias.errors import InputError
from epibias.experiment.axes import fit_axes
from epibias.experiment.inputs import ExperimentInputs, encode_corpus, encode_questions
from epibias.experiment.listener import Listener
from epibias.experiment.plan import NamedDefense, Plan
from epibias.polarization import PolarizationAxis
from epibias.pool import CandidatePool

if TYPE_CHECKING:
    from epibias.experiment.bench import Arm, Experiment

STAGES = ("encode", "search", "project", "sweep", "select", "total")
QUERIES_TIMED = 32


def costs_of_arms(experiment: Experiment, listener: Listener) -> list[dict[str, Any]]:
    """Time the stages of every arm; see `stage_costs`."""
    found = []
    for arm in experiment.arms():
        listener.start(f"timing the stages on {arm.dataset.name}", None)
        found += stage_costs(experiment, arm)
    return found


def stage_costs(experiment: Experiment, arm: Arm) -> list[dict[str, Any]]:
    """Median and 95th percentile of every stage, for every defence of an arm.

    Returns
    -------
    list of dict
        One a defence and stage, in milliseconds. `sweep` is `BiasDef.sweep`, a call of its own;
        `select` sweeps within one fused kernel, so `total` is encode + search + project + select.
    """
    loaded, plan = experiment.loaded(arm.dataset), experiment.plan(arm)
    encoder = experiment.encoder(arm.encoder.retrieve)
    scorer = None if arm.encoder.score is None else experiment.encoder(arm.encoder.score)
    chosen = loaded.chosen[: QUERIES_TIMED + 1]
    clean = encode_corpus(
        arm.dataset.name, loaded.questions.corpus, encoder, scorer, encoder_name=arm.encoder.name
    )
    inputs = encode_questions(clean, chosen, loaded.questions.relevant, {}, encoder, scorer)
    axes = next(iter(fit_axes(inputs, plan).values()))
    fresh = experiment.fresh_encoder(arm.encoder.retrieve, cache=False)
    found = []
    for named in plan.defenses:
        spent: dict[str, list[float]] = {stage: [] for stage in STAGES}
        for row, axis in enumerate(axes):
            if isinstance(axis, InputError):
                continue
            times = _times(inputs, plan, named, axis, row, fresh)
            if times is not None and (row > 0 or len(axes) == 1):
                for stage, seconds in times.items():
                    spent[stage].append(1e3 * seconds)
        found += [
            {
                "dataset": arm.dataset.name,
                "encoder": arm.encoder.name,
                "k": arm.k,
                "defense": named.key,
                "stage": stage,
                "n_queries": len(values),
                "p50_ms": round(float(np.percentile(values, 50)), 4),
                "p95_ms": round(float(np.percentile(values, 95)), 4),
            }
            for stage, values in spent.items()
            if values
        ]
    return found


def _times(
    inputs: ExperimentInputs,
    plan: Plan,
    named: NamedDefense,
    axis: PolarizationAxis,
    row: int,
    encoder: Encoder,
) -> dict[str, float] | None:
    """Seconds of every stage for one query; None where the defence fails on it."""
    clean, question = inputs.clean, inputs.questions[row]
    encode = getattr(encoder, "encode_queries", encoder.encode)
    defense: Defense = named.defense
    if named.of_index is not None:
        defense = named.of_index(clean.index)
    query = inputs.queries[row : row + 1]
    spent: dict[str, float] = {}
    spent["encode"], _ = seconds_of(lambda: encode([question.text]))
    spent["search"], found = seconds_of(
        lambda: clean.index.search(query, plan.k * plan.pool_factor)
    )
    spent["project"], scores = seconds_of(lambda: axis.score(clean.ps_embeddings, found.indices))
    if isinstance(defense, BiasDef):
        sweep = defense.sweep
        spent["sweep"], _ = seconds_of(
            lambda: sweep(found.similarities, scores, query_keys([question.id]))
        )
    pool = CandidatePool.build(
        clean.index,
        query,
        axis,
        clean.ps_embeddings if clean.has_ps_encoder else None,
        k=plan.k,
        pool_factor=plan.pool_factor,
        query_ids=query_keys([question.id]),
        topics=(question.topic,),
        query_texts=(question.text,),
        corpus=clean.corpus,
    )
    try:
        if named.learn is not None:
            defense = named.learn(clean, question.id, pool)
        spent["select"], _ = seconds_of(lambda: defense.select(pool))
    except InputError:
        return None
    spent["total"] = sum(spent[stage] for stage in ("encode", "search", "project", "select"))
    return spent
