"""Array in, array out: what a pool has in common with the one that was remembered, on the CPU.

Beside `kernels`, and by the same rules. Ragged everywhere: query i owns the rows `offsets[i]` to
`offsets[i + 1]`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epibias import _core, _validate
from epibias._dispatch import core_errors, on_cpu, on_cpu_or_none
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.errors import InputError

BoolArray = NDArray[np.bool_]


def mark_unchanged(
    similarities: Float32Array,
    scores: Float32Array,
    offsets: Int64Array,
    k: int,
    mean_similarities: Float64Array,
    mean_scores: Float64Array,
) -> BoolArray:
    """Mark the queries whose first `k` candidates have the means that are remembered, to 1e-6.

    Parameters
    ----------
    similarities, scores : float32 [n_candidates]
    offsets : int64 [n_queries + 1]
        Where each query's candidates start.
    k : int
        Of all candidates where there are fewer.
    mean_similarities, mean_scores : float64 [n_queries]
        NaN: nothing is remembered.

    Returns
    -------
    bool [n_queries]
        False where nothing is remembered, or where there is no candidate.

    Raises
    ------
    InputError
        Arrays that do not fit.

    References
    ----------
    docs/tilt_bound.md

    Examples
    --------
    >>> x, y = np.array([[0.9, 0.7, 0.5], [1, 3, 8]], np.float32)
    >>> offsets = np.array([0, 3, 3])
    >>> mark_unchanged(x, y, offsets, 2, np.array([0.8, 0.8]), np.array([2.0, 2.0]))
    array([ True, False])
    """
    given = (similarities, scores, offsets, k, mean_similarities, mean_scores)
    try:
        return _core.mark_unchanged(*given)
    except (TypeError, ValueError):
        pass
    _check_pool(similarities, scores, offsets)
    _validate.integer("k", k, low=1)
    on_cpu("mean_similarities", mean_similarities, np.float64, 1)
    on_cpu("mean_scores", mean_scores, np.float64, 1)
    with core_errors():
        return _core.mark_unchanged(*given)


def mark_unremembered(
    similarities: Float32Array,
    scores: Float32Array,
    offsets: Int64Array,
    remembered: Sequence[tuple[int, Float64Array]],
    *,
    sparing: bool = True,
) -> BoolArray:
    """Mark the candidates that were not in the pool when their question was remembered.

    A candidate is known by its similarity and its score, to 1e-6. A copy of a remembered passage
    is new, unless it was remembered, too.

    Parameters
    ----------
    similarities, scores : float32 [n_candidates]
    offsets : int64 [n_queries + 1]
        Where each query's candidates start.
    remembered : sequence of (int, float64 [m, 2])
        Query, and similarity and score of what was there, in ascending similarity; m is 1 or more.
    sparing : bool
        Do not mark those that are less similar than every remembered one: they were out of its
        sight, and a longer pool than the remembered one is no crowd of newcomers.

    Returns
    -------
    bool [n_candidates]
        False for candidates of other queries.

    Raises
    ------
    InputError
        Arrays that do not fit, a query that there is not, pairs that do not ascend.

    References
    ----------
    docs/tilt_bound.md

    Examples
    --------
    >>> x, y = np.array([[0.9, 0.8, 0.7, 0.6], [0.1, 0.2, 0.3, 0.4]], np.float32)
    >>> there = np.stack([x, y], 1).astype(float)[[2, 0]]
    >>> mark_unremembered(x, y, np.array([0, 4]), [(0, there)])
    array([False,  True, False, False])
    """
    given = (similarities, scores, offsets, remembered, sparing)
    try:
        return _core.mark_unremembered(*given)
    except (TypeError, ValueError, RuntimeError):  # the last of a query that no integer holds
        pass
    _check_pool(similarities, scores, offsets)
    _validate.flag("sparing", sparing)
    for one in remembered:
        if not isinstance(one, tuple) or len(one) != 2:
            expected = "pairs of a query and an array"
            raise InputError("remembered", expected, type(one).__name__)
        _validate.integer("remembered", one[0], low=0, high=len(offsets) - 2)
        on_cpu("remembered", one[1], np.float64, 2)
    with core_errors():
        return _core.mark_unremembered(*given)


def refuse_newcomers(
    is_new: BoolArray,
    offsets: Int64Array,
    most_in_pool: Int64Array,
    most_in_selection: int,
    *,
    sources: Int64Array | None = None,
    most_of_source: int | None = None,
) -> tuple[BoolArray, Int64Array]:
    """Mark the newcomers that may not be selected.

    None of a query may where there are more than `most_in_pool`. Else the first
    `most_in_selection` may, of one source no more than `most_of_source`.

    Parameters
    ----------
    is_new : bool [n_candidates]
        In the total order within each query.
    offsets : int64 [n_queries + 1]
        Where each query's candidates start.
    most_in_pool : int64 [n_queries]
    most_in_selection : int
    sources : int64 [n_candidates], optional
        Equal for candidates of one source.
    most_of_source : int, optional
        With `sources` only.

    Returns
    -------
    refused : bool [n_candidates]
    n_refused : int64 [n_queries]

    Raises
    ------
    InputError
        Arrays that do not fit; `most_of_source` without `sources`.

    References
    ----------
    docs/tilt_bound.md

    Examples
    --------
    >>> new = np.array([True, False, True, True])
    >>> refuse_newcomers(new, np.array([0, 4]), np.array([3]), 2)
    (array([False, False, False,  True]), array([1]))
    >>> refuse_newcomers(new, np.array([0, 4]), np.array([2]), 2)
    (array([ True, False,  True,  True]), array([3]))
    """
    if sources is None and most_of_source is not None:
        raise InputError("most_of_source", "None without sources", repr(most_of_source))
    on_cpu("is_new", is_new, np.bool_, 1)
    most_of_source = len(is_new) if most_of_source is None else most_of_source
    given = (is_new, offsets, most_in_pool, most_in_selection, sources, most_of_source)
    try:
        return _core.refuse_newcomers(*given)
    except (TypeError, ValueError):
        pass
    on_cpu("offsets", offsets, np.int64, 1)
    on_cpu("most_in_pool", most_in_pool, np.int64, 1)
    _validate.integer("most_in_selection", most_in_selection, low=0)
    on_cpu_or_none("sources", sources, np.int64, 1)
    _validate.integer("most_of_source", most_of_source, low=0)
    with core_errors():
        return _core.refuse_newcomers(*given)


def _check_pool(similarities: object, scores: object, offsets: object) -> None:
    on_cpu("similarities", similarities, np.float32, 1)
    on_cpu("scores", scores, np.float32, 1)
    on_cpu("offsets", offsets, np.int64, 1)
