"""`mmr` and `dpp_greedy` against the oracle, the cases from the field, and wrong input."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from epibias import _core

LEVELS = _core.simd_levels()


@pytest.fixture(autouse=True)
def _best_level_afterwards():
    threads = _core.n_threads()
    yield
    _core.set_simd_level(LEVELS[-1])
    _core.set_n_threads(threads)


def candidates(seed: int, n_queries: int, n: int, dim: int):
    """Unit-free embeddings with duplicates, and their cosines with a query."""
    rng = np.random.default_rng(seed)
    embeddings = rng.normal(size=(n_queries, n, dim)).astype(np.float32)
    embeddings[:, n // 2] = embeddings[:, 0]
    queries = rng.normal(size=(n_queries, dim)).astype(np.float32)
    similarities = np.array(
        [
            [reference.cosine(query, row) for row in rows]
            for query, rows in zip(queries, embeddings, strict=True)
        ],
        np.float32,
    )
    return similarities, embeddings


@pytest.mark.parametrize("dim", [1, 2, 7, 31, 33, 97])
@pytest.mark.parametrize("relevance_weight", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_mmr_is_the_oracles_at_every_level_and_thread_count(dim, relevance_weight):
    similarities, embeddings = candidates(dim, 4, 9, dim)
    for k in (1, 4, 9):
        expected = np.array(
            [
                reference.mmr(similarities[row], embeddings[row], k, relevance_weight)
                for row in range(4)
            ]
        )
        for level in LEVELS:
            _core.set_simd_level(level)
            for n_threads in (1, 2, 3):
                _core.set_n_threads(n_threads)
                got = _core.mmr(similarities, embeddings, k, relevance_weight)
                assert got.dtype == np.int64
                assert np.array_equal(got, expected)


def test_mmr_ends_are_pure_relevance_and_pure_diversity():
    """Field case 1: one meaning of the weight everywhere."""
    similarities, embeddings = candidates(3, 20, 12, 16)
    relevant = _core.mmr(similarities, embeddings, 12, 1.0)
    order = np.argsort(-similarities, axis=1, kind="stable")
    assert np.array_equal(relevant, order)
    diverse = _core.mmr(similarities, embeddings, 2, 0.0)
    for row in range(20):
        first = diverse[row, 0]
        assert first == np.argmax(similarities[row])
        cosines = [reference.canonical_cosine(e, embeddings[row, first]) for e in embeddings[row]]
        cosines[first] = np.inf
        assert diverse[row, 1] == np.argmin(cosines)
    middle = [_core.mmr(similarities, embeddings, 4, weight) for weight in (0.1, 0.9)]
    assert not np.array_equal(*middle)


def test_mmr_of_field_case_2():
    query = np.array([1, 0, 0, 0], np.float32)
    rows = [[0.9, 0.44, 0, 0], [0.88, 0.47, 0, 0], [0.7, 0, 0.71, 0], [0.65, 0, 0, 0.76]]
    embeddings = np.array([rows], np.float32)
    similarities = np.array([[reference.cosine(query, row) for row in embeddings[0]]], np.float32)
    assert _core.mmr(similarities, embeddings, 3, 0.5).tolist() == [[0, 2, 3]]


def test_equal_candidates_go_by_position():
    embeddings = np.ones((1, 6, 5), np.float32)
    similarities = np.full((1, 6), 0.5, np.float32)
    assert _core.mmr(similarities, embeddings, 6, 0.3).tolist() == [list(range(6))]


def test_mmr_of_nothing():
    similarities, embeddings = candidates(1, 3, 5, 4)
    assert _core.mmr(similarities, embeddings, 0).shape == (3, 0)
    assert _core.mmr(similarities[:0], embeddings[:0], 2).shape == (0, 2)


def kernels(seed: int, n_queries: int, n: int, rank: int) -> np.ndarray:
    """Positive semidefinite kernels of the given rank."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(n_queries, n, rank))
    return np.ascontiguousarray(factor @ factor.transpose(0, 2, 1))


@pytest.mark.parametrize(("n", "rank"), [(1, 1), (5, 8), (12, 20), (12, 4)])
def test_dpp_is_the_oracles(n, rank):
    kernel = kernels(n * rank, 6, n, rank)
    # Past the rank, gains are rounding noise around 1e-10 for the oracle's determinants too.
    for k in range(min(n, rank) + 1):
        indices, n_selected = _core.dpp_greedy(kernel, k)
        for row in range(6):
            expected = reference.dpp_greedy(kernel[row], k)
            assert n_selected[row] == len(expected)
            assert np.array_equal(indices[row, : n_selected[row]], expected)


