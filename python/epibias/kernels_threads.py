"""How many threads the kernels use, for the length of a block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from epibias import _core, _validate

MOST_THREADS = 1024  # what the core takes


@contextlib.contextmanager
def using_threads(n_threads: int | None) -> Iterator[int]:
    """Let the kernels of this process use so many threads; afterwards the number of before.

    The core cannot take back that a number was chosen. After a block with a number, the one that
    was in force before stays chosen: `EPIBIAS_THREADS`, or the processors that are available, are
    no longer asked in this process. A block with None sets nothing, neither before nor after.

    Parameters
    ----------
    n_threads : int or None
        1 to 1024; None leaves the number as it is.

    Yields
    ------
    int
        The number in force.

    Raises
    ------
    InputError
        A number out of range.

    Examples
    --------
    >>> with using_threads(1) as n_threads:
    ...     n_threads
    1
    """
    if n_threads is None:
        yield _core.n_threads()
        return
    chosen = _validate.integer("threads", n_threads, low=1, high=MOST_THREADS)
    before = _core.n_threads()
    _core.set_n_threads(chosen)
    try:
        yield _core.n_threads()
    finally:
        _core.set_n_threads(before)
