"""Queries with the candidates that a store returned, from JSONL lines to one pool.

Owns the joining of lines to a `CandidatePool`, for `filter` and `calibrate`. In: lines, an encoder,
axes. Out: the pool, and the candidates' ids.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from epibias._plain import described
from epibias._validate import Int64Array
from epibias.cli import jsonl
from epibias.cli.axis_source import LazyEncoder
from epibias.corpus import query_keys
from epibias.errors import InputError
from epibias.polarization import PolarizationAxis
from epibias.pool import CandidatePool


def pool_of_lines(
    lines: list[jsonl.Line],
    query_ids: list[str],
    lazy: LazyEncoder,
    fitted: PolarizationAxis,
    names: list[str | None],
    k: int,
    *,
    texts: bool,
) -> tuple[CandidatePool, list[list[str]]]:
    """Join the lines to a pool; also the candidates' ids of each query, in input order.

    With `texts`, texts are in the pool where every line has `query` and every candidate `text`,
    beside vectors or not, and `time` and `source` where any candidate has them.
    """
    per_query: list[list[jsonl.Line]] = []
    ids: list[list[str]] = []
    for line in lines:
        values = jsonl.field(line, "candidates", list, "a list of candidates")
        members = []
        for place, value in enumerate(values):
            where = f"{line.where}, candidate {place}"
            if not isinstance(value, dict):
                raise InputError("candidates", "objects", type(value).__name__, where)
            members.append(jsonl.Line(value, where))
        if not members:
            raise InputError("candidates", "at least one", "none", line.where)
        per_query.append(members)
        ids.append(jsonl.passage_ids(members))
    query_rows = lazy.queries(lines)
    flat = lazy.passages([one for members in per_query for one in members], "candidates")
    ends = np.cumsum([len(members) for members in per_query])[:-1]
    rows = [np.ascontiguousarray(part) for part in np.split(flat, ends)]
    axis_of_query = _axis_of_query(lines, names)
    numbers = [0] * len(lines) if axis_of_query is None else axis_of_query.tolist()
    topics = [name for name in (names[number] for number in numbers) if name is not None]
    pool = CandidatePool.from_vectors(
        query_rows,
        rows,
        fitted,
        k=k,
        axis_of_query=axis_of_query,
        query_ids=query_keys(query_ids),
        topics=topics or None,  # the axis of all has no name
        **(_texts(lines, per_query) if texts else {}),
    )
    return pool, ids


def _texts(lines: list[jsonl.Line], per_query: list[list[jsonl.Line]]) -> dict[str, Any]:
    """Columns of the pool that a defence may read beside the vectors."""
    columns: dict[str, Any] = {}
    flat = [one for members in per_query for one in members]
    if all("query" in line.fields for line in lines) and all("text" in one.fields for one in flat):
        columns["query_texts"] = [jsonl.text(line, "query") for line in lines]
        columns["passage_texts"] = [
            jsonl.encoded_texts(members, "candidates") for members in per_query
        ]
    metadata = {
        name: [[one.fields.get(name) for one in members] for members in per_query]
        for name in ("time", "source")
        if any(name in one.fields for one in flat)
    }
    return {**columns, "metadata": metadata or None}


def _axis_of_query(lines: list[jsonl.Line], names: list[str | None]) -> Int64Array | None:
    """Give the number of the axis of each query; None where there is one axis for all."""
    known = [name for name in names if name is not None]
    expected = "no topic, for the axis has none"
    if known:
        more = ", …" if len(known) > 5 else ""
        expected = f"a topic of the anchors ({', '.join(map(repr, known[:5]))}{more})"
    numbers = []
    for line in lines:
        if len(names) == 1 and "topic" not in line.fields:
            numbers.append(0)
            continue
        topic = jsonl.text(line, "topic") if "topic" in line.fields else None
        if topic not in known:
            found = "none" if topic is None else described(topic)
            raise InputError("topic", expected, found, line.where)
        numbers.append(names.index(topic))
    return None if len(names) == 1 else np.asarray(numbers, dtype=np.int64)
