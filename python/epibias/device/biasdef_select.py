"""BiasDef's selection for arrays on a device: what `epibias.kernels_select` calls for them.

All results are the CPU's, to the bit. How many passages a query keeps is known on the device alone,
and to ask would be to wait; so arrays of torch, cupy and others come back as a `DeviceSelection`,
whose `order` has room for every candidate. Emulated, numpy arrays come back as from the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from epibias import _validate
from epibias.device.arrays import ArrayTuple, ForeignArray
from epibias.device.call import DeviceCall
from epibias.device.faults import Explanation, Fault, unit_rows
from epibias.errors import InputError

SIDES = ("none", "right", "left")  # by the number in `DeviceSelection.side`


@dataclass(frozen=True, eq=False)
class DeviceSelection:
    """What BiasDef selects from each query's candidates, as arrays on the device.

    Query i's candidates are `offsets[i]` to `offsets[i + 1]` of the arrays over candidates.

    Attributes
    ----------
    indices : int64 [n_candidates]
        Rows of the corpus, by position.
    offsets : int64 [n_queries + 1]
    order : int64 [n_candidates]
        Positions within each query: the kept, then the dropped, both ascending. The first
        `n_selected` are selected; what follows max(`n_kept`, `n_selected`) is dropped.
    n_selected, n_kept, n_moved : int64 [n_queries]
    side : uint8 [n_queries]
        Number in `SIDES` of the side that was dropped.
    sweep_threshold : float32 [n_queries]
        Infinite where there is no split.
    divergence, p_value : float64 [n_queries]
        In nats; 1 without a gate.
    """

    indices: ForeignArray
    offsets: ForeignArray
    order: ForeignArray
    n_selected: ForeignArray
    n_kept: ForeignArray
    n_moved: ForeignArray
    side: ForeignArray
    sweep_threshold: ForeignArray
    divergence: ForeignArray
    p_value: ForeignArray


class Rows(NamedTuple):
    """The arguments of `epibias.kernels_select.rank_candidates`, in the order of the core."""

    query_embeddings: ForeignArray
    candidate_embeddings: ForeignArray
    offsets: ForeignArray
    indices: ForeignArray
    ps_embeddings: ForeignArray
    axes: ForeignArray
    axis_of_query: ForeignArray
    score_offsets: ForeignArray
    normalize: bool

    def views(self, call: DeviceCall) -> tuple[Any, ...]:
        """Check the arrays and describe them for the binding."""
        return (
            call.array("query_embeddings", self.query_embeddings, "float32", 2),
            call.array("candidate_embeddings", self.candidate_embeddings, "float32", 2),
            call.array("offsets", self.offsets, "int64", 1),
            call.array_or_none("indices", self.indices, "int64", 1),
            call.array_or_none("ps_embeddings", self.ps_embeddings, "float32", 2),
            call.array("axes", self.axes, "float32", 2),
            call.array_or_none("axis_of_query", self.axis_of_query, "int64", 1),
            call.array_or_none("score_offsets", self.score_offsets, "float64", 1),
            _validate.flag("normalize", self.normalize),
        )


def rank_candidates(rows: Rows) -> Any:  # noqa: ANN401
    """Rank the candidates of every query; see `epibias.kernels_select.rank_candidates`.

    Parameters
    ----------
    rows : Rows

    Returns
    -------
    rows, indices, similarities, scores : [n_candidates] of int64, int64, float32, float32

    Raises
    ------
    InputError
        As on the CPU; a row at fault by `epibias.device.check`, or at once under emulation.
    """
    call = _call_of(rows)
    views = rows.views(call)
    sizes = views[0][1][0], views[1][1][0]
    ranked = _ranking(call, sizes[1])
    n_bytes = call.module.rank_candidates_workspace_bytes(*sizes)
    with call.guard():
        call.module.rank_candidates(
            views, _described(call, ranked), call.workspace(n_bytes), call.fault(), call.stream
        )
    call.finish("rank_candidates", _explanations(sizes[1], _row_fault(rows, views)))
    return ranked


def biasdef_select(
    similarities: ForeignArray,
    scores: ForeignArray,
    offsets: ForeignArray,
    indices: ForeignArray,
    parameters: dict[str, Any],
    neutral_centres: ForeignArray,
    query_ids: ForeignArray,
    precision: str,
) -> Any:  # noqa: ANN401
    """Select from each query's candidates; see `epibias.kernels_select.biasdef_select`.

    Parameters
    ----------
    similarities, scores, offsets, indices, parameters, neutral_centres, query_ids, precision
        As there.

    Returns
    -------
    DeviceSelection, or for numpy arrays under emulation what the CPU gives

    Raises
    ------
    InputError
        As on the CPU; a value at fault by `epibias.device.check`, or at once under emulation.
    """
    call = DeviceCall.of(
        similarities=similarities,
        scores=scores,
        offsets=offsets,
        indices=indices,
        neutral_centres=neutral_centres,
        query_ids=query_ids,
    )
    xs = call.array("similarities", similarities, "float32", 1)
    ys = call.array("scores", scores, "float32", 1)
    starts = call.array("offsets", offsets, "int64", 1)
    n_indices = call.array("indices", indices, "int64", 1)[1][0]
    keys = _keys(call, neutral_centres, query_ids)
    n_queries, n_candidates = max(starts[1][0] - 1, 0), xs[1][0]
    if n_indices != n_candidates:
        raise InputError("indices", f"{n_candidates} rows, as many as similarities", str(n_indices))
    outputs = _selection(call, n_queries, n_candidates)
    n_bytes = call.module.biasdef_select_workspace_bytes(n_queries, n_candidates, False)
    with call.guard():
        call.module.biasdef_select(
            xs,
            ys,
            starts,
            parameters,
            precision,
            keys,
            _described(call, outputs),
            call.workspace(n_bytes),
            call.fault(),
            call.stream,
        )
    call.finish("biasdef_select", _explanations(n_candidates))
    selection = DeviceSelection(indices, offsets, *outputs)
    return _parts(selection, parameters) if isinstance(outputs[0], np.ndarray) else selection


def biasdef_select_vectors(
    rows: Rows,
    parameters: dict[str, Any],
    neutral_centres: ForeignArray,
    query_ids: ForeignArray,
    precision: str,
) -> Any:  # noqa: ANN401
    """Rank, then select; see `epibias.kernels_select.biasdef_select_vectors`.

    Parameters
    ----------
    rows : Rows
    parameters, neutral_centres, query_ids, precision
        As there.

    Returns
    -------
    DeviceSelection, or for numpy arrays under emulation what the CPU gives

    Raises
    ------
    InputError
        As `rank_candidates` and `biasdef_select`.
    """
    call = _call_of(rows, neutral_centres=neutral_centres, query_ids=query_ids)
    views = rows.views(call)
    keys = _keys(call, neutral_centres, query_ids)
    n_queries, n_candidates = views[0][1][0], views[1][1][0]
    ranked = _ranking(call, n_candidates)
    outputs = _selection(call, n_queries, n_candidates)
    n_bytes = call.module.biasdef_select_workspace_bytes(n_queries, n_candidates, True)
    with call.guard():
        call.module.biasdef_select_vectors(
            views,
            parameters,
            precision,
            keys,
            _described(call, ranked),
            _described(call, outputs),
            call.workspace(n_bytes),
            call.fault(),
            call.stream,
        )
    call.finish("biasdef_select_vectors", _explanations(n_candidates, _row_fault(rows, views)))
    selection = DeviceSelection(ranked[1], rows.offsets, *outputs)
    return _parts(selection, parameters) if isinstance(outputs[0], np.ndarray) else selection


def _call_of(rows: Rows, **others: ForeignArray) -> DeviceCall:
    given = rows._asdict()
    del given["normalize"]
    return DeviceCall.of(**given, **others)


def _keys(
    call: DeviceCall, neutral_centres: ForeignArray, query_ids: ForeignArray
) -> tuple[ArrayTuple | None, ArrayTuple | None]:
    return (
        call.array_or_none("neutral_centres", neutral_centres, "float64", 1),
        call.array_or_none("query_ids", query_ids, "int64", 1),
    )


def _ranking(call: DeviceCall, n: int) -> tuple[ForeignArray, ...]:
    return tuple(call.empty((n,), dtype) for dtype in ("int64", "int64", "float32", "float32"))


def _selection(call: DeviceCall, n_queries: int, n_candidates: int) -> tuple[ForeignArray, ...]:
    dtypes = ("int64", "int64", "int64", "uint8", "float32", "float64", "float64")
    return (
        call.empty((n_candidates,), "int64"),
        *(call.empty((n_queries,), dtype) for dtype in dtypes),
    )


def _described(call: DeviceCall, outputs: tuple[ForeignArray, ...]) -> tuple[ArrayTuple, ...]:
    return tuple(call.view(output) for output in outputs)


# ---- faults ---------------------------------------------------------------------------------


def _explanations(
    n_candidates: int, row_fault: Explanation | None = None
) -> tuple[Explanation, ...]:
    """By argument code of the kernels (rank_candidates.hpp, biasdef_select.hpp)."""

    def offsets(fault: Fault) -> InputError:
        if fault.column == 1:
            expected = "at most 1,048,575 candidates a query on a device, 262,143 from vectors"
            return InputError("offsets", expected, "more", f"query {fault.row}")
        expected = f"offsets that rise from 0 to {n_candidates} (the number of candidates)"
        return InputError("offsets", expected, "others")

    def score_offsets(fault: Fault) -> InputError:
        expected = "finite values within float32"
        return InputError("score_offsets", expected, f"{fault.value:.9g}", f"row {fault.row}")

    def value_of(argument: str) -> Explanation:
        def explain(fault: Fault) -> InputError:
            place = f"query {fault.row}, column {fault.column}"
            return InputError(argument, "finite values", f"{fault.value:.9g}", place)

        return explain

    def centres(fault: Fault) -> InputError:
        got = f"{fault.value:.9g}"
        return InputError("neutral_centres", "finite values", got, f"row {fault.row}")

    values = value_of("similarities"), value_of("scores")
    # Without rows no kernel leaves the third.
    return offsets, score_offsets, row_fault or offsets, *values, centres


def _row_fault(rows: Rows, views: tuple[Any, ...]) -> Explanation:
    # Of the arrays only what the words need: what explains a fault waits for it, and must not hold
    # the caller's memory meanwhile.
    n_axes, own_rows, normalize = views[5][1][0], rows.ps_embeddings is not None, rows.normalize
    return lambda fault: _explain_row(fault, n_axes, own_rows, normalize)


def _explain_row(fault: Fault, n_axes: int, own_rows: bool, normalize: bool) -> InputError:
    """Explain argument kRankFault: row 8 query + step, in the last step column 4 row + kind."""
    query, step = divmod(fault.row, 8)
    steps: tuple[Callable[[], InputError], ...] = (
        lambda: InputError(
            "indices", "each candidate once", f"{int(fault.value)} twice", f"query {query}"
        ),
        lambda: unit_rows("query_embeddings")(fault._replace(row=query)),
        lambda: InputError(
            "axis_of_query",
            f"axes from 0 to {n_axes - 1}",
            str(int(fault.value)),
            f"row {query}",
        ),
        lambda: InputError("axes", "finite rows", f"NaN or Inf in row {int(fault.value)}"),
        lambda: _explain_candidate(fault, query, own_rows, normalize),
    )
    return steps[step]()


def _explain_candidate(fault: Fault, query: int, own_rows: bool, normalize: bool) -> InputError:
    row, kind = divmod(fault.column, 4)
    place = f"query {query}, row {row}"
    if kind == 2:
        argument = "ps_embeddings" if own_rows else "candidate_embeddings"
        return InputError(argument, "rows whose score float32 holds", f"{fault.value:.9g}", place)
    if kind == 1 and not normalize:
        column, which = divmod(int(fault.value), 4)
        got = ("nan", "inf", "-inf")[which]
        return InputError("ps_embeddings", "finite values", got, f"{place}, column {column}")
    argument = "ps_embeddings" if kind == 1 else "candidate_embeddings"
    error = unit_rows(argument)(fault._replace(row=row))
    return InputError(error.argument, error.expected, error.got, f"query {query}")


# ---- as the CPU gives it --------------------------------------------------------------------


def _parts(selection: DeviceSelection, parameters: dict[str, Any]) -> tuple[Any, ...]:
    """Lay emulated results out as `_core.biasdef_select` does: ragged arrays and diagnostics."""
    sizes = np.diff(selection.offsets)
    query = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(query)) - selection.offsets[:-1][query]
    n_left = np.maximum(selection.n_kept, selection.n_selected)
    is_selected, is_left = place < selection.n_selected[query], place < n_left[query]
    ids = selection.indices[selection.offsets[:-1][query] + selection.order]
    kept, of_kept = selection.order[is_left], query[is_left]

    def starts(counts: np.ndarray) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    is_filtered = selection.side != 0
    is_gated = parameters["gate"] is not None
    diagnostics = {
        "n_selected": selection.n_selected,
        "short": selection.n_selected < parameters["k"],
        "threshold": np.where(is_filtered, selection.sweep_threshold, np.float32(np.inf)),
        "sweep_threshold": selection.sweep_threshold,
        "divergence": selection.divergence,
        "p_value": selection.p_value if is_gated else np.full(len(sizes), np.nan),
        "n_kept": selection.n_kept,
        "side": np.array(SIDES, "<U5")[selection.side],
        "n_moved": selection.n_moved,
        "n_refilled": n_left - selection.n_kept,
    }
    return (
        ids[is_selected],
        starts(selection.n_selected),
        selection.order[is_selected],
        ids[~is_left],
        starts(sizes - n_left),
        kept[np.lexsort((kept, of_kept))],
        starts(n_left),
        diagnostics,
    )
