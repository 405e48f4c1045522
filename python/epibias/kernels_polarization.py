"""What fitting a polarization axis asks of the core besides the axis: its anchors' own scores."""

from __future__ import annotations

import numpy as np

from epibias import _core, _validate
from epibias._dispatch import core_errors, goes_to_cuda, on_cpu
from epibias._validate import Float32Array, Float64Array
from epibias.device import stages as on_device


def anchor_scores(
    anchors: Float32Array, axes: Float32Array, *, normalize: bool = True
) -> Float64Array:
    """Projections of every topic's anchors on that topic's axis, not rounded to float32.

    Parameters
    ----------
    anchors : float32 [n_topics, n_anchors, dim]
        Memory-mapped arrays are welcome.
    axes : float32 [n_topics, dim]
    normalize : bool
        Scale the anchors to unit length first.

    Returns
    -------
    float64 [n_topics, n_anchors]

    Raises
    ------
    InputError
        Wrong dtype, shape or layout, a zero or non-finite anchor.

    Examples
    --------
    >>> anchors = np.array([[[3, 4], [0, 2]]], np.float32)
    >>> anchor_scores(anchors, np.array([[0, 1]], np.float32))
    array([[0.8, 1. ]])
    """
    flag = _validate.flag("normalize", normalize)
    if goes_to_cuda(anchors, axes):
        return on_device.anchor_scores(anchors, axes, normalize=flag)
    anchors = on_cpu("anchors", anchors, np.float32, 3)
    axes = on_cpu("axes", axes, np.float32, 2)
    with core_errors():
        return _core.anchor_scores(anchors, axes, flag)
