"""CosineIndex: exact, in the total order, on the array it was given."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from epibias.errors import InputError
from epibias.retrieval import CosineIndex


def random_case(seed):
    rng = np.random.default_rng(seed)
    n_passages, dim = int(rng.integers(1, 60)), int(rng.choice([1, 2, 3, 8, 17, 33, 64]))
    passages = rng.standard_normal((n_passages, dim)).astype(np.float32)
    if seed % 2:  # duplicates and scaled copies: ties
        passages = passages[rng.integers(0, n_passages, n_passages)]
        passages[::3] *= np.float32(4)
    queries = rng.standard_normal((int(rng.integers(1, 5)), dim)).astype(np.float32)
    k = int(rng.choice([1, n_passages, rng.integers(1, n_passages + 1)]))
    return queries, passages, k


@pytest.mark.parametrize("seed", range(200))
def test_the_reference_order_and_bits(seed):
    queries, passages, k = random_case(seed)
    found = CosineIndex(passages).search(queries, k)
    indices, similarities = reference.cosine_topk_batched(queries, passages, k)
    np.testing.assert_array_equal(found.indices, indices)
    np.testing.assert_array_equal(found.similarities, similarities)
    assert found.indices.dtype == np.int64
    assert found.similarities.dtype == np.float32


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_batches_and_the_order_of_the_passages_do_not_matter(seed, random):
    queries, passages, k = random_case(seed)
    whole = CosineIndex(passages).search(queries, k)
    for row in range(len(queries)):
        alone = CosineIndex(passages).search(queries[row : row + 1], k)
        np.testing.assert_array_equal(alone.indices[0], whole.indices[row])
    order = list(range(len(passages)))
    random.shuffle(order)
    moved = CosineIndex(np.ascontiguousarray(passages[order])).search(queries, k)
    np.testing.assert_array_equal(moved.similarities, whole.similarities)


def test_duplicates_rank_by_index():  # field case 5
    passages = np.tile(np.array([[1, 2, 3]], np.float32), (50, 1))
    found = CosineIndex(passages).search(passages[:3], k=50)
    assert (found.indices == np.arange(50)).all()


def test_more_than_there_are_is_an_error_with_both_numbers():  # field cases 3 and 11
    index = CosineIndex(np.eye(2, dtype=np.float32))
    query = np.ones((1, 2), np.float32)
    with pytest.raises(InputError) as caught:
        index.search(query, k=4)
    assert str(caught.value) == (
        "k: expected at most 2 (the number of passages), or allow_fewer=True, got 4"
    )
    fewer = index.search(query, k=4, allow_fewer=True)
    assert sorted(fewer.indices[0].tolist()) == [0, 1]
    assert fewer.similarities.shape == (1, 2)


def test_one_dimension_gives_each_passage_once():  # field case 11
    passages = np.array([[1], [-2], [3]], np.float32)
    found = CosineIndex(passages).search(np.array([[5]], np.float32), k=3)
    assert found.indices.tolist() == [[0, 2, 1]]
    assert found.similarities.tolist() == [[1, 1, -1]]


def test_no_passages_or_no_queries_give_empty_arrays_of_the_right_shape():
    passages = np.eye(3, dtype=np.float32)
    assert CosineIndex(passages).search(passages[:0], k=2).indices.shape == (0, 2)
    empty = CosineIndex(passages[:0]).search(passages, k=2)
    assert empty.indices.shape == empty.similarities.shape == (3, 0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_named(value):  # field case 4
    passages = np.ones((5, 3), np.float32)
    passages[3, 1] = value
    with pytest.raises(InputError, match=r"^passage_embeddings: .*row 3"):
        CosineIndex(passages)
    with pytest.raises(InputError, match=r"^query_embeddings: .*row 3"):
        CosineIndex(np.ones((5, 3), np.float32)).search(passages, k=1)


def test_a_zero_row_is_named():  # field case 6
    passages = np.array([[1, 0], [0.5, 0.5], [0, 0]], np.float32)
    with pytest.raises(InputError, match=r"^passage_embeddings: .*row 2"):
        CosineIndex(passages)
    with pytest.raises(InputError, match=r"^query_embeddings: .*row 2"):
        CosineIndex(passages[:2]).search(passages, k=1)


def test_float16_is_refused_and_large_norms_are_not():  # field cases 7 and 18
    rows = np.array([[1, 0], [2, 0], [3, 0]], np.float32) * np.float32(1e5)
    with pytest.raises(InputError, match=r"call passage_embeddings.astype\(np.float32\)"):
        CosineIndex(rows.astype(np.float32).clip(max=6e4).astype(np.float16))
    for scale in (1e-30, 1.0, 1e30):
        found = CosineIndex(rows * np.float32(scale / 1e5)).search(rows[:1], k=3)
        assert found.indices.tolist() == [[0, 1, 2]]
        assert found.similarities.tolist() == [[1, 1, 1]]


def test_the_array_is_kept_and_never_changed():
    passages = np.random.default_rng(0).standard_normal((20, 5)).astype(np.float32)
    before = passages.copy()
    index = CosineIndex(passages)
    index.search(passages, k=3)
    assert index.embeddings is passages
    np.testing.assert_array_equal(passages, before)


def test_a_memory_mapped_corpus_is_searched_where_it_lies(tmp_path):
    rows = np.random.default_rng(1).standard_normal((300, 12)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    index = CosineIndex(mapped)
    assert index.embeddings is mapped
    assert index.diagnostics["memory_mapped"] is True
    found, expected = index.search(rows[:9], k=7), CosineIndex(rows).search(rows[:9], k=7)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.similarities, expected.similarities)


def test_an_unknown_scan_is_refused_with_those_that_are():
    with pytest.raises(InputError) as caught:
        CosineIndex(np.eye(2, dtype=np.float32), scan="int2")
    assert str(caught.value) == (
        "scan: expected 'auto' or 'float32' or 'int8' or 'int4' or 'principal', got 'int2'"
    )


@pytest.mark.parametrize(
    ("queries", "k", "message"),
    [
        (np.ones((1, 3), np.float32), 1, "query_embeddings: expected 2 columns"),
        (np.ones(2, np.float32), 1, "query_embeddings: expected a 2-d array, got shape (2,)"),
        (np.ones((1, 2)), 1, "query_embeddings: expected dtype float32; call"),
        (np.ones((1, 2), np.float32), 0, "k: expected an integer of at least 1, got 0"),
        (np.ones((1, 2), np.float32), 1.0, "k: expected an integer of at least 1, got 1.0"),
        (np.ones((1, 2), np.float32), True, "k: expected an integer of at least 1, got True"),
    ],
)
def test_wrong_searches_are_refused(queries, k, message):
    with pytest.raises(InputError) as caught:
        CosineIndex(np.eye(2, dtype=np.float32)).search(queries, k=k)
    assert message in str(caught.value)


def test_an_index_tells_what_it_is():
    index = CosineIndex(np.eye(3, 4, dtype=np.float32))
    assert (len(index), index.n_passages, index.dim, index.scan) == (3, 3, 4, "float32")
    assert repr(index) == "CosineIndex(n_passages=3, dim=4, scan='float32')"
    found = index.search(np.ones((2, 4), np.float32), k=1)
    assert found.diagnostics["scan"] == "float32"
    assert found.diagnostics["n_rescored"] >= 2


@pytest.mark.parametrize("view", ["mapped", "np.asarray(mapped)", "mapped[1:]", "mapped.view()"])
def test_a_mapped_file_that_was_cut_off_is_told(tmp_path, view):
    """In a process of its own: without the check it would die of SIGBUS."""
    np.save(tmp_path / "rows.npy", np.ones((4000, 16), np.float32))
    script = (
        "import os, sys; import numpy as np; from epibias import CosineIndex, InputError\n"
        "mapped = np.load(sys.argv[1], mmap_mode='r')\n"
        f"index = CosineIndex({view})\n"
        "query = np.ones((1, 16), np.float32)\n"
        "assert index.search(query, k=1).indices.shape == (1, 1)\n"
        "os.truncate(sys.argv[1], 4096)\n"
        "try: index.search(query, k=1)\n"
        "except InputError as error: print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, str(tmp_path / "rows.npy")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == (
        "passage_embeddings: expected a file of 256128 bytes, as when the index was made, "
        "got 4096 bytes\n"
    )
