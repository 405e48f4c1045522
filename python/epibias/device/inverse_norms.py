"""Inverse norms of rows that lie on a device; see `epibias.kernels.inverse_norms`."""

from __future__ import annotations

from epibias.device.arrays import ForeignArray
from epibias.device.call import DeviceCall
from epibias.device.faults import unit_rows


def inverse_norms(rows: ForeignArray, argument: str) -> ForeignArray:
    """Inverse norm of every row, float64 [n_rows]; NaN for a row that `check` refuses."""
    call = DeviceCall.of(**{argument: rows})
    view = call.array(argument, rows, "float32", 2)
    norms = call.empty(view[1][:1], "float64")
    with call.guard():
        call.module.inverse_norms(view, call.view(norms), call.fault(), call.stream)
    call.finish("inverse_norms", (unit_rows(argument),))
    return norms
