"""Which file an array is mapped from."""

from __future__ import annotations

import contextlib
import mmap


def mapped_file(array: object) -> mmap.mmap | None:
    """Give the file that an array, or what it is a view of, is mapped from."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)
    if array is not None:
        with contextlib.suppress(OSError, ValueError):  # a map that knows no file
            array.size()
            return array
    return None
