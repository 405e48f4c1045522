"""The meaning of every stage: naive float64 NumPy, one query at a time, never optimised.

Kernels, SIMD levels and back ends are compared with these functions. Read them first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LANES = 32  # accumulators of the canonical dot product
MASK64 = (1 << 64) - 1


# ---- cosine_topk ---------------------------------------------------------------------------


def canonical_dot(left: np.ndarray, right: np.ndarray) -> float:
    """Float64 dot product of two float32 rows: element i into accumulator i mod 32, halving tree.

    Products of float32 are exact in float64, so fused and separate rounding agree.
    """
    accumulators = np.zeros(LANES)
    for start in range(0, len(left), LANES):
        piece = left[start : start + LANES].astype(np.float64) * right[start : start + LANES]
        accumulators[: len(piece)] += piece
    width = LANES // 2
    while width:
        accumulators = accumulators[:width] + accumulators[width : 2 * width]
        width //= 2
    return float(accumulators[0])


def inverse_norm(row: np.ndarray) -> float:
    return 1.0 / np.sqrt(canonical_dot(row, row))


def cosine(query: np.ndarray, passage: np.ndarray) -> np.float32:
    product = canonical_dot(query, passage) * inverse_norm(query)
    return np.float32(product * inverse_norm(passage))


def cosine_topk(queries: np.ndarray, passages: np.ndarray, k: int):
    """Indices int64 and similarities float32, [n_queries, k]: similarity descending, then index."""
    indices = np.empty((len(queries), k), np.int64)
    similarities = np.empty((len(queries), k), np.float32)
    for row, query in enumerate(queries):
        all_similarities = np.array([cosine(query, passage) for passage in passages], np.float32)
        order = np.lexsort((np.arange(len(passages)), -all_similarities))[:k]
        indices[row], similarities[row] = order, all_similarities[order]
    return indices, similarities


def _canonical_dots(matrix: np.ndarray, row: np.ndarray) -> np.ndarray:
    """`canonical_dot` of every matrix row with `row`: the same sums in the same order."""
    padding = -matrix.shape[1] % LANES
    products = np.pad(matrix.astype(np.float64) * row.astype(np.float64), ((0, 0), (0, padding)))
    blocks = products.reshape(len(matrix), -1, LANES)
    accumulators = np.zeros((len(matrix), LANES))
    for block in range(blocks.shape[1]):
        accumulators = accumulators + blocks[:, block]
    width = LANES // 2
    while width:
        accumulators = accumulators[:, :width] + accumulators[:, width : 2 * width]
        width //= 2
    return accumulators[:, 0]


def cosine_topk_batched(queries: np.ndarray, passages: np.ndarray, k: int):
    """`cosine_topk` with the loop over passages vectorised; tested to give the same bits."""
    squared = np.array([canonical_dot(passage, passage) for passage in passages])
    inverse = 1.0 / np.sqrt(squared)
    indices = np.empty((len(queries), k), np.int64)
    similarities = np.empty((len(queries), k), np.float32)
    for row, query in enumerate(queries):
        dots = _canonical_dots(passages, query)
        everything = (dots * inverse_norm(query) * inverse).astype(np.float32)
        order = np.lexsort((np.arange(len(passages)), -everything))[:k]
        indices[row], similarities[row] = order, everything[order]
    return indices, similarities


# ---- polarization_axis ---------------------------------------------------------------------


@dataclass
class Axis:
    axis: np.ndarray
    explained: float
    relative_gap: float


def unit_rows(rows: np.ndarray) -> np.ndarray:
    wide = rows.astype(np.float64)
    return wide / np.sqrt((wide**2).sum(axis=1, keepdims=True))


def polarization_axis(anchors: np.ndarray, stances=None, normalize: bool = True) -> Axis:
    """Leading eigenvector of the sample covariance of the centred anchors, oriented."""
    rows = unit_rows(anchors) if normalize else anchors.astype(np.float64)
    centred = rows - rows.mean(axis=0)
    if (centred**2).sum() <= 1e-14 * (rows**2).sum():
        raise ValueError("anchors: expected anchors that differ, got equal ones")
    _, singular, directions = np.linalg.svd(centred, full_matrices=False)
    variances = singular**2
    axis = orient(directions[0], rows, stances)
    second = variances[1] if len(variances) > 1 else 0.0
    return Axis(axis, variances[0] / variances.sum(), (variances[0] - second) / variances[0])


def orient(axis: np.ndarray, rows: np.ndarray, stances=None) -> np.ndarray:
    """Sign rule: stances, if they differ in mean PS; else the anchors' mean PS; else the largest
    component.

    Components within 1e-6 of the largest count as equal: the lowest index decides.
    """
    scores = rows @ axis
    if stances is not None:
        stances = np.asarray(stances, float)
        difference = scores[stances > 0].mean() - scores[stances < 0].mean()
        if difference != 0:  # equal means decide nothing: the anchors' own rule does
            return -axis if difference < 0 else axis
    if abs(scores.mean()) > 1e-6:
        return -axis if scores.mean() < 0 else axis
    magnitudes = np.abs(axis)
    decisive = np.argmax(magnitudes >= magnitudes.max() - 1e-6)
    return -axis if axis[decisive] < 0 else axis


def polarization_scores(rows: np.ndarray, axis: np.ndarray, normalize: bool = True) -> np.ndarray:
    wide = unit_rows(rows) if normalize else rows.astype(np.float64)
    return wide @ axis.astype(np.float64)


# ---- threshold_sweep -----------------------------------------------------------------------


@dataclass
class Sweep:
    threshold: float  # smallest excluded similarity; +inf keeps everything
    n_kept: int
    divergence: float
    p_value: float
    curve: np.ndarray  # [n - 1] divergence with m = 1 … n - 1 points on the left; NaN on ties


def bandwidth(scores: np.ndarray, factor: float = 1.06) -> float:
    return factor * scores.std(ddof=1) * len(scores) ** -0.2


def score_grid(scores: np.ndarray, h: float) -> np.ndarray:
    span = (scores.max() + 5 * h) - (scores.min() - 5 * h)
    n_points = 16 * int(np.ceil((np.ceil(3 * span / h) + 1) / 16))
    n_points = min(max(n_points, 32), 1024)
    return np.linspace(scores.min() - 5 * h, scores.max() + 5 * h, n_points)


def kernel_rows(scores: np.ndarray, grid: np.ndarray, h: float) -> np.ndarray:
    """[n, n_grid]: unnormalised Gaussian kernels of each score on the grid."""
    return np.exp(-0.5 * ((grid[None, :] - scores[:, None]) / h) ** 2)


def densities(rows: np.ndarray, h: float) -> np.ndarray:
    return rows.mean(axis=0) / (h * np.sqrt(2 * np.pi))


def kl_divergence(left: np.ndarray, right: np.ndarray, step: float) -> float:
    """KL(left ‖ right) in nats of two densities on one grid.

    Where left is 0 the term is 0; below 1e-300 too, where right may have underflowed before it.
    """
    inside = left > 1e-300
    return float(np.sum(left[inside] * np.log(left[inside] / right[inside])) * step)


def split_divergence(
    rows: np.ndarray, m: int, h: float, step: float, criterion: str, kappa: float
) -> float:
    """Divergence between the first m kernel rows and the rest."""
    n = len(rows)
    scale = 1 / (h * np.sqrt(2 * np.pi))
    sum_left, sum_right, sum_all = rows[:m].sum(0), rows[m:].sum(0), rows.sum(0)
    left = sum_left / m * scale
    if criterion == "kl":
        floored = (sum_right + kappa * sum_all) / ((n - m) + kappa * n) * scale
        return kl_divergence(left, floored, step)
    right, pooled = sum_right / (n - m) * scale, sum_all / n * scale
    weight = m / n
    return weight * kl_divergence(left, pooled, step) + (1 - weight) * kl_divergence(
        right, pooled, step
    )


def is_degenerate(scores: np.ndarray, h: float) -> bool:
    return not h > 1e-12 * max(1.0, np.abs(scores).max())


def sweep_curve(x_sorted, rows, h, step, criterion, kappa) -> np.ndarray:
    n = len(rows)
    curve = np.full(max(n - 1, 0), np.nan)
    for m in range(1, n):
        if x_sorted[m - 1] < x_sorted[m]:
            curve[m - 1] = split_divergence(rows, m, h, step, criterion, kappa)
    return curve


def best_split(curve: np.ndarray, n: int, min_kept: int, min_dropped: int):
    """First maximum over the splits with min_kept on the left and min_dropped on the right."""
    first, last = max(min_kept, 1), min(n - max(min_dropped, 1), n - 1)
    admissible = [m for m in range(first, last + 1) if not np.isnan(curve[m - 1])]
    best = first_maximum(curve[[m - 1 for m in admissible]])
    return (None, -np.inf) if best is None else (admissible[best], curve[admissible[best] - 1])


def first_maximum(values: np.ndarray) -> int | None:
    """Place of the first value within 1e-12 of the largest; None where there are none.

    Splits that mirror each other are equal in exact arithmetic; rounding must not choose.
    """
    if len(values) == 0:
        return None
    largest = values.max()
    return int(np.argmax(values >= largest - 1e-12 * max(1.0, abs(largest))))


def threshold_sweep(
    similarities,
    scores,
    *,
    criterion="kl",
    min_kept=1,
    min_dropped=1,
    kappa=0.025,
    bandwidth_factor=1.06,
    permutations=0,
    max_exceedances=0,
    seed=0,
    query_id=0,
) -> Sweep:
    x, y = np.asarray(similarities, np.float64), np.asarray(scores, np.float64)
    n = len(x)
    keep_all = Sweep(np.inf, n, 0.0, 1.0, np.full(max(n - 1, 0), np.nan))
    if n < 2:
        return keep_all
    h = bandwidth(y, bandwidth_factor)
    if is_degenerate(y, h):
        return keep_all
    order = np.argsort(x, kind="stable")
    x_sorted = x[order]
    grid = score_grid(y, h)
    step = grid[1] - grid[0]
    rows = kernel_rows(y[order], grid, h)
    curve = sweep_curve(x_sorted, rows, h, step, criterion, kappa)
    m, divergence = best_split(curve, n, min_kept, min_dropped)
    if m is None:
        return Sweep(np.inf, n, 0.0, 1.0, curve)
    p_value = 1.0
    if permutations:
        tolerance = 1e-10 * max(1.0, abs(divergence))
        exceedances, used = 0, 0
        for permutation in range(permutations):
            shuffled = rows[permuted(n, seed, query_id, permutation)]
            null = sweep_curve(x_sorted, shuffled, h, step, criterion, kappa)
            exceedances += best_split(null, n, min_kept, min_dropped)[1] >= divergence - tolerance
            used += 1
            if max_exceedances and exceedances >= max_exceedances:
                break
        stopped = max_exceedances and exceedances >= max_exceedances
        p_value = exceedances / used if stopped else (exceedances + 1) / (used + 1)
    return Sweep(float(x_sorted[m]), m, float(divergence), float(p_value), curve)


def printed_sweep(
    similarities, scores, *, tau=0.05, n_thresholds=100, floor=1e-12, bandwidth_factor=1.06
) -> Sweep:
    """Algorithm 1 as printed: uniform thresholds on the raw similarity, additive floor.

    `curve` has one value a threshold, NaN where a side is empty.
    """
    x, y = np.asarray(similarities, np.float64), np.asarray(scores, np.float64)
    n = len(x)
    curve = np.full(n_thresholds, np.nan)
    h = bandwidth(y, bandwidth_factor) if n >= 2 else 0.0
    if n < 2 or is_degenerate(y, h):
        return Sweep(np.inf, n, 0.0, 1.0, curve)
    grid = score_grid(y, h)
    step = grid[1] - grid[0]
    # A threshold is compared with float32 similarities, so it is itself a float32.
    thresholds = np.linspace(tau, 1 - tau, n_thresholds).astype(np.float32).astype(np.float64)
    for number, threshold in enumerate(thresholds):
        left = x < threshold
        if not left.any() or left.all():
            continue
        q_left = densities(kernel_rows(y[left], grid, h), h) + floor
        q_right = densities(kernel_rows(y[~left], grid, h), h) + floor
        curve[number] = kl_divergence(q_left, q_right, step)
    splits = np.flatnonzero(~np.isnan(curve))
    best = first_maximum(curve[splits])
    if best is None:
        return Sweep(np.inf, n, 0.0, 1.0, curve)
    number = splits[best]
    n_kept = int((x < thresholds[number]).sum())
    return Sweep(float(thresholds[number]), n_kept, float(curve[number]), 1.0, curve)


def mix64(value: int) -> int:
    """SplitMix64's finaliser (Steele, Lea, Flood 2014, doi:10.1145/2660193.2660195)."""
    value &= MASK64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK64
    return value ^ (value >> 31)


