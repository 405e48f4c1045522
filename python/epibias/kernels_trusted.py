"""Array in, array out: which candidates were in a trusted index, on the CPU.

Beside `kernels`, and by the same rules. Ragged everywhere: query i owns the rows `offsets[i]` to
`offsets[i + 1]`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epibias import _core, _validate
from epibias._dispatch import core_errors, on_cpu
from epibias._validate import Float32Array, Float64Array, Int64Array

BoolArray = NDArray[np.bool_]


def fingerprints(rows: Float32Array, signs: Float32Array) -> Float32Array:
    """Return the numbers that passages are known by: sums of the unit row's values with signs.

    Parameters
    ----------
    rows : float32 [n, dim]
        Of any length above 0.
    signs : float32 [dim]
        1 or -1.

    Returns
    -------
    float32 [n, min(8, dim)]
        Number j is the sum of the columns j, j + 8, j + 16, …, each times its sign, over the row's
        length.

    Raises
    ------
    InputError
        A row that is 0 or not finite, or arrays that do not fit.

    References
    ----------
    A count sketch: doi:10.1016/S0304-3975(03)00400-6

    Examples
    --------
    >>> fingerprints(np.array([[3, 4], [6, 8]], np.float32), np.array([1, -1], np.float32))
    array([[ 0.6, -0.8],
           [ 0.6, -0.8]], dtype=float32)
    """
    try:
        return _core.fingerprints(rows, signs)
    except (TypeError, ValueError):
        pass
    on_cpu("rows", rows, np.float32, 2)
    on_cpu("signs", signs, np.float32, 1)
    with core_errors():
        return _core.fingerprints(rows, signs)


class TrustedTable(NamedTuple):
    """Fingerprints of a trusted index, ordered by the cells of a grid over two of their numbers.

    Attributes
    ----------
    fingerprints : float32 [n_trusted, n_columns]
        Cell (a, b) of `n_cells` by `n_cells` owns the rows `starts[a n_cells + b]` to
        `starts[a n_cells + b + 1]`; a = floor((x - low) / step) of the first of the two columns, b
        of the second, and the ends keep what lies beyond.
    starts : int64 [n_cells² + 1]
    columns : int64 [2]
        The numbers that the grid lies over.
    low, step : float64 [2]
    n_cells : int
        At most 16,384.
    tolerance : float
        How far each number of the same passage may lie apart.

    Examples
    --------
    >>> rows = np.array([[0.1, 0.2], [0.3, 0.2]], np.float32)
    >>> TrustedTable(
    ...     rows, np.array([0, 2]), np.arange(2), np.zeros(2), np.ones(2), 1, 1e-4).n_cells
    1
    """

    fingerprints: Float32Array
    starts: Int64Array
    columns: Int64Array
    low: Float64Array
    step: Float64Array
    n_cells: int
    tolerance: float


def mark_untrusted(
    table: TrustedTable, fingerprints: Float32Array, offsets: Int64Array
) -> BoolArray:
    """Mark the candidates that are not in a trusted index.

    One of them is, whose numbers all lie within the tolerance of a trusted passage's; of equal ones
    as many as were trusted, the first of each query.

    Parameters
    ----------
    table : TrustedTable
    fingerprints : float32 [n_candidates, n_columns]
    offsets : int64 [n_queries + 1]
        Where each query's candidates start.

    Returns
    -------
    bool [n_candidates]

    Raises
    ------
    InputError
        Arrays that do not fit.

    References
    ----------
    docs/tilt_bound.md

    Examples
    --------
    >>> rows = np.array([[0.1, 0.2], [0.3, 0.2]], np.float32)
    >>> table = TrustedTable(
    ...     rows, np.array([0, 2]), np.arange(2), np.zeros(2), np.ones(2), 1, 1e-4)
    >>> mark_untrusted(table, rows[[0, 1, 1]] + np.float32([[0], [1e-5], [0]]), np.array([0, 3]))
    array([False, False,  True])
    """
    given = (*table, fingerprints, offsets)
    try:
        return _core.mark_untrusted(*given)
    except (TypeError, ValueError):
        pass
    on_cpu("trusted", table.fingerprints, np.float32, 2)
    on_cpu("starts", table.starts, np.int64, 1)
    on_cpu("columns", table.columns, np.int64, 1)
    on_cpu("low", table.low, np.float64, 1)
    on_cpu("step", table.step, np.float64, 1)
    _validate.integer("n_cells", table.n_cells, low=1)
    _validate.number("tolerance", table.tolerance, low=0)
    on_cpu("fingerprints", fingerprints, np.float32, 2)
    on_cpu("offsets", offsets, np.int64, 1)
    with core_errors():
        return _core.mark_untrusted(*given)


def trusted_records(
    scores: Float32Array, offsets: Int64Array, is_new: BoolArray, k: int
) -> Float64Array:
    """Tell centre and spread of each query's candidates without the new ones.

    Parameters
    ----------
    scores : float32 [n_candidates]
        In the total order within each query.
    offsets : int64 [n_queries + 1]
        Where each query's candidates start.
    is_new : bool [n_candidates]
    k : int

    Returns
    -------
    float64 [2, n_queries]
        Mean score of the first `k` and standard deviation of all scores, as `CleanRecord` has them;
        NaN where there are fewer than `k`, or 2.

    Raises
    ------
    InputError
        Arrays that do not fit.

    References
    ----------
    docs/tilt_bound.md

    Examples
    --------
    >>> scores, new = np.array([9, 0, 2, 4], np.float32), np.array([True, False, False, False])
    >>> trusted_records(scores, np.array([0, 4]), new, 2).ravel()
    array([1., 2.])
    """
    given = (scores, offsets, is_new, k)
    try:
        return _core.trusted_records(*given)
    except (TypeError, ValueError):
        pass
    on_cpu("scores", scores, np.float32, 1)
    on_cpu("offsets", offsets, np.int64, 1)
    on_cpu("is_new", is_new, np.bool_, 1)
    _validate.integer("k", k, low=1)
    with core_errors():
        return _core.trusted_records(*given)
