"""The sweeps on a device, emulated, through the public API: against the oracle and the CPU.

Thresholds equal the oracle's; every result equals the CPU's to the bit.
"""

from __future__ import annotations

import numpy as np
import pytest

import reference
import reference_sweep
from epibias import device, kernels, threshold_sweep
from epibias.device import status
from epibias.errors import InputError

FIELDS = ("threshold", "n_kept", "divergence", "p_value", "curve")
N_QUERIES = 500


def on_cpu(function, *arrays, **options):
    with status.emulated(False):
        return function(*arrays, **options)


def queries(n_queries, n, seed):
    """Queries with one-sided groups, some with tied similarities, lattices or equal scores."""
    rng = np.random.default_rng(seed)
    similarities = rng.uniform(-1, 1, (n_queries, n)).astype(np.float32)
    shift = 5 * rng.random((n_queries, 1)) * (similarities > rng.uniform(-1, 1, (n_queries, 1)))
    scores = (rng.normal(size=(n_queries, n)) + shift).astype(np.float32)
    similarities[1::4] = np.round(similarities[1::4] * 5) / 5
    scores[2::4] = np.round(scores[2::4] * 2) / 2
    scores[6::7] = 0.25
    return similarities, scores


def assert_same(got, expected):
    for name, left, right in zip(FIELDS, got, expected, strict=False):
        if right is None:
            assert left is None, name
        else:
            np.testing.assert_array_equal(left, right, strict=True, err_msg=name)


@pytest.mark.parametrize("criterion", ["kl", "mi"])
def test_thresholds_are_the_oracles_in_every_query(criterion, emulation):
    rng = np.random.default_rng(1)
    n_compared = 0
    while n_compared < N_QUERIES:
        n = int(rng.integers(2, 60))
        similarities, scores = queries(25, n, int(rng.integers(1 << 30)))
        options = {
            "criterion": criterion,
            "min_kept": int(rng.integers(1, 6)),
            "min_dropped": 1 + n // 20,
            "kappa": float(rng.choice([0.025, 0.01 / n, 0.2])),
        }
        got = kernels.threshold_sweep(similarities, scores, **options)
        for row in range(25):
            expected = reference_sweep.threshold_sweep(similarities[row], scores[row], **options)
            assert got[0][row] == np.float32(expected.threshold)
            assert got[1][row] == expected.n_kept
            assert abs(got[2][row] - expected.divergence) <= 1e-10 * max(1, expected.divergence)
        n_compared += 25