def test_dpp_of_kernels_that_are_not_positive_semidefinite():
    rng = np.random.default_rng(5)
    kernel = rng.normal(size=(40, 8, 8))
    kernel = np.ascontiguousarray(kernel + kernel.transpose(0, 2, 1))
    indices, n_selected = _core.dpp_greedy(kernel, 8)
    assert 0 < n_selected.mean() < 8
    for row in range(40):
        expected = reference.dpp_greedy(kernel[row], 8)
        assert n_selected[row] == len(expected)
        assert np.array_equal(indices[row, : n_selected[row]], expected)
        assert np.all(indices[row, n_selected[row] :] == -1)


def test_dpp_stops_at_duplicates_and_at_nothing():
    kernel = np.array([[[4.0, 4, 0], [4, 4, 0], [0, 0, 1]]])
    indices, n_selected = _core.dpp_greedy(kernel, 3)
    assert (indices.tolist(), n_selected.tolist()) == ([[0, 2, -1]], [2])
    indices, n_selected = _core.dpp_greedy(-kernel, 3)
    assert (indices.tolist(), n_selected.tolist()) == ([[-1, -1, -1]], [0])
    assert _core.dpp_greedy(kernel, 0)[0].shape == (1, 0)
    assert _core.dpp_greedy(np.empty((0, 3, 3)), 2)[0].shape == (0, 2)


def test_dpp_takes_rounding_for_symmetric():
    kernel = kernels(3, 2, 6, 6)
    kernel[1, 2, 3] *= 1 + 1e-12
    assert _core.dpp_greedy(kernel, 3)[1].tolist() == [3, 3]


def test_a_batch_is_its_rows_one_by_one():
    similarities, embeddings = candidates(8, 10, 9, 12)
    kernel = kernels(8, 10, 9, 9)
    batch = _core.mmr(similarities, embeddings, 5)
    picks = _core.dpp_greedy(kernel, 5)[0]
    for row in range(10):
        part = slice(row, row + 1)
        assert np.array_equal(_core.mmr(similarities[part], embeddings[part], 5), batch[part])
        assert np.array_equal(_core.dpp_greedy(kernel[part], 5)[0], picks[part])


SIMILARITIES, EMBEDDINGS = candidates(0, 2, 3, 4)


def changed(array: np.ndarray, place: tuple, value: float) -> np.ndarray:
    copy = array.copy()
    copy[place] = value
    return copy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 4}, r"k: expected 0 to 3 \(the number of candidates\), got 4"),
        ({"k": -1}, r"k: expected 0 to 3 \(the number of candidates\), got -1"),
        ({"relevance_weight": 1.1}, r"relevance_weight: expected a number from 0 to 1, got 1.1"),
        ({"relevance_weight": float("nan")}, r"relevance_weight: expected .* got nan"),
        (
            {"similarities": changed(SIMILARITIES, (1, 2), np.nan)},
            r"similarities: expected finite values, got nan \(row 1, column 2\)",
        ),
        (
            {"embeddings": changed(EMBEDDINGS, (1, 2, 3), np.inf)},
            r"embeddings: expected finite rows .* got NaN or Inf in row 2 \(query 1\)",
        ),
        (
            {"embeddings": changed(EMBEDDINGS, (0, 1), 0)},
            r"embeddings: expected finite rows of non-zero norm, got a zero row 1 \(query 0\)",
        ),
        ({"embeddings": EMBEDDINGS[:, :2].copy()}, r"embeddings: expected shape \(2, 3, dim\)"),
        ({"embeddings": EMBEDDINGS[0]}, r"embeddings: expected a 3-d array, got shape \(3, 4\)"),
        ({"similarities": SIMILARITIES.astype(float)}, r"similarities: expected dtype float32"),
    ],
)
def test_wrong_arguments_of_mmr_are_named(change, message):
    arguments = {"similarities": SIMILARITIES, "embeddings": EMBEDDINGS, "k": 2, **change}
    with pytest.raises(ValueError, match=message):
        _core.mmr(**arguments)


@pytest.mark.parametrize(
    ("kernel", "k", "message"),
    [
        (np.eye(2)[None], 3, r"k: expected 0 to 2 \(the number of candidates\), got 3"),
        (np.ones((1, 2, 3)), 1, r"kernel: expected shape \(n_queries, n, n\), got shape \(1, 2, 3"),
        (np.eye(2), 1, r"kernel: expected a 3-d array"),
        (np.eye(2, dtype=np.float32)[None], 1, r"kernel: expected dtype float64"),
        (
            np.array([[[1.0, 2], [3, 1]]]),
            1,
            r"kernel: expected a symmetric matrix, got 3 against 2 \(query 0, row 1, column 0\)",
        ),
        (
            np.array([[[1.0, np.nan], [np.nan, 1]]]),
            1,
            r"kernel: expected finite values, got nan \(query 0, row 0, column 1\)",
        ),
    ],
)
def test_wrong_arguments_of_dpp_are_named(kernel, k, message):
    with pytest.raises(ValueError, match=message):
        _core.dpp_greedy(kernel, k)
