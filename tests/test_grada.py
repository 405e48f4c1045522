"""GRADA: PageRank of the graph of mutual similarity."""

from __future__ import annotations

import pickle

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_baselines
from baseline_pools import AXIS, check_promises, shuffled, text_pool
from epibias.defenses import GRADA, lexical
from epibias.defenses.grada import edges, page_rank
from epibias.errors import InputError
from epibias.pool import CandidatePool
from pools import make_pool


def by_reference(one, defense):
    """Positions for a pool of one query, from the reference alone."""
    if defense.similarity == "bm25":
        terms = [reference_baselines.terms_of(t, lexical.STOP_WORDS) for t in one.passage_texts]
        asked = reference_baselines.terms_of(one.query_texts[0], lexical.STOP_WORDS)
        mutual = [
            [reference_baselines.bm25(a, b, defense.saturation) for b in terms] for a in terms
        ]
        to_query = [reference_baselines.bm25(a, asked, defense.saturation) for a in terms]
    else:
        rows = one.embeddings
        mutual = [[reference_baselines.cosine_of(a, b) for b in rows] for a in rows]
        to_query = one.similarities.tolist()
    return reference_baselines.grada(
        mutual,
        to_query,
        k=defense.k,
        query_penalty=defense.query_penalty,
        damping=defense.damping,
    )[0]


@pytest.mark.parametrize(
    "defense",
    [
        GRADA(4),
        GRADA(4, query_penalty=0, damping=0.5, saturation=0.9),
        GRADA(4, similarity="cosine"),
        GRADA(9, similarity="cosine", query_penalty=0.1, damping=0.95),
    ],
    ids=lambda defense: defense.name,
)
def test_it_is_the_references(defense):
    pool = text_pool(2, [14, 9, 1, 5, 2])
    chosen = defense.select(pool)
    for query in range(5):
        assert chosen.positions_of(query).tolist() == by_reference(pool[query], defense)


def test_rank_by_hand():
    # A star: 0 with 1 and 2, damping ½. r0 = 1/6 + ½ (r1 + r2), r1 = r2 = 1/6 + ¼ r0.
    # r0 = 1/6 + 1/6 + ¼ r0, so r0 = 4/9, r1 = r2 = 5/18.
    star = np.array([[0, 1.0, 1], [1, 0, 0], [1, 0, 0]])
    np.testing.assert_allclose(page_rank(star, 0.5), [4 / 9, 5 / 18, 5 / 18], rtol=1e-14)
    # Two joined passages and one alone, which passes its rank to all alike:
    # r2 = 1/6 + ½ r2/3, so r2 = 1/5; r0 = r1 = 2/5.
    pair = np.array([[0, 1.0, 0], [1, 0, 0], [0, 0, 0]])
    np.testing.assert_allclose(page_rank(pair, 0.5), [0.4, 0.4, 0.2], rtol=1e-14)
    assert page_rank(np.zeros((0, 0)), 0.5).shape == (0,)


def test_edges_by_hand():
    # ½ (1 + 3) − 0.4 · (0.5 + 1) = 1.4; ½ (0.2 + 0.2) − 0.4 · (0.5 + 0.1) < 0 is no edge.
    mutual = np.array([[9, 1, 0.2], [3, 9, 0.6], [0.2, 0.2, 9]])
    weights = edges(mutual, np.array([0.5, 1, 0.1]), 0.4)
    assert weights.tolist() == [[0, 1.4, 0], [1.4, 0, 0], [0, 0, 0]]


def test_a_copy_of_the_query_comes_last_by_hand():
    # "should" is a stop word; a word in common is 1/(1 + 1.5) = .4 (times ln 4/3, which no rank
    # sees). To the query: 0: .8 ("rent", "fall"); 1 to 3: .4 ("rent").
    # 0–i: .4 − .4 · (.8 + .4) = −.08, no edge; i–j: .8 − .4 · (.4 + .4) = .48.
    texts = [
        ["should rent fall", "rent limits harm supply", "rent limits keep homes", "rent limits"]
    ]
    rows = np.array([[1, 0, 0, 0, 0, 0], [0.9, 1, 0, 0, 0, 0], [0.8, 0, 1, 0, 0, 0],
                     [0.7, 0, 0, 1, 0, 0]], np.float32)  # fmt: skip
    pool = CandidatePool.from_vectors(
        rows[:1], rows, AXIS, passage_texts=texts, query_texts=["rent fall cities"]
    )
    chosen = GRADA(3).select(pool)
    assert chosen[0].tolist() == [1, 2, 3]
    assert chosen.diagnostics["n_isolated"].tolist() == [1]


@pytest.mark.parametrize("seed", range(4))
def test_ranks_are_those_of_networkx(seed):
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.uniform(0, 1, (8, 8)) * (rng.random((8, 8)) < 0.4), 1)
    weights = weights + weights.T
    graph = networkx.from_numpy_array(weights)
    expected = networkx.pagerank(graph, alpha=0.85, tol=1e-14, max_iter=10_000)
    np.testing.assert_allclose(page_rank(weights, 0.85), list(expected.values()), atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), k=st.integers(1, 6))
def test_the_order_in_which_candidates_come_does_not_matter(seed, n, k):
    pool = text_pool(seed, [n])
    order = np.random.default_rng(seed).permutation(n)
    for defense in (GRADA(k), GRADA(k, similarity="cosine")):
        chosen = defense.select(pool)
        np.testing.assert_array_equal(
            defense.select(shuffled(pool, 0, order)).indices, chosen.indices
        )
        assert chosen.n_selected[0] == min(k, n)


def test_ties_go_by_the_pools_order():
    rows = np.eye(6, dtype=np.float32)
    pool = CandidatePool.from_vectors(np.ones((1, 6), np.float32), rows, AXIS)
    assert GRADA(4, similarity="cosine").select(pool)[0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("defense", [GRADA(3), GRADA(3, similarity="cosine")])
def test_it_keeps_the_promises_of_the_protocol(defense):
    check_promises(defense)
    assert pickle.loads(pickle.dumps(defense)) == defense  # noqa: S301  our own bytes


def test_names_tell_what_differs():
    assert GRADA().name == "grada"
    assert GRADA(7, similarity="cosine", query_penalty=0).name == (
        "grada[similarity=cosine, query_penalty=0.0]"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GRADA(0), "k: expected an integer of at least 1, got 0"),
        (lambda: GRADA(similarity="dot"), "similarity: expected 'bm25' or 'cosine', got 'dot'"),
        (lambda: GRADA(query_penalty=-1), "query_penalty: expected a finite number"),
        (lambda: GRADA(damping=1), "damping: expected a finite number"),
        (lambda: GRADA(saturation=0), "saturation: expected a finite number"),
        (lambda: GRADA(similarity="cosine", saturation=2), "saturation: expected 1.5 with"),
        (
            lambda: GRADA().select(make_pool([[0.5]], [[0.1]])),
            "pool.passage_texts: expected the passages' texts, which grada reads",
        ),
    ],
)
def test_wrong_parameters_and_pools_are_refused(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value).startswith(message)
