"""The threshold sweeps for arrays on a device: what `epibias.kernels` calls for them.

All results are the CPU's, to the bit. precision "float32" is computed in float64 too; the binned
sweep runs on the CPU alone.
"""

from __future__ import annotations

from typing import Any

from epibias.device.arrays import ForeignArray
from epibias.device.call import DeviceCall
from epibias.device.faults import Fault
from epibias.errors import InputError

# threshold, n_kept, divergence, p_value, curve or None, n_undecided
DeviceSweep = tuple[
    ForeignArray, ForeignArray, ForeignArray, ForeignArray, ForeignArray, ForeignArray
]


def threshold_sweep(
    similarities: ForeignArray,
    scores: ForeignArray,
    *,
    query_ids: ForeignArray = None,
    curve: bool = False,
    **options: Any,  # noqa: ANN401
) -> DeviceSweep:
    """Sweep every query on the device of its arrays; see `epibias.kernels.threshold_sweep`.

    Parameters
    ----------
    similarities, scores : float32 [n_queries, n]
        At most 1,048,575 candidates a query.
    query_ids : int64 [n_queries], optional
    curve : bool
    **options
        The others, checked.

    Returns
    -------
    threshold, n_kept, divergence, p_value : [n_queries] of float32, int64, float64, float64
    curve : float64 [n_queries, n - 1], or None
    n_undecided : int64 [n_queries]
        Every decision, for float64 takes them all: one, and one a permutation.

    Raises
    ------
    InputError
        As on the CPU; a value that is not finite by `epibias.device.check`, or at once under
        emulation.
    """
    call = DeviceCall.of(similarities=similarities, scores=scores, query_ids=query_ids)
    given = _pairs(call, similarities, scores)
    ids = call.array_or_none("query_ids", query_ids, "int64", 1)
    if curve and options["precision"] == "float32":  # before a curve of that size is allocated
        expected = "none with precision float32, which does not evaluate every split exactly"
        raise InputError("curve", expected, "one")
    n_queries, n = given[0][1]
    outputs = _outputs(call, n_queries, max(n - 1, 0) if curve else None)
    n_bytes = call.module.threshold_sweep_workspace_bytes(n_queries, n)
    with call.guard():
        call.module.threshold_sweep(
            *given,
            **options,
            query_ids=ids,
            outputs=_views(call, outputs),
            workspace=call.workspace(n_bytes),
            fault=call.fault(),
            stream=call.stream,
        )
    call.finish("threshold_sweep", (_not_finite,))
    return outputs


def printed_sweep(
    similarities: ForeignArray,
    scores: ForeignArray,
    *,
    curve: bool = False,
    **options: Any,  # noqa: ANN401
) -> tuple[ForeignArray, ForeignArray, ForeignArray, ForeignArray]:
    """Sweep by Algorithm 1 as printed; see `epibias.kernels.printed_sweep`.

    Parameters
    ----------
    similarities, scores : float32 [n_queries, n]
    curve : bool
    **options
        The others, checked.

    Returns
    -------
    threshold, n_kept, divergence : [n_queries] of float32, int64, float64
    curve : float64 [n_queries, n_thresholds], or None

    Raises
    ------
    InputError
        As `threshold_sweep`.
    """
    call = DeviceCall.of(similarities=similarities, scores=scores)
    given = _pairs(call, similarities, scores)
    n_queries, n = given[0][1]
    outputs = _outputs(call, n_queries, options["n_thresholds"] if curve else None)
    threshold, n_kept, divergence, _, divergences, _ = outputs
    views = _views(call, (threshold, n_kept, divergence, None, divergences, None))
    n_bytes = call.module.threshold_sweep_workspace_bytes(n_queries, n)
    with call.guard():
        call.module.printed_sweep(
            *given,
            **options,
            outputs=views,
            workspace=call.workspace(n_bytes),
            fault=call.fault(),
            stream=call.stream,
        )
    call.finish("printed_sweep", (_not_finite,))
    return threshold, n_kept, divergence, divergences


def _pairs(call: DeviceCall, similarities: ForeignArray, scores: ForeignArray) -> tuple[Any, Any]:
    return (
        call.array("similarities", similarities, "float32", 2),
        call.array("scores", scores, "float32", 2),
    )


def _outputs(call: DeviceCall, n_queries: int, curve_columns: int | None) -> DeviceSweep:
    return (
        call.empty((n_queries,), "float32"),
        call.empty((n_queries,), "int64"),
        call.empty((n_queries,), "float64"),
        call.empty((n_queries,), "float64"),
        None if curve_columns is None else call.empty((n_queries, curve_columns), "float64"),
        call.empty((n_queries,), "int64"),
    )


def _views(call: DeviceCall, outputs: tuple[ForeignArray, ...]) -> tuple[Any, ...]:
    return tuple(None if output is None else call.view(output) for output in outputs)


def _not_finite(fault: Fault) -> InputError:
    """Explain argument kSweepFault: rows come in pairs, a query's similarities and its scores."""
    query, is_score = divmod(fault.row, 2)
    place = f"row {query}, column {fault.column}"
    argument = "scores" if is_score else "similarities"
    return InputError(argument, "finite values", f"{fault.value:.9g}", place)
