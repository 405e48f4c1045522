"""How many threads the kernels use, for the length of a block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from epibias import _core, _validate

MOST_THREADS = 1024  # what the core takes


@contextlib.contextmanager
def using_threads(n_threads: int | None) -> Iterator[int]:
    """Let the kernels of this process use so many threads; put back afterwards.

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
    before = _core.n_threads()
    if n_threads is not None:
        _core.set_n_threads(_validate.integer("threads", n_threads, low=1, high=MOST_THREADS))
    try:
        yield _core.n_threads()
    finally:
        _core.set_n_threads(before)
