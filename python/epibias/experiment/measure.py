"""One question of an experiment: inject, retrieve, defend, select, measure.

In: the encoded inputs, the axes, the plan and the number of a question. Out: its raw rows. Writes
nothing; the same inputs give the same rows, but for the latency.

The clean corpus is searched once. What an attack adds is ranked among the best of that, which
gives the candidates of the attacked corpus exactly: similarities do not depend on what else is in
an index, and injected passages stand behind the others, as they do in `attacks.inject`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epibias._plain import finite_or_none
from epibias._validate import Float32Array, Int64Array
from epibias.attacks import decoys
from epibias.corpus import Passage, query_keys
from epibias.corpus.passages import encoded_text
from epibias.defenses.base import Defense
from epibias.errors import InputError
from epibias.experiment.axes import Axes
from epibias.experiment.inputs import EncodedCorpus, ExperimentInputs, Injectable
from epibias.experiment.plan import DECOY_LIMIT, Attack, Learn, NamedDefense, Plan
from epibias.experiment.raw import Row
from epibias.metrics import retrieval as metrics
from epibias.polarization import PolarizationAxis
from epibias.pool import CandidatePool
from epibias.retrieval import CosineIndex

_METADATA = ("source", "tier", "author", "time")
NO_DECOYS = "no adversarial passage lies below the query's k-th best benign passage"


@dataclass(frozen=True, eq=False)
class _AttackedQuestion:
    """One question under one attack: what was added, and the candidates of the attacked corpus."""

    attack: Attack
    clean: EncodedCorpus
    added: Injectable
    candidates: Int64Array  # rows of the attacked corpus: the clean ones, then the added ones
    missing: str | None = None  # why the attack cannot be made

    @property
    def adversarial_ids(self) -> list[str]:
        return [passage.id for passage in self.added.passages]

    def within_reach(
        self, pool: CandidatePool, reach: Int64Array
    ) -> tuple[CosineIndex, CandidatePool]:
        """Give what a defence that searches again can see of the attacked corpus, and its pool.

        An index of all of it would be a copy of the corpus for each attack. The order of passages
        is kept, so that equal similarities are ranked as in the whole.
        """
        n_benign = len(self.clean.corpus)
        rows = np.union1d(reach, self.candidates[self.candidates < n_benign])
        numbers = np.concatenate([rows, n_benign + np.arange(len(self.added.passages))])
        parts = [self.clean.index.embeddings[rows], self.added.embeddings]
        places = np.searchsorted(numbers, pool.indices)
        return CosineIndex(np.concatenate(parts)), replace(pool, indices=places)

    def passage(self, row: int) -> Passage:
        n_benign = len(self.clean.corpus)
        return self.clean.corpus[row] if row < n_benign else self.added.passages[row - n_benign]

    def rows_of(self, benign: Float32Array, added: Float32Array) -> Float32Array:
        """Embeddings of the candidates, by either encoder."""
        n_benign = len(self.clean.corpus)
        is_benign = self.candidates < n_benign
        parts = [benign[self.candidates[is_benign]]]
        if not is_benign.all():
            parts.append(added[self.candidates[~is_benign] - n_benign])
        return np.ascontiguousarray(np.concatenate(parts))


def measure_question(inputs: ExperimentInputs, axes: Axes, plan: Plan, row: int) -> list[Row]:
    """Raw rows of one question: every attack × axis × defence of the plan.

    Parameters
    ----------
    inputs : ExperimentInputs
        Texts and embeddings.
    axes : mapping
        Method to one axis a question.
    plan : Plan
        What to run.
    row : int
        Number of the question in `inputs.questions`.
    """
    rows = []
    learnt: dict[tuple[str, str], Defense | InputError] = {}  # by axis and defence
    reaches: dict[str, Int64Array] = {}  # by defence: the query is the same under every attack
    for attacked in _attacks(inputs, plan, row):
        for method in plan.axis_methods:
            axis = axes[method][row]
            pool = None
            if attacked.missing is None and not isinstance(axis, InputError):
                pool = _pool(inputs, axis, plan, row, attacked)
            for named in plan.defenses:
                cell = _cell(inputs, plan, row, attacked, method, named)
                if attacked.missing is not None:
                    rows.append({**cell, "status": "not_applicable", "message": attacked.missing})
                elif isinstance(axis, InputError):
                    rows.append({**cell, "status": "failed", "message": str(axis)})
                else:
                    assert pool is not None  # noqa: S101 (for the type checker)
                    if attacked.attack.kind == "clean" and named.learn is not None:
                        learnt[method, named.key] = _learn(inputs, row, named.learn, pool)
                    known = learnt.get((method, named.key), named.defense)
                    if isinstance(known, InputError):
                        rows.append({**cell, "status": "failed", "message": str(known)})
                        continue
                    seen = pool
                    if named.of_index is not None:
                        if named.key not in reaches:
                            reaches[named.key] = named.of_index(inputs.clean.index).reach(pool)
                        index, seen = attacked.within_reach(pool, reaches[named.key])
                        known = named.of_index(index)
                    ids = [attacked.passage(int(i)).id for i in pool.indices]
                    rows.append({**cell, **_defend(inputs, plan, row, attacked, seen, known, ids)})
    return rows


def _learn(
    inputs: ExperimentInputs, row: int, learn: Learn, own: CandidatePool
) -> Defense | InputError:
    """Give the defence that knows clean pools; the clean corpus is the first attack of a plan."""
    try:
        return learn(inputs.clean, inputs.questions[row].id, own)
    except InputError as error:
        return error


def _attacks(inputs: ExperimentInputs, plan: Plan, row: int) -> Iterator[_AttackedQuestion]:
    size = plan.k * plan.pool_factor
    query = inputs.queries[row : row + 1]
    found = inputs.clean.index.search(query, size).indices[0]
    for attack in plan.attacks:
        added, missing = _added(inputs, plan, row, attack)
        n_benign = len(inputs.clean.corpus)
        new = np.arange(n_benign, n_benign + len(added.passages))
        _check_ids(inputs.clean, added)
        rows = np.concatenate([found, new])
        yield _AttackedQuestion(attack, inputs.clean, added, rows, missing)


def _check_ids(clean: EncodedCorpus, added: Injectable) -> None:
    for passage in added.passages:
        if passage.id in clean.corpus:
            expected = "ids that are new to the corpus"
            raise InputError("adversarial", expected, f"{passage.id!r}, which stands in it")


def _added(
    inputs: ExperimentInputs, plan: Plan, row: int, attack: Attack
) -> tuple[Injectable, str | None]:
    """Give what an attack injects, and why it cannot be made if it cannot."""
    dim, ps_dim = inputs.queries.shape[1], inputs.clean.ps_embeddings.shape[1]
    nothing = Injectable((), np.empty((0, dim), np.float32), np.empty((0, ps_dim), np.float32))
    if attack.kind == "clean":
        return nothing, None
    key = inputs.questions[row].id, attack.source, attack.polarity
    there = inputs.injectable.get(key, nothing)
    if attack.kind == "decoys":
        chosen = _decoys(inputs, plan, row, there) if there.passages else np.empty(0, np.int64)
        return _part(there, chosen), None if len(chosen) else NO_DECOYS
    if len(there.passages) < attack.injections:
        found = len(there.passages)
        return nothing, f"expected {attack.injections} passages to inject, got {found}"
    return _part(there, np.arange(attack.injections)), None


def _decoys(inputs: ExperimentInputs, plan: Plan, row: int, there: Injectable) -> Int64Array:
    query = inputs.queries[row : row + 1]
    # Only the k-th best benign similarity counts.
    best = inputs.clean.index.search(query, plan.k).similarities[0]
    return decoys(best, similarities_of(query, there.embeddings), k=plan.k, limit=DECOY_LIMIT)


def _part(there: Injectable, rows: Int64Array) -> Injectable:
    return Injectable(
        [there.passages[i] for i in rows],
        np.ascontiguousarray(there.embeddings[rows]),
        np.ascontiguousarray(there.ps_embeddings[rows]),
    )


def similarities_of(query: Float32Array, embeddings: Float32Array) -> Float32Array:
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
    attacked: _AttackedQuestion,
) -> CandidatePool:
    question, clean, added = inputs.questions[row], inputs.clean, attacked.added
    passages = [attacked.passage(int(i)) for i in attacked.candidates]
    ps_rows = None
    if clean.has_ps_encoder:
        ps_rows = attacked.rows_of(clean.ps_embeddings, added.ps_embeddings)
    pool = CandidatePool.from_vectors(
        inputs.queries[row : row + 1],
        attacked.rows_of(clean.index.embeddings, added.embeddings),
        axis,
        k=plan.k,
        indices=attacked.candidates,
        ps_embeddings=ps_rows,
        query_ids=query_keys([question.id]),
        topics=(question.topic,),
        query_texts=(question.text,),
        passage_texts=[[text_of(passage) for passage in passages]],
        metadata=_metadata(passages),
    )
    return pool.restrict([np.arange(plan.k * plan.pool_factor)])


def _metadata(passages: Sequence[Passage]) -> dict[str, list[list[object]]] | None:
    """Fields of the candidates that any of them has, for defences that look at origin."""
    columns = {name: [getattr(one, name) for one in passages] for name in _METADATA}
    return {name: [v] for name, v in columns.items() if any(x is not None for x in v)} or None


def text_of(passage: Passage) -> str:
    """Text of a passage as an encoder and a reader get it: with its title."""
    return encoded_text(passage.title, passage.text)


def _cell(
    inputs: ExperimentInputs,
    plan: Plan,
    row: int,
    attacked: _AttackedQuestion,
    method: str,
    named: NamedDefense,
) -> Row:
    attack, question = attacked.attack, inputs.questions[row]
    return {
        "dataset": inputs.clean.name,
        "encoder": inputs.clean.encoder,
        "k": plan.k,
        "topic": question.topic,
        "query_id": question.id,
        "axis": method,
        "defense": named.key,
        "attack": attack.kind,
        "polarity": attack.polarity,
        "condition": attack.condition,
        "injections": len(attacked.adversarial_ids),
        "injected_ids": attacked.adversarial_ids,
        "status": "ok",
        "message": None,
    }


def _defend(
    inputs: ExperimentInputs,
    plan: Plan,
    row: int,
    attacked: _AttackedQuestion,
    pool: CandidatePool,
    defense: Defense,
    ids: list[str],
) -> Row:
    """Give what a defence selects; `ids` are those of the pool, whatever numbers it has."""
    names = dict(zip(pool.indices.tolist(), ids, strict=True))
    candidates: Row = {
        "candidate_ids": ids,
        "candidate_similarities": pool.similarities.tolist(),
        "candidate_scores": pool.scores.tolist(),
    }
    start = time.perf_counter()
    try:
        selection = defense.select(pool)
    except InputError as error:  # counted and listed, never dropped
        return {**candidates, "status": "failed", "message": str(error)}
    latency_ms = 1e3 * (time.perf_counter() - start)
    positions = selection.positions
    diagnostics = selection.diagnostics
    selected = [names[int(i)] for i in selection[0]]
    return {
        **candidates,
        "selected_ids": selected,
        "selected_similarities": pool.similarities[positions].tolist(),
        "selected_scores": pool.scores[positions].tolist(),
        "dropped_ids": [names[int(i)] for i in selection.dropped[0]],
        "n_selected": int(selection.n_selected[0]),
        "short": int(selection.n_selected[0]) < plan.k,
        "sweep_threshold": _finite(diagnostics, "sweep_threshold"),
        "threshold": _finite(diagnostics, "threshold"),
        "n_kept": _whole(diagnostics, "n_kept"),
        "divergence": _finite(diagnostics, "divergence"),
        "p_value": _finite(diagnostics, "p_value"),  # NaN where no gate asked for a test
        "side": _word(diagnostics, "side"),
        **_metrics(inputs, plan, row, attacked, selected, pool.scores[positions]),
        "latency_ms": latency_ms,
    }


def _metrics(
    inputs: ExperimentInputs,
    plan: Plan,
    row: int,
    attacked: _AttackedQuestion,
    chosen: Sequence[str],
    scores: Float32Array,
) -> Row:
    adversarial = attacked.adversarial_ids
    relevant = inputs.relevant.get(inputs.questions[row].id, ())
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
