"""Kernels of trusted indexes against their definitions: sketches, the grid, copies, records."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_tilt
from epibias import _core
from epibias.defenses.trusted_index import TrustedIndex, _signs
from epibias.kernels_trusted import fingerprints, mark_untrusted, trusted_records
from pools import unit_rows

DIM = 32
SAME = 1e-3  # as the page says


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_marks_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    # Numbers on a lattice of the tolerance: within it, on its edge and beyond; grids of few cells.
    numbers = (rng.integers(0, 4, (int(rng.integers(1, 40)), 8)) * SAME * 0.75).astype(np.float32)
    trusted = TrustedIndex(DIM, numbers)
    sizes = rng.integers(0, 9, rng.integers(1, 5))
    own = (rng.integers(-1, 5, (sizes.sum(), 8)) * SAME * 0.75).astype(np.float32)
    near = rng.integers(0, len(numbers), len(own))
    own[::2] = numbers[near][::2]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    marks = mark_untrusted(trusted.table, own, offsets)
    expected = []
    for first, last in pairwise(offsets.tolist()):
        expected += reference_tilt.untrusted(own[first:last], trusted.numbers, SAME)
    assert marks.tolist() == expected


def test_the_tolerance_and_the_grid_are_those_of_the_page():
    rng = np.random.default_rng(8)
    numbers = rng.normal(size=(500, 8)).astype(np.float32)
    numbers[:, [2, 5]] *= 3  # the widest
    trusted = TrustedIndex(DIM, numbers)
    table = trusted.table
    assert table.columns.tolist() == [2, 5]
    assert table.n_cells == 22
    wide = table.fingerprints[:, [2, 5]].astype(float)
    cells = np.clip(np.floor((wide - table.low) / table.step), 0, 21).astype(int)
    key = cells[:, 0] * 22 + cells[:, 1]
    for cell in range(22 * 22):
        assert (key[table.starts[cell] : table.starts[cell + 1]] == cell).all()
    assert table.starts[-1] == 500
    for moved, is_new in ((9.9e-4, False), (-9.9e-4, False), (1.01e-3, True), (-1.01e-3, True)):
        for column in range(8):
            own = trusted.numbers.copy()
            own[:, column] += np.float32(moved)
            marks = mark_untrusted(table, own, np.arange(501))
            assert marks.tolist() == [is_new] * 500


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_pool_of_an_index_has_no_newcomer_however_near_its_passages_lie(seed):
    rng = np.random.default_rng(seed)
    numbers = (rng.integers(0, 4, (int(rng.integers(1, 30)), 8)) * SAME * 0.7).astype(np.float32)
    trusted = TrustedIndex(DIM, numbers)
    own = rng.permutation(numbers)[: rng.integers(1, len(numbers) + 1)]
    assert not mark_untrusted(
        trusted.table, np.ascontiguousarray(own), np.array([0, len(own)])
    ).any()


def test_the_signs_of_a_file_are_those_of_next_year():
    found = fingerprints(np.arange(1, 13, dtype=np.float32)[None], _signs(12))
    expected = [-0.313786, -0.313786, 0.549125, 0.627572, -0.196116, 0.235339, -0.274563, 0.313786]
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-6)


def test_vectors_of_one_bit_a_value_are_told_apart():
    rng = np.random.default_rng(12)
    index, others = np.sign(rng.standard_normal((2, 3000, 384))).astype(np.float32)
    trusted = TrustedIndex.of(index)
    assert mark_untrusted(trusted.table, fingerprints(others, _signs(384)), np.arange(3001)).all()
    sparse = (rng.random((2000, 1024)) < 0.1).astype(np.float32)
    table = TrustedIndex.of(sparse[:1000]).table
    assert mark_untrusted(table, fingerprints(sparse[1000:], _signs(1024)), np.arange(1001)).all()


def test_records_of_what_is_trusted_are_those_of_the_clean_pool():
    rng = np.random.default_rng(3)
    sizes = [0, 1, 4, 30, 300]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    y = rng.normal(size=offsets[-1]).astype(np.float32)
    new = rng.random(len(y)) < 0.3
    for k in (1, 3, 200):
        records = trusted_records(y, offsets, new, k)
        for query, (first, last) in enumerate(pairwise(offsets.tolist())):
            scores = y[first:last][~new[first:last]].astype(float)
            if len(scores) < max(k, 2):
                assert np.isnan(records[:, query]).all()
            else:
                expected = [scores[:k].mean(), scores.std(ddof=1)]
                np.testing.assert_array_equal(records[:, query], expected)


LEVELS = _core.simd_levels()


@pytest.fixture(params=LEVELS)
def _level(request):
    _core.set_simd_level(request.param)
    yield
    _core.set_simd_level(LEVELS[-1])


@pytest.mark.usefixtures("_level")
@pytest.mark.parametrize("dim", [2, 7, 8, 9, 16, 29, 200])
def test_fingerprints_are_a_sketch_of_the_whole_unit_row(dim):
    rows = 7 * unit_rows(np.random.default_rng(7), 40, dim)
    signs = _signs(dim)
    assert set(signs.tolist()) <= {1.0, -1.0}
    whole = fingerprints(rows, signs)
    unit = rows.astype(float) / np.sqrt((rows.astype(float) ** 2).sum(axis=1, keepdims=True))
    expected = np.stack([(unit * signs)[:, j::8].sum(axis=1) for j in range(min(dim, 8))], axis=1)
    np.testing.assert_allclose(whole, expected, rtol=0, atol=5e-7)
    _core.set_simd_level("scalar")
    np.testing.assert_array_equal(fingerprints(rows, signs), whole)  # the same bits
    for part in (slice(0, 1), slice(3, 20)):  # nor do they hang on the batch, or the address
        np.testing.assert_array_equal(fingerprints(rows[part], signs), whole[part])
    shifted = np.frombuffer(b"." + rows.tobytes(), np.float32, rows.size, 1).reshape(rows.shape)
    np.testing.assert_array_equal(fingerprints(shifted, signs), whole)


def test_starts_that_lead_outside_are_cut():
    rows = unit_rows(np.random.default_rng(9), 5, DIM)
    trusted = TrustedIndex.of(rows)
    wrong = trusted.table._replace(n_cells=1, starts=np.array([-9, 99]))
    marks = mark_untrusted(wrong, trusted.numbers, np.array([0, 5]))
    assert not marks.any()
