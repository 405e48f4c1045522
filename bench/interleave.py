"""Contenders in processes of their own, timed in turn: A B A B ….

Thread counts, and which kernels a BLAS takes, are read when a library loads; and two OpenMP
runtimes in one process spin against each other. So every group of contenders gets a process with
the environment it wants, and only one works at a time. Between two calls all are idle for a moment,
so that the spinning threads of the last do not fall into the time of the next.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import statistics
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

IDLE_SECONDS = 0.04  # OpenBLAS spins for 26 ms
BLAS_VARIABLES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
THREAD_VARIABLES = (
    "EPIBIAS_THREADS",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
)

# What a process serves: a function of a request, made there by `make`.
Handler = Callable[[str, tuple[Any, ...]], Any]


def _serve(
    connection: Connection, make: Callable[..., Handler], arguments: tuple[Any, ...]
) -> None:
    try:
        handle = make(*arguments)
        connection.send((None, None))
        while True:
            name, request = connection.recv()
            connection.send((None, handle(name, request)))
    except EOFError:
        return
    except Exception:
        connection.send((traceback.format_exc(), None))


class Process:
    """A process that answers requests; `environment` maps names to values, or None to unset."""

    def __init__(
        self,
        make: Callable[..., Handler],
        *arguments: Any,
        n_threads: int,
        environment: dict[str, str] | None = None,
    ) -> None:
        wanted: dict[str, str | None] = dict.fromkeys(BLAS_VARIABLES)
        wanted |= dict.fromkeys(THREAD_VARIABLES, str(n_threads))
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make, arguments), daemon=True)
        with _environment(wanted | (environment or {})):
            self._process.start()
        theirs.close()
        self._answer()

    def ask(self, name: str, *request: Any) -> Any:
        """Send a request and wait for the answer; an error over there is one here."""
        self._connection.send((name, request))
        return self._answer()

    def _answer(self) -> Any:
        try:
            error, answer = self._connection.recv()
        except EOFError:
            raise RuntimeError("the process died (out of memory?)") from None
        if error is not None:
            raise RuntimeError(error)
        return answer

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.join()


@contextlib.contextmanager
def _environment(wanted: dict[str, str | None]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in wanted}
    _set_environment(wanted)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(wanted: dict[str, str | None]) -> None:
    for name, value in wanted.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """Give the answer of a call, and its wall and CPU seconds (of all threads of the process)."""
    wall, cpu = time.perf_counter(), time.process_time()
    answer = call()
    return answer, time.perf_counter() - wall, time.process_time() - cpu


@dataclass
class Times:
    """Wall and CPU seconds of the calls of one contender."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, float | int]:
        """Give the median and the range of wall time and the least CPU time, in milliseconds."""
        values = {
            "median_ms": statistics.median(self.wall),
            "fastest_ms": min(self.wall),
            "slowest_ms": max(self.wall),
            "cpu_ms": min(self.cpu),
        }
        return {name: round(1e3 * value, 3) for name, value in values.items()} | {
            "rounds": len(self.wall)
        }


def interleaved(
    calls: dict[Any, Callable[[], tuple[float, float]]],
    rounds: int,
    budget_s: float,
    idle_s: float = IDLE_SECONDS,
) -> dict[Any, Times]:
    """Time all calls in turn, at most `rounds` times each; one that is slow, less often.

    A contender whose calls have cost `budget_s` together is left out of further rounds, but not of
    the first three.
    """
    times = {name: Times() for name in calls}
    for number in range(rounds):
        for name, call in calls.items():
            if number >= 3 and sum(times[name].wall) >= budget_s:
                continue
            time.sleep(idle_s)
            wall, cpu = call()
            times[name].wall.append(wall)
            times[name].cpu.append(cpu)
    return times
