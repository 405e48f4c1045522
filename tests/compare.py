"""Comparators of the tests. Shape first, then finiteness, then values; a NaN never passes.

`tests/test_compare.py` shows that each of them fails when it should.
"""

from __future__ import annotations

import numpy as np


def _same_kind(got: np.ndarray, expected: np.ndarray) -> None:
    assert isinstance(got, np.ndarray), f"expected an array, got {type(got).__name__}"
    assert got.dtype == expected.dtype, f"expected dtype {expected.dtype}, got {got.dtype}"
    assert got.shape == expected.shape, f"expected shape {expected.shape}, got {got.shape}"


def _finite(name: str, values: np.ndarray) -> None:
    bad = np.argwhere(~np.isfinite(values))
    assert not len(bad), (
        f"{name} has {len(bad)} non-finite values, the first at {tuple(map(int, bad[0]))}"
    )


def assert_same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    """Same dtype, shape and bits, all finite; -0 and +0 differ."""
    _same_kind(got, expected)
    if got.dtype.kind == "f":
        _finite("got", got)
        _finite("expected", expected)
    size = got.dtype.itemsize
    left = np.ascontiguousarray(got).view(f"u{size}")
    right = np.ascontiguousarray(expected).view(f"u{size}")
    different = np.argwhere(left != right)
    if len(different):
        first = tuple(map(int, different[0]))
        raise AssertionError(
            f"{len(different)} of {left.size} values differ, the first at {first}: "
            f"expected {expected[first]!r}, got {got[first]!r}"
        )


def assert_close(got: np.ndarray, expected: np.ndarray, tolerance: float, scale: object = 1.0):
    """|got - expected| <= tolerance * scale everywhere; both finite, of one shape.

    `tolerance` is written down by the caller as c * eps, `scale` is the size of what was summed.
    """
    got, expected = np.asarray(got), np.asarray(expected)
    limit = tolerance * np.broadcast_to(np.asarray(scale, np.float64), expected.shape)
    assert got.shape == expected.shape, f"expected shape {expected.shape}, got {got.shape}"
    for name, values in (("got", got), ("expected", expected), ("the tolerance", limit)):
        _finite(name, values)
    error = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    if not (error <= limit).all():
        worst = np.unravel_index(np.argmax(error - limit), error.shape)
        raise AssertionError(
            f"off by {error[worst]:.3g} at {tuple(map(int, worst))}, allowed {limit[worst]:.3g}: "
            f"expected {expected[worst]!r}, got {got[worst]!r}"
        )


def assert_same_topk(got: tuple, expected: tuple) -> None:
    """Same indices in the same order (int64), and the same similarities to the bit (float32)."""
    for position, dtype in ((0, np.int64), (1, np.float32)):
        assert expected[position].dtype == dtype
        assert_same_bits(got[position], expected[position])
