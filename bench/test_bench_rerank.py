"""Maximal marginal relevance over the candidates of a query."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from epibias import kernels


@pytest.mark.parametrize(("n_queries", "n"), [(1, 20), (256, 20), (4, 200)])
def test_mmr(n_queries, n, one_thread, benchmark):
    rng = np.random.default_rng(n)
    similarities = -np.sort(-rng.random((n_queries, n), np.float32), axis=1)
    embeddings = rng.standard_normal((n_queries, n, 384), np.float32)
    positions = kernels.mmr(similarities, embeddings, 5)
    for query in range(min(n_queries, 2)):
        expected = reference.mmr(similarities[query], embeddings[query], 5)
        assert positions[query].tolist() == expected.tolist()
    benchmark(kernels.mmr, similarities, embeddings, 5)
