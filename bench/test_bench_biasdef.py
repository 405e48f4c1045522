"""BiasDef on finished pools: sweep, gate, selection."""

from __future__ import annotations

import numpy as np
import pytest

import reference_defenses
from epibias import BiasDef
from pools import make_pool, random_lists

OPTIONS = {"default": {}, "gate": {"gate": 0.1}, "auto": {"side": "auto"}}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("n_queries", [1, 256])
def test_select(n_queries, name, one_thread, benchmark):
    rng = np.random.default_rng(7)
    similarities, scores = random_lists(rng, n_queries, 20, 20)
    centres = np.zeros(n_queries)
    query_ids = np.arange(n_queries)
    pool = make_pool(similarities, scores, neutral_centres=centres, query_ids=query_ids)
    defense = BiasDef(5, **OPTIONS[name])
    found = defense.select(pool)
    for query in range(min(n_queries, 5)):
        one = pool[query]
        expected = reference_defenses.biasdef(
            one.similarities, one.scores, query_id=query, **OPTIONS[name]
        )
        assert found.positions_of(query).tolist() == expected.selected
    benchmark(defense.select, pool)
