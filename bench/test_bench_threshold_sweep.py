"""Sweeps of many queries at once, with and without permutation p-values."""

from __future__ import annotations

import numpy as np
import pytest

import reference_sweep
from epibias import kernels


def pools(n_queries: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Half of the queries have a group of other scores at the top."""
    rng = np.random.default_rng(n)
    similarities = rng.uniform(0.2, 0.9, (n_queries, n)).astype(np.float32)
    scores = (0.1 * rng.standard_normal((n_queries, n))).astype(np.float32)
    scores[::2] += 0.4 * (similarities[::2] > 0.7)
    return similarities, scores


def assert_answer(found, similarities, scores, n_checked: int = 5, **options) -> None:
    for query in range(min(n_checked, len(scores))):
        expected = reference_sweep.threshold_sweep(similarities[query], scores[query], **options)
        assert found[0][query] == np.float32(expected.threshold)
        assert found[1][query] == expected.n_kept
        assert abs(found[2][query] - expected.divergence) <= 1e-5


@pytest.mark.parametrize(("n_queries", "n"), [(1, 20), (1000, 20), (200, 100), (4, 1000)])
def test_sweep(n_queries, n, one_thread, benchmark):
    similarities, scores = pools(n_queries, n)
    assert_answer(kernels.threshold_sweep(similarities, scores), similarities, scores)
    benchmark(kernels.threshold_sweep, similarities, scores)


def test_permutations(one_thread, benchmark):
    similarities, scores = pools(20, 20)
    found = kernels.threshold_sweep(similarities, scores, permutations=199)
    assert_answer(found, similarities, scores, 1)
    # Groups that differ are told from those that do not.
    assert found[3][::2].max() < np.median(found[3][1::2])
    benchmark(kernels.threshold_sweep, similarities, scores, permutations=199)
