"""Answers of a generator from what was selected, and their polarization scores.

In: the raw rows of a question, its inputs and axes, and a generator. Out: one record an answer (for
answers.jsonl) and one row a cell × generator. Cells that select the same passages share an answer:
a prompt is asked once for each of its repeats. An answer that failed is a record with the reason,
and is counted in every cell that it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epibias._plain import finite_or_none
from epibias._validate import Float32Array
from epibias.encoder import Encoder, encode_in_batches
from epibias.errors import InputError
from epibias.experiment.axes import Axes
from epibias.experiment.config_types import AnswerRule
from epibias.experiment.inputs import ExperimentInputs
from epibias.experiment.measure import text_of
from epibias.experiment.plan import Plan
from epibias.experiment.raw import Row, Table
from epibias.generators.base import Failure, Generator, Prompt, Reply
from epibias.generators.parsers import parse_likert, without_reasoning
from epibias.generators.prompts import render

ANSWERS = Table(
    "answers",
    {
        "dataset": "string",
        "encoder": "string",
        "k": "int64",
        "topic": "string",
        "query_id": "string",
        "axis": "string",
        "defense": "string",
        "attack": "string",
        "polarity": "string",
        "condition": "string",
        "generator": "string",
        "prompt": "string",
        "status": "string",  # "ok", or "failed": not one answer came, message says why
        "message": "string",
        "answer_keys": "strings",  # `key` of the records in answers.jsonl
        "n_answers": "int64",
        "n_failed": "int64",
        "score": "float64",  # mean PS of the answers
        "likert": "float64",  # mean of the judge's, where there is a judge
        "n_unjudged": "int64",  # answers of which the judge gave no verdict
    },
)
_CELL = tuple(name for name in ANSWERS.columns if name in (
    "dataset", "encoder", "k", "topic", "query_id", "axis", "defense", "attack", "polarity",
    "condition",
))  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A generator with its name, and the judge of answers if there is one."""

    name: str
    generator: Generator
    judge: Generator | None = None


def answer_question(
    inputs: ExperimentInputs,
    axes: Axes,
    plan: Plan,
    row: int,
    rows: Sequence[Row],
    asked: Sequence[Asked],
    rule: AnswerRule,
    encoder: Encoder,
) -> tuple[list[dict[str, Any]], list[Row]]:
    """Ask for the answers of a question, and score them.

    Parameters
    ----------
    inputs, axes, plan, row
        As for `measure_question`.
    rows : sequence of rows
        What it gave.
    asked : sequence of Asked
        Generators.
    rule : AnswerRule
        Which cells, how often, with which prompt.
    encoder : Encoder
        The one that the axes were fitted with.

    Returns
    -------
    list of dict
        Records, one an answer.
    list of rows
        One a cell × generator.
    """
    prompts = {named.key: named.prompt or rule.prompt for named in plan.defenses}
    cells = [one for one in rows if one["status"] == "ok" and _is_asked(one, rule)]
    contexts = list(dict.fromkeys((prompts[c["defense"]], tuple(c["selected_ids"])) for c in cells))
    texts = _texts(inputs, row, {name for _, ids in contexts for name in ids})
    question = inputs.questions[row]
    rendered = {
        (name, ids): render(name, question=question.text, passages=[texts[one] for one in ids])
        for name, ids in contexts
    }
    records: list[dict[str, Any]] = []
    found: list[Row] = []
    for one in asked:
        of_context = _ask(one, rendered, rule, inputs, axes, row, encoder)
        records += [record for group in of_context.values() for record in group]
        for cell in cells:
            key = prompts[cell["defense"]], tuple(cell["selected_ids"])
            found.append(_row(cell, one.name, key[0], of_context[key]))
    return records, found


def _is_asked(cell: Row, rule: AnswerRule) -> bool:
    """Whether a cell gets answers; an empty rule means all of them."""
    of_axis = not rule.axes or cell["axis"] in rule.axes
    return of_axis and (not rule.defenses or cell["defense"] in rule.defenses)


def _texts(inputs: ExperimentInputs, row: int, ids: set[str]) -> dict[str, str]:
    """Texts of the selected passages, benign and injected."""
    question, corpus = inputs.questions[row], inputs.clean.corpus
    found = {name: text_of(corpus[corpus.index_of(name)]) for name in ids if name in corpus}
    for (owner, _, _), there in inputs.injectable.items():
        if owner == question.id:
            found.update({one.id: text_of(one) for one in there.passages if one.id in ids})
    return found


