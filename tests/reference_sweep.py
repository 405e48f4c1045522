"""`reference.threshold_sweep` with all splits of a query at once, for checks of many queries.

Same definition, same grid, sums of kernel rows by cumulative sums instead of one split at a time.
`test_threshold_sweep.py` compares it with the naive oracle.
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
