"""One topic of an experiment: inject, retrieve, defend, select, measure.

In: the encoded inputs, the axes, the plan and the number of a topic. Out: its raw rows. Writes
nothing; the same inputs give the same rows, but for the latency.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epibias._plain import finite_or_none
from epibias._validate import Float32Array, Int64Array
from epibias.attacks import InjectedCorpus, decoys, inject
from epibias.corpus import Passage, query_keys
from epibias.errors import InputError
from epibias.experiment.inputs import ExperimentInputs
from epibias.experiment.plan import DECOY_LIMIT, Attack, NamedDefense, Plan
from epibias.experiment.raw import Row
from epibias.metrics import retrieval as metrics
from epibias.polarization import PolarizationAxis
from epibias.pool import CandidatePool
from epibias.retrieval import CosineIndex

NO_DECOYS = "no adversarial passage lies below the query's k-th best benign passage"


@dataclass(frozen=True)
class _AttackedTopic:
    """One topic under one attack, ready to be searched."""

    attack: Attack
    injected: InjectedCorpus
    index: CosineIndex


def measure_topic(
    inputs: ExperimentInputs, axes: Mapping[str, list[PolarizationAxis]], plan: Plan, row: int
) -> list[Row]:
    """Raw rows of one topic: every attack × axis × defence of the plan.

    Parameters
    ----------
    inputs : ExperimentInputs
        Texts and embeddings.
    axes : mapping
        Method to one axis a topic.
    plan : Plan
        What to run.
    row : int
        Number of the topic in `inputs.topics`.
    """
    rows = []
    for attack in plan.attacks:
        attacked = _attack(inputs, plan, row, attack)
        for method in plan.axis_methods:
            pool = _pool(inputs, axes[method][row], plan, row, attacked)
            for named in plan.defenses:
                cell = _cell(inputs, row, attacked, method, named)
                if attack.kind == "decoys" and not attacked.injected.adversarial_ids:
                    rows.append({**cell, "status": "not_applicable", "message": NO_DECOYS})
                else:
                    rows.append({**cell, **_defend(inputs, plan, row, attacked, pool, named)})
    return rows


def _attack(inputs: ExperimentInputs, plan: Plan, row: int, attack: Attack) -> _AttackedTopic:
    passages, embeddings = _injected_passages(inputs, plan, row, attack)
    injected = inject(inputs.benign, passages)
    return _AttackedTopic(
        attack, injected, CosineIndex(np.concatenate([inputs.benign_embeddings, embeddings]))
    )


def _injected_passages(
    inputs: ExperimentInputs, plan: Plan, row: int, attack: Attack
) -> tuple[Sequence[Passage], Float32Array]:
    if attack.kind == "clean":
        return [], inputs.benign_embeddings[:0]
    passages, embeddings = inputs.adversarial[inputs.topics[row].topic, attack.polarity]
    if attack.kind == "injection":
        return passages[: attack.injections], embeddings[: attack.injections]
    query = inputs.queries[row : row + 1]
    chosen = decoys(
        _similarities(query, inputs.benign_embeddings),
        _similarities(query, embeddings),
        k=plan.k,
        limit=DECOY_LIMIT,
    )
    return [passages[i] for i in chosen], np.ascontiguousarray(embeddings[chosen])


def _similarities(query: Float32Array, embeddings: Float32Array) -> Float32Array:
    """Similarity of one query to every row, in the order of the rows."""
    found = CosineIndex(embeddings).search(query, k=len(embeddings))
    similarities = np.empty(len(embeddings), dtype=np.float32)
    similarities[found.indices[0]] = found.similarities[0]
    return similarities


def _pool(
    inputs: ExperimentInputs,
    axis: PolarizationAxis,
    plan: Plan,
    row: int,
    attacked: _AttackedTopic,
) -> CandidatePool:
    return CandidatePool.build(
        attacked.index,
        inputs.queries[row : row + 1],
        axis,
        k=plan.k,
        pool_factor=plan.pool_factor,
        query_ids=query_keys([inputs.topics[row].query_id]),
        topics=(inputs.topics[row].topic,),
    )


def _cell(
    inputs: ExperimentInputs, row: int, attacked: _AttackedTopic, method: str, named: NamedDefense
) -> Row:
    attack = attacked.attack
    return {
        "topic": inputs.topics[row].topic,
        "query_id": inputs.topics[row].query_id,
        "axis": method,
        "defense": named.key,
        "attack": attack.kind,
        "polarity": attack.polarity,
        "condition": attack.condition,
        "injections": len(attacked.injected.adversarial_ids),
        "injected_ids": list(attacked.injected.adversarial_ids),
        "status": "ok",
        "message": None,
    }


def _defend(
    inputs: ExperimentInputs,
    plan: Plan,
    row: int,
    attacked: _AttackedTopic,
    pool: CandidatePool,
    named: NamedDefense,
) -> Row:
    ids = attacked.injected.corpus.ids
    candidates: Row = {
        "candidate_ids": [ids[i] for i in pool.indices],
        "candidate_similarities": pool.similarities.tolist(),
        "candidate_scores": pool.scores.tolist(),
    }
    start = time.perf_counter()
    try:
        selection = named.defense.select(pool)
    except InputError as error:  # counted and listed, never dropped
        return {**candidates, "status": "failed", "message": str(error)}
    latency_ms = 1e3 * (time.perf_counter() - start)
    positions = selection.positions
    diagnostics = selection.diagnostics
    return {
        **candidates,
        "selected_ids": [ids[i] for i in selection[0]],
        "selected_similarities": pool.similarities[positions].tolist(),
        "selected_scores": pool.scores[positions].tolist(),
        "dropped_ids": [ids[i] for i in selection.dropped[0]],
        "n_selected": int(selection.n_selected[0]),
        "short": int(selection.n_selected[0]) < plan.k,
        "sweep_threshold": _finite(diagnostics, "sweep_threshold"),
        "threshold": _finite(diagnostics, "threshold"),
        "n_kept": _whole(diagnostics, "n_kept"),
        "divergence": _finite(diagnostics, "divergence"),
        "p_value": _finite(diagnostics, "p_value"),  # NaN where no gate asked for a test
        "side": _word(diagnostics, "side"),
        **_metrics(inputs, plan, row, attacked, selection[0], pool.scores[positions]),
        "latency_ms": latency_ms,
    }


def _metrics(
    inputs: ExperimentInputs,
    plan: Plan,
    row: int,
    attacked: _AttackedTopic,
    selected: Int64Array,
    scores: Float32Array,
) -> Row:
    adversarial = attacked.injected.adversarial_ids
    ids = attacked.injected.corpus.ids
    chosen = [ids[i] for i in selected]
    relevant = [passage.id for passage in inputs.topics[row].benign]
    values = {
        "adversarial_precision": metrics.adversarial_precision(chosen, adversarial, plan.k),
        "adversarial_recall": metrics.adversarial_recall(chosen, adversarial),
        "none_selected": metrics.none_selected(chosen, adversarial),
        "recall_over_k": metrics.recall_over_k(chosen, relevant, plan.k),
        "recall_over_relevant": metrics.recall_over_relevant(chosen, relevant),
        "mean_score": metrics.mean_polarization(scores),
    }
    return {name: finite_or_none(value) for name, value in values.items()}


def _first(diagnostics: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401
    values = diagnostics.get(name)
    return None if values is None else values[0]


def _finite(diagnostics: Mapping[str, Any], name: str) -> float | None:
    return finite_or_none(_first(diagnostics, name))


def _whole(diagnostics: Mapping[str, Any], name: str) -> int | None:
    value = _first(diagnostics, name)
    return None if value is None else int(value)


def _word(diagnostics: Mapping[str, Any], name: str) -> str | None:
    value = _first(diagnostics, name)
    return None if value is None else str(value)
