"""`threshold_sweep(method="binned")`: its oracle, and how near it comes to all splits."""

from __future__ import annotations

import numpy as np
import pytest

import epibias as eb
import reference
import reference_sweep
from epibias import _core, kernels_sweep
from epibias.errors import InputError
from test_sweep_float32 import SCORES, queries

LEVELS = _core.simd_levels()
# float64 sums in another order; what lies beyond 7 bandwidths is left out (2e-12 of the mass).
TOLERANCE = 1e-9


@pytest.fixture(autouse=True)
def _best_level_afterwards():
    threads = _core.n_threads()
    yield
    _core.set_simd_level(LEVELS[-1])
    _core.set_n_threads(threads)


def binned(similarities, scores, **options):
    return _core.threshold_sweep(similarities, scores, method="binned", **options)


def one_group_nearer(n: int, shift: float, seed: int = 0):
    """Similarities, and normal scores that are shifted among the nearest fifth."""
    rng = np.random.default_rng([seed, n])
    similarities = rng.beta(5, 3, n).astype(np.float32)
    scores = rng.normal(0, 0.1, n) + shift * (similarities > np.quantile(similarities, 0.8))
    return similarities[None], scores.astype(np.float32)[None]


@pytest.mark.parametrize("kind", [kind for kind in SCORES if kind != "huge offset"])
@pytest.mark.parametrize("criterion", ["kl", "mi"])
def test_every_level_and_thread_count_gives_the_oracles_answer(kind, criterion):
    for n, n_queries in ((2, 3), (20, 6), (257, 3), (600, 3), (3000, 1)):
        similarities, scores = queries(kind, n_queries, n)
        options = {"criterion": criterion, "min_kept": 1 + n // 9, "min_dropped": 1 + n // 20}
        results = []
        for level in LEVELS:
            _core.set_simd_level(level)
            for n_threads in (1, 2, 3):
                _core.set_n_threads(n_threads)
                results.append(binned(similarities, scores, curve=True, **options))
        for result in results[1:]:
            for got, first in zip(result, results[0], strict=True):
                assert got.tobytes() == first.tobytes()
        threshold, n_kept, divergence, _, curve, _ = results[0]
        for row in range(n_queries):
            expected = reference_sweep.binned_sweep(similarities[row], scores[row], **options)
            assert threshold[row] == np.float32(expected.threshold)
            assert n_kept[row] == expected.n_kept
            assert abs(divergence[row] - expected.divergence) <= TOLERANCE
            assert np.array_equal(np.isnan(curve[row]), np.isnan(expected.curve))
            known = ~np.isnan(expected.curve)
            assert np.all(np.abs(curve[row][known] - expected.curve[known]) <= TOLERANCE)


@pytest.mark.parametrize("criterion", ["kl", "mi"])
def test_p_values_are_the_oracles(criterion):
    similarities, scores = queries("clean", 4, 300)
    ids = np.array([3, 1, 4, 15])
    options = {"criterion": criterion, "permutations": 19, "seed": 2, "min_kept": 15}
    p_values = binned(similarities, scores, query_ids=ids, **options)[3]
    for row, query_id in enumerate(ids):
        expected = reference_sweep.binned_sweep(
            similarities[row], scores[row], query_id=int(query_id), **options
        )
        assert p_values[row] == expected.p_value
    assert len(set(p_values)) > 1


@pytest.mark.parametrize("n", [1_000, 12_345, 100_000])
@pytest.mark.parametrize("shift", [0.03, 0.2])
@pytest.mark.parametrize("criterion", ["kl", "mi"])
def test_the_split_is_the_best_one_within_a_256th(n, shift, criterion):
    similarities, scores = one_group_nearer(n, shift)
    options = {"criterion": criterion, "min_kept": n // 20, "min_dropped": n // 20}
    coarse = binned(similarities, scores, curve=True, **options)
    every = _core.threshold_sweep(similarities, scores, curve=True, **options)
    known = ~np.isnan(coarse[4])
    # Of the scores' binning: the same splits, with and without.
    assert np.abs(coarse[4][known] - every[4][known]).max() <= (1e-3 if n == 1_000 else 5e-5)
    # Of the quantiles: one of them lies at most n / 256 above the best split …
    best = int(every[1][0])
    listed = np.flatnonzero(known[0]) + 1
    assert np.abs(listed - best).min() <= n / 256
    # … and is the one, where the maximum stands out.
    if shift == 0.2 and n > 1_000:
        assert abs(int(coarse[1][0]) - best) <= n / 256
    # Going there costs no more than the 256th of the candidates carries.
    assert every[2][0] - coarse[2][0] <= 0.012 * max(1.0, every[2][0])
    assert (similarities < coarse[0][:, None]).sum() == coarse[1][0]


def test_heaps_of_equal_similarities():
    """Thousands on one similarity: the splits beside them are still found."""
    rng = np.random.default_rng(0)
    similarities = np.repeat(np.array([0.1, 0.2, 0.2000001, 0.9], np.float32), 1000)[None]
    scores = (rng.normal(size=4000) + 3 * (similarities[0] > 0.5)).astype(np.float32)[None]
    result = binned(similarities, scores, curve=True)
    assert np.flatnonzero(~np.isnan(result[4][0])).tolist() == [999, 1999, 2999]
    assert result[1][0] == 3000
    assert result[0][0] == np.float32(0.9)
    equal = np.full((1, 500), 0.5, np.float32)
    threshold, n_kept, divergence, p_value, *_ = binned(equal, scores[:, :500], permutations=3)
    assert (threshold[0], n_kept[0], divergence[0], p_value[0]) == (np.inf, 500, 0, 1)


def test_auto_bins_above_ten_thousand_and_says_so():
    for n, ran in ((10_000, "all_splits"), (10_001, "binned")):
        similarities, scores = one_group_nearer(n, 0.2)
        chosen = eb.threshold_sweep(similarities, scores, method="auto", precision="float32")
        named = eb.threshold_sweep(similarities, scores, method=ran, precision="float32")
        assert chosen.method == named.method == ran
        assert chosen.threshold == named.threshold
        assert chosen.divergence == named.divergence
    # Who asks for nothing gets every split, however many there are.
    unasked = eb.threshold_sweep(similarities, scores)
    assert unasked.method == "all_splits"
    assert unasked.n_kept[0] == 8001


def test_methods_that_there_are():
    similarities, scores = one_group_nearer(9, 0.2)
    for method in ("quantiles", None, 3):
        with pytest.raises(InputError, match=r"^method: expected 'all_splits' or 'binned' or 'a"):
            eb.threshold_sweep(similarities, scores, method=method)
        with pytest.raises(InputError, match=r"^method: expected "):
            kernels_sweep.sweep_is_binned(method, 5)
    with pytest.raises(
        ValueError, match=r"^method: expected 'all_splits', 'binned' or 'auto', got"
    ):
        _core.threshold_sweep(similarities, scores, method="quantiles")


def test_few_candidates_are_swept_at_every_split():
    similarities, scores = queries("clean", 5, 200)
    curve = binned(similarities, scores, curve=True)[4]
    every = _core.threshold_sweep(similarities, scores, curve=True)[4]
    assert np.array_equal(np.isnan(curve), np.isnan(every))
    h = reference.bandwidth(scores[0].astype(np.float64))
    assert np.ptp(scores[0]) / h < 1024 / 3  # the grid is as fine as it should be
    assert np.nanmax(np.abs(curve - every)) <= 5e-3
