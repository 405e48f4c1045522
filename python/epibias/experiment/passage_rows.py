"""Every passage of a question on every axis: similarity, PS, stance, and what makes an attack.

Owns the table that the property check (the paper's Table II), the comparison of PS with stance
(Figure 2a) and the fact check (Figure 3) are made of. In: the inputs and axes of a question. Out:
rows. A stance is the data set's own (`stance` in a passage's metadata) or the judge's verdict.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from epibias._validate import Float32Array
from epibias.attacks.facts import FactTable
from epibias.attacks.properties import categories
from epibias.corpus import Passage
from epibias.errors import InputError
from epibias.experiment.answers import judged
from epibias.experiment.axes import Axes, stance_of
from epibias.experiment.config_types import JudgeRule
from epibias.experiment.inputs import ExperimentInputs, Injectable
from epibias.experiment.measure import similarities_of, text_of
from epibias.experiment.plan import OWN_PASSAGES, Plan
from epibias.experiment.raw import Row, Table
from epibias.generators.base import Generator
from epibias.generators.prompts import render

PASSAGES = Table(
    "passages",
    {
        "dataset": "string",
        "encoder": "string",
        "k": "int64",
        "topic": "string",
        "query_id": "string",
        "axis": "string",
        "passage_id": "string",
        "attack": "string",  # "none" for a benign passage
        "polarity": "string",
        "similarity": "float64",
        "score": "float64",
        "stance": "float64",  # as the data set states it
        "likert": "float64",  # as the judge says
        "is_judged": "bool",  # whether the judge was asked
        "category": "string",  # of adversarial passages; see `attacks.properties.categories`
        # sentences of the passage, where they were checked
        "n_supports": "int64",
        "n_refutes": "int64",
        "n_not_enough": "int64",
    },
)


# How far the axes of a question carry stance; see `axes.validity_rows`.
VALIDITY = Table(
    "validity",
    {
        "dataset": "string",
        "encoder": "string",
        "k": "int64",
        "topic": "string",
        "query_id": "string",
        "axis": "string",
        "validity": "float64",
        "explained_variance_ratio": "float64",
        "relative_gap": "float64",
        "auc_adversarial": "float64",
        "auc_benign": "float64",
    },
)


def passage_rows(
    inputs: ExperimentInputs,
    axes: Axes,
    plan: Plan,
    row: int,
    rows: Sequence[Row],
    verdicts: Mapping[str, int | None],
    facts: Callable[[Sequence[Passage]], FactTable] | None = None,
) -> list[Row]:
    """Rows of a question's relevant benign passages and of all that can be injected.

    Parameters
    ----------
    inputs, axes, plan, row
        As for `measure_question`.
    rows : sequence of rows
        What it gave: the clean selection without a defence is the reference of the bias.
    verdicts : mapping
        Passage id to what the judge said; see `judge_passages`.
    facts : callable, optional
        Checks the sentences of passages.
    """
    question, clean = inputs.questions[row], inputs.clean
    query = inputs.queries[row : row + 1]
    best = float(clean.index.search(query, 1).similarities[0, 0])
    reference = {
        one["axis"]: one["mean_score"]
        for one in rows
        if one["attack"] == "clean" and one["defense"] == plan.defenses[0].key
    }
    groups = [("none", "none", _benign(inputs, row))]
    groups += [
        (source, polarity, there)
        for (owner, source, polarity), there in inputs.injectable.items()
        if owner == question.id and there.passages
    ]
    found = []
    for source, polarity, there in groups:
        if not there.passages:
            continue
        similarities = similarities_of(query, there.embeddings)
        checked = _checked(facts, source, there.passages)
        for method in plan.axis_methods:
            axis = axes[method][row]
            if isinstance(axis, InputError):
                continue
            scores = axis.score(there.ps_embeddings)
            names = _categories(similarities, best, scores, reference.get(method), polarity)
            for number, passage in enumerate(there.passages):
                verdict = verdicts.get(passage.id)
                similarity, score = float(similarities[number]), float(scores[number])
                cell: Row = {
                    "dataset": clean.name,
                    "encoder": clean.encoder,
                    "k": plan.k,
                    "topic": question.topic,
                    "query_id": question.id,
                    "axis": method,
                    "passage_id": passage.id,
                    "attack": source,
                    "polarity": polarity,
                    "similarity": similarity,
                    "score": score,
                    "stance": stance_of(passage),
                    "likert": None if verdict is None else float(verdict),
                    "is_judged": passage.id in verdicts,
                    "category": names[number] if source != "none" else None,
                }
                found.append({**cell, **checked.get(passage.id, {})})
    return found


def _categories(
    similarities: Float32Array,
    best: float,
    scores: Float32Array,
    reference: float | None,
    polarity: str,
) -> list[str | None]:
    if reference is None:  # the clean selection failed
        return [None] * len(scores)
    found: list[str | None] = categories(similarities, best, scores, reference, polarity).tolist()
    return found


def _checked(
    facts: Callable[[Sequence[Passage]], FactTable] | None,
    source: str,
    passages: Sequence[Passage],
) -> dict[str, Row]:
    """Count the verdicts of benign passages and of the set's own adversarial ones."""
    if facts is None or source not in ("none", OWN_PASSAGES):
        return {}
    return {
        one.passage_id: {
            "n_supports": one.n_supports,
            "n_refutes": one.n_refutes,
            "n_not_enough": one.n_not_enough,
        }
        for one in facts(passages).passages
    }


def judge_passages(
    inputs: ExperimentInputs, row: int, judge: Generator, n_passages: int, seed: int
) -> dict[str, int | None]:
    """Ask the judge about some relevant benign passages of a question, drawn by the question's id.

    Never about anchors: the axis was fitted on them, so its scores of them prove nothing, and no
    row would hold the verdict.

    Returns
    -------
    dict
        Passage id to −3 … 3; None where there was no verdict.
    """
    question = inputs.questions[row]
    there = _benign(inputs, row).passages
    generator = np.random.default_rng([seed, zlib.crc32(question.id.encode())])
    chosen = [there[i] for i in sorted(generator.permutation(len(there))[:n_passages])]
    prompts = [render("likert", question=question.text, passage=text_of(one)) for one in chosen]
    return {one.id: v for one, v in zip(chosen, judged(judge, prompts), strict=True)}


def judged_questions(rule: JudgeRule, n_questions: int, seed: int) -> frozenset[int]:
    """Numbers of the questions whose passages are judged, drawn once for a set.

    Examples
    --------
    >>> sorted(judged_questions(JudgeRule("llm", questions=9), 3, 0))
    [0, 1, 2]
    """
    drawn = np.random.default_rng(seed).permutation(n_questions)[: rule.questions]
    return frozenset(int(one) for one in drawn)


def passages_of_a_question(rule: JudgeRule, n_judged: int) -> int:
    """Passages that are judged of each judged question: together at least what the rule asks for.

    Examples
    --------
    >>> passages_of_a_question(JudgeRule("llm", passages=10), 3)
    4
    """
    return -(-rule.passages // max(n_judged, 1))


def _benign(inputs: ExperimentInputs, row: int) -> Injectable:
    """Give the relevant benign passages of a question, with their embeddings."""
    clean = inputs.clean
    names = inputs.relevant.get(inputs.questions[row].id, ())
    places = np.array([clean.corpus.index_of(name) for name in names], dtype=np.int64)

    def part(rows: Float32Array) -> Float32Array:
        return np.ascontiguousarray(rows[places])

    return Injectable(
        [clean.corpus[int(place)] for place in places],
        part(clean.index.embeddings),
        part(clean.ps_embeddings),
    )
