"""cosine_topk against the oracle: same ids, same order, same bits, whatever the machine does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from compare import assert_same_bits, assert_same_topk
from epibias import _core
from search_cases import DIMS, restore_level_and_threads, rows, whole_rows  # noqa: F401

LEVELS = _core.simd_levels()
FLOAT32 = np.finfo(np.float32)


@pytest.fixture(params=LEVELS)
def level(request):
    _core.set_simd_level(request.param)
    return request.param


def search(queries, passages, k, inverse_norms=None, tile_rows=0):
    indices, similarities, n_rescored = _core.cosine_topk(
        queries, passages, k, inverse_norms, tile_rows
    )
    assert n_rescored >= len(queries) * k
    return indices, similarities


def at_byte(values, offset):
    """The same array at an address that is `offset` bytes behind an aligned one."""
    raw = bytearray(values.nbytes + 64 + offset)
    start = -np.frombuffer(raw, np.uint8).ctypes.data % 64 + offset
    moved = np.frombuffer(raw, values.dtype, values.size, start).reshape(values.shape)
    moved[:] = values
    assert moved.ctypes.data % 64 == offset % 64
    return moved


# ---- the oracle ----------------------------------------------------------------------------


@pytest.mark.parametrize("dim", DIMS)
def test_batched_oracle_has_the_bits_of_the_naive_one(dim):
    rng = np.random.default_rng(dim)
    queries, passages = rows(rng, 2, dim), rows(rng, 12, dim)
    assert_same_topk(
        reference.cosine_topk_batched(queries, passages, 12),
        reference.cosine_topk(queries, passages, 12),
    )


@pytest.mark.parametrize("offset", [0, 1, 2, 4, 60])
@pytest.mark.parametrize("dim", DIMS)
def test_equals_the_oracle(level, dim, offset):
    rng = np.random.default_rng(dim)
    n = 57
    for n_queries in (1, 3, 41):  # left-over rows, several of them, panels and left-over rows
        queries = at_byte(rows(rng, n_queries, dim), offset)
        passages = at_byte(rows(rng, n, dim), offset)
        everything = reference.cosine_topk_batched(queries, passages, n)
        for k in (1, 10, n):
            expected = tuple(part[:, :k].copy() for part in everything)
            assert_same_topk(search(queries, passages, k), expected)
    message = rf"^k: expected 1 to {n} \(the number of passages\), got {n + 1}$"
    with pytest.raises(ValueError, match=message):
        search(queries, passages, n + 1)


@pytest.mark.parametrize("dim", [1, 2, 5, 16])
def test_ties_go_to_the_lower_index_for_every_tile_and_thread_count(level, dim):
    rng = np.random.default_rng(dim)
    queries, passages = whole_rows(rng, 37, dim), whole_rows(rng, 900, dim)
    expected = reference.cosine_topk_batched(queries, passages, 15)
    assert (np.diff(expected[1], axis=1) == 0).any(), "the input has no ties to break"
    norms = _core.inverse_norms(passages)
    for tile_rows in (0, 1, 13, 192):
        for n_threads in (1, 2, 3):
            _core.set_n_threads(n_threads)
            for prepared in (None, norms):
                found = search(queries, passages, 15, prepared, tile_rows)
                assert_same_topk(found, expected)


def test_large_enough_to_wake_the_threads(level):
    """Below about 12 million multiply-adds the core stays on one thread."""
    rng = np.random.default_rng(0)
    queries, passages = rows(rng, 33, 64), rows(rng, 12_000, 64)
    passages[6_000:] = passages[:6_000]
    expected = reference.cosine_topk_batched(queries, passages, 30)
    for n_threads in (1, 2, 3):
        _core.set_n_threads(n_threads)
        assert_same_topk(search(queries, passages, 30), expected)


def test_several_blocks_of_queries(level):
    """More than 256 queries go through the passages in blocks, with norms kept from the first."""
    rng = np.random.default_rng(1)
    queries, passages = whole_rows(rng, 530, 4), whole_rows(rng, 300, 4)
    expected = reference.cosine_topk_batched(queries, passages, 7)
    assert_same_topk(search(queries, passages, 7), expected)
    assert_same_topk(search(queries, passages, 7, _core.inverse_norms(passages)), expected)


@pytest.mark.parametrize("order", ["equal", "ascending", "descending"])
def test_corpora_that_defeat_the_filter_stay_exact(level, order):
    rng = np.random.default_rng(2)
    queries, passages = rows(rng, 3, 24), rows(rng, 1_500, 24)
    if order == "equal":
        passages[:] = passages[0]
    else:
        best_last = np.argsort(passages @ queries[0] / np.linalg.norm(passages, axis=1))
        passages = passages[best_last if order == "ascending" else best_last[::-1]].copy()
    expected = reference.cosine_topk_batched(queries, passages, 20)
    for n_threads in (1, 2):
        _core.set_n_threads(n_threads)
        assert_same_topk(search(queries, passages, 20, tile_rows=64), expected)


def test_memory_mapped_passages(level, tmp_path):
    rng = np.random.default_rng(3)
    queries, passages = rows(rng, 5, 33), rows(rng, 800, 33)
    path = tmp_path / "passages.npy"
    np.save(path, passages)
    mapped = np.load(path, mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    expected = reference.cosine_topk_batched(queries, passages, 9)
    assert_same_topk(search(queries, mapped, 9), expected)
    # A raw file with a header of three bytes: no row is aligned.
    raw = tmp_path / "passages.raw"
    raw.write_bytes(b"abc" + passages.tobytes())
    shifted = np.memmap(raw, np.float32, "r", offset=3, shape=passages.shape)
    assert shifted.ctypes.data % 4 == 3
    assert_same_topk(search(queries, shifted, 9, _core.inverse_norms(shifted)), expected)


def test_norms_that_float32_cannot_square(level):
    rng = np.random.default_rng(4)
    passages = rows(rng, 90, 9)
    passages[0::3] = np.sign(passages[0::3]) * FLOAT32.max
    passages[1::3] = (np.sign(passages[1::3]) * 3 * FLOAT32.smallest_subnormal).astype(np.float32)
    passages[2::6] *= np.float32(1e-25)
    queries = np.concatenate([passages[:6], rows(rng, 1, 9)])
    expected = reference.cosine_topk_batched(queries, passages, 25)
    assert_same_topk(search(queries, passages, 25), expected)
    assert_same_topk(search(queries, passages, 25, _core.inverse_norms(passages)), expected)


def test_inverse_norms_have_the_bits_of_the_oracle(level):
    rng = np.random.default_rng(5)
    for dim in DIMS:
        values = rows(rng, 9, dim)
        expected = np.array([reference.inverse_norm(row) for row in values])
        assert_same_bits(_core.inverse_norms(at_byte(values, dim % 4)), expected)


def test_one_rounding_apart_is_not_a_tie(level):
    """The scan cannot tell similarities a float32 step or two apart: the re-score must."""
    passages = np.ones((400, 16), np.float32)
    passages[:, 0] = np.float32(0.5) + np.arange(400, dtype=np.float32) * FLOAT32.epsneg
    queries = np.eye(16, dtype=np.float32)[:1]
    expected = reference.cosine_topk_batched(queries, passages, 300)
    steps = np.diff(expected[1].view(np.int32))
    assert set(steps.ravel().tolist()) <= {0, -1, -2}, "not neighbours in float32"
    assert_same_topk(search(queries, passages, 300), expected)


# ---- degenerate and wrong input ------------------------------------------------------------


def test_field_case_3_and_11_more_neighbours_than_passages(level):
    one_dimensional = np.array([[1.0], [-2.0]], np.float32)
    with pytest.raises(ValueError, match=r"^k: expected 1 to 2 \(the number of passages\), got 4$"):
        search(one_dimensional[:1], one_dimensional, 4)
    indices, similarities = search(one_dimensional[:1], one_dimensional, 2)
    assert indices.tolist() == [[0, 1]]
    assert similarities.tolist() == [[1.0, -1.0]]


def test_field_case_4_and_6_bad_rows_are_named(level):
    rng = np.random.default_rng(6)
    queries, passages = rows(rng, 2, 4), rows(rng, 2_000, 4)
    words = "^passages: expected finite rows of non-zero norm, got "
    for n_threads in (1, 2, 3):
        _core.set_n_threads(n_threads)
        broken = passages.copy()
        broken[1_900, 1] = np.inf
        with pytest.raises(ValueError, match=words + "Inf in row 1900$"):
            search(queries, broken, 3, tile_rows=16)
        broken[17, 3] = np.nan
        with pytest.raises(ValueError, match=words + "NaN in row 17$"):
            search(queries, broken, 3, tile_rows=16)
        broken[3] = 0
        with pytest.raises(ValueError, match=words + "a zero row 3$"):
            search(queries, broken, 3, tile_rows=16)
        with pytest.raises(ValueError, match=r"^corpus: .* got a zero row 3$"):
            _core.inverse_norms(broken, "corpus")
    queries[1, 0] = -np.inf
    with pytest.raises(ValueError, match=r"^queries: .* got Inf in row 1$"):
        search(queries, passages, 3)
    llama = np.array([[1, 0], [0.5, 0.5], [0, 0]], np.float32)
    with pytest.raises(ValueError, match=r"got a zero row 2$"):
        search(np.array([[1, 0]], np.float32), llama, 2)


def test_field_case_5_duplicates_in_any_batch(level):
    rng = np.random.default_rng(7)
    passages = np.repeat(rows(rng, 40, 12), 5, axis=0)
    queries = rows(rng, 70, 12)
    whole = search(queries, passages, 12)
    for size in (1, 7, 33):
        parts = [search(queries[i : i + size], passages, 12) for i in range(0, 70, size)]
        joined = tuple(np.concatenate([part[j] for part in parts]) for j in (0, 1))
        assert_same_topk(joined, whole)


def test_empty_input():
    none, some = np.empty((0, 3), np.float32), np.ones((4, 3), np.float32)
    for queries, passages, k, shape in ((none, some, 2, (0, 2)), (some, none, 0, (4, 0))):
        indices, similarities, n_rescored = _core.cosine_topk(queries, passages, k)
        assert indices.shape == similarities.shape == shape
        assert (indices.dtype, similarities.dtype, n_rescored) == (np.int64, np.float32, 0)
    assert _core.inverse_norms(none).shape == (0,)
    with pytest.raises(ValueError, match=r"^k: expected 0, as there are no passages, got 1$"):
        _core.cosine_topk(some, none, 1)


SOME = np.ones((4, 3), np.float32)


@pytest.mark.parametrize(
    ("queries", "passages", "k", "norms", "tile_rows", "words"),
    [
        (SOME, SOME, 0, None, 0, r"k: expected 1 to 4 \(the number of passages\), got 0"),
        (SOME, SOME, -1, None, 0, r"k: expected 1 to 4 \(the number of passages\), got -1"),
        (SOME[:, :2].copy(), SOME, 1, None, 0, "queries: expected rows of dim 3, .* got dim 2"),
        (SOME[:, :0], SOME[:, :0], 1, None, 0, "queries: expected rows of dim 0, .* at least 1"),
        (SOME.astype("f8"), SOME, 1, None, 0, r"queries: .*queries.astype\(np.float32\), got .*64"),
        (SOME.astype(">f4"), SOME, 1, None, 0, "queries: expected dtype float32; call .* got"),
        (SOME, SOME.astype("f2"), 1, None, 0, "passages: expected dtype float32; .* float16"),
        (SOME, SOME.T, 1, None, 0, r"passages: .* call np.ascontiguousarray\(passages\), got stri"),
        (SOME[0], SOME, 1, None, 0, r"queries: expected a 2-d array, got shape \(3,\)"),
        ([[1.0]], SOME, 1, None, 0, "queries: expected a numpy array, 2-d float32, got list"),
        (SOME, SOME, 1, np.ones(3), 0, "inverse_norms: expected 4 numbers, .* got 3"),
        (SOME, SOME, 1, np.ones(0), 0, "inverse_norms: expected 4 numbers, .* got 0"),
        (SOME, SOME, 1, np.ones(4, "f4"), 0, "inverse_norms: expected dtype float64"),
        (SOME, SOME, 1, np.array([1, 1, np.nan, 1]), 0, "inverse_norms: .*got nan in row 2"),
        (SOME, SOME, 1, None, -2, "tile_rows: expected 0 .* got -2"),
    ],
)
def test_wrong_arguments_are_named(queries, passages, k, norms, tile_rows, words):
    with pytest.raises(ValueError, match="^" + words):
        _core.cosine_topk(queries, passages, k, norms, tile_rows)


# ---- properties ----------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 120),
    dim=st.integers(1, 40),
    n_queries=st.integers(1, 40),
    whole=st.booleans(),
)
def test_permuted_passages_give_the_permuted_answer(seed, n, dim, n_queries, whole):
    rng = np.random.default_rng(seed)
    make = whole_rows if whole else rows
    queries, passages = make(rng, n_queries, dim), make(rng, n, dim)
    order = rng.permutation(n)
    indices, similarities = search(queries, passages, n)
    moved_indices, moved_similarities = search(queries, passages[order], n)
    assert_same_bits(moved_similarities, similarities)
    # Ties may change places, but every passage keeps its similarity.
    by_passage = np.empty_like(similarities)
    np.put_along_axis(by_passage, indices, similarities, axis=1)
    moved = np.empty_like(similarities)
    np.put_along_axis(moved, order[moved_indices], moved_similarities, axis=1)
    assert_same_bits(moved, by_passage)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), power=st.integers(-100, 100), dim=st.integers(1, 40))
def test_scaling_by_a_power_of_two_changes_no_bit(seed, power, dim):
    rng = np.random.default_rng(seed)
    queries, passages = rows(rng, 3, dim), rows(rng, 50, dim)
    scale = np.float32(2.0) ** np.float32(power)
    # Elements that became denormal would lose bits of their own.
    hypothesis_holds = np.abs(passages[passages != 0]).min() * scale > FLOAT32.smallest_normal
    assert hypothesis_holds
    expected = search(queries, passages, 10)
    assert_same_topk(search(queries, passages * scale, 10), expected)
    assert_same_topk(search(queries * np.float32(2.0**-20), passages, 10), expected)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 200),
    dim=st.integers(1, 70),
    k=st.integers(1, 200),
    tile_rows=st.integers(0, 250),
    level=st.sampled_from(LEVELS),
)
def test_random_shapes_equal_the_oracle(seed, n, dim, k, tile_rows, level):
    rng = np.random.default_rng(seed)
    queries, passages = whole_rows(rng, 9, dim), whole_rows(rng, n, dim)
    k = min(k, n)
    _core.set_simd_level(level)
    expected = reference.cosine_topk_batched(queries, passages, k)
    assert_same_topk(search(queries, passages, k, tile_rows=tile_rows), expected)
