"""BRRA: noisy copies of the query, and the candidates that most of them find."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_baselines
from epibias.corpus import Corpus, Passage
from epibias.defenses import BRRA, BiasDef, Chain, Defense, NoDefense
from epibias.errors import InputError
from epibias.pool import CandidatePool
from epibias.retrieval import CosineIndex
from pools import opposed_anchors, quietly_fitted, unit_rows

AXIS = quietly_fitted(opposed_anchors(0, dim=6)[0])


def case(seed, n_passages=60, n_queries=4, k=3, pool_factor=4, dim=6, query_ids=None):
    rng = np.random.default_rng(seed)
    rows, queries = unit_rows(rng, n_passages, dim), 3 * unit_rows(rng, n_queries, dim)
    index = CosineIndex(rows)
    pool = CandidatePool.build(
        index, queries, AXIS, k=k, pool_factor=pool_factor, query_ids=query_ids
    )
    return index, pool


def test_frequency_then_mean_rank_by_hand(monkeypatch):
    # Passages 0 to 4; the query (1, 0) finds 0, 1, 2 in that order. Two copies are given by hand:
    # (0.9, 0.5) at 29.05 degrees and (0.2, 1) at 78.69 degrees. The passages lie at these angles:
    angles = np.radians([2, 10, 20, 60, 80])
    rows = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
    index = CosineIndex(rows)
    axis = quietly_fitted(np.array([[1, 1], [1, -1]] * 2, np.float32))
    pool = CandidatePool.build(index, np.array([[1, 0]], np.float32), axis, k=1, pool_factor=4)
    assert pool.indices.tolist() == [0, 1, 2, 3]
    copies = np.array([[[1, 0], [0.9, 0.5], [0.2, 1]]], np.float32)
    monkeypatch.setattr(BRRA, "variants", lambda *_: copies)
    # Lists of depth 3, by distance in degrees:
    #   query  0°:     0 (2), 1 (10), 2 (20)
    #   copy   29.05°: 2 (9), 1 (19), 0 (27)
    #   copy   78.69°: 4 (1), 3 (19), 2 (59)
    # Frequencies: 0 twice, 1 twice, 2 three times, 3 once, 4 once (no candidate).
    # Mean ranks: 0: (0 + 2) / 2 = 1; 1: (1 + 1) / 2 = 1, a tie that position settles.
    chosen = BRRA(index, k=5, n_variants=2, depth=3).select(pool)
    assert chosen[0].tolist() == [2, 0, 1, 3]
    assert chosen.diagnostics["n_found"].tolist() == [4]
    assert chosen.diagnostics["n_outside"].tolist() == [1]
    assert chosen.diagnostics["mean_frequency"].tolist() == [(3 + 2 + 2 + 1) / 4]
    assert chosen.diagnostics["short"].tolist() == [True]


@pytest.mark.parametrize("noise", ["norm_matched", "per_coordinate"])
@pytest.mark.parametrize("intensity", [0.3, 1.0])
def test_it_is_the_references(noise, intensity):
    index, pool = case(1, query_ids=np.array([5, 0, 2**40, 9]))
    options = {"n_variants": 6, "depth": 9, "noise": noise, "intensity": intensity, "seed": 3}
    chosen = BRRA(index, k=4, **options).select(pool)
    for query in range(4):
        expected = reference_baselines.brra(
            pool.query_embeddings[query],
            int(pool.query_ids[query]),
            index.embeddings,
            pool[query].indices.tolist(),
            k=4,
            **options,
        )
        assert chosen.positions_of(query).tolist() == expected


@pytest.mark.parametrize(
    ("noise", "dim", "expected"),
    [("norm_matched", 768, 0.7071), ("norm_matched", 24, 0.7071), ("per_coordinate", 768, 0.0361)],
)
def test_the_conventions_turn_the_query_as_the_definitions_say(noise, dim, expected):
    # algorithms: norm-matched .707 in any dimension, per coordinate 1/√(1 + 768) = .036 at 768.
    rng = np.random.default_rng(2)
    queries = 7 * unit_rows(rng, 20, dim)
    index = CosineIndex(unit_rows(rng, 3, dim))
    copies = BRRA(index, n_variants=40, noise=noise).variants(queries, np.arange(20))
    assert copies.dtype == np.float32
    np.testing.assert_array_equal(copies[:, 0], queries)
    unit = copies / np.linalg.norm(copies, axis=2, keepdims=True)
    mean = np.einsum("qd,qvd->qv", queries / 7, unit[:, 1:]).mean()
    assert abs(mean - expected) < (0.02 if dim == 768 else 0.05)


def test_noise_is_keyed_by_query_and_seed_and_never_by_batch():
    index, pool = case(3, query_ids=np.array([7, 8, 9, 7]))
    brra = BRRA(index, k=3, n_variants=4, depth=8)
    whole = brra.select(pool)
    for query in range(4):
        assert brra.select(pool[query])[0].tolist() == whole[query].tolist()
    same = brra.variants(np.repeat(pool.query_embeddings[:1], 2, 0), np.array([7, 7]))
    np.testing.assert_array_equal(same[0], same[1])
    other = brra.variants(np.repeat(pool.query_embeddings[:1], 2, 0), np.array([7, -8]))
    assert (other[0, 1:] != other[1, 1:]).all()
    reseeded = BRRA(index, n_variants=4, seed=1).variants(pool.query_embeddings[:1], np.array([7]))
    assert (reseeded[0, 1:] != same[0, 1:]).all()
    longer = BRRA(index, n_variants=9).variants(pool.query_embeddings[:1], np.array([7]))
    np.testing.assert_array_equal(longer[0, :5], same[0])


def test_many_queries_are_searched_in_parts(monkeypatch):
    index, pool = case(4, n_queries=7)
    whole = BRRA(index, depth=5).select(pool)
    monkeypatch.setattr("epibias.defenses.brra.QUERIES_OF_A_SEARCH", 3)
    np.testing.assert_array_equal(BRRA(index, depth=5).select(pool).indices, whole.indices)


def test_the_extended_pool_holds_all_that_the_copies_find():
    index, pool = case(5)
    corpus = Corpus([Passage(f"p{i}", f"text {i}") for i in range(60)])
    brra = BRRA(index, k=6, n_variants=5, depth=8)
    inside = brra.select(pool)
    assert (inside.diagnostics["n_outside"] > 0).all()
    extended = brra.extend(pool, AXIS, corpus=corpus)
    outside = brra.select(extended)
    assert outside.diagnostics["n_outside"].tolist() == [0] * 4
    for query in range(4):
        old, new = pool[query], extended[query]
        assert set(old.indices.tolist()) < set(new.indices.tolist())
        place = np.searchsorted(np.sort(new.indices), old.indices)
        rows = np.argsort(new.indices)[place]
        np.testing.assert_array_equal(new.similarities[rows], old.similarities)
        np.testing.assert_array_equal(new.scores[rows], old.scores)
        # Restricted to the old candidates the order is that of the pool as it was.
        order = [
            i
            for i in BRRA(index, k=60, n_variants=5, depth=8).select(new)[0].tolist()
            if i in set(old.indices.tolist())
        ]
        assert order[: inside.n_selected[query]] == inside[query].tolist()
    assert extended.passage_texts[0] == corpus.encoded_texts[int(extended.indices[0])]
    assert set(extended.metadata) == {"source", "tier", "author", "time"}
    assert extended.query_ids.tolist() == pool.query_ids.tolist()


def test_it_keeps_the_promises_of_the_protocol():
    index, pool = case(6)
    brra = BRRA(index, k=3)
    assert isinstance(brra, Defense)
    json.dumps(brra.parameters())
    assert brra == BRRA(index, k=3)
    assert brra != BRRA(CosineIndex(index.embeddings), k=3)
    assert brra.name == "brra"
    other = BRRA(index, noise="per_coordinate", seed=2)
    assert other.name == "brra[noise=per_coordinate, seed=2]"
    chosen = Chain([BiasDef(4), brra]).select(pool)
    filtered = BiasDef(4).select(pool)
    for query in range(4):
        assert set(chosen[query].tolist()) <= set(pool[query].indices[filtered.kept[query]])
    assert [len(part) for part in brra.select(pool).dropped] == [0] * 4


def test_with_next_to_no_noise_it_is_no_defence():
    index, pool = case(7)
    quiet = BRRA(index, k=3, intensity=1e-6).select(pool)
    np.testing.assert_array_equal(quiet.indices, NoDefense(3).select(pool).indices)


def test_empty_pools_and_small_corpora():
    index, pool = case(8, n_passages=12)
    none = pool.restrict([np.arange(0)] * 4)
    chosen = BRRA(index).select(none)
    assert chosen.n_selected.tolist() == [0] * 4
    assert np.isnan(chosen.diagnostics["mean_frequency"]).all()
    assert BRRA(index, k=50, depth=500).select(pool).n_selected.tolist() == [12] * 4


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), depth=st.integers(1, 15), k=st.integers(1, 8))
def test_never_more_than_k_each_once_and_frequency_falls(seed, depth, k):
    index, pool = case(seed, n_passages=30, n_queries=2)
    brra = BRRA(index, k=k, depth=depth, n_variants=3, seed=seed)
    chosen = brra.select(pool)
    lists = index.search(
        brra.variants(pool.query_embeddings, pool.query_ids).reshape(-1, 6), depth
    ).indices.reshape(2, -1)
    for query in range(2):
        numbers = chosen[query].tolist()
        assert len(set(numbers)) == len(numbers) <= k
        counts = [int((lists[query] == number).sum()) for number in numbers]
        assert counts == sorted(counts, reverse=True)
        assert min(counts, default=1) >= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_variants": 0}, "n_variants: expected an integer of at least 1, got 0"),
        ({"depth": 1.5}, "depth: expected an integer of at least 1, got 1.5"),
        ({"noise": "loud"}, "noise: expected 'norm_matched' or 'per_coordinate', got 'loud'"),
        ({"intensity": 0}, "intensity: expected a finite number > 0 and at most 1e+06, got 0"),
        ({"seed": -1}, "seed: expected an integer of at least 0, got -1"),
    ],
)
def test_wrong_parameters_are_refused(options, message):
    with pytest.raises(InputError) as caught:
        BRRA(CosineIndex(np.eye(2, dtype=np.float32)), **options)
    assert str(caught.value).startswith(message.split(" > ")[0])


def test_the_pool_of_another_index_is_refused():
    _, pool = case(9)
    other, wide = case(10)[0], CosineIndex(np.eye(7, dtype=np.float32))
    few = CosineIndex(case(9)[0].embeddings[:5])
    with pytest.raises(InputError, match=r"^pool: .*which is none \(candidate 0\)"):
        BRRA(other).select(pool)
    with pytest.raises(InputError, match="as many as the index, got 6"):
        BRRA(wide).select(pool)
    with pytest.raises(InputError, match="which is none"):
        BRRA(few).select(pool)
    with pytest.raises(InputError, match="index: expected a CosineIndex, got ndarray"):
        BRRA(np.eye(2))
