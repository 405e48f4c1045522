"""One search of each scan over 20,000 passages of 384 columns."""

from __future__ import annotations

import numpy as np
import pytest

from answers import check_ours
from epibias import CosineIndex
from epibias.retrieval import SCANS

N_PASSAGES, DIM, K = 20_000, 384, 20


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).standard_normal((N_PASSAGES + 256, DIM), np.float32)


@pytest.fixture(scope="module")
def indexes(rows):
    return {scan: CosineIndex(rows[256:], scan) for scan in SCANS}


@pytest.mark.parametrize("n_queries", [1, 16, 256])
@pytest.mark.parametrize("scan", SCANS)
def test_search(scan, n_queries, rows, indexes, one_thread, benchmark):
    queries = rows[:n_queries]
    found = indexes[scan].search(queries, K)
    check_ours((found.indices, found.similarities), queries, rows[256:])
    benchmark(indexes[scan].search, queries, K)


@pytest.mark.parametrize("scan", SCANS)
def test_prepare(scan, rows, one_thread, benchmark):
    assert len(CosineIndex(rows[256:], scan)) == N_PASSAGES
    benchmark.pedantic(CosineIndex, (rows[256:], scan), rounds=3, warmup_rounds=1)
