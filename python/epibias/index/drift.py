"""Drift: how much of a golden query's reviewed answer a version no longer gives.

Owns the comparison of answers by lineage, so that a new version of a page counts as that page. Two
answers are compared: the selected context, and the plain top-k by similarity. The ownership gate
hides an attack from the first; it shows in the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from epibias._validate import Float32Array
from epibias.data_sets import GoldenQuery
from epibias.index.golden import Baseline
from epibias.index.reader import Found, IndexReader


@dataclass(frozen=True, eq=False)
class GoldenAnswer:
    """What a version answers to a golden query.

    Attributes
    ----------
    query : GoldenQuery
    selected, raw : Found
        Selected under the policy; the top-k by similarity alone.
    selected_lineages, raw_lineages : tuple of str
    """

    query: GoldenQuery
    selected: Found
    raw: Found
    selected_lineages: tuple[str, ...]
    raw_lineages: tuple[str, ...]


@dataclass(frozen=True)
class Drift:
    """How an answer differs from the reviewed one.

    Attributes
    ----------
    query, topic : str
    drift, raw_drift : float
        Share of the baseline that disappeared.
    left, came, raw_left, raw_came : tuple of str
        Lineages.
    """

    query: str
    topic: str
    drift: float
    raw_drift: float
    left: tuple[str, ...]
    came: tuple[str, ...]
    raw_left: tuple[str, ...]
    raw_came: tuple[str, ...]


def lost_share(baseline: Sequence[str], current: Sequence[str]) -> float:
    """Give the share of a baseline that is not in the current answer; 0 of an empty one.

    Examples
    --------
    >>> lost_share(["a", "b", "c", "d"], ["d", "x", "a"])
    0.5
    """
    wanted = set(baseline)
    return len(wanted - set(current)) / len(wanted) if wanted else 0.0


def golden_answers(
    reader: IndexReader, queries: Sequence[GoldenQuery], query_embeddings: Float32Array
) -> list[GoldenAnswer]:
    """Answer the golden queries with one version.

    Parameters
    ----------
    reader : IndexReader
    queries : sequence of GoldenQuery
    query_embeddings : float32 [n_queries, dim]

    Returns
    -------
    list of GoldenAnswer
    """
    if not queries:
        return []
    # The scan of everything first: it reads a mapped file from end to end, and what the topics take
    # out of it, row by row, is then in memory.
    raw = reader.similar(query_embeddings, reader.policy.selection.k)
    selected = reader.select(query_embeddings, [query.topic for query in queries])
    lineages = reader.files.rows.lineages
    return [
        GoldenAnswer(query, one, plain, tuple(lineages(one.rows)), tuple(lineages(plain.rows)))
        for query, one, plain in zip(queries, selected, raw, strict=True)
    ]


def drift_of(answer: GoldenAnswer, baseline: Baseline) -> Drift:
    """Compare an answer with the reviewed one."""
    return Drift(
        query=answer.query.id,
        topic=answer.query.topic,
        drift=lost_share(baseline.selected, answer.selected_lineages),
        raw_drift=lost_share(baseline.raw, answer.raw_lineages),
        left=_without(baseline.selected, answer.selected_lineages),
        came=_without(answer.selected_lineages, baseline.selected),
        raw_left=_without(baseline.raw, answer.raw_lineages),
        raw_came=_without(answer.raw_lineages, baseline.raw),
    )


def _without(lineages: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    gone = set(others)
    return tuple(lineage for lineage in lineages if lineage not in gone)