def permuted(n: int, seed: int, query_id: int, permutation: int) -> np.ndarray:
    """Fisher–Yates shuffle of 0 … n − 1 from a counter keyed by seed, query and permutation."""
    key = mix64(mix64(mix64(seed) + query_id) + permutation)
    order = np.arange(n)
    for step, last in enumerate(range(n - 1, 0, -1)):
        draw = mix64(key + (step + 1) * 0x9E3779B97F4A7C15)
        other = ((draw >> 32) * (last + 1)) >> 32
        order[last], order[other] = order[other], order[last]
    return order


# ---- rerank --------------------------------------------------------------------------------


def mmr(similarities, embeddings, k: int, relevance_weight: float = 0.5) -> np.ndarray:
    """Maximal marginal relevance (Carbonell, Goldstein 1998, doi:10.1145/290941.291025).

    The first pick is the most similar passage; ties go to the lower position.
    """
    n = len(similarities)
    pairwise = np.array(
        [[canonical_cosine(a, b) for b in embeddings] for a in embeddings], np.float64
    )
    selected: list[int] = []
    while len(selected) < k:
        best, best_value = -1, -np.inf
        for candidate in range(n):
            if candidate in selected:
                continue
            redundancy = max((pairwise[candidate, s] for s in selected), default=0.0)
            value = relevance_weight * float(similarities[candidate])
            value -= (1 - relevance_weight) * redundancy
            if not selected:
                value = float(similarities[candidate])
            if value > best_value:
                best, best_value = candidate, value
        selected.append(best)
    return np.array(selected, np.int64)


def canonical_cosine(left: np.ndarray, right: np.ndarray) -> float:
    """The cosine before it is rounded to float32."""
    return canonical_dot(left, right) * inverse_norm(left) * inverse_norm(right)


def dpp_greedy(kernel: np.ndarray, k: int) -> np.ndarray:
    """Greedy MAP of a determinantal point process: the item that raises log det most, in turn.

    Stops when the best gain in determinant falls to 1e-10 (Chen et al. 2018, arXiv:1709.05135).
    """
    selected: list[int] = []
    for _ in range(k):
        best, best_gain = -1, 1e-10
        base = np.linalg.det(kernel[np.ix_(selected, selected)]) if selected else 1.0
        for candidate in range(len(kernel)):
            if candidate in selected:
                continue
            chosen = [*selected, candidate]
            gain = np.linalg.det(kernel[np.ix_(chosen, chosen)]) / base
            if gain > best_gain:
                best, best_gain = candidate, gain
        if best < 0:
            break
        selected.append(best)
    return np.array(selected, np.int64)
