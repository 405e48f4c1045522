"""Which back end an array goes to: numpy arrays to the CPU, arrays on a device to CUDA.

`goes_to_cuda` decides; `on_cpu` checks what the CPU takes and refuses the rest in words. Nothing
here asks for CUDA, or imports a framework, while every array is numpy's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epibias import _validate
from epibias._core_errors import core_errors
from epibias._frameworks import is_on_device, kind_of, to_cpu_call
from epibias.device import status
from epibias.errors import InputError

__all__ = ["core_errors", "goes_to_cuda", "on_cpu", "on_cpu_or_none", "renamed"]


def goes_to_cuda(*values: object) -> bool:
    """Tell whether a call goes to CUDA: an array is on a device, or numpy's are emulated there."""
    if status.emulation.on:
        return True
    for value in values:  # `any` of a generator takes three times as long, and most are numpy's
        if type(value) is not np.ndarray and value is not None and is_on_device(value):
            return True
    return False


@contextmanager
def renamed(where: str | None = None, **names: str) -> Iterator[None]:
    """Raise what the kernels refuse under the names that the caller's caller knows.

    `renamed(passages="passage_embeddings")` turns "passages: expected …" into
    "passage_embeddings: expected …"; `where` is added when the error has no place of its own.
    """
    try:
        yield
    except InputError as error:
        if type(error) is not InputError:
            raise
        place = ", ".join(part for part in (where, error.where) if part) or None
        argument = names.get(error.argument, error.argument)
        raise InputError(argument, error.expected, error.got, place) from None


def on_cpu(argument: str, value: object, dtype: type[np.generic], ndim: int) -> NDArray[Any]:
    """Check an array that the CPU back end can take as it is, or say why it cannot."""
    if not isinstance(value, np.ndarray) and is_on_device(value):
        # A stage that has no kernel, or not for these options: dispatch has looked before.
        expected = f"a numpy array, for this runs on the CPU alone; {to_cpu_call(value)}"
        raise InputError(argument, expected, kind_of(value))
    return _validate.array(argument, value, dtype=dtype, ndim=ndim)


def on_cpu_or_none(
    argument: str, value: object, dtype: type[np.generic], ndim: int
) -> NDArray[Any] | None:
    """Check an array that may be left out."""
    return None if value is None else on_cpu(argument, value, dtype, ndim)
