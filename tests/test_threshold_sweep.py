"""`threshold_sweep` and `printed_sweep` against the oracle, closed forms, and their invariants."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import reference
import reference_sweep
from epibias import _core

LEVELS = _core.simd_levels()
# float64 sums of n * n_grid terms in another order; curves are of order 1 to 10.
TOLERANCE = 1e-12


@pytest.fixture(autouse=True)
def _best_level_afterwards():
    threads = _core.n_threads()
    yield
    _core.set_simd_level(LEVELS[-1])
    _core.set_n_threads(threads)


def pools(seed: int, n_queries: int, n: int, *, ties: bool = False):
    """Similarities in [0, 1] and scores of two groups; with ties, both on a coarse lattice."""
    rng = np.random.default_rng(seed)
    similarities = rng.random((n_queries, n))
    shift = 0.3 * (rng.random((n_queries, n)) < 0.3)
    scores = rng.normal(0.0, 0.1, (n_queries, n)) + shift
    if ties:
        similarities, scores = np.round(similarities * 8) / 8, np.round(scores * 16) / 16
    return similarities.astype(np.float32), scores.astype(np.float32)


def assert_same_sweep(result, row: int, expected: reference.Sweep):
    threshold, n_kept, divergence, p_value, curve, _ = result
    assert threshold[row] == np.float32(expected.threshold)
    assert n_kept[row] == expected.n_kept
    assert abs(divergence[row] - expected.divergence) <= TOLERANCE
    assert p_value[row] == expected.p_value
    if curve is not None:
        assert_same_curve(curve[row], expected.curve)


def assert_same_curve(got: np.ndarray, expected: np.ndarray):
    assert got.shape == expected.shape
    assert not np.isinf(got).any()
    assert np.array_equal(np.isnan(got), np.isnan(expected))
    known = ~np.isnan(expected)
    assert np.all(np.abs(got[known] - expected[known]) <= TOLERANCE)


def same_bits(left, right) -> bool:
    pairs = zip(left, right, strict=True)
    return all(a is b is None or a.tobytes() == b.tobytes() for a, b in pairs)


# ---- against the oracle --------------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["kl", "mi"])
@pytest.mark.parametrize("n", [2, 3, 4, 7, 8, 9, 20, 33, 64])
def test_every_level_and_thread_count_gives_the_oracles_answer(n, criterion):
    similarities, scores = pools(n, 8, n)
    options = {"criterion": criterion, "min_kept": 1 + n // 5, "min_dropped": 1 + n // 20}
    expected = [
        reference.threshold_sweep(similarities[row], scores[row], **options) for row in range(8)
    ]
    results = []
    for level in LEVELS:
        _core.set_simd_level(level)
        for n_threads in (1, 2, 3):
            _core.set_n_threads(n_threads)
            results.append(_core.threshold_sweep(similarities, scores, curve=True, **options))
    for row in range(8):
        assert_same_sweep(results[0], row, expected[row])
    assert all(same_bits(result, results[0]) for result in results)


@pytest.mark.parametrize("n", [5, 20])
@pytest.mark.parametrize("max_exceedances", [0, 3])
def test_p_values_are_the_oracles(n, max_exceedances):
    similarities, scores = pools(n, 6, n)
    ids = np.array([0, 5, -3, 2**40, 7, 7])
    options = {"permutations": 29, "max_exceedances": max_exceedances, "min_kept": 2}
    for seed in (0, 12345, -1, 2**70 + 3):
        got = _core.threshold_sweep(similarities, scores, seed=seed, query_ids=ids, **options)
        for row, query_id in enumerate(ids):
            expected = reference.threshold_sweep(
                similarities[row], scores[row], seed=seed, query_id=int(query_id), **options
            )
            assert_same_sweep(got, row, expected)


def test_query_ids_default_to_row_numbers():
    similarities, scores = pools(1, 5, 12)
    got = _core.threshold_sweep(similarities, scores, permutations=19)
    ids = np.arange(5)
    named = _core.threshold_sweep(similarities, scores, permutations=19, query_ids=ids)
    assert same_bits(got, named)
    assert len(set(got[3])) > 1


@pytest.mark.parametrize("criterion", ["kl", "mi"])
def test_ties_in_similarity_and_score(criterion):
    """Splits that are equal but for rounding are ties, and the first of them wins."""
    similarities, scores = pools(3, 150, 11, ties=True)
    got = _core.threshold_sweep(similarities, scores, criterion=criterion, curve=True)
    for row in range(len(similarities)):
        expected = reference.threshold_sweep(similarities[row], scores[row], criterion=criterion)
        assert_same_curve(got[4][row], expected.curve)
        assert abs(got[2][row] - expected.divergence) <= TOLERANCE
        assert got[1][row] == expected.n_kept
        assert got[0][row] == np.float32(expected.threshold)


def test_the_vectorised_oracle_is_the_naive_one():
    for n in (2, 3, 9, 30):
        similarities, scores = pools(n, 4, n, ties=n == 9)
        for criterion in ("kl", "mi"):
            options = {"criterion": criterion, "min_kept": 2, "permutations": 9, "seed": 4}
            for row in range(4):
                fast = reference_sweep.threshold_sweep(similarities[row], scores[row], **options)
                slow = reference.threshold_sweep(similarities[row], scores[row], **options)
                assert_same_curve(fast.curve, slow.curve)
                assert fast.n_kept == slow.n_kept
                assert fast.p_value == slow.p_value


# ---- Algorithm 1 as printed ----------------------------------------------------------------


@pytest.mark.parametrize("n_thresholds", [1, 2, 7, 100])
@pytest.mark.parametrize("tau", [0.0, 0.05, 0.31])
def test_printed_sweep_is_the_oracles(n_thresholds, tau):
    similarities, scores = pools(5, 6, 20)
    # Similarities that are thresholds: which side they fall on hangs on one rounding.
    thresholds = np.linspace(tau, 1 - tau, n_thresholds).astype(np.float32)
    n_copied = min(10, n_thresholds)
    similarities[0, :n_copied] = np.random.default_rng(2).choice(thresholds, n_copied)
    options = {"tau": tau, "n_thresholds": n_thresholds}
    results = []
    for level in LEVELS:
        _core.set_simd_level(level)
        results.append(_core.printed_sweep(similarities, scores, curve=True, **options))
    assert all(same_bits(result, results[0]) for result in results)
    threshold, n_kept, divergence, curve = results[0]
    for row in range(6):
        expected = reference.printed_sweep(similarities[row], scores[row], **options)
        assert threshold[row] == np.float32(expected.threshold)
        assert n_kept[row] == expected.n_kept
        assert abs(divergence[row] - expected.divergence) <= TOLERANCE
        assert_same_curve(curve[row], expected.curve)


def test_printed_sweep_keeps_everything_when_no_threshold_splits():
    similarities = np.full((1, 6), 0.99, np.float32)
    scores = np.arange(6, dtype=np.float32)[None]
    threshold, n_kept, divergence, curve = _core.printed_sweep(similarities, scores, curve=True)
    assert (threshold[0], n_kept[0], divergence[0]) == (np.inf, 6, 0.0)
    assert np.isnan(curve).all()


# ---- closed forms and invariants -----------------------------------------------------------


def test_divergence_of_two_normal_densities_in_closed_form():
    grid = np.linspace(-12, 14, 4001)
    for mean, sd in ((0.0, 1.0), (1.0, 1.0), (1.0, 2.0), (-0.5, 0.7)):
        left, right = stats.norm.pdf(grid), stats.norm.pdf(grid, mean, sd)
        expected = np.log(sd) + (1 + mean**2) / (2 * sd**2) - 0.5
        got = reference.kl_divergence(left, right, grid[1] - grid[0])
        assert abs(got - expected) <= 1e-9


def test_two_normal_samples_come_near_the_closed_form():
    n = 6000
    quantiles = stats.norm.ppf((np.arange(n) + 0.5) / n)
    scores = np.concatenate([quantiles, 1 + 2 * quantiles])
    similarities = np.linspace(0, 1, 2 * n).astype(np.float32)[None]
    curve = _core.threshold_sweep(
        similarities, scores.astype(np.float32)[None], kappa=1e-9, curve=True
    )[4]
    # N(0, 1) and N(1, 4), smoothed by h. The other direction would give 1.25.
    h = reference.bandwidth(scores)
    left, right = 1 + h**2, 4 + h**2
    expected = 0.5 * np.log(right / left) + (left + 1) / (2 * right) - 0.5
    # 1e-3: the quantiles end where the tails go on.
    assert abs(curve[0, n - 1] - expected) <= 1e-3


@pytest.mark.parametrize("n_left", [1, 3, 10, 19])
def test_disjoint_sides_in_closed_form(n_left):
    n, kappa = 20, 0.025
    scores = np.where(np.arange(n) < n_left, -1, 1).astype(np.float32)[None]
    similarities = np.linspace(0, 1, n).astype(np.float32)[None]
    options = {"bandwidth_factor": 0.05, "curve": True}
    kl = _core.threshold_sweep(similarities, scores, kappa=kappa, **options)
    n_right = n - n_left
    assert kl[1][0] == n_left
    # Left of the cut the floor alone stands: kappa m / (n - m + kappa n).
    expected = np.log((n_right + kappa * n) / (kappa * n_left))
    assert abs(kl[2][0] - expected) <= 1e-5
    mi = _core.threshold_sweep(similarities, scores, criterion="mi", **options)
    share = n_left / n
    entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
    assert mi[1][0] == n_left
    assert abs(mi[2][0] - entropy) <= 1e-5


@pytest.mark.parametrize("criterion", ["kl", "mi"])
def test_divergences_are_not_negative_and_vanish_for_equal_sides(criterion):
    similarities, scores = pools(7, 200, 15)
    curve = _core.threshold_sweep(similarities, scores, criterion=criterion, curve=True)[4]
    assert np.all(curve[~np.isnan(curve)] >= -TOLERANCE)
    assert np.isfinite(curve).sum() > 2000
    alternating = np.tile(np.array([0.0, 1.0], np.float32), 10)[None]
    similarities = np.linspace(0, 1, 20).astype(np.float32)[None]
    curve = _core.threshold_sweep(similarities, alternating, criterion=criterion, curve=True)[4]
    assert abs(curve[0, 9]) <= 1e-6  # ten and ten, five of each score on both sides


def test_scaling_and_mirroring_the_scores_leave_the_answer():
    similarities, scores = pools(9, 100, 20)
    expected = _core.threshold_sweep(similarities, scores, curve=True)
    for factor in (2.0**20, 2.0**-20):  # exact in float64: the same bits come out
        scaled = _core.threshold_sweep(similarities, scores * np.float32(factor), curve=True)
        assert same_bits(scaled, expected)
    mirrored = _core.threshold_sweep(similarities, -scores, curve=True)
    assert np.array_equal(mirrored[1], expected[1])
    assert np.all(np.abs(mirrored[4] - expected[4]) <= TOLERANCE)


def test_order_of_the_candidates_does_not_matter():
    similarities, scores = pools(11, 50, 20)
    order = np.random.default_rng(0).permutation(20)
    expected = _core.threshold_sweep(similarities, scores)
    got = _core.threshold_sweep(
        np.ascontiguousarray(similarities[:, order]), np.ascontiguousarray(scores[:, order])
    )
    assert np.array_equal(got[0], expected[0])
    assert np.all(np.abs(got[2] - expected[2]) <= TOLERANCE)


def test_a_batch_is_its_rows_one_by_one_to_the_bit():
    for n in (2, 20, 101):
        similarities, scores = pools(n, 30, n)
        batch = _core.threshold_sweep(similarities, scores, permutations=9, curve=True)
        for row in range(30):
            one = _core.threshold_sweep(
                similarities[row : row + 1],
                scores[row : row + 1],
                permutations=9,
                query_ids=np.array([row]),
                curve=True,
            )
            assert same_bits(one, [values[row : row + 1] for values in batch])


def test_the_threshold_is_the_smallest_excluded_similarity():
    similarities, scores = pools(13, 100, 20, ties=True)
    threshold, n_kept, *_ = _core.threshold_sweep(similarities, scores, min_kept=5)
    assert np.array_equal((similarities < threshold[:, None]).sum(axis=1), n_kept)
    cut = np.isfinite(threshold)
    assert cut.sum() > 50
    assert np.all((similarities[cut] == threshold[cut, None]).any(axis=1))


def test_type_one_error_of_the_p_value():
    """Exact by construction: p <= 0.1 in a tenth of null pools; bounds of 99.98 %."""
    rng = np.random.default_rng(21)
    n_pools = 600
    similarities = rng.random((n_pools, 20)).astype(np.float32)
    scores = rng.normal(size=(n_pools, 20)).astype(np.float32)
    p_values = _core.threshold_sweep(similarities, scores, permutations=99, min_kept=5)[3]
    for level in (0.1, 0.3):
        low, high = stats.binom.interval(0.9998, n_pools, level)
        assert low <= (p_values <= level).sum() <= high


# ---- degenerate and wrong input ------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["kl", "mi"])
@pytest.mark.parametrize(
    "scores",
    [[], [0.5], [0.83, 0.83, 0.83], [0.0, 1e-12, 2e-12], [-1e-13, 0.0, 1e-13, 0.0]],
    ids=["none", "one", "equal", "1e-12 apart", "1e-13 apart"],
)
def test_scores_without_spread_keep_everything(scores, criterion):
    scores = np.array([scores], np.float32)
    n = scores.shape[1]
    similarities = np.linspace(0, 1, n).astype(np.float32)[None]
    got = _core.threshold_sweep(
        similarities, scores, criterion=criterion, permutations=9, curve=True
    )
    assert (got[0][0], got[1][0], got[2][0], got[3][0]) == (np.inf, n, 0.0, 1.0)
    assert got[4].shape == (1, max(n - 1, 0))
    assert np.isnan(got[4]).all()
    assert _core.printed_sweep(similarities, scores)[1][0] == n


def test_no_admissible_split_keeps_everything_and_still_gives_the_curve():
    similarities, scores = pools(2, 3, 6)
    similarities[1] = 0.25
    got = _core.threshold_sweep(similarities, scores, min_kept=4, min_dropped=3, curve=True)
    assert np.all(got[0] == np.inf)
    assert np.all(got[1] == 6)
    assert np.isfinite(got[4][0]).all()
    assert np.isnan(got[4][1]).all()


def test_a_far_outlier_does_not_break_the_sums():
    """The gap is 100 bandwidths wide: kernels underflow between the groups."""
    scores = np.zeros((1, 1500), np.float32)
    scores[0] = np.random.default_rng(1).normal(0, 1e-3, 1500)
    scores[0, 700] = 50.0
    similarities = np.linspace(0, 1, 1500).astype(np.float32)[None]
    for criterion in ("kl", "mi"):
        got = _core.threshold_sweep(similarities, scores, criterion=criterion, curve=True)
        assert np.isfinite(got[4]).all()
        assert np.all(got[4] >= -1e-9)


def test_no_queries_and_unaligned_arrays():
    empty = np.empty((0, 20), np.float32)
    assert [len(values) for values in _core.threshold_sweep(empty, empty)[:4]] == [0, 0, 0, 0]
    similarities, scores = pools(4, 5, 13)
    ids = np.arange(5) * 3
    expected = _core.threshold_sweep(similarities, scores, permutations=5, query_ids=ids)
    unaligned = [
        np.frombuffer(b"\0" + values.tobytes(), values.dtype, offset=1).reshape(values.shape)
        for values in (similarities, scores, ids)
    ]
    assert not unaligned[0].flags.aligned
    got = _core.threshold_sweep(*unaligned[:2], permutations=5, query_ids=unaligned[2])
    assert same_bits(got, expected)


@pytest.mark.parametrize("criterion", ["kl", "mi"])
def test_mirrored_splits_are_ties_and_the_first_wins(criterion):
    # Two-valued scores make splits that are equal in exact arithmetic; under "mi" every mirror is.
    rng = np.random.default_rng(20_251_204)
    n_tied = 0
    for _ in range(400):
        n = int(rng.integers(3, 9))
        similarities = rng.permutation(n).astype(np.float32)
        scores = rng.integers(0, 2, n).astype(np.float32)
        expected = reference.threshold_sweep(similarities, scores, criterion=criterion)
        found = _core.threshold_sweep(similarities[None], scores[None], criterion=criterion)
        assert (found[0][0], found[1][0]) == (np.float32(expected.threshold), expected.n_kept)
        if np.isfinite(expected.threshold):
            n_tied += (expected.curve >= expected.curve.max() - 1e-12).sum() > 1
    assert criterion == "kl" or n_tied > 50


@pytest.mark.parametrize("n", [600, 1500])
def test_a_far_outlier_gives_the_oracles_threshold(n):
    rng = np.random.default_rng(n)
    similarities = rng.random((1, n), dtype=np.float32)
    scores = (1e-3 * rng.standard_normal((1, n))).astype(np.float32)
    scores[0, 0] = 1.0
    expected = reference_sweep.threshold_sweep(similarities[0], scores[0])
    found = _core.threshold_sweep(similarities, scores)
    assert np.isfinite(expected.divergence)
    assert found[0][0] == np.float32(expected.threshold)
    assert abs(found[2][0] - expected.divergence) <= 1e-9
