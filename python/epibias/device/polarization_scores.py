"""Projections on polarization axes on a device: wrappers of the kernels, called by the dispatch."""

from __future__ import annotations

from epibias.device.arrays import ForeignArray
from epibias.device.call import DeviceCall
from epibias.device.faults import Explanation, Fault
from epibias.errors import InputError

# Numbers of `ScoreFault` (polarization_scores.hpp).
_ROW_TEXTS = ("a zero row", "NaN in row", "Inf in row")
_INDEX_OUT_OF_RANGE = 3


def polarization_scores(
    rows: ForeignArray,
    axes: ForeignArray,
    indices: ForeignArray | None,
    axis_of_query: ForeignArray | None,
    *,
    normalize: bool,
) -> ForeignArray:
    """Project rows on axes on the device where they lie; bits are the CPU's.

    Parameters
    ----------
    rows, axes : float32 [n_rows, dim], float32 [n_topics, dim]
    indices : int64 [n_queries, m], optional
    axis_of_query : int64 [n_queries], optional
    normalize : bool
        Scale the rows to unit length first.

    Returns
    -------
    float32 [n_topics, n_rows], or [n_queries, m] with `indices`
        NaN where a row, an index or an axis is at fault.

    Raises
    ------
    InputError
        Wrong dtype, shape or layout; under emulation also what `device.check` raises for arrays on
        a device: a zero or non-finite row, an index out of range.

    Examples
    --------
    Called through `epibias.kernels.polarization_scores`.
    """
    call = DeviceCall.of(rows=rows, axes=axes, indices=indices, axis_of_query=axis_of_query)
    row_view = call.array("rows", rows, "float32", 2)
    axis_view = call.array("axes", axes, "float32", 2)
    index_view = call.array_or_none("indices", indices, "int64", 2)
    topic_view = call.array_or_none("axis_of_query", axis_of_query, "int64", 1)
    if index_view is None:
        if topic_view is not None:
            raise InputError("axis_of_query", "None where indices is None", "an array")
        shape = (axis_view[1][0], row_view[1][0])
    else:
        shape = (index_view[1][0], index_view[1][1])
    scores = call.empty(shape, "float32")
    with call.guard():
        call.module.polarization_scores(
            row_view,
            axis_view,
            index_view,
            topic_view,
            normalize,
            call.view(scores),
            call.fault(),
            call.stream,
        )
    sizes = (row_view[1][0], axis_view[1][0])
    n_columns = None if index_view is None else shape[1]
    explain = (_axes, _explanation("rows", sizes, n_columns, normalize))
    call.finish("polarization_scores", explain)
    return scores


def anchor_scores(anchors: ForeignArray, axes: ForeignArray, *, normalize: bool) -> ForeignArray:
    """Project every topic's anchors on that topic's axis, not rounded to float32.

    Parameters
    ----------
    anchors : float32 [n_topics, n_anchors, dim]
    axes : float32 [n_topics, dim]
    normalize : bool
        Scale the anchors to unit length first.

    Returns
    -------
    float64 [n_topics, n_anchors]
        NaN where an anchor or an axis is at fault.

    Raises
    ------
    InputError
        Wrong dtype, shape or layout; under emulation also a zero or non-finite anchor.

    Examples
    --------
    Called through `epibias.kernels_polarization.anchor_scores`.
    """
    call = DeviceCall.of(anchors=anchors, axes=axes)
    anchor_view = call.array("anchors", anchors, "float32", 3)
    axis_view = call.array("axes", axes, "float32", 2)
    n_topics, n_anchors, _ = anchor_view[1]
    scores = call.empty((n_topics, n_anchors), "float64")
    with call.guard():
        call.module.anchor_scores(
            anchor_view, axis_view, normalize, call.view(scores), call.fault(), call.stream
        )
    sizes = (n_topics * n_anchors, axis_view[1][0])
    call.finish("anchor_scores", (_axes, _explanation("anchors", sizes, None, normalize)))
    return scores


def _axes(fault: Fault) -> InputError:
    return InputError("axes", "finite rows", f"NaN or Inf in row {fault.row}")


def _explanation(
    argument: str, sizes: tuple[int, int], n_columns: int | None, normalize: bool
) -> Explanation:
    """Explain a score that there is not, in the CPU's words; `n_columns` of gathered ones."""
    n_rows, n_axes = sizes

    def explain_row(fault: Fault, row: int) -> InputError:
        if normalize:
            got = f"{_ROW_TEXTS[fault.column]} {row}"
            return InputError(argument, "finite rows of non-zero norm", got)
        return InputError(argument, "finite rows", f"NaN or Inf in row {row}")

    def explain(fault: Fault) -> InputError:
        if n_columns is None:
            return explain_row(fault, fault.row)
        query, place = divmod(fault.row, n_columns + 1)
        number = int(fault.value)
        if fault.column < _INDEX_OUT_OF_RANGE:
            return explain_row(fault, number)
        if fault.column == _INDEX_OUT_OF_RANGE:
            expected = f"0 to {n_rows - 1} (the number of rows less 1)"
            return InputError("indices", expected, f"{number}", f"row {query}, column {place - 1}")
        expected = f"0 to {n_axes - 1} (the number of axes less 1)"
        return InputError("axis_of_query", expected, f"{number}", f"query {query}")

    return explain
