"""`mmr` on the emulated device, through the public kernels: the oracle's positions."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from epibias import _core, kernels
from epibias.errors import InputError


def candidates(seed, n_queries, n, dim):
    """Similarities and embeddings, with duplicates among the candidates."""
    rng = np.random.default_rng(seed)
    embeddings = rng.normal(size=(n_queries, n, dim)).astype(np.float32)
    embeddings[:, n // 2] = embeddings[:, 0]
    similarities = rng.choice(np.linspace(-1, 1, 9), (n_queries, n)).astype(np.float32)
    return similarities, embeddings


@pytest.mark.parametrize("dim", [1, 2, 7, 31, 33, 97])
@pytest.mark.parametrize("relevance_weight", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_mmr_is_the_oracles(dim, relevance_weight):
    similarities, embeddings = candidates(dim, 3, 9, dim)
    for k in (1, 4, 9):
        expected = [
            reference.mmr(similarities[row], embeddings[row], k, relevance_weight)
            for row in range(3)
        ]
        got = kernels.mmr(similarities, embeddings, k, relevance_weight)
        assert got.dtype == np.int64
        assert np.array_equal(got, expected)


@pytest.mark.parametrize(("n", "dim", "k"), [(200, 40, 10), (33, 384, 20), (300, 3, 5)])
def test_larger_pools_are_the_cpus(n, dim, k):
    similarities, embeddings = candidates(n, 2, n, dim)
    got = kernels.mmr(similarities, embeddings, k)
    assert np.array_equal(got, _core.mmr(similarities, embeddings, k))


def test_equal_candidates_go_by_position():
    embeddings = np.ones((1, 40, 5), np.float32)
    similarities = np.full((1, 40), 0.5, np.float32)
    assert kernels.mmr(similarities, embeddings, 40, 0.3).tolist() == [list(range(40))]


def test_a_batch_is_its_queries_one_by_one():
    similarities, embeddings = candidates(4, 30, 8, 6)
    batch = kernels.mmr(similarities, embeddings, 5)
    for query in range(30):
        part = slice(query, query + 1)
        assert np.array_equal(kernels.mmr(similarities[part], embeddings[part], 5), batch[part])


def test_mmr_of_nothing():
    similarities, embeddings = candidates(1, 3, 5, 4)
    assert kernels.mmr(similarities, embeddings, 0).shape == (3, 0)
    assert kernels.mmr(similarities[:0], embeddings[:0], 2).shape == (0, 2)


SIMILARITIES, EMBEDDINGS = candidates(0, 3, 4, 5)


def changed(array, *changes):
    copy = array.copy()
    for place, value in changes:
        copy[place] = value
    return copy


@pytest.mark.parametrize(
    "change",
    [
        {"k": 5},
        {"similarities": changed(SIMILARITIES, ((1, 2), np.nan), ((1, 3), np.inf))},
        {"similarities": changed(SIMILARITIES, ((2, 0), np.inf))},
        {"similarities": changed(SIMILARITIES, ((2, 0), -np.inf))},
        {"embeddings": changed(EMBEDDINGS, ((1, 2, 3), np.inf), ((1, 3), 0))},
        {"embeddings": changed(EMBEDDINGS, ((0, 1), 0), ((0, 2, 2), np.nan))},
        {
            "embeddings": changed(EMBEDDINGS, ((1, 0), 0)),
            "similarities": changed(SIMILARITIES, ((1, 3), np.nan)),
        },
        {"embeddings": EMBEDDINGS[:, :2].copy()},
    ],
)
def test_faults_are_refused_in_the_words_of_the_cpu(change):
    arguments = {"similarities": SIMILARITIES, "embeddings": EMBEDDINGS, "k": 2, **change}
    with pytest.raises(ValueError, match=": expected ") as expected:
        _core.mmr(**arguments)
    with pytest.raises(InputError) as caught:
        kernels.mmr(**arguments)
    assert str(caught.value) == str(expected.value)


def test_the_weight_is_checked():
    with pytest.raises(InputError, match=r"relevance_weight: expected a finite number from 0 to 1"):
        kernels.mmr(SIMILARITIES, EMBEDDINGS, 2, 1.5)
