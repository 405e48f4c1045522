"""Wall time of a call."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def seconds_of(call: Callable[[], Result]) -> tuple[float, Result]:
    """Time a call.

    Returns
    -------
    float
        Seconds.
    object
        What the call returned.

    Examples
    --------
    >>> seconds, found = seconds_of(lambda: 6 * 7)
    >>> seconds >= 0, found
    (True, 42)
    """
    begun = time.perf_counter()
    result = call()
    return time.perf_counter() - begun, result
