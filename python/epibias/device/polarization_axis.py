"""`polarization_axis` on a device: the wrapper of its kernels, called by `epibias.kernels`."""

from __future__ import annotations

from epibias.device.arrays import ForeignArray
from epibias.device.call import DeviceCall
from epibias.device.faults import Explanation, Fault
from epibias.errors import InputError

# By number of `AxisFault` (polarization_axis.hpp): what the CPU expects and gets; {} is the place.
_STANCE_VALUES = ("nan", "inf", "-inf")
_STANCE_SIGNS = ("none that is negative", "none that is positive", "zeros only")
_NOT_FINITE, _ZERO_ROW, _EQUAL = 6, 7, 8


def polarization_axis(
    anchors: ForeignArray, stances: ForeignArray | None, *, normalize: bool
) -> tuple[ForeignArray, ForeignArray, ForeignArray]:
    """Fit the leading axis of each topic on the device where the anchors lie.

    Parameters
    ----------
    anchors : float32 [n_topics, n_anchors, dim]
    stances : float64 [n_topics, n_anchors], optional
    normalize : bool
        Scale the anchors to unit length first.

    Returns
    -------
    axes : float32 [n_topics, dim]
    explained_variance_ratio, relative_gap : float64 [n_topics]
        All three are NaN for a topic at fault.

    Raises
    ------
    InputError
        Wrong dtype, shape or layout, one anchor; under emulation also what `device.check` raises
        for arrays on a device: a zero or non-finite row, anchors that do not differ, stances that
        are not finite or of one sign.

    Examples
    --------
    Called through `epibias.kernels.polarization_axis`.
    """
    call = DeviceCall.of(anchors=anchors, stances=stances)
    rows = call.array("anchors", anchors, "float32", 3)
    signs = call.array_or_none("stances", stances, "float64", 2)
    n_topics, n_anchors, dim = rows[1]
    axes = call.empty((n_topics, dim), "float32")
    explained, gap = (call.empty((n_topics,), "float64") for _ in range(2))
    n_bytes = call.module.polarization_axis_workspace_bytes(n_topics, n_anchors, dim)
    with call.guard():
        call.module.polarization_axis(
            rows,
            signs,
            normalize,
            call.view(axes),
            call.view(explained),
            call.view(gap),
            call.workspace(n_bytes),
            call.fault(),
            call.stream,
        )
    call.finish("polarization_axis", (_explanation(n_anchors, normalize),))
    return axes, explained, gap


def _explanation(n_anchors: int, normalize: bool) -> Explanation:
    """Explain a topic at fault in the CPU's words."""

    def explain(fault: Fault) -> InputError:
        topic, place = divmod(fault.row, 2 * n_anchors + 2)
        where, what = f"topic {topic}", fault.column
        if what < len(_STANCE_VALUES):
            got = f"{_STANCE_VALUES[what]} for anchor {place}"
            return InputError("stances", "finite values", got, where)
        if what < _NOT_FINITE:
            got = _STANCE_SIGNS[what - len(_STANCE_VALUES)]
            return InputError("stances", "positive and negative ones", got, where)
        if what in (_NOT_FINITE, _ZERO_ROW):
            expected = "finite rows of non-zero norm" if normalize else "finite rows"
            got = "a zero row" if what == _ZERO_ROW else "NaN or Inf in row"
            return InputError("anchors", expected, f"{got} {place - n_anchors - 1}", where)
        if what == _EQUAL:
            return InputError("anchors", "anchors that differ", "equal ones", where)
        expected = "anchors whose leading direction can be found"
        return InputError("anchors", expected, "residuals that stay large", where)

    return explain
