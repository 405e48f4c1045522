"""The sweep as Python offers it: sides by integer arithmetic, whole curves, side densities."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from epibias.errors import InputError
from epibias.threshold import printed_sweep, side_densities, smallest_side, threshold_sweep

EPS = np.finfo(np.float64).eps
# Mass of a Gaussian beyond five widths, where the grid ends; a side may lose it at either end.
# (The rectangle rule at a third of a width is exact to exp(-2 (3 pi)^2) = 1e-77.)
BEYOND_THE_GRID = 2 * 2.87e-7


def rounding(n, divergence):
    """Bound of the rounding of a divergence of n scores.

    It averages logarithms of ratios of densities with weights that sum to 1. A density sums n
    kernels, each exact to a few ulps: relatively wrong by (n + 8) eps at most, and four of them
    (the weight, both sides, the floor's share) enter.
    """
    return 4 * (n + 8) * EPS * np.maximum(1, np.abs(divergence))


def assert_rounded(got, expected, n):
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    assert not (np.abs(got - expected) > rounding(n, expected)).any()


def random_queries(seed, n_queries, n):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, (n_queries, n)).astype(np.float32)
    y = (0.1 * rng.standard_normal((n_queries, n)) + 0.4 * (x > 0.7)).astype(np.float32)
    return x, y


@given(st.integers(0, 100_000), st.integers(0, 500_000))
def test_smallest_side_is_the_ceiling_of_the_exact_product(n, millionths):
    exact = Fraction(millionths, 1_000_000) * n
    assert smallest_side(n, slack=millionths / 1e6, min_side=1) == max(1, -(-exact // 1))


def test_slack_of_a_twentieth_is_the_rule_of_the_page():
    for n in range(400):
        assert smallest_side(n, slack=0.05, min_side=1) == max(1, (n + 19) // 20)


@pytest.mark.parametrize("criterion", ["kl", "mi"])
@pytest.mark.parametrize("n", [2, 5, 9, 20, 41])
def test_options_reach_the_core_as_the_reference_takes_them(criterion, n):
    x, y = random_queries(n, 25, n)
    ids = np.arange(25)[::-1].copy()
    options = {"criterion": criterion, "kappa": 0.05, "bandwidth_factor": 1.2}
    cut = threshold_sweep(
        x, y, min_kept=3, slack=0.1, min_side=2, permutations=4, seed=9, query_ids=ids,
        curve=True, **options,
    )  # fmt: skip
    least = max(2, -(-n // 10))
    for row in range(25):
        expected = reference.threshold_sweep(
            x[row], y[row], min_kept=max(3, least), min_dropped=least, permutations=4, seed=9,
            query_id=int(ids[row]), **options,
        )  # fmt: skip
        assert cut.threshold[row] == np.float32(expected.threshold)
        assert cut.n_kept[row] == expected.n_kept
        assert cut.p_value[row] == expected.p_value
        assert_rounded(cut.divergence[row], expected.divergence, n)
        assert_rounded(cut.curve[row], expected.curve, n)


def test_the_default_minimum_is_five_kept():
    x = np.linspace(0.1, 0.9, 20, dtype=np.float32)[None]
    y = (x > 0.2).astype(np.float32)  # the split of largest divergence keeps three
    assert threshold_sweep(x, y).n_kept[0] >= 5
    assert threshold_sweep(x, y, min_kept=1).n_kept[0] == 3


def test_printed_sweep_is_the_references():
    x, y = random_queries(3, 30, 20)
    cut = printed_sweep(x, y, tau=0.1, n_thresholds=40, curve=True)
    for row in range(30):
        expected = reference.printed_sweep(x[row], y[row], tau=0.1, n_thresholds=40)
        assert cut.threshold[row] == np.float32(expected.threshold)
        assert cut.n_kept[row] == expected.n_kept
        assert_rounded(cut.curve[row], expected.curve, 20)
    assert np.isnan(cut.p_value).all()


def test_one_printed_threshold_lies_at_tau():
    x, y = random_queries(3, 8, 20)
    cut = printed_sweep(x, y, tau=0.4, n_thresholds=1, curve=True)
    assert cut.curve.shape == (8, 1)
    for row in range(8):
        expected = reference.printed_sweep(x[row], y[row], tau=0.4, n_thresholds=1)
        assert cut.threshold[row] == np.float32(expected.threshold) == np.float32(0.4)


def test_a_p_value_is_nan_where_no_test_was_asked_for_and_1_where_there_was_nothing_to_test():
    x, y = random_queries(4, 3, 20)
    y[1] = 0.5
    assert np.isnan(threshold_sweep(x, y).p_value).all()
    tested = threshold_sweep(x, y, permutations=9).p_value
    assert tested[1] == 1
    assert ((tested > 0) & (tested <= 1)).all()


def test_p_values_are_keyed_by_the_query_and_not_by_the_batch():
    x, y = random_queries(4, 10, 20)
    ids = np.arange(50, 60)
    whole = threshold_sweep(x, y, permutations=19, query_ids=ids)
    for row in (0, 4, 9):
        part = slice(row, row + 1)
        alone = threshold_sweep(x[part], y[part], permutations=19, query_ids=ids[part])
        assert alone.p_value[0] == whole.p_value[row]


@pytest.mark.parametrize(
    "scores",
    [[0.83, 0.83, 0.83], [0.83], [], [0.83, 0.83 + 1e-12, 0.83 - 1e-12]],
    ids=["equal", "single", "none", "1e-12 apart"],
)
@pytest.mark.parametrize("sweep", [threshold_sweep, printed_sweep])
def test_degenerate_scores_keep_everything(sweep, scores):  # field case 8
    x = np.linspace(0.9, 0.5, len(scores), dtype=np.float32)
    y = np.array(scores, np.float32)
    cut = sweep(x[None], y[None])
    assert cut.threshold.tolist() == [np.inf]
    assert cut.n_kept.tolist() == [len(scores)]
    assert cut.divergence.tolist() == [0]
    assert np.isnan(cut.p_value).all()
    if sweep is threshold_sweep:
        assert sweep(x[None], y[None], permutations=3).p_value.tolist() == [1]
    assert len(side_densities(x, y, 0.6).grid) == 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 40), st.floats(-1, 2))
def test_side_densities_integrate_to_one_and_are_the_references(seed, n, threshold):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, n).astype(np.float32)
    y = rng.normal(0, rng.uniform(0.01, 1), n).astype(np.float32)
    sides = side_densities(x, y, threshold)
    wide = y.astype(np.float64)
    width = reference.bandwidth(wide)
    np.testing.assert_array_equal(sides.grid, reference.score_grid(wide, width))
    step = sides.grid[1] - sides.grid[0]
    rows = reference.kernel_rows(wide, sides.grid, width)
    left = x < threshold
    for density, members in ((sides.left, left), (sides.right, ~left)):
        if members.any():
            assert abs(density.sum() * step - 1) <= BEYOND_THE_GRID
            expected = reference.densities(rows[members], width)
            # The same n terms in another order; below the normal range digits are lost.
            least = np.finfo(np.float64).tiny / EPS
            np.testing.assert_allclose(density, expected, rtol=(n + 8) * EPS, atol=least)
        else:
            assert not density.any()


def test_the_divergence_is_the_one_between_the_side_densities():
    x, y = random_queries(8, 1, 20)
    cut = threshold_sweep(x, y, kappa=0.025)
    sides = side_densities(x[0], y[0], cut.threshold[0])
    step = sides.grid[1] - sides.grid[0]
    n_right, pseudo = 20 - cut.n_kept[0], 0.025 * 20
    everything = (cut.n_kept[0] * sides.left + n_right * sides.right) / 20
    floored = (n_right * sides.right + pseudo * everything) / (n_right + pseudo)
    divergence = reference.kl_divergence(sides.left, floored, step)
    assert_rounded(divergence, cut.divergence[0], 20)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"slack": 0.51}, "slack: expected a finite number from 0 to 0.5, got 0.51"),
        ({"slack": float("nan")}, "slack: expected a finite number from 0 to 0.5, got nan"),
        ({"min_side": 0}, "min_side: expected an integer of at least 1, got 0"),
        ({"min_kept": -2}, "min_kept: expected an integer of at least 1, got -2"),
        ({"criterion": "jsd"}, "criterion: expected 'kl' or 'mi', got 'jsd'"),
        ({"curve": "no"}, "curve: expected True or False, got 'no'"),
    ],
)
def test_wrong_options_are_refused(keywords, message):
    x, y = random_queries(0, 2, 6)
    with pytest.raises(InputError) as caught:
        threshold_sweep(x, y, **keywords)
    assert message in str(caught.value)


def test_wrong_arrays_are_refused():
    x, y = random_queries(0, 2, 6)
    with pytest.raises(InputError, match=r"similarities: expected dtype float32"):
        threshold_sweep(x.astype(np.float16), y)  # field case 18
    with pytest.raises(InputError, match=r"^scores: "):
        threshold_sweep(x, y[:, :5].copy())
    y[1, 2] = np.nan
    with pytest.raises(InputError, match=r"^scores: .*row 1, column 2"):
        threshold_sweep(x, y)
    with pytest.raises(InputError, match=r"scores: expected finite values, got nan \(row 2\)"):
        side_densities(x[1], y[1], 0.5)
    for wrong in (float("nan"), "0.5", None, True):
        with pytest.raises(InputError, match=r"threshold: expected a number or \+inf, got"):
            side_densities(x[0], y[0], wrong)
    with pytest.raises(InputError, match=r"scores: expected 6 rows, as many as similarities"):
        side_densities(x[0], y[0, :5].copy(), 0.5)
