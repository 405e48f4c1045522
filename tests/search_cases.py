"""Rows for the tests of the searches, and the fixture that puts level and threads back."""

from __future__ import annotations

import numpy as np
import pytest

from epibias import _core

DIMS = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 97, 384]


@pytest.fixture(autouse=True)
def restore_level_and_threads():
    level, n_threads = _core.simd_level(), _core.n_threads()
    yield
    _core.set_simd_level(level)
    _core.set_n_threads(n_threads)


def rows(rng, n, dim):
    return rng.standard_normal((n, dim)).astype(np.float32)


def whole_rows(rng, n, dim):
    """Whole numbers from -2 to 2, no zero row: duplicates and exact ties in every search."""
    values = rng.integers(-2, 3, (n, dim)).astype(np.float32)
    values[~values.any(axis=1), 0] = 1
    return values
