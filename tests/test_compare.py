"""The comparators fail when they should: a test suite is worth no more than they are."""

from __future__ import annotations

import numpy as np
import pytest

from compare import assert_close, assert_same_bits, assert_same_topk

NAN, INF = np.nan, np.inf
ONES = np.ones((2, 2), np.float32)


def with_value(value, dtype=np.float32):
    changed = np.ones((2, 2), dtype)
    changed[1, 0] = value
    return changed


def test_equal_arrays_pass():
    assert_same_bits(ONES, ONES.copy())
    assert_same_bits(np.arange(3), np.arange(3))
    assert_close(with_value(1.5), ONES, 0.5)
    assert_close(with_value(1.5), ONES, 0.25, scale=2.0)
    assert_close(np.empty((0, 3)), np.empty((0, 3)), 0.0)
    assert_same_topk((np.array([[1]]), ONES), (np.array([[1]]), ONES))


@pytest.mark.parametrize(
    ("got", "expected", "words"),
    [
        (with_value(np.nextafter(np.float32(1), 2)), ONES, r"1 of 4 .* \(1, 0\)"),
        (with_value(NAN), with_value(NAN), "non-finite"),
        (with_value(INF), with_value(INF), "non-finite"),
        (with_value(-0.0), with_value(0.0), "1 of 4"),
        (ONES.astype(np.float64), ONES, "dtype float32, got float64"),
        (ONES[:1], ONES, "shape"),
        ([[1.0, 1.0], [1.0, 1.0]], ONES, "got list"),
        (np.array([1, 2]), np.array([2, 1]), "2 of 2"),
    ],
)
def test_assert_same_bits_fails(got, expected, words):
    with pytest.raises(AssertionError, match=words):
        assert_same_bits(got, expected)


@pytest.mark.parametrize(
    ("got", "expected", "tolerance", "scale", "words"),
    [
        (with_value(1.51), ONES, 0.5, 1.0, "off by 0.51"),
        (with_value(NAN), ONES, INF, 1.0, "got has 1 non-finite"),
        (with_value(NAN), with_value(NAN), 1.0, 1.0, "non-finite"),
        (ONES, with_value(INF), 1.0, 1.0, "expected has 1 non-finite"),
        (with_value(5.0), ONES, NAN, 1.0, "tolerance has 4 non-finite"),
        (with_value(5.0), ONES, 1.0, INF, "tolerance has 4 non-finite"),
        (with_value(1.3), ONES, 0.5, with_value(0.5), "allowed 0.25"),
        (ONES[0], ONES, 1.0, 1.0, "shape"),
    ],
)
def test_assert_close_fails(got, expected, tolerance, scale, words):
    with pytest.raises(AssertionError, match=words):
        assert_close(got, expected, tolerance, scale)


def test_assert_same_topk_fails_on_either_part():
    indices = np.array([[0, 1], [1, 0]])
    with pytest.raises(AssertionError, match="4 of 4"):
        assert_same_topk((indices[:, ::-1], ONES), (indices, ONES))
    with pytest.raises(AssertionError, match="1 of 4"):
        assert_same_topk((indices, with_value(2.0)), (indices, ONES))
    with pytest.raises(AssertionError, match="dtype int64"):
        assert_same_topk((indices.astype(np.int32), ONES), (indices, ONES))