@pytest.mark.parametrize("n", [1, 2, 19, 20, 33, 400])
@pytest.mark.parametrize("curve", [False, True])
def test_every_result_is_the_cpus_to_the_bit(n, curve, emulation):
    similarities, scores = queries(3 if n == 400 else 14, n, n)
    for criterion in ("kl", "mi"):
        options = {"criterion": criterion, "min_kept": 2, "min_dropped": 1 + n // 20}
        options["curve"] = curve
        got = kernels.threshold_sweep(similarities, scores, **options)
        assert_same(got, on_cpu(kernels.threshold_sweep, similarities, scores, **options))


def test_a_query_of_five_thousand(emulation):
    similarities, scores = queries(1, 5000, 3)
    options = {"min_kept": 5, "min_dropped": 250}
    got = kernels.threshold_sweep(similarities, scores, **options)
    assert_same(got, on_cpu(kernels.threshold_sweep, similarities, scores, **options))


@pytest.mark.parametrize("max_exceedances", [0, 4])
def test_p_values_are_the_oracles(max_exceedances, emulation):
    similarities, scores = queries(8, 15, 4)
    options = {"permutations": 49, "max_exceedances": max_exceedances, "seed": 3, "min_kept": 3}
    ids = np.array([7, -2, 0, 1, 1 << 40, 5, 6, 3])
    got = kernels.threshold_sweep(similarities, scores, query_ids=ids, **options)
    for row in range(8):
        expected = reference.threshold_sweep(
            similarities[row], scores[row], query_id=int(ids[row]), **options
        )
        assert got[3][row] == expected.p_value
    whole = on_cpu(kernels.threshold_sweep, similarities, scores, query_ids=ids, **options)
    assert_same(got, whole)


def test_a_block_takes_shuffles_where_its_warps_have_no_room(emulation):
    similarities, scores = queries(1, 420, 5)
    options = {"permutations": 3, "seed": 1, "min_kept": 200, "min_dropped": 200}
    got = kernels.threshold_sweep(similarities, scores, **options)
    assert_same(got, on_cpu(kernels.threshold_sweep, similarities, scores, **options))


def test_the_library_runs_on_it(emulation):
    similarities, scores = queries(5, 20, 6)
    got = threshold_sweep(similarities, scores, permutations=19, precision="float32")
    expected = on_cpu(threshold_sweep, similarities, scores, permutations=19)
    for name in ("threshold", "n_kept", "divergence", "p_value"):
        np.testing.assert_array_equal(getattr(got, name), getattr(expected, name))
    decided = np.isfinite(got.threshold)
    np.testing.assert_array_equal(got.n_undecided, np.where(decided, 20, 0))


@pytest.mark.parametrize("n_thresholds", [1, 100])
def test_the_printed_rule_is_the_cpus_to_the_bit(n_thresholds, emulation):
    similarities, scores = queries(14, 20, 7)
    similarities = np.float32(0.5) + similarities / 2
    for curve in (False, True):
        options = {"n_thresholds": n_thresholds, "curve": curve}
        got = kernels.printed_sweep(similarities, scores, **options)
        expected = on_cpu(kernels.printed_sweep, similarities, scores, **options)
        for left, right in zip(got, expected, strict=True):
            if right is not None:
                np.testing.assert_array_equal(left, right)


def test_no_queries_and_no_candidates(emulation):
    for shape in ((0, 20), (3, 0)):
        empty = np.empty(shape, np.float32)
        got = kernels.threshold_sweep(empty, empty, curve=True)
        assert_same(got, on_cpu(kernels.threshold_sweep, empty, empty, curve=True))


def refusal(function, *arrays, **options):
    with pytest.raises(InputError) as caught:
        function(*arrays, **options)
    return str(caught.value)


@pytest.mark.parametrize("function", [kernels.threshold_sweep, kernels.printed_sweep])
def test_what_is_refused_reads_as_on_the_cpu(function, emulation):
    similarities, scores = queries(6, 20, 8)
    similarities[5, 1] = np.inf
    scores[3, 4] = np.nan
    for arrays in (
        (similarities, scores),
        (similarities[4:], scores[4:]),
        (similarities[:3], scores[:2]),
        (similarities.astype(np.float64), scores),
        (similarities[0], scores[0]),
    ):
        assert refusal(function, *arrays) == on_cpu(refusal, function, *arrays)


def test_options_are_refused_as_on_the_cpu(emulation):
    similarities, scores = queries(2, 20, 9)
    for options in (
        {"min_kept": 0},
        {"kappa": 0.0},
        {"query_ids": np.arange(3)},
        {"curve": True, "precision": "float32"},
        {"criterion": "chi2"},
    ):
        got = refusal(kernels.threshold_sweep, similarities, scores, **options)
        assert got == on_cpu(refusal, kernels.threshold_sweep, similarities, scores, **options)
    text = refusal(kernels.threshold_sweep, similarities, scores, method="binned")
    assert "the binned sweep runs on the CPU alone" in text


def test_the_callers_framework_gets_its_arrays_back(torch, cupy, emulated_device):
    similarities, scores = queries(4, 20, 10)
    expected = on_cpu(kernels.threshold_sweep, similarities, scores, permutations=9)
    for make, kind in ((torch.tensor, torch.Tensor), (cupy.asarray, cupy.ndarray)):
        got = kernels.threshold_sweep(make(similarities), make(scores), permutations=9)
        assert type(got[0]) is kind
        assert got[4] is None
        assert_same([part if part is None else part._memory for part in got], expected)
        assert device.check() == 1
        scores[2, 3] = np.nan
        poisoned = kernels.threshold_sweep(make(similarities), make(scores))
        assert np.isnan(poisoned[0]._memory[2])
        assert poisoned[1]._memory[2] == -1
        with pytest.raises(InputError, match=r"scores: expected finite values, got nan \(row 2, "):
            device.check()
        scores[2, 3] = 0.1
        expected = on_cpu(kernels.threshold_sweep, similarities, scores, permutations=9)
