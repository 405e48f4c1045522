"""Array in, array out: candidates in the total order, and what BiasDef selects from them.

Beside `kernels`, and by the same rules. Ragged everywhere: query i owns the rows `offsets[i]` to
`offsets[i + 1]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from epibias import _core, _validate
from epibias._dispatch import core_errors, goes_to_cuda, on_cpu, on_cpu_or_none
from epibias._sweep_chunks import rows_of_a_call
from epibias._sweep_options import checked
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.device import biasdef_select as on_device
from epibias.device import status

RankingParts = tuple[Int64Array, Int64Array, Float32Array, Float32Array]
SelectionParts = tuple[
    Int64Array,
    Int64Array,
    Int64Array,
    Int64Array,
    Int64Array,
    Int64Array,
    Int64Array,
    dict[str, NDArray[Any]],
]


def rank_candidates(
    query_embeddings: Float32Array,
    candidate_embeddings: Float32Array,
    offsets: Int64Array,
    axes: Float32Array,
    *,
    indices: Int64Array | None = None,
    ps_embeddings: Float32Array | None = None,
    axis_of_query: Int64Array | None = None,
    score_offsets: Float64Array | None = None,
    normalize: bool = True,
) -> RankingParts:
    """Similarity and polarization score of each query's candidates, in the total order.

    Parameters
    ----------
    query_embeddings, candidate_embeddings : float32 [n_queries, dim], float32 [n_candidates, dim]
    offsets : int64 [n_queries + 1]
        Where each query's candidates start.
    axes : float32 [n_axes, ps_dim]
    indices : int64 [n_candidates], optional
        Each once a query; 0 to n − 1 if absent.
    ps_embeddings : float32 [n_candidates, ps_dim], optional
        The candidates under the axes' encoder.
    axis_of_query : int64 [n_queries], optional
        The only axis, or axis i, if absent.
    score_offsets : float64 [n_axes], optional
        Subtracted from the scores on each axis.
    normalize : bool
        Scale rows to unit length for the scores.

    Returns
    -------
    rows, indices, similarities, scores : [n_candidates] of int64, int64, float32, float32
        Row of the arguments that stands at each place; the others at the same places.

    Raises
    ------
    InputError
        Arrays that do not fit, an index twice in a query, a zero or non-finite row.

    Examples
    --------
    >>> rows = np.array([[0, 1], [1, 0.1], [1, 0]], np.float32)
    >>> axes = np.array([[0, 1]], np.float32)
    >>> rank_candidates(rows[2:], rows, np.array([0, 3]), axes)[0]
    array([2, 1, 0])
    """
    given = (
        query_embeddings, candidate_embeddings, offsets, indices, ps_embeddings, axes,
        axis_of_query, score_offsets, normalize,
    )  # fmt: skip
    if not status.emulation.on:
        try:
            return _core.rank_candidates(*given)
        except (TypeError, ValueError):
            pass
    if goes_to_cuda(*given[:8]):
        ranked: RankingParts = on_device.rank_candidates(on_device.Rows(*given))
        return ranked
    _check_rows(given)
    with core_errors():
        return _core.rank_candidates(*given)


def biasdef_select(
    similarities: Float32Array,
    scores: Float32Array,
    offsets: Int64Array,
    indices: Int64Array,
    parameters: dict[str, Any],
    *,
    neutral_centres: Float64Array | None = None,
    query_ids: Int64Array | None = None,
    precision: str = "float64",
) -> SelectionParts:
    """Select from each query's candidates as `BiasDef` does, in one call for the batch.

    Parameters
    ----------
    similarities, scores : float32 [n_candidates]
        In the total order within each query.
    offsets : int64 [n_queries + 1]
        Where each query's candidates start.
    indices : int64 [n_candidates]
        Rows of the corpus.
    parameters : dict
        Every field of a `BiasDef` by name.
    neutral_centres : float64 [n_queries], optional
        Needed for side "auto".
    query_ids : int64 [n_queries], optional
        Keys of the permutation test.
    precision : {"float64", "float32"}
        Of the diagnosed divergence alone, as in `epibias.threshold_sweep`.

    Returns
    -------
    indices, offsets, positions, dropped, dropped_offsets, kept, kept_offsets, diagnostics
        Fields of a `Selection`, the ragged ones flat with where each query's values start.

    Raises
    ------
    InputError
        Arrays that do not fit, a value that is not finite.

    Examples
    --------
    >>> from epibias.defenses import BiasDef
    >>> x = np.linspace(0.9, 0.2, 12, dtype=np.float32)
    >>> y = (x > 0.7).astype(np.float32)
    >>> biasdef_select(x, y, np.array([0, 12]), np.arange(12), vars(BiasDef(k=3)))[0]
    array([4, 5, 6])
    """
    given = (
        similarities, scores, offsets, indices, parameters, neutral_centres, query_ids, precision
    )  # fmt: skip
    if not status.emulation.on:
        try:
            if parameters["gate"] is not None and len(offsets) > 2:
                return _select_in_chunks(given)
            return _core.biasdef_select(*given)
        except (TypeError, ValueError):
            pass
    if goes_to_cuda(similarities, scores, offsets, indices, neutral_centres, query_ids):
        selected: SelectionParts = on_device.biasdef_select(*given)
        return selected
    on_cpu("similarities", similarities, np.float32, 1)
    on_cpu("scores", scores, np.float32, 1)
    on_cpu("offsets", offsets, np.int64, 1)
    on_cpu("indices", indices, np.int64, 1)
    _check_keys(given[5:])
    with core_errors():
        return _core.biasdef_select(*given)


def biasdef_select_vectors(
    query_embeddings: Float32Array,
    candidate_embeddings: Float32Array,
    offsets: Int64Array,
    axes: Float32Array,
    parameters: dict[str, Any],
    *,
    indices: Int64Array | None = None,
    ps_embeddings: Float32Array | None = None,
    axis_of_query: Int64Array | None = None,
    score_offsets: Float64Array | None = None,
    normalize: bool = True,
    neutral_centres: Float64Array | None = None,
    query_ids: Int64Array | None = None,
    precision: str = "float64",
) -> SelectionParts:
    """`rank_candidates`, then `biasdef_select` of what it gives, in one call of the core.

    Parameters
    ----------
    query_embeddings, candidate_embeddings, offsets, axes, indices, ps_embeddings, axis_of_query
        As in `rank_candidates`; so are `score_offsets` and `normalize`.
    parameters, neutral_centres, query_ids, precision
        As in `biasdef_select`.

    Returns
    -------
    As `biasdef_select`

    Raises
    ------
    InputError
        As in both.

    Examples
    --------
    >>> from epibias.defenses import BiasDef
    >>> rows = np.array([[0, 1], [1, 0.1], [1, 0]], np.float32)
    >>> axes = np.array([[0, 1]], np.float32)
    >>> biasdef_select_vectors(rows[2:], rows, np.array([0, 3]), axes, vars(BiasDef(k=3)))[0]
    array([2, 1, 0])
    """
    rows = (query_embeddings, candidate_embeddings, offsets, indices, ps_embeddings, axes)
    of_axes = (axis_of_query, score_offsets, normalize)
    keys = (neutral_centres, query_ids, precision)
    if not status.emulation.on:
        try:
            if parameters["gate"] is None or len(offsets) <= 2:
                return _core.biasdef_select_vectors(*rows, parameters, *of_axes, *keys)
            _, ranked, similarities, scores = _core.rank_candidates(*rows, *of_axes)
            return _select_in_chunks((similarities, scores, offsets, ranked, parameters, *keys))
        except (TypeError, ValueError):
            pass
    if goes_to_cuda(*rows, *of_axes[:2], *keys[:2]):
        device_rows = on_device.Rows(*rows, *of_axes)
        selected: SelectionParts = on_device.biasdef_select_vectors(device_rows, parameters, *keys)
        return selected
    _check_rows((*rows, *of_axes))
    _check_keys(keys)
    with core_errors():
        return _core.biasdef_select_vectors(*rows, parameters, *of_axes, *keys)


# What the core has refused is looked at again, for the words of `on_cpu`: these checks take as long
# as a query's whole work, so a query that is right goes without them.
def _check_rows(given: tuple[Any, ...]) -> None:
    on_cpu("query_embeddings", given[0], np.float32, 2)
    on_cpu("candidate_embeddings", given[1], np.float32, 2)
    on_cpu("offsets", given[2], np.int64, 1)
    on_cpu_or_none("indices", given[3], np.int64, 1)
    on_cpu_or_none("ps_embeddings", given[4], np.float32, 2)
    on_cpu("axes", given[5], np.float32, 2)
    on_cpu_or_none("axis_of_query", given[6], np.int64, 1)
    on_cpu_or_none("score_offsets", given[7], np.float64, 1)
    _validate.flag("normalize", given[8])


def _check_keys(given: tuple[Any, ...]) -> None:
    on_cpu_or_none("neutral_centres", given[0], np.float64, 1)
    on_cpu_or_none("query_ids", given[1], np.int64, 1)
    checked(precision=given[2])


def _select_in_chunks(given: tuple[Any, ...]) -> SelectionParts:
    """Select for some queries a call, so that Ctrl-C is heard, and lay the parts end to end."""
    similarities, scores, offsets, indices, parameters, *keys = given
    neutral_centres, query_ids, precision = keys
    if not isinstance(offsets, np.ndarray) or offsets.dtype != np.int64:
        return _core.biasdef_select(*given)  # which refuses them
    n_queries = len(offsets) - 1
    largest = int(np.diff(offsets).max())
    step = rows_of_a_call(largest, parameters["permutations"], _core.n_threads())
    if n_queries <= step:
        return _core.biasdef_select(*given)
    # First without shuffles: what is wrong with the batch as a whole, no chunk of it would show.
    of_batch = (similarities, scores, offsets, indices, {**parameters, "gate": None})
    _core.biasdef_select(*of_batch, neutral_centres, query_ids, precision)
    if query_ids is None:
        query_ids = np.arange(n_queries, dtype=np.int64)
    parts = []
    for start in range(0, n_queries, step):
        queries = slice(start, start + step)
        bounds = offsets[start : start + step + 1]
        rows = slice(int(bounds[0]), int(bounds[-1]))
        chunk = (similarities[rows], scores[rows], bounds - bounds[0], indices[rows])
        centres = None if neutral_centres is None else neutral_centres[queries]
        own_keys = (centres, query_ids[queries], precision)
        parts.append(_core.biasdef_select(*chunk, parameters, *own_keys))
    return _joined(parts)


def _joined(parts: list[SelectionParts]) -> SelectionParts:
    columns = list(zip(*parts, strict=True))

    def starts(offsets: tuple[Int64Array, ...]) -> Int64Array:
        counts = np.concatenate([np.diff(part) for part in offsets])
        return np.concatenate([[0], np.cumsum(counts)])

    flat = [np.concatenate(columns[i]) for i in (0, 2, 3, 5)]
    diagnostics = {
        name: np.concatenate([part[name] for part in columns[7]]) for name in columns[7][0]
    }
    offsets = [starts(columns[i]) for i in (1, 4, 6)]
    return (flat[0], offsets[0], flat[1], flat[2], offsets[1], flat[3], offsets[2], diagnostics)
