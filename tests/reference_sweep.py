"""Oracles of the sweep beside the naive one.

`threshold_sweep` is `reference.threshold_sweep` with all splits of a query at once, for checks of
many queries: same definition, same grid, sums of kernel rows by cumulative sums instead of one
split at a time. `test_threshold_sweep.py` compares it with the naive oracle. `binned_sweep` is the
definition of `method="binned"`.
"""

from __future__ import annotations

import numpy as np

import reference


def curves(rows: np.ndarray, h: float, step: float, criterion: str, kappa: float) -> np.ndarray:
    """Divergence with m = 1 … n - 1 rows on the left; rows [..., n, n_grid] -> [..., n - 1]."""
    n = rows.shape[-2]
    m = np.arange(1, n)[:, None]
    scale = 1 / (h * np.sqrt(2 * np.pi))
    left_sum = np.cumsum(rows, axis=-2)[..., :-1, :]
    right_sum = np.cumsum(rows[..., ::-1, :], axis=-2)[..., ::-1, :][..., 1:, :]
    all_sum = rows.sum(axis=-2, keepdims=True)
    left = left_sum / m * scale
    if criterion == "kl":
        floored = (right_sum + kappa * all_sum) / ((n - m) + kappa * n) * scale
        return divergence(left, floored, step)
    right, pooled = right_sum / (n - m) * scale, all_sum / n * scale
    weight = m[:, 0] / n
    from_left, from_right = divergence(left, pooled, step), divergence(right, pooled, step)
    return weight * from_left + (1 - weight) * from_right


def divergence(left: np.ndarray, right: np.ndarray, step: float) -> np.ndarray:
    """KL along the last axis; where left is 0, or has underflowed, the term is 0."""
    ratio = np.divide(left, right, out=np.ones(left.shape), where=left > 1e-300)
    return (left * np.log(ratio)).sum(axis=-1) * step


def threshold_sweep(
    similarities: np.ndarray,
    scores: np.ndarray,
    *,
    criterion: str = "kl",
    min_kept: int = 1,
    min_dropped: int = 1,
    kappa: float = 0.025,
    bandwidth_factor: float = 1.06,
    permutations: int = 0,
    seed: int = 0,
    query_id: int = 0,
) -> reference.Sweep:
    """`reference.threshold_sweep` of one query, without early stop."""
    x, y = np.asarray(similarities, np.float64), np.asarray(scores, np.float64)
    n = len(x)
    h = reference.bandwidth(y, bandwidth_factor) if n >= 2 else 0.0
    if n < 2 or reference.is_degenerate(y, h):
        return reference.Sweep(np.inf, n, 0.0, 1.0, np.full(max(n - 1, 0), np.nan))
    order = np.argsort(x, kind="stable")
    x_sorted = x[order]
    grid = reference.score_grid(y, h)
    step = grid[1] - grid[0]
    rows = reference.kernel_rows(y[order], grid, h)
    tied = x_sorted[:-1] >= x_sorted[1:]
    curve = np.where(tied, np.nan, curves(rows, h, step, criterion, kappa))
    m, best = reference.best_split(curve, n, min_kept, min_dropped)
    if m is None:
        return reference.Sweep(np.inf, n, 0.0, 1.0, curve)
    p_value = 1.0
    if permutations:
        orders = [reference.permuted(n, seed, query_id, number) for number in range(permutations)]
        null = np.where(tied, np.nan, curves(rows[np.array(orders)], h, step, criterion, kappa))
        statistics = np.array([reference.best_split(c, n, min_kept, min_dropped)[1] for c in null])
        exceedances = (statistics >= best - 1e-10 * max(1.0, abs(best))).sum()
        p_value = (exceedances + 1) / (permutations + 1)
    return reference.Sweep(float(x_sorted[m]), m, float(best), float(p_value), curve)


def quantile_splits(
    x_sorted: np.ndarray, min_kept: int, min_dropped: int, n_quantiles: int = 256
) -> list[int]:
    """Ends and quantiles, each moved up to the next split between two similarities."""
    n = len(x_sorted)
    last = n - min_dropped
    quantiles = [-(-q * n // n_quantiles) for q in range(1, n_quantiles)]
    wanted = [min_kept, *(m for m in quantiles if min_kept < m < last), last]
    possible = [m for m in range(1, n) if x_sorted[m - 1] < x_sorted[m] and min_kept <= m <= last]
    found = {min((m for m in possible if m >= start), default=None) for start in wanted}
    return sorted(found - {None})


def binned_sweep(
    similarities: np.ndarray,
    scores: np.ndarray,
    *,
    criterion: str = "kl",
    min_kept: int = 1,
    min_dropped: int = 1,
    kappa: float = 0.025,
    bandwidth_factor: float = 1.06,
    permutations: int = 0,
    seed: int = 0,
    query_id: int = 0,
) -> reference.Sweep:
    """Sweep one query over quantiles, its scores shared out between the points of the grid."""
    x, y = np.asarray(similarities, np.float64), np.asarray(scores, np.float64)
    n = len(x)
    h = reference.bandwidth(y, bandwidth_factor) if n >= 2 else 0.0
    curve = np.full(max(n - 1, 0), np.nan)
    if n < 2 or reference.is_degenerate(y, h):
        return reference.Sweep(np.inf, n, 0.0, 1.0, curve)
    order = np.argsort(x, kind="stable")
    splits = quantile_splits(x[order], min_kept, min_dropped)
    if not splits:
        return reference.Sweep(np.inf, n, 0.0, 1.0, curve)
    grid = reference.score_grid(y, h)
    n_grid, step = len(grid), (grid[-1] - grid[0]) / (len(grid) - 1)
    offsets = np.arange(n_grid)[:, None] - np.arange(n_grid)
    variance = max(h**2 - step**2 / 6, h**2 / 4)
    weights = np.exp(-0.5 * (np.arange(-n_grid, n_grid + 1) * step) ** 2 / variance)
    smoother = np.exp(-0.5 * (offsets * step) ** 2 / variance) / weights.sum()
    position = (y[order] - grid[0]) / step
    cell = position.astype(int)
    share = position - cell

    def divergences(arrangement: np.ndarray) -> np.ndarray:
        mass = np.zeros((len(splits) + 1, n_grid))
        for row, places in enumerate(np.split(arrangement, splits)):
            np.add.at(mass[row], cell[places], 1 - share[places])
            np.add.at(mass[row], cell[places] + 1, share[places])
        smooth = mass @ smoother
        left_sum = np.cumsum(smooth, axis=0)[:-1]
        right_sum = np.cumsum(smooth[::-1], axis=0)[::-1][1:]
        all_sum, m = smooth.sum(axis=0), np.array(splits)[:, None]
        if criterion == "kl":
            floored = (right_sum + kappa * all_sum) / ((n - m) + kappa * n)
            return divergence(left_sum / m, floored, 1.0)
        from_left = divergence(left_sum / m, all_sum / n, 1.0)
        from_right = divergence(right_sum / (n - m), all_sum / n, 1.0)
        return m[:, 0] / n * from_left + (1 - m[:, 0] / n) * from_right

    curve[np.array(splits) - 1] = divergences(np.arange(n))
    m, best = reference.best_split(curve, n, min_kept, min_dropped)
    statistics = [
        divergences(np.array(reference.permuted(n, seed, query_id, number))).max()
        for number in range(permutations)
    ]
    reached = sum(value >= best - 1e-10 * max(1.0, abs(best)) for value in statistics)
    p_value = (1 + reached) / (1 + permutations)
    return reference.Sweep(float(x[order][m]), m, float(best), float(p_value), curve)
