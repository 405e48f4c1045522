"""Microbenchmarks of the stages, `python -m pytest bench --benchmark-only`; never part of tests/.

Each asserts its answer before it is timed. For ratios against peers see `cosine_topk.py`.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

if find_spec("pytest_benchmark") is None:
    raise pytest.UsageError("pytest-benchmark is not installed; pip install '.[bench]' brings it")


@pytest.fixture
def one_thread():
    """Run the stages on one thread, so that figures of two machines can be compared."""
    from epibias import _core

    before = _core.n_threads()
    _core.set_n_threads(1)
    yield
    _core.set_n_threads(before)
