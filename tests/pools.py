"""Anchors, axes and pools for tests."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from epibias.defenses.clean_memory import CleanMemory
from epibias.errors import ValidityWarning
from epibias.polarization import PolarizationAxis
from epibias.pool import CandidatePool

QUESTION = "Should shops close on Sundays?"  # of pools with texts


def make_pool(similarities, scores, *, k=5, indices=None, neutral_centres=None, query_ids=None):
    """Make a pool of one list a query, put in the total order; vectors are placeholders."""
    if indices is None:
        indices = [np.arange(len(part)) for part in similarities]
    parts = []
    for number, x, y in zip(indices, similarities, scores, strict=True):
        x, y = np.asarray(x, np.float32), np.asarray(y, np.float32)
        order = np.lexsort((number, -x))
        parts.append((np.asarray(number)[order], x[order], y[order]))
    sizes = [len(part[0]) for part in parts]

    def join(column, dtype):
        return np.concatenate([np.empty(0, dtype), *(part[column] for part in parts)])

    rows = np.ones((sum(sizes), 2), np.float32)
    return CandidatePool(
        join(0, np.int64),
        join(1, np.float32),
        join(2, np.float32),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        k,
        np.ones((len(sizes), 2), np.float32),
        rows,
        rows,
        neutral_centres=neutral_centres,
        query_ids=query_ids,
    )


def random_lists(rng, n_queries, low=0, high=40, *, ties=False):
    """Similarities and scores of one list a query: attacked, clean and flat ones in turn."""
    all_similarities, all_scores = [], []
    for query in range(n_queries):
        n = int(rng.integers(low, high + 1))
        x = rng.uniform(0.2, 0.9, n)
        if ties:
            x = np.round(x * 12) / 12
        y = 0.1 * rng.standard_normal(n)
        if query % 3 == 0 and n:
            n_adversarial = int(rng.integers(0, n // 2 + 1))
            shift = rng.choice([-0.4, 0.4])
            highest = np.argsort(-x)[:n_adversarial]
            y[highest] += shift
        if query % 3 == 1 and n > 4:
            lowest = np.argsort(x)[: n // 3]
            y[lowest] += 0.4
        all_similarities.append(x.astype(np.float32))
        all_scores.append(y.astype(np.float32))
    return all_similarities, all_scores


def texts_pool(similarities, scores, texts, **columns):
    """A pool of one query, its candidates given in order of similarity."""
    pool = make_pool([similarities], [scores])
    return replace(
        pool,
        query_texts=(QUESTION,),
        passage_texts=tuple(texts),
        metadata={name: tuple(values) for name, values in columns.items()} or None,
    )


def without_candidates(memory):
    """The memory, but that it tells no newcomer."""
    records = {key: one._replace(candidates=()) for key, one in memory.records.items()}
    return CleanMemory(records, memory.k)


def unit_rows(rng, *shape):
    rows = rng.standard_normal(shape)
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def opposed_anchors(seed, n_anchors=8, dim=16, noise=0.2):
    """Anchors around one point, spread along one direction by their stances; and the stances."""
    rng = np.random.default_rng(seed)
    centre, direction = unit_rows(rng, 2, dim)
    stances = np.resize([3, -3, 2, -2, 1, -1], n_anchors).astype(float)
    rows = centre + 0.2 * stances[:, None] * direction
    rows += noise * rng.standard_normal((n_anchors, dim)) / np.sqrt(dim)
    return rows.astype(np.float32), stances


def quietly_fitted(*arguments, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        return PolarizationAxis.fit(*arguments, **keywords)


class TwoWordEncoder:
    """Encodes how often a text says yes and no, beside a constant and its length."""

    def encode(self, texts):
        rows = [[1, t.count("yes"), t.count("no"), len(t) / 50] for t in texts]
        return np.array(rows, np.float32)
