"""Where a query's candidates split into two groups of different polarization.

In: similarities and polarization scores of each query's candidates. Out: the similarity at which
the scores on either side differ most, and how sure that is. A candidate is kept when its
similarity is below the threshold. `defenses.BiasDef` turns this into a filter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epibias import _validate, kernels
from epibias._sweep_options import checked
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.errors import InputError
from epibias.kernels_sweep import sweep_is_binned

_MILLION = 1_000_000


@dataclass(frozen=True, eq=False)
class ThresholdSweep:
    """One threshold a query.

    Attributes
    ----------
    threshold : float32 [n_queries]
        Smallest similarity that is not kept; +inf keeps everything.
    n_kept : int64 [n_queries]
        Candidates below the threshold.
    divergence : float64 [n_queries]
        At the threshold, nats; 0 where there was nothing to split.
    p_value : float64 [n_queries]
        Of the permutation test: 1 where there was nothing to split, NaN where no test was asked
        for (`permutations=0`, `printed_sweep`).
    curve : float64 [n_queries, n - 1] or None
        Divergence with 1 … n − 1 candidates on the low side, NaN where equal similarities make
        the split impossible, or the binned sweep left it out. `printed_sweep`: one column a
        threshold.
    n_undecided : int64 [n_queries]
        Decisions that float32 left open and float64 took: which split, and one a permutation.
        It says what was computed and not how sure the answer is.
    method : {"all_splits", "binned", "printed"}
        Which sweep ran.

    Examples
    --------
    >>> x = np.linspace(0.2, 0.9, 20, dtype=np.float32)[None]
    >>> threshold_sweep(x, (x > 0.6).astype(np.float32)).n_kept
    array([11])
    """

    threshold: Float32Array
    n_kept: Int64Array
    divergence: Float64Array
    p_value: Float64Array
    curve: Float64Array | None
    n_undecided: Int64Array
    method: str


@dataclass(frozen=True, eq=False)
class SideDensities:
    """Densities of the scores on both sides of one query's threshold.

    Attributes
    ----------
    grid : float64 [n_grid]
        Scores at which the densities are given; empty where all scores are equal.
    left, right : float64 [n_grid]
        Density of the candidates below the threshold and of the others, per unit of score; zero
        everywhere where the side is empty.

    Examples
    --------
    >>> x = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    >>> sides = side_densities(x, 2 * x, threshold=0.25)
    >>> step = sides.grid[1] - sides.grid[0]
    >>> round(float(sides.left.sum() * step), 6)
    1.0
    """

    grid: Float64Array
    left: Float64Array
    right: Float64Array


def threshold_sweep(
    similarities: Float32Array,
    scores: Float32Array,
    *,
    min_kept: int = 5,
    slack: float = 0.05,
    min_side: int = 1,
    criterion: str = "kl",
    kappa: float = 0.025,
    bandwidth_factor: float = 1.06,
    permutations: int = 0,
    max_exceedances: int = 0,
    seed: int = 0,
    query_ids: Int64Array | None = None,
    curve: bool = False,
    precision: str = "float64",
    method: str = "all_splits",
) -> ThresholdSweep:
    """Find each query's threshold: the split of largest divergence between the scores' densities.

    Parameters
    ----------
    similarities, scores : float32 [n_queries, n]
        Cosine and polarization score of every candidate.
    min_kept : int
        Fewest candidates below the threshold.
    slack : float
        Least share of the candidates on either side, in [0, 0.5].
    min_side : int
        Fewest candidates on either side, whatever the slack.
    criterion : {"kl", "mi"}
        KL(left ‖ right) with a floor of `kappa`, or the mutual information of side and score.
    kappa : float
        Pseudo-points on the right side, as a share of n, drawn from all scores; in (0, 10⁶].
    bandwidth_factor : float
        Kernel width = this · sd(scores) · n^(−1/5); in (0, 10⁶].
    permutations : int
        Shuffles for the p-value; 0 asks for none.
    max_exceedances : int
        Stop shuffling when so many reached the divergence (Besag and Clifford); 0 never does.
    seed : int
        Of the shuffles.
    query_ids : int64 [n_queries], optional
        Keys of each query's shuffles; the row numbers if absent. With ids of their own, queries
        get the same p-value in every batch.
    curve : bool
        Return the divergence at every split too; not with `precision="float32"`.
    precision : {"float64", "float32"}
        Of `divergence` alone: float32 is the faster, right to about 1e-5 (the bound is in
        `threshold_sweep.hpp`), its last bits depend on the SIMD level. Threshold, `n_kept` and
        `p_value` are those of float64 to the bit, whatever is chosen here: where float32 cannot
        tell, float64 decides.
    method : {"all_splits", "binned", "auto"}
        "binned", for large n: about 256 splits, at quantiles of the similarities, and scores shared
        out between grid points; another answer than "all_splits", near it (docs/threshold.md).
        "auto" bins queries of more than 10,000 candidates; the result says which ran.

    Returns
    -------
    ThresholdSweep

    Raises
    ------
    InputError
        Wrong dtype, shape, layout or option; a value that is not finite.

    References
    ----------
    arXiv:2512.00804, section VI-A, equation 9. What it leaves open: docs/threshold.md.

    Examples
    --------
    >>> x = np.linspace(0.2, 0.9, 20, dtype=np.float32)[None]
    >>> cut = threshold_sweep(x, (x > 0.6).astype(np.float32), permutations=99)
    >>> int(cut.n_kept[0]), float(cut.p_value[0])
    (11, 0.01)
    """
    _validate.array("similarities", similarities, dtype=np.float32, ndim=2)
    min_dropped = smallest_side(similarities.shape[1], slack=slack, min_side=min_side)
    threshold, n_kept, divergence, p_value, divergences, n_undecided = kernels.threshold_sweep(
        similarities,
        scores,
        criterion=criterion,
        min_kept=max(min_dropped, checked(min_kept=min_kept)["min_kept"]),
        min_dropped=min_dropped,
        kappa=kappa,
        bandwidth_factor=bandwidth_factor,
        permutations=permutations,
        max_exceedances=max_exceedances,
        seed=seed,
        query_ids=query_ids,
        curve=curve,
        precision=precision,
        method=method,
    )
    if permutations == 0:  # the core's 1 would look like the result of a test
        p_value = _no_test(threshold)
    _validate.sealed(threshold, n_kept, divergence, p_value, divergences, n_undecided)
    binned = sweep_is_binned(method, similarities.shape[1])
    ran = "binned" if binned else "all_splits"
    return ThresholdSweep(threshold, n_kept, divergence, p_value, divergences, n_undecided, ran)


def smallest_side(n: int, *, slack: float, min_side: int) -> int:
    """Fewest candidates on a side: the larger of `min_side` and `slack` · n, rounded up.

    The product is taken in whole millionths, so that 0.05 · 20 is 1 and not 2.

    Parameters
    ----------
    n : int
        Candidates of the query.
    slack : float
        In [0, 0.5], rounded to six decimals.
    min_side : int
        At least 1.

    Returns
    -------
    int

    Raises
    ------
    InputError
        An option out of range.

    Examples
    --------
    >>> [smallest_side(n, slack=0.05, min_side=1) for n in (5, 20, 21, 40)]
    [1, 1, 2, 2]
    """
    options = checked(slack=slack, min_side=min_side)
    millionths = round(float(options["slack"]) * _MILLION)
    return max(int(options["min_side"]), -(-millionths * n // _MILLION))


def printed_sweep(
    similarities: Float32Array,
    scores: Float32Array,
    *,
    tau: float = 0.05,
    n_thresholds: int = 100,
    floor: float = 1e-12,
    bandwidth_factor: float = 1.06,
    curve: bool = False,
) -> ThresholdSweep:
    """Algorithm 1 of the paper as printed: uniform thresholds, no slack, an additive floor.

    Parameters
    ----------
    similarities, scores : float32 [n_queries, n]
        Cosine and polarization score of every candidate.
    tau : float
        The thresholds run from `tau` to 1 − `tau`; in [0, 0.5).
    n_thresholds : int
        How many, 1 to 10⁶; one alone lies at `tau`.
    floor : float
        Added to both densities before the logarithm; in (0, 1].
    bandwidth_factor : float
        Kernel width = this · sd(scores) · n^(−1/5); in (0, 10⁶].
    curve : bool
        Return the divergence at every threshold too.

    Returns
    -------
    ThresholdSweep

    Raises
    ------
    InputError
        Wrong dtype, shape, layout or option; a value that is not finite.

    References
    ----------
    arXiv:2512.00804, Algorithm 1.

    Examples
    --------
    >>> x = np.linspace(0.2, 0.9, 20, dtype=np.float32)[None]
    >>> printed_sweep(x, (x > 0.6).astype(np.float32)).n_kept
    array([11])
    """
    threshold, n_kept, divergence, divergences = kernels.printed_sweep(
        similarities,
        scores,
        tau=tau,
        n_thresholds=n_thresholds,
        floor=floor,
        bandwidth_factor=bandwidth_factor,
        curve=curve,
    )
    p_value, n_undecided = _no_test(threshold), np.zeros_like(n_kept)
    _validate.sealed(threshold, n_kept, divergence, p_value, divergences, n_undecided)
    return ThresholdSweep(
        threshold, n_kept, divergence, p_value, divergences, n_undecided, "printed"
    )


def side_densities(
    similarities: Float32Array,
    scores: Float32Array,
    threshold: float,
    *,
    bandwidth_factor: float = 1.06,
) -> SideDensities:
    """Kernel densities of one query's scores on both sides of a threshold, for figures.

    Parameters
    ----------
    similarities, scores : float32 [n]
        Of one query.
    threshold : float
        Candidates below it are on the left; +inf puts all of them there, -inf none.
    bandwidth_factor : float
        Kernel width = this · sd(scores) · n^(−1/5), as in the sweep; the grid is the sweep's too.

    Returns
    -------
    SideDensities

    Raises
    ------
    InputError
        Wrong dtype, shape or layout; a value that is not finite.

    Examples
    --------
    >>> x = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    >>> len(side_densities(x, np.ones(4, np.float32), 0.25).grid)
    0
    """
    for name, values in (("similarities", similarities), ("scores", scores)):
        _validate.finite(name, _validate.array(name, values, dtype=np.float32, ndim=1))
    _validate.same_length("scores", len(scores), "similarities", len(similarities))
    is_number = isinstance(threshold, int | float | np.integer | np.floating)
    if not is_number or isinstance(threshold, bool) or np.isnan(threshold):
        raise InputError("threshold", "a number or +inf", repr(threshold))
    factor = checked(bandwidth_factor=bandwidth_factor)["bandwidth_factor"]
    wide = scores.astype(np.float64)
    n = len(wide)
    width = factor * wide.std(ddof=1) * n**-0.2 if n >= 2 else 0.0
    if not width > 1e-12 * max(1.0, float(np.abs(wide).max(initial=0.0))):
        return SideDensities(np.empty(0), np.empty(0), np.empty(0))
    low, high = wide.min() - 5 * width, wide.max() + 5 * width
    # ⌈⌈3·span/h⌉ + 1⌉ to a whole 16, as in the core: spacing at most a third of the width.
    n_grid = 16 * -(-(int(np.ceil(3 * (high - low) / width)) + 1) // 16)
    grid = np.linspace(low, high, min(max(n_grid, 32), 1024))
    kernel_rows = np.exp(-0.5 * ((grid - wide[:, None]) / width) ** 2)
    left = similarities < threshold
    scale = width * np.sqrt(2 * np.pi)
    sides = [
        kernel_rows[side].sum(axis=0) / (max(int(side.sum()), 1) * scale) for side in (left, ~left)
    ]
    _validate.sealed(grid, *sides)
    return SideDensities(grid, *sides)


def _no_test(threshold: Float32Array) -> Float64Array:
    """P-values of queries for which no test was asked."""
    return np.full(len(threshold), np.nan)
