"""Checks of what `PolarizationAxis.fit` takes: anchors and labels of one topic or of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from epibias import _validate, kernels
from epibias._dispatch import renamed
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.errors import InputError

# Numbers of topics, and their anchors [n_topics, n_anchors, dim].
Group = tuple[Int64Array, Float32Array]

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


def groups_of(
    topics: Sequence[Float32Array], anchors: Float32Array | Sequence[Float32Array]
) -> list[Group]:
    """Topics with as many anchors together; an array of topics is taken as it is, never copied.

    Refuses topics of fewer than two anchors, or of no column, without saying which.
    """
    if any(len(topic) < 2 or topic.shape[1] < 1 for topic in topics):
        raise InputError("anchors", "at least 2 anchors of 1 column", "fewer")
    if isinstance(anchors, np.ndarray):
        together = anchors if anchors.ndim == 3 else anchors[None]
        return [(np.arange(len(topics)), together)]
    by_size: dict[int, list[int]] = {}
    for number, topic in enumerate(topics):
        by_size.setdefault(len(topic), []).append(number)
    groups = []
    for numbers in by_size.values():
        alone = len(numbers) == 1
        together = topics[numbers[0]][None] if alone else np.stack([topics[i] for i in numbers])
        groups.append((np.array(numbers), together))
    return groups


def refuse_first(topics: Sequence[Float32Array], is_batch: bool, normalize: bool) -> None:
    """Refuse too few anchors, rows that cannot be normalised, and anchors that do not differ.

    The core and the fits find out that something is wrong; this goes through the topics one by one
    and says what is the first of it. Returns where nothing is.
    """
    for number, anchors in enumerate(topics):
        place = f"topic {number}" if is_batch else None
        if len(anchors) < 2 or anchors.shape[1] < 1:
            found = f"shape {anchors.shape}"
            raise InputError("anchors", "at least 2 anchors of 1 column", found, place)
        if normalize:
            with renamed(where=place):
                kernels.inverse_norms(anchors, "anchors")
        else:
            _validate.finite("anchors", anchors, place)
        try:
            kernels.polarization_axis(anchors[None], normalize=normalize)
        except InputError:
            raise InputError("anchors", "anchors that differ", "equal ones", place) from None


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
