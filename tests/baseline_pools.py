"""Pools with texts for the tests of the baseline defences, and the promises all of them keep."""

from __future__ import annotations

import json

import numpy as np

from epibias.defenses import BiasDef, Chain, Defense
from epibias.pool import CandidatePool
from pools import opposed_anchors, quietly_fitted, unit_rows

DIM = 6
AXIS = quietly_fitted(opposed_anchors(0, dim=DIM)[0])
_WORDS = """
tax wage city rail vote school energy price rent health data farm trade climate law market
school union water safety the of and a to in is that
"""
VOCABULARY = _WORDS.split()


def random_text(rng, low=4, high=14):
    return " ".join(rng.choice(VOCABULARY, int(rng.integers(low, high + 1))))


def text_pool(seed, sizes, *, copies=0.3, spread=0.6):
    """One query a size: rows around the query, some texts near-copies of one before them."""
    rng = np.random.default_rng(seed)
    queries = unit_rows(rng, len(sizes), DIM)
    all_rows, all_texts = [], []
    for n, query in zip(sizes, queries, strict=True):
        rows = query + spread * rng.standard_normal((n, DIM))
        texts = [random_text(rng) for _ in range(n)]
        for i in range(1, n):
            if rng.random() < copies:
                j = int(rng.integers(i))
                rows[i] = rows[j] + 0.05 * rng.standard_normal(DIM)
                texts[i] = texts[j] + " " + random_text(rng, 1, 3)
        all_rows.append(rows.astype(np.float32))
        all_texts.append(texts)
    return CandidatePool.from_vectors(
        queries,
        all_rows,
        AXIS,
        passage_texts=all_texts,
        query_texts=[random_text(rng, 3, 6) for _ in sizes],
    )


def check_promises(defense, seed=1):
    """What every defence promises: see `epibias.defenses.Defense`."""
    assert isinstance(defense, Defense)
    json.dumps(defense.parameters())
    pool = text_pool(seed, [12, 3, 0, 9, 2, 1])
    chosen, again = defense.select(pool), defense.select(pool)
    np.testing.assert_array_equal(chosen.indices, again.indices)
    for query in range(len(pool)):
        positions = chosen.positions_of(query)
        one = pool[query]
        assert chosen[query].tolist() == one.indices[positions].tolist()
        assert len(set(positions.tolist())) == len(positions) <= defense.k
        assert chosen.diagnostics["short"][query] == (len(positions) < defense.k)
        assert not set(chosen[query].tolist()) & set(chosen.dropped[query].tolist())
        assert set(positions.tolist()) <= set(chosen.kept[query].tolist())
        # Queries do not influence each other, nor does the order in which they stand.
        alone = defense.select(one)
        assert alone[0].tolist() == chosen[query].tolist()
        assert alone.dropped[0].tolist() == chosen.dropped[query].tolist()
        for name, values in alone.diagnostics.items():
            np.testing.assert_array_equal(values[0], chosen.diagnostics[name][query])
    chained = Chain([BiasDef(3), defense]).select(pool)
    left = defense.select(pool.restrict(BiasDef(3).select(pool).kept))
    np.testing.assert_array_equal(chained.indices, left.indices)


def shuffled(pool, query, order):
    """The pool of one query whose candidates come in another order and with other numbers."""
    one = pool[query]
    order = np.asarray(order)
    return CandidatePool.from_vectors(
        one.query_embeddings,
        one.embeddings[order],
        AXIS,
        indices=one.indices[order],
        passage_texts=[[one.passage_texts[i] for i in order]],
        query_texts=one.query_texts,
    )
