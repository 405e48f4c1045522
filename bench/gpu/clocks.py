"""How long a call takes on the device: events on the stream, rotating inputs, two series."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

Call = Callable[..., Any]
Clock = Callable[[Callable[[], Any]], float]  # runs it once; milliseconds

WARM_UPS = 2
SERIES_MS = 400.0  # a series runs at least 5 times, and as often as fits
FEWEST, MOST = 5, 50


def torch_clock(torch: Any) -> Clock:
    """Time with torch's events on its current stream."""

    def once(call: Callable[[], Any]) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end))

    return once


def cupy_clock(cupy: Any) -> Clock:
    """Time with cupy's events on its current stream."""

    def once(call: Callable[[], Any]) -> float:
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        call()
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(begin, end))

    return once


def wall_clock(call: Callable[[], Any]) -> float:
    """Time with the processor's clock: for rehearsals, in which nothing is asynchronous."""
    before = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - before)


def measured(clock: Clock, call: Call, inputs: Sequence[tuple[Any, ...]]) -> dict[str, float]:
    """Give the medians of two series; a difference smaller than theirs is noise.

    The inputs rotate, so that what the last call left in the cache is not the next one's input.
    """
    turn = itertools.cycle(inputs)

    def once() -> float:
        arguments = next(turn)
        return clock(lambda: call(*arguments))

    for _ in range(WARM_UPS):
        once()
    n = int(min(MOST, max(FEWEST, SERIES_MS / max(once(), 1e-3))))
    medians = sorted(statistics.median(once() for _ in range(n)) for _ in range(2))
    return {"ms": medians[0], "ms_again": medians[1], "n": n}
