"""Which arrays the CPU back end takes, and the core's errors as `InputError`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epibias import _validate
from epibias.errors import InputError

CUDA_REASON = "epibias._cuda is not built in this version"
_CORE_MESSAGE = re.compile(
    r"(?P<argument>[^:]+): expected (?P<expected>.*), got (?P<got>.*?)"
    r"(?: \((?P<where>[^()]*)\))?",
    re.DOTALL,
)
_FUNCTION = re.compile(r"(?P<name>\w+)\(\)")


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
    if not isinstance(value, np.ndarray):
        owner = type(value).__module__.split(".")[0]
        device = str(getattr(value, "device", ""))
        if owner == "cupy" or (owner == "torch" and device != "cpu"):
            fix = "call .get()" if owner == "cupy" else "call .cpu().numpy()"
            found = f"a {owner} array on {device or 'a CUDA device'}, and {CUDA_REASON}"
            raise InputError(argument, f"a numpy array; {fix}", found)
        if owner == "torch":
            raise InputError(argument, "a numpy array; call .numpy()", "a torch tensor on the CPU")
    return _validate.array(argument, value, dtype=dtype, ndim=ndim)


def on_cpu_or_none(
    argument: str, value: object, dtype: type[np.generic], ndim: int
) -> NDArray[Any] | None:
    """Check an array that may be left out."""
    return None if value is None else on_cpu(argument, value, dtype, ndim)


@contextmanager
def core_errors() -> Iterator[None]:
    """Give the core's `argument: expected …, got … (where)` back as its parts."""
    try:
        yield
    except InputError:
        raise
    except TypeError as error:
        # The binding's own message prints every argument, and embeddings are private.
        name = _FUNCTION.match(str(error))
        argument = name["name"] if name else "arguments"
        expected = "arguments of the documented types, integers within 64 bits"
        raise InputError(argument, expected, "others") from None
    except ValueError as error:
        parts = _CORE_MESSAGE.fullmatch(str(error))
        if parts is None:
            raise
        raise InputError(
            parts["argument"], parts["expected"], parts["got"], parts["where"]
        ) from None