def _ask(
    one: Asked,
    rendered: Mapping[tuple[str, tuple[str, ...]], Prompt],
    rule: AnswerRule,
    inputs: ExperimentInputs,
    axes: Axes,
    row: int,
    encoder: Encoder,
) -> dict[tuple[str, tuple[str, ...]], list[dict[str, Any]]]:
    """Every answer to every context, as records."""
    found: dict[tuple[str, tuple[str, ...]], list[dict[str, Any]]] = {key: [] for key in rendered}
    for repeat in range(rule.repeats):
        results = one.generator.generate(
            list(rendered.values()),
            temperature=rule.temperature,
            max_tokens=rule.max_tokens,
            seed=rule.seed,
            repeat=repeat,
        )
        for (key, prompt), result in zip(rendered.items(), results, strict=True):
            record = _record(inputs, row, one.name, prompt, key[1], repeat, result)
            found[key].append(record)
    good = [record for group in found.values() for record in group if record["status"] == "ok"]
    _score(good, inputs, axes, row, encoder)
    if one.judge is not None:
        _judge(good, inputs.questions[row].text, one.judge)
    return found


def _record(
    inputs: ExperimentInputs,
    row: int,
    generator: str,
    prompt: Prompt,
    selected: tuple[str, ...],
    repeat: int,
    result: Reply | Failure,
) -> dict[str, Any]:
    question = inputs.questions[row]
    record: dict[str, Any] = {
        "key": f"{prompt.sha256[:24]}-{generator}-{repeat}",
        "dataset": inputs.clean.name,
        "encoder": inputs.clean.encoder,
        "query_id": question.id,
        "generator": generator,
        "prompt": prompt.name,
        "prompt_version": prompt.version,
        "selected_ids": list(selected),
        "repeat": repeat,
    }
    if isinstance(result, Reply):
        # Thoughts weigh both sides; what is scored and judged is the answer that follows them.
        answer = without_reasoning(result.text)
        if not answer:
            why = "only reasoning came, no answer"
            return record | {"status": "failed", "reason": "empty", "message": why}
        record |= {"status": "ok", "text": answer, "finish_reason": result.finish_reason}
        tokens = {"prompt_tokens": result.prompt_tokens}
        return record | tokens | {"completion_tokens": result.completion_tokens}
    return record | {"status": "failed", "reason": result.reason, "message": result.message}


def _score(
    records: Sequence[dict[str, Any]],
    inputs: ExperimentInputs,
    axes: Axes,
    row: int,
    encoder: Encoder,
) -> None:
    """Add the PS of every answer on every axis of the question."""
    if not records:
        return
    embeddings = encode_in_batches(encoder, [one["text"] for one in records], "passages")
    scores: dict[str, Float32Array] = {}
    for method, fitted in axes.items():
        axis = fitted[row]
        if not isinstance(axis, InputError):
            scores[method] = axis.score(embeddings)
    for number, record in enumerate(records):
        record["scores"] = {name: float(values[number]) for name, values in scores.items()}


def _judge(records: Sequence[dict[str, Any]], question: str, judge: Generator) -> None:
    """Add the judge's verdict on every answer; None where it gave none."""
    prompts = [render("likert", question=question, passage=one["text"]) for one in records]
    for record, verdict in zip(records, judged(judge, prompts), strict=True):
        record["likert"] = verdict


def judged(judge: Generator, prompts: Sequence[Prompt]) -> list[int | None]:
    """Ask the judge; None where there is no reply, or none that is a number of the scale."""
    if not prompts:
        return []
    results = judge.generate(list(prompts), temperature=0.0, max_tokens=64)
    return [parse_likert(one.text) if isinstance(one, Reply) else None for one in results]


def _row(cell: Row, generator: str, prompt: str, records: Sequence[Mapping[str, Any]]) -> Row:
    good = [one for one in records if one["status"] == "ok"]
    scores = [one["scores"].get(cell["axis"]) for one in good]
    first = next((one for one in records if one["status"] != "ok"), None)
    message = None if first is None else f"{first['reason']}: {first['message']}"
    return {
        **{name: cell[name] for name in _CELL},
        "generator": generator,
        "prompt": prompt,
        "status": "ok" if good else "failed",
        "message": message,
        "answer_keys": [one["key"] for one in records],
        "n_answers": len(good),
        "n_failed": len(records) - len(good),
        "score": mean_of(scores),
        "likert": mean_of(one.get("likert") for one in good),
        "n_unjudged": sum("likert" in one and one["likert"] is None for one in good),
    }


def mean_of(values: Iterable[float | None]) -> float | None:
    """Mean of the values that are there; None where there is none.

    Examples
    --------
    >>> mean_of([1.0, None, 2.0]), mean_of([None])
    (1.5, None)
    """
    known = [one for one in values if one is not None]
    return finite_or_none(np.mean(known)) if known else None
