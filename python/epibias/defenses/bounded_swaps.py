"""Exchange candidates until the mean score of a selection lies near a centre: the arithmetic.

In: rectangles of similarities and scores, a centre and a width for every query. Out: which
candidates are selected. Starts from the most similar and never moves away from the centre, so the
distance that it ends with is at most the one it started with, and at most the width wherever
exchanges of two candidates lead there. float64; one row depends on no other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epibias._validate import Float64Array

BoolArray = NDArray[np.bool_]
ROUNDING = 1e-12  # of the width and of a similarity: differences below decide nothing


def bounded_selection(
    similarities: Float64Array,
    scores: Float64Array,
    centres: Float64Array,
    widths: Float64Array,
    allowed: BoolArray,
    k: int,
) -> tuple[BoolArray, Float64Array, Float64Array]:
    """Select up to `k` allowed candidates a row, near the centre first and similar second.

    The start is the first `k` allowed. While the mean score is farther than the width from the
    centre, one selected candidate is exchanged for one that is not: of the exchanges that reach the
    width the one that loses least similarity; where none does, of those that end nearer the centre
    the one that loses least similarity for its way. Then exchanges within the width that gain
    similarity are made, best first. Ties go to the selected candidate that ranks lower, then to the
    other that ranks higher.

    Parameters
    ----------
    similarities, scores : float64 [n_queries, n]
        In the pool's order.
    centres, widths : float64 [n_queries]
        An infinite width asks for nothing.
    allowed : bool [n_queries, n]
        Candidates that may be selected.
    k : int

    Returns
    -------
    chosen : bool [n_queries, n]
    before, after : float64 [n_queries]
        Mean score less centre, at the start and at the end; 0 where nothing is allowed.

    Examples
    --------
    >>> x, y = np.array([[0.9, 0.8, 0.7, 0.6]]), np.array([[1.0, 1.0, -1.0, 0.0]])
    >>> chosen, before, after = bounded_selection(
    ...     x, y, np.zeros(1), np.full(1, 0.1), np.ones((1, 4), bool), 2)
    >>> chosen, float(before[0]), float(after[0])
    (array([[ True, False,  True, False]]), 1.0, 0.0)
    """
    chosen = allowed & (np.cumsum(allowed, axis=1) <= k)
    counts = np.maximum(chosen.sum(axis=1), 1)
    before = np.where(chosen, scores - centres[:, None], 0.0).sum(axis=1) / counts
    after = before.copy()
    moving = np.flatnonzero(np.abs(before) > widths * (1 + ROUNDING))
    if len(moving):
        x, y, may, mask = similarities[moving], scores[moving], allowed[moving], chosen[moving]
        drift, width, size = before[moving], widths[moving] * (1 + ROUNDING), counts[moving]
        _exchange(x, y, may, mask, drift, width, size, reaching=True)
        _exchange(x, y, may, mask, drift, width, size, reaching=False)
        chosen[moving] = mask
        after[moving] = drift
    return chosen, before, after


def _exchange(
    x: Float64Array,
    y: Float64Array,
    may: BoolArray,
    chosen: BoolArray,
    drift: Float64Array,
    width: Float64Array,
    size: NDArray[np.int64],
    *,
    reaching: bool,
) -> None:
    """Exchange in place until no row moves; towards the width, or within it for similarity."""
    n = x.shape[1]
    rows = np.flatnonzero(np.abs(drift) > width) if reaching else np.flatnonzero(
        np.abs(drift) <= width
    )  # fmt: skip
    while len(rows):
        inside = chosen[rows]
        # Last selected first, so that the first minimum is the tie rule.
        out = np.argsort(~inside[:, ::-1], axis=1, kind="stable")[:, : int(size[rows].max())]
        out = n - 1 - out
        leaves = np.take_along_axis(inside, out, axis=1)[:, :, None]
        enters = (may[rows] & ~inside)[:, None, :]
        loss = np.take_along_axis(x[rows], out, axis=1)[:, :, None] - x[rows][:, None, :]
        step = y[rows][:, None, :] - np.take_along_axis(y[rows], out, axis=1)[:, :, None]
        moved = drift[rows, None, None] + step / size[rows, None, None]
        possible = leaves & enters
        within = possible & (np.abs(moved) <= width[rows, None, None])
        if reaching:
            way = np.abs(drift[rows])[:, None, None] - np.abs(moved)
            nearer = possible & (way > 0)
            price = np.where(nearer, loss / np.where(nearer, way, 1.0), np.inf)
            reaches = np.logical_or.reduce(within, axis=(1, 2), keepdims=True)
            value = np.where(reaches, np.where(within, loss, np.inf), price)
        else:
            value = np.where(within & (loss < -ROUNDING), loss, np.inf)
        flat = value.reshape(len(rows), -1)
        best = flat.argmin(axis=1)
        found = np.flatnonzero(np.isfinite(flat[np.arange(len(rows)), best]))
        best, rows = best[found], rows[found]
        leaving, entering = out[found, best // n], best % n
        chosen[rows, leaving], chosen[rows, entering] = False, True
        drift[rows] = moved.reshape(len(flat), -1)[found, best]
        if reaching:
            rows = rows[np.abs(drift[rows]) > width[rows]]
