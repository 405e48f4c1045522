"""Checks of what `PolarizationAxis.fit` takes: anchors and labels of one topic or of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from epibias import _validate, kernels
from epibias._dispatch import renamed
from epibias._validate import Float32Array, Float64Array
from epibias.errors import InputError

_SHAPES = "an array [n_anchors, dim] or [n_topics, n_anchors, dim], or a list of [n_i, dim]"


def topics_of(anchors: Float32Array | Sequence[Float32Array]) -> tuple[list[Float32Array], bool]:
    """One array of anchors a topic, and whether a batch of topics was meant."""
    if isinstance(anchors, list | tuple):
        topics = list(anchors)
        for number, topic in enumerate(topics):
            with renamed(where=f"topic {number}"):
                _validate.array("anchors", topic, dtype=np.float32, ndim=2)
    else:
        array = _validate.array("anchors", anchors, dtype=np.float32, ndim=(2, 3))
        topics = list(array) if array.ndim == 3 else [array]
        if array.ndim == 2:
            return topics, False
    if not topics:
        raise InputError("anchors", _SHAPES, "no topic")
    dim = topics[0].shape[1]
    for number, topic in enumerate(topics):
        if topic.shape[1] != dim:
            expected = f"{dim} columns, as in topic 0"
            raise InputError("anchors", expected, f"shape {topic.shape}", f"topic {number}")
    return topics, True


def check_rows(topics: Sequence[Float32Array], is_batch: bool, normalize: bool) -> None:
    """Refuse too few anchors, rows that cannot be normalised, and anchors that do not differ."""
    for number, anchors in enumerate(topics):
        place = f"topic {number}" if is_batch else None
        if len(anchors) < 2 or anchors.shape[1] < 1:
            found = f"shape {anchors.shape}"
            raise InputError("anchors", "at least 2 anchors of 1 column", found, place)
        wide = anchors.astype(np.float64)
        if normalize:
            with renamed(where=place):
                wide *= kernels.inverse_norms(anchors, "anchors")[:, None]
        else:
            _validate.finite("anchors", anchors, place)
        centred = wide - wide.mean(axis=0)
        # The core's rule for the PCA axis, here for every method and with the topic's own number.
        if (centred**2).sum() <= 1e-14 * (wide**2).sum():
            raise InputError("anchors", "anchors that differ", "equal ones", place)


def stances_of_topics(
    labels: Any,  # noqa: ANN401  numbers, nested as the anchors are
    topics: Sequence[Float32Array],
    is_batch: bool,
) -> list[Float64Array] | None:
    """Stances of each topic's anchors in float64, both signs present; None without labels."""
    if labels is None:
        return None
    rows = list(labels) if is_batch else [labels]
    if len(rows) != len(topics):
        raise InputError("labels", f"{len(topics)} rows, one a topic", str(len(rows)))
    stances = []
    for number, (row, anchors) in enumerate(zip(rows, topics, strict=True)):
        place = f"topic {number}" if is_batch else None
        stances.append(_stances(row, len(anchors), place))
    return stances


def _stances(labels: Any, n_anchors: int, place: str | None) -> Float64Array:  # noqa: ANN401
    expected = f"{n_anchors} numbers, one an anchor"
    _validate.unmasked("labels", labels, place)
    try:
        array = np.asarray(labels)
    except ValueError:
        raise InputError("labels", expected, "lists of unequal length", place) from None
    if array.dtype.kind not in "iuf":
        raise InputError("labels", expected, f"dtype {array.dtype}", place)
    if array.shape != (n_anchors,):
        raise InputError("labels", expected, f"shape {array.shape}", place)
    stances: Float64Array = array.astype(np.float64)
    _validate.finite("labels", stances, place)
    if not ((stances > 0).any() and (stances < 0).any()):
        found = f"{int((stances > 0).sum())} above 0 and {int((stances < 0).sum())} below"
        raise InputError("labels", "stances of both signs", found, place)
    return stances
