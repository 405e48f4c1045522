"""A long permutation test goes to the core in pieces: the same answer, and Ctrl-C is heard."""

from __future__ import annotations

import numpy as np
import pytest

from epibias import _core, _sweep_chunks, kernels, kernels_sweep
from epibias.errors import InputError


def pairs(n_queries=23, n=12, seed=0):
    generator = np.random.default_rng(seed)
    similarities = generator.random((n_queries, n), dtype=np.float32)
    return similarities, generator.standard_normal((n_queries, n)).astype(np.float32)


@pytest.fixture(name="calls")
def counted_calls(monkeypatch):
    """Let a call take four rows, and count the calls."""
    counted = []

    def core_sweep(similarities, *rest, **options):
        counted.append((len(similarities), options["permutations"]))
        return _core.threshold_sweep(similarities, *rest, **options)

    class Core:
        threshold_sweep = staticmethod(core_sweep)
        n_threads = staticmethod(_core.n_threads)

    monkeypatch.setattr(kernels_sweep, "_core", Core)
    monkeypatch.setattr(_sweep_chunks, "rows_of_a_call", lambda *_: 4)
    return counted


@pytest.mark.parametrize("own_ids", [True, False])
@pytest.mark.parametrize("max_exceedances", [0, 3])
def test_chunks_change_nothing(calls, own_ids, max_exceedances):
    ids = np.arange(23, dtype=np.int64)[::-1].copy() * 7 if own_ids else None
    options = {"permutations": 49, "max_exceedances": max_exceedances, "seed": 5, "query_ids": ids}
    whole = _core.threshold_sweep(*pairs(), curve=True, **options)
    pieces = kernels.threshold_sweep(*pairs(), curve=True, **options)
    assert calls == [(23, 0), *[(4, 49)] * 5, (3, 49)]
    for one, other in zip(whole, pieces, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    assert len(np.unique(whole[3])) > 3


def test_a_row_at_fault_keeps_its_number_and_no_shuffle_is_made(calls):
    similarities, scores = pairs()
    scores[17, 3] = np.nan
    with pytest.raises(InputError, match="row 17"):
        kernels.threshold_sweep(similarities, scores, permutations=49)
    assert [permutations for _, permutations in calls] == [0]


def test_too_few_ids_are_refused(calls):
    with pytest.raises(InputError, match="query_ids: expected"):
        kernels.threshold_sweep(*pairs(), permutations=49, query_ids=np.arange(22))
    assert [permutations for _, permutations in calls] == [0]


def test_ctrl_c_is_heard_between_the_calls(calls, monkeypatch):
    rows = kernels_sweep._core.threshold_sweep

    def pressed(*arrays, **options):
        if len(calls) == 3:
            raise KeyboardInterrupt
        return rows(*arrays, **options)

    monkeypatch.setattr(kernels_sweep._core, "threshold_sweep", staticmethod(pressed))
    with pytest.raises(KeyboardInterrupt):
        kernels.threshold_sweep(*pairs(), permutations=49)
    assert len(calls) == 3


@pytest.mark.parametrize(("n", "permutations"), [(1, 1), (20, 199), (1000, 9999), (8192, 10**9)])
@pytest.mark.parametrize("n_threads", [1, 64])
def test_every_thread_gets_a_row_and_none_a_second_of_them(n, permutations, n_threads):
    rows = _sweep_chunks.rows_of_a_call(n, permutations, n_threads)
    assert rows % n_threads == 0
    assert rows >= n_threads
    of_a_thread = rows // n_threads
    seconds = of_a_thread * n * (permutations + 1) * _sweep_chunks.MICROSECONDS_A_CANDIDATE / 1e6
    assert of_a_thread == 1 or seconds < 0.5
